"""What link this run's ranks talk over, as far as it is known beforehand: what predictions of time rest on.

A shaped link is known, else what was measured on this machine before ($LABTUI_PROFILE); else one is assumed. Whichever
it is, `words` says so. Measures nothing itself.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from dataclasses import dataclass

from labtui.bench import link as shaped_link
from labtui.bench import profile
from labtui.theory.collectives import Link

ASSUMED = {"cpu": Link(latency_s=200e-6, bytes_per_s=1e9), "cuda": Link(latency_s=10e-6, bytes_per_s=20e9)}
"""Where nothing is known. On the CPU: processes that talk over loopback; on GPUs: PCIe 4.0 x16."""

_SIOCGIFMTU = 0x8921
_ETHERNET = 14
_TCP_IP = 20 + 20 + 12  # with the timestamps that Linux sends


@dataclass(frozen=True)
class Expected:
    """A link, and where that knowledge comes from, for the `why` of a prediction."""

    link: Link
    words: str


def link(device: str) -> Expected:
    """The link between ranks on "cpu" or "cuda". Refuses the run where a variable is set but can't be read."""
    shaped = shaped_link.current()
    if shaped is not None:
        # Its rate counts whole Ethernet frames. A part of each is headers.
        mtu = _mtu(os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
        payload = (mtu - _TCP_IP) / (mtu + _ETHERNET)
        return Expected(
            Link(0.0, shaped.rate_bits / 8 * payload, bus=shaped.model == "bus"),
            f"shaped link: {shaped.words()}, {payload:.1%} of it payload; no latency assumed",
        )
    known = profile.current()
    if known is not None and known.alpha is not None and known.beta is not None:
        return Expected(
            Link(known.alpha, known.beta * 1e9),
            f"from this machine's profile: {known.alpha * 1e6:.3g} us a message, {known.beta:.3g} GB/s{known.measured}",
        )
    assumed = ASSUMED[device]
    return Expected(
        assumed,
        f"no profile of this machine: {assumed.latency_s * 1e6:.3g} us a message and "
        f"{assumed.bytes_per_s / 1e9:.3g} GB/s were assumed",
    )


def _mtu(interface: str) -> int:
    """The largest packet of a network interface of this process's namespace; Ethernet's usual 1500 if unknown."""
    request = struct.pack("16si", interface.encode()[:15], 0)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            return int(struct.unpack("16si", fcntl.ioctl(any_socket, _SIOCGIFMTU, request))[1])
    except OSError:
        return 1500
