"""The sampler: a process of its own that measures host and ranks, and prints JSON lines.

    python -m labtui.machine.sampler --interval 1.0

A run's agent starts it, tells it on stdin whom to watch, one JSON line at a time, each replacing the last:

    {"ranks": [{"rank": 0, "pid": 419, "start": 88190}], "torchrun": 412}

It prints one line about the machine, {"machine": {...}}, then a telemetry line per tick. A process is pid and start
time (field 22 of /proc/PID/stat); one that is gone, or not ours to look at, is left out of the line and holds up
nothing. It ends when stdin ends, when nobody reads its stdout any more, and with its parent. A slow reader is waited
for: ticks are skipped, not piled up. Knows no runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labtui.machine import host
from labtui.machine.gpu_processes import Owners, sort_out
from labtui.machine.gpus import Gpus
from labtui.machine.reading import Reading

FIRST_AFTER_S = 0.2
"""The first sample comes early, so that a run of a few seconds has telemetry too."""
USS_EVERY_S = 10.0
"""The kernel walks all pages of a process to tell its USS."""

_STDIN, _STDOUT = 0, 1
_PR_SET_PDEATHSIG = 1
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Rank:
    """A rank's process."""

    rank: int
    pid: int
    start: int


@dataclass(frozen=True)
class Watched:
    """Whom to watch."""

    ranks: tuple[Rank, ...] = ()
    torchrun: int | None = None
    """Its network namespace is the one whose interfaces are counted."""


def read_watched(line: bytes | str) -> Watched:
    """A line from the agent. Raises ValueError, one sentence, where it is none."""
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ValueError(f"the line is no JSON: {error}") from error
    ranks = document.get("ranks", []) if isinstance(document, dict) else None
    if not isinstance(ranks, list):
        raise ValueError('the line is no object with a list of "ranks"')
    torchrun = document.get("torchrun")
    if torchrun is not None:
        torchrun = _number(document, "torchrun")
    return Watched(
        tuple(Rank(_number(rank, "rank"), _number(rank, "pid"), _number(rank, "start")) for rank in ranks), torchrun
    )


def _number(document: Any, name: str) -> int:
    value = document.get(name) if isinstance(document, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f'"{name}" is {json.dumps(value)}, a number expected')
    return value


@dataclass
class Sampler:
    """Takes samples; remembers of the last one what rates need."""

    proc: Path = Path("/proc")
    watched: Watched = Watched()
    gpus: Gpus | None = None
    _counters: host.Counters | None = None
    _cpu: dict[Rank, tuple[float, int]] = field(default_factory=dict)
    """Rank -> when its CPU time was last read (monotonic seconds), and what it was (clock ticks)."""
    _uss_read: dict[Rank, float] = field(default_factory=dict)
    """Rank -> when its USS was last asked for."""

    def sample(self) -> dict[str, Any]:
        """One telemetry line, as telemetry/HOST.jsonl of a run keeps it."""
        now = time.time()
        counters = host.read_counters(self.watched.torchrun)
        busyness = host.busyness(self._counters, counters)
        self._counters = counters
        readings = self.gpus.read() if self.gpus is not None else ()
        owners = sort_out(readings, {rank.pid: rank.start for rank in self.watched.ranks}) if readings else None
        gpus = [_gpu(reading, owners) for reading in readings]
        return {"t": round(now, 3), "gpus": gpus, "ranks": self._ranks(owners), "host": busyness}

    def _ranks(self, owners: Owners | None = None) -> list[dict[str, Any]]:
        for remembered in (self._cpu, self._uss_read):
            for gone in remembered.keys() - set(self.watched.ranks):
                del remembered[gone]
        uss_of = self._next_for_uss()
        samples = []
        for rank in self.watched.ranks:
            uss = self._uss(rank) if rank is uss_of else None
            sample = self._rank(rank)
            if sample is None:
                continue
            if uss is not None:
                sample["uss"] = uss
            if owners is not None and owners.memory.get(rank.pid) is not None:
                sample["gpu_mem"] = owners.memory[rank.pid]
            samples.append(sample)
        return samples

    def _rank(self, rank: Rank) -> dict[str, Any] | None:
        """Percent of one core since the last sample, and resident bytes; None where the process is gone."""
        try:
            stat = (self.proc / str(rank.pid) / "stat").read_bytes()
        except OSError:
            return None
        # Fields from the third on: the name before them may itself hold spaces and parentheses.
        fields = stat[stat.rfind(b")") + 2 :].split()
        if len(fields) < 22 or fields[0] in b"ZX" or int(fields[19]) != rank.start:
            return None
        now, ticks = time.monotonic(), int(fields[11]) + int(fields[12])
        sample: dict[str, Any] = {"rank": rank.rank, "pid": rank.pid, "rss": int(fields[21]) * _PAGE}
        if rank in self._cpu:
            then, before = self._cpu[rank]
            sample["cpu"] = round(100 * (ticks - before) / _TICKS_PER_S / (now - then), 1)
        self._cpu[rank] = (now, ticks)
        return sample

    def _next_for_uss(self) -> Rank | None:
        """At most one rank per tick, the one that waits longest, so that no tick pays for all."""
        now = time.monotonic()
        due = [
            rank
            for rank in self.watched.ranks
            if rank in self._cpu and now - self._uss_read.get(rank, -USS_EVERY_S) >= USS_EVERY_S
        ]
        return min(due, key=lambda rank: self._uss_read.get(rank, 0.0), default=None)

    def _uss(self, rank: Rank) -> int | None:
        """Bytes that only this process holds: what would come free if it ended."""
        import psutil  # 20 ms, and a run of a second never gets here

        self._uss_read[rank] = time.monotonic()
        try:
            return int(psutil.Process(rank.pid).memory_full_info().uss)
        except (psutil.Error, OSError):
            return None


