"""What a step really communicates: collectives as torch counted them, bytes as the kernel counted them.

Over TCP (gloo) every byte leaves through a socket of this process, and Linux keeps a count for each. So the figure
belongs to this rank alone, whatever else uses the loopback, and it is no formula. It includes the few dozen bytes of
header that gloo puts before each message, but not the headers of TCP and IP. NCCL moves data past the sockets of the
process (shared memory, peer access, InfiniBand), so on GPUs bytes are unknown here.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

HOW = "payload of this rank's own TCP sockets, gloo's message headers included, as counted by the kernel (TCP_INFO)"

# Places in the kernel's struct tcp_info (include/uapi/linux/tcp.h; it only ever grows at its end).
_NOT_YET_SENT, _SENT, _SENT_AGAIN = 144, 200, 208
_LENGTH = 216


@dataclass(frozen=True)
class Traffic:
    """What one rank communicated."""

    collectives: int | None
    """Collective operations begun on the default group; None if this torch doesn't say."""
    sent: int | None
    """Bytes that this rank sent; None where they can't be counted."""
    why: str = ""
    """Why `sent` is unknown."""


def count(step: Callable[[], object], device: torch.device) -> Traffic:
    """Runs `step` and counts what it communicates."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    bytes_before, operations_before = tcp_bytes_sent(), collectives_begun()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    bytes_after, operations_after = tcp_bytes_sent(), collectives_begun()
    operations = None if operations_before is None or operations_after is None else operations_after - operations_before
    if device.type == "cuda":
        return Traffic(operations, None, "NCCL moves data past the sockets of the process")
    if bytes_before is None or bytes_after is None:
        return Traffic(operations, None, "this kernel counts no bytes per socket (Linux 4.19 or newer does)")
    return Traffic(operations, bytes_after - bytes_before)


def collectives_begun() -> int | None:
    """How many collectives the default group has begun, by torch's own count (DDP's are among them)."""
    try:
        return int(dist.distributed_c10d._get_default_group()._get_sequence_number_for_group())
    except (AttributeError, RuntimeError):
        return None


def tcp_bytes_sent() -> int | None:
    """Bytes that all open TCP sockets of this process have sent; None where the kernel doesn't count them.

    Sockets to torchrun's store are left out: what passes there is no data of the training.
    """
    store = os.environ.get("MASTER_PORT")
    total = 0
    for own in _own_sockets():
        with own:
            if own.type != socket.SOCK_STREAM or own.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            try:
                if store and store in (str(own.getsockname()[1]), str(own.getpeername()[1])):
                    continue
                info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
            except OSError:
                continue  # it only listens, or has just lost its peer
        if len(info) < _LENGTH:
            return None
        (waiting,) = struct.unpack_from("=I", info, _NOT_YET_SENT)
        sent, again = struct.unpack_from("=QQ", info, _SENT)
        total += sent - again + waiting
    return total


def _own_sockets() -> Iterator[socket.socket]:
    """A duplicate of every socket of this process; the caller closes it."""
    folder = Path("/proc/self/fd")
    for name in os.listdir(folder):
        try:
            if str((folder / name).readlink()).startswith("socket:"):
                yield socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue  # closed meanwhile
