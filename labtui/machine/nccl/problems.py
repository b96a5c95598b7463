"""What a message says is wrong: texts of warnings and failures, and the kind of problem that each stands for.

A kind is what the report lists (`warnings`); a cause is as fine as the diagnosis needs it. Both are words of ours. The
texts are those of NCCL 2.2 to 2.32, RCCL, the AWS plugin, PyTorch and MPI. Pure: one line in, one finding out.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from labtui.machine.nccl.grammar import FAILURE


class Finding(NamedTuple):
    """What one line says is wrong."""

    kind: str
    cause: str


class Rule(NamedTuple):
    """All of `needles` in a text mean this; the first rule that fits counts."""

    kind: str
    cause: str
    needles: tuple[bytes, ...]


CONSEQUENCE = Finding("", "")
"""A known text that only follows from another message."""
UNKNOWN_WARNING = Finding("other", "unknown_warning")

_WARNINGS = tuple(
    Rule(*row)
    for row in (
        ("duplicate_gpu", "duplicate_gpu", (b"Duplicate GPU detected",)),
        ("mnnvl_imex", "imex", (b"MNNVL (cliqueSize", b"IMEX")),
        ("mnnvl_imex", "imex", (b"HINT", b"IMEX")),
        ("collnet_unavailable", "collnet", (b"ignoring NCCL_ALGO=COLLNET",)),
        ("collnet_unavailable", "collnet", (b"Cannot initialize CollNet",)),
        ("collnet_unavailable", "collnet", (b"SHARP coll",)),
        ("nvls_failed", "nvls", (b"NVLS",)),
        ("nvls_failed", "nvls", (b"nvls.cc ",)),
        ("nvls_failed", "nvls", (b"multicast-bind",)),
        ("collective_mismatch", "mismatch", (b"collective mismatch",)),
        ("collective_mismatch", "mismatch", (b"incorrect receive info",)),
        ("collective_mismatch", "mismatch", (b"essage truncated :",)),
        ("other", "benign", (b"NET/OFI", b"Initializing aws-ofi-nccl")),
        ("other", "benign", (b"NET/OFI", b"Using aws-ofi-nccl")),
        ("ofi_error", "ofi", (b"NET/OFI",)),
        ("shm_no_space", "shm_no_space", (b"ailed to extend ",)),
        ("shm_no_space", "shm_no_space", (b"fallocate", b"No space left")),
        ("shm_no_space", "shm_no_space", (b"shared memory", b"No space left")),
        ("shm_attach_failed", "shm_attach", (b"attaching to shared memory",)),
        ("shm_attach_failed", "shm_attach", (b"shared memory", b"No such file")),
        ("shm_attach_failed", "shm_denied", (b"shared memory", b"ermission denied")),
        ("shm_attach_failed", "shm_denied", (b"shared memory", b"not permitted")),
        ("shm_no_space", "shm_no_space", (b"creating shared memory segment",)),
        ("shm_attach_failed", "shm_attach", (b"shm", b"Call to open failed")),
        ("shm_attach_failed", "shm_attach", (b"Call to shm_open failed",)),
        ("ibverbs_missing", "ibverbs", (b"libibverbs",)),
        ("cuda_lib_missing", "cuda_lib", (b"Failed to find CUDA library",)),
        ("cuda_lib_missing", "cuda_lib", (b"Failed to open libcuda",)),
        ("cuda_lib_missing", "cuda_lib", (b"Failed to load CUDA",)),
        ("cuda_lib_missing", "cuda_lib", (b"Failed to find ROCm runtime",)),
        ("ib_cq_create_failed", "ib_create", (b"ibv_create_cq",)),
        ("ib_qp_create_failed", "ib_create", (b"ibv_create_qp",)),
        ("ib_qp_create_failed", "ib_modify", (b"ibv_modify_qp",)),
        ("ib_completion_error", "ib_completion", (b"Got completion ", b"err")),
        ("ib_completion_error", "ib_completion", (b"Got completion ", b"status")),
        ("ib_completion_error", "ib_completion", (b"ork completion",)),
        ("ib_port_failed", "ib_port", (b"Got async ", b"event")),
        ("ib_port_failed", "ib_port", (b"async fatal event",)),
        ("ib_port_failed", "ib_port", (b"Got non-fatal async event",)),
        ("ib_port_failed", "ib_port", (b"NET/IB", b"failed device")),
        ("ib_port_failed", "ib_port", (b"NET/IB", b" marked as failed")),
        ("ib_port_failed", "ib_port", (b"NET/IB", b"ort recovery", b"fail")),
        ("other", "memlock", (b"ibv_reg_",)),
        ("pci_path_missing", "pci_path", (b"Could not find real path of",)),
        ("proxy_failed", "proxy", (b"[Proxy Service",)),
        ("proxy_failed", "proxy", (b"[Service thread]",)),
        ("proxy_failed", "proxy", (b"[Proxy Progress]",)),
        ("proxy_failed", "proxy", (b"polling for opId",)),
        ("proxy_failed", "proxy", (b"Proxy Call to rank",)),
        ("proxy_failed", "proxy", (b"ncclProxy", b"fail")),
        ("p2p_ipc_failed", "p2p_ipc", (b"CUDA IPC handle",)),
        ("p2p_ipc_failed", "p2p_ipc", (b"Ipc", b"MemHandle", b"fail")),
        ("p2p_ipc_failed", "p2p_ipc", (b"failed to peer with device",)),
        ("p2p_unavailable", "p2p_broken", (b"P2P is disabled between NVLINK",)),
        ("address_in_use", "address_in_use", (b"Address already in use",)),
        ("socket_closed_by_peer", "closed", (b"closed by remote peer",)),
        ("socket_closed_by_peer", "closed", (b"onnection reset by peer",)),
        ("socket_closed_by_peer", "closed", (b"Broken pipe",)),
        ("socket_connect_failed", "no_interface", (b"no socket interface found",)),
        ("socket_connect_failed", "no_interface", (b"NET/Socket", b"no interface")),
        ("other", "no_algorithm", (b"no algorithm/protocol available",)),
        ("other", "version_mismatch", (b"ismatched NCCL version",)),
        ("other", "version_mismatch", (b"NCCL version mismatch",)),
        ("other", "version_mismatch", (b"was compiled with", b"NCCL version")),
        ("other", "benign", (b'Missing "',)),
        ("other", "benign", (b"NUMA auto balancing",)),
        ("other", "benign", (b"Cannot get incoming CPU",)),
        ("other", "benign", (b" is deprecated",)),
        ("other", "benign", (b"NCCL_IGNORE_DISABLED_P2P",)),
    )
)

_BANNER = re.compile(rb"(?i)\bver(?:sion|\.)? {0,4}:? {0,4}v?\d{1,4}\.\d")
"""A version told as a warning, as some plugins do."""
_FOLLOWS = (b"Failed to CUDA ", b"Failed to malloc ", b"HINT:", b"communicator encountered a fatal error")

_BARE = tuple(
    Rule(*row)
    for row in (
        ("address_in_use", "address_in_use", (b"Address already in use",)),
        ("address_in_use", "address_in_use", (b"EADDRINUSE",)),
        ("segfault", "segfault", (b"Segmentation fault",)),
        ("segfault", "segfault", (b"SIGSEGV",)),
        ("segfault", "segfault", (b"exited on signal 11",)),
        ("sigbus", "sigbus", (b"us error (",)),
        ("sigbus", "sigbus", (b"SIGBUS",)),
        ("sigbus", "sigbus", (b"exited on signal 7",)),
        ("sigbus", "sigbus", (b"bus error", b"shm")),
        ("sigbus", "sigbus", (b"Fatal Python error: Bus error",)),
        ("sigkill", "sigkill", (b"SIGKILL",)),
        ("sigkill", "sigkill", (b"exited on signal 9",)),
        ("sigkill", "sigkill", (b"oom-kill",)),
        ("cuda_oom", "cuda_oom", (b"CUDA out of memory",)),
        ("cuda_oom", "cuda_oom", (b"CUDA error: out of memory",)),
        ("cuda_oom", "cuda_oom", (b"Test CUDA failure", b"out of memory")),
        ("collective_mismatch", "mismatch", (b"Detected mismatch between collectives",)),
        ("cuda_error", "cuda_error", (b"CUDA error: ",)),
        ("cuda_error", "cuda_error", (b"Test CUDA failure",)),
    )
)

_BARE_HINT = re.compile(rb"mismatch|CUDA|SIG|signal |EADDR|us error|egmentation|oom-kill|ddress already")

_ERRNO = (
    (b"No route to host", "socket_no_route"),
    (b"onnection refused", "socket_connect_refused"),
    (b"timed out", "socket_timeout"),
    (b"exceeded timeouts", "socket_timeout"),
)
_CONNECTING = re.compile(
    rb"onnect\b.{0,200}?(?:failed|returned|exceeded)|PollConnect.{0,200}?(?:failed|returned|exceeded)"
)
_RECEIVING = re.compile(rb"Call to \w+ (?:from|to) .{0,200}?failed|Socket ?Timeout")


def in_warning(message: bytes, file: bytes) -> Finding:
    """What a warning of NCCL's says; `file` is the source file that it names, if any."""
    failure = FAILURE.search(message)
    if failure:
        return _failure(failure, file)
    found = _first(_WARNINGS, file + b" " + message)
    if found is not None:
        return found
    if message.startswith(_FOLLOWS):
        return CONSEQUENCE
    if _BANNER.search(message):
        return Finding("other", "benign")
    if _CONNECTING.search(message):
        kind = errno_kind(message)
        return Finding(kind, kind)
    if _RECEIVING.search(message):
        kind = errno_kind(message)
        return Finding(kind, kind) if kind != "socket_connect_failed" else Finding("socket_closed_by_peer", "closed")
    return UNKNOWN_WARNING


