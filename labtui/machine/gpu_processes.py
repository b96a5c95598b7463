"""Whose the processes on the GPUs are: those of a run, others that we can see, and those of other pid namespaces.

NVML tells pids as the driver sees them: in a container they may be the host's and match nothing here, or belong to a
thread. A process is pid and start time (field 22 of /proc/PID/stat, the same in every pid namespace).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labtui.machine.host import ROOT, read_text
from labtui.machine.reading import Process, Reading

_INITIAL_NAMESPACE = "pid:[4026531836]"
"""The inode of the host's own pid namespace is fixed (PROC_PID_INIT_INO)."""


@dataclass(frozen=True)
class Other:
    """A process on a GPU that is none of the run's."""

    gpu: int
    """NVML's index."""
    pid: int
    name: str
    uid: int | None
    memory: int | None
    """Bytes; None where the driver doesn't tell."""


@dataclass(frozen=True)
class Owners:
    """The processes on the GPUs, sorted."""

    memory: Mapping[int, int | None]
    """Pid of the run -> bytes on all GPUs together; None where the driver doesn't tell them all."""
    gpus: Mapping[int, tuple[int, ...]]
    """Pid of the run -> NVML's indices of the GPUs that it holds."""
    others: tuple[Other, ...]
    outside: Mapping[int, int]
    """NVML's index -> how many processes are outside this pid namespace, where there are any."""


def outside_words(count: int) -> str:
    """`2 processes outside this namespace`."""
    return f"{count} {'process' if count == 1 else 'processes'} outside this namespace"


def sort_out(readings: Iterable[Reading], ours: Mapping[int, int], root: Path = ROOT) -> Owners:
    """Sorts the processes of these readings; `ours` are the run's: pid -> start time."""
    memory: dict[int, int | None] = {}
    held: dict[int, list[int]] = {}
    others: list[Other] = []
    outside: dict[int, int] = {}
    nested = _nested(root)
    for reading in readings:
        for process in reading.processes or ():
            found = _ours(process.pid, ours, root)
            if found is not None:
                before = memory.get(found, 0)
                memory[found] = None if before is None or process.memory is None else before + process.memory
                held.setdefault(found, []).append(reading.index)
                continue
            other = _other(reading.index, process, nested, root)
            if other is None:
                outside[reading.index] = outside.get(reading.index, 0) + 1
            else:
                others.append(other)
    return Owners(memory, {pid: tuple(dict.fromkeys(gpus)) for pid, gpus in held.items()}, tuple(others), outside)


def _ours(pid: int, ours: Mapping[int, int], root: Path) -> int | None:
    """The process of the run that NVML means by `pid`: it itself, its thread, or as another namespace calls it."""
    if pid in ours:
        return pid
    if not ours:
        return None
    status = _status(pid, root)
    group = status.get("Tgid", "")
    if group.isdecimal() and int(group) in ours:
        return int(group)
    # From the outermost namespace that we see to the process's own.
    for name in status.get("NSpid", "").split()[1:]:
        if name.isdecimal() and int(name) in ours and _start(pid, root) == ours[int(name)]:
            return int(name)
    return None


def _other(gpu: int, process: Process, nested: bool, root: Path) -> Other | None:
    """A process that we can see; None where this pid is nobody, or somebody else, in our namespace."""
    status = _status(process.pid, root)
    if not status or (nested and not _holds_a_gpu(process.pid, root)):
        return None
    uid = status.get("Uid", "").split()[:1]
    return Other(
        gpu,
        process.pid,
        status.get("Name", "?"),
        int(uid[0]) if uid and uid[0].isdecimal() else None,
        process.memory,
    )


def _nested(root: Path) -> bool:
    """Whether we are in a container with pids of its own, where the host's pids mean other processes."""
    try:
        return str((root / "proc/self/ns/pid").readlink()) != _INITIAL_NAMESPACE
    except OSError:
        return False


def _holds_a_gpu(pid: int, root: Path) -> bool:
    """Whether the process has one of NVIDIA's devices open, as far as we may look."""
    try:
        return any(
            str(descriptor.readlink()).startswith("/dev/nvidia") for descriptor in (root / f"proc/{pid}/fd").iterdir()
        )
    except OSError:
        return False


def _status(pid: int, root: Path) -> dict[str, str]:
    text = read_text(root / f"proc/{pid}/status") or ""
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def _start(pid: int, root: Path) -> int | None:
    """Field 22 of /proc/PID/stat; the name before the third may itself hold spaces and parentheses."""
    fields = (read_text(root / f"proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[19].isdecimal() else None
