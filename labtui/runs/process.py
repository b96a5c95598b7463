"""Processes as labtui knows them: a pid *and* a start time, so that a reused pid is never signalled.

All that is read from /proc about single processes is read here (Linux only). Knows no runs.
"""

from __future__ import annotations

import os
import signal as signals
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Stat:
    """One reading of /proc/PID/stat."""

    pid: int
    name: str
    state: str
    """R, S, D (waits in the kernel, can't be killed now), Z (ended, not reaped), ..."""
    parent: int
    session: int
    start: int
    """Field 22: start time in clock ticks since boot."""


def read_stat(pid: int) -> Stat | None:
    """The process's stat, or None where there is none (any more)."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    opening, closing = text.find("("), text.rfind(")")
    rest = text[closing + 2 :].split()
    return Stat(pid, text[opening + 1 : closing], rest[0], int(rest[1]), int(rest[3]), int(rest[19]))


def alive(pid: int | None, start: int | None) -> bool:
    """Whether exactly this process still runs (a zombie has ended)."""
    stat = read_stat(pid) if pid is not None else None
    return stat is not None and stat.start == start and stat.state not in "ZX"


def stuck(pid: int | None, start: int | None) -> bool:
    """Whether the process waits in the kernel (state D), where no signal reaches it."""
    stat = read_stat(pid) if pid is not None else None
    return stat is not None and stat.start == start and stat.state == "D"


def stopped(pid: int | None, start: int | None) -> bool:
    """Whether a signal keeps the process from running (SIGSTOP, ctrl-z), or a debugger holds it."""
    stat = read_stat(pid) if pid is not None else None
    return stat is not None and stat.start == start and stat.state in "Tt"


def exit_status(pid: int, start: int | None) -> int | None:
    """The wait status of a process that has ended and was not reaped yet, as os.waitpid would give it to its parent;
    None where it is gone, still runs, or is somebody else's (the kernel tells it to its owner only)."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
        owner = (PROC / str(pid)).stat().st_uid
    except OSError:
        return None
    rest = text[text.rfind(")") + 2 :].split()
    known = rest[0] == "Z" and int(rest[19]) == start and owner == os.getuid()
    return int(rest[49]) if known and len(rest) > 49 else None  # field 52


def send(pid: int | None, start: int | None, signal: int, *, group: bool = False) -> bool:
    """Signals exactly this process, or its process group if it leads one; False where it is gone or not ours."""
    if pid is None or not alive(pid, start):
        return False
    try:
        if group and os.getpgid(pid) == pid:
            os.killpg(pid, signal)
        else:
            os.kill(pid, signal)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def pids() -> Iterator[int]:
    """The pids of all processes that can be seen."""
    for name in os.listdir(PROC):
        if name.isdigit():
            yield int(name)


def descendants(root: int) -> list[Stat]:
    """All processes below `root`, parents before children."""
    children: dict[int, list[Stat]] = {}
    for pid in pids():
        stat = read_stat(pid)
        if stat is not None:
            children.setdefault(stat.parent, []).append(stat)
    found: list[Stat] = []
    waiting = [root]
    while waiting:
        below = children.pop(waiting.pop(0), [])
        found += below
        waiting += [stat.pid for stat in below]
    return found


def environment(pid: int) -> dict[str, str] | None:
    """The environment that the process was started with; None where it is gone or belongs to somebody else."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def carrying(name: str, value: str) -> list[Stat]:
    """The living processes whose environment holds name=value, but for this one."""
    wanted = f"{name}={value}".encode()
    found = []
    for pid in pids():
        if pid == os.getpid():
            continue
        try:
            raw = (PROC / str(pid) / "environ").read_bytes()
        except OSError:
            continue
        if wanted in raw.split(b"\0"):
            stat = read_stat(pid)
            if stat is not None and stat.state not in "ZX":
                found.append(stat)
    return found


def catches(pid: int | None, signal: int) -> bool:
    """Whether the process has installed a handler for `signal` (SigCgt in /proc/PID/status)."""
    try:
        lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    for line in lines:
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal - 1) & 1)
    return False


def boot_id() -> str:
    """This boot of this machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def signal_name(number: int) -> str:
    """SIGKILL for 9."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