def in_plain_line(line: bytes) -> Finding | None:
    """What a line says that has no mark of NCCL's: MPI, the kernel, PyTorch's CUDA errors. None for all else."""
    return _first(_BARE, line) if _BARE_HINT.search(line) else None


def errno_kind(text: bytes) -> str:
    """The kind of a connection that could not be made, by what the system said."""
    for needle, kind in _ERRNO:
        if needle in text:
            return kind
    return "socket_connect_failed"


def _first(rules: tuple[Rule, ...], text: bytes) -> Finding | None:
    for rule in rules:
        for needle in rule.needles:
            if needle not in text:
                break
        else:
            return Finding(rule.kind, rule.cause)
    return None


def _failure(match: re.Match[bytes], file: bytes) -> Finding:
    code, text = match.groups()
    if code == b"2" or b"out of memory" in text:
        return Finding("cuda_oom", "cuda_oom")
    if b"nvls" in file or b"multicast" in file:
        return Finding("nvls_failed", "nvls")
    if file.endswith(b"p2p.cc") or code in (b"217", b"711") or b"peer access" in text or b"peer mapping" in text:
        return Finding("p2p_ipc_failed", "p2p_ipc")
    if code == b"802" or b"system not yet initialized" in text:
        return Finding("cuda_error", "fabric_manager")
    return Finding("cuda_error", "cuda_error")