def _gpu(reading: Reading, owners: Owners | None) -> dict[str, Any]:
    """A GPU's part of the line: its reading, and how many processes on it belong to whom, where there are any."""
    document = reading.document()
    if owners is not None:
        others = sum(other.gpu == reading.index for other in owners.others)
        document |= {"others": others} if others else {}
        document |= {"outside": owners.outside[reading.index]} if reading.index in owners.outside else {}
    return document


def _print(document: dict[str, Any]) -> None:
    data = (json.dumps(document, separators=(",", ":")) + "\n").encode()
    while data:
        data = data[os.write(_STDOUT, data) :]


class _Orders:
    """The agent's lines on stdin."""

    def __init__(self) -> None:
        self._torn = b""
        self._poll = select.poll()
        self._poll.register(_STDIN, select.POLLIN)
        self._poll.register(_STDOUT, 0)  # asks for nothing, and still tells when the reader is gone

    def wait(self, seconds: float) -> bytes | None:
        """The newest whole line that arrives within so many seconds, b"" if none does; None at the end."""
        for descriptor, _ in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == _STDOUT:
                return None
            arrived = os.read(_STDIN, 1 << 16)
            if not arrived:
                return None
            *whole, self._torn = (self._torn + arrived).split(b"\n")
            return next((line for line in reversed(whole) if line.strip()), b"")
        return b""


def watch(interval_s: float) -> None:
    """Prints the machine, then a sample per interval, until the agent is gone."""
    # NVML may take seconds to open: what it says of the machine follows in a second line.
    gpus = Gpus(os.environ)
    orders, sampler = _Orders(), Sampler(gpus=gpus)
    due = time.monotonic() + FIRST_AFTER_S
    machine = host.describe()
    _print({"machine": machine})
    described = False
    while True:
        line = orders.wait(due - time.monotonic())
        if line is None:
            return
        if line:
            try:
                sampler.watched = read_watched(line)
            except ValueError as error:
                print(f"sampler: {error}", file=sys.stderr, flush=True)
        if not described and gpus.wait(0):
            described = True
            _print({"machine": machine | gpus.describe() | ({} if gpus.driver else {"driver": machine["driver"]})})
        if time.monotonic() >= due:
            _print(sampler.sample())
            due = next_due(due, interval_s, time.monotonic())


def next_due(due: float, interval_s: float, now: float) -> float:
    """When the sample after the one due at `due` is due: an interval later; at once, and once only, if that is past."""
    return max(due + interval_s, now)


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.05 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds from 0.05 to 3600")
    return seconds


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="labtui.machine.sampler", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--interval", type=_interval, default=1.0, help="seconds between two samples (default: 1)")
    arguments = parser.parse_args(argv)
    _die_with_parent()
    try:
        watch(arguments.interval)
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # its reader is gone, or somebody tried it by hand: nothing is left to say
    return 0


if __name__ == "__main__":
    sys.exit(main())
