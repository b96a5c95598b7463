"""What the telemetry of a run says over time: of each GPU, rank and host, in bounded memory.

Reads telemetry lines and keeps courses of what they measured. Knows no screen, and no more of a run than its telemetry
folder. What a line does not say, or says as null, is a gap; it is never 0.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.charts import number
from labtui.runs.envelope import Course, Envelope
from labtui.runs.folder import RunFolder
from labtui.runs.json_text import objects, parse
from labtui.runs.records import Document
from labtui.runs.tail import BITE, LineTail

BUCKETS = 512
"""Points of a course that are kept apart: more than a pane has columns."""
RECENT = 90
"""The newest readings of a GPU's utilization, and of the host's, are also kept as they are."""
STRETCHES = 2048
"""Newest stretches of clocks held back that are kept, per GPU."""
COURSED, MOST = 64, 1024
"""So many GPUs, ranks and hosts have courses; so many are known at all, the others by their latest sample only."""
INTERFACES = 8
"""So many network interfaces of a host are followed."""
TOGETHER_S = 5.0
"""Samples no further apart than this follow one another; so do those that are as far apart as the ones before."""

GPU_FIELDS = (
    "util", "mem_used", "power_w", "temp_c", "sm_mhz", "mem_mhz", "pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx",
)  # fmt: skip
"""What of a GPU is kept as a course."""
RANK_FIELDS = ("cpu", "rss", "gpu_mem")
HOST_FIELDS = ("cpu", "mem_available", "load1", "shm_used")

Recent = tuple[tuple[float, float | None], ...]
"""Times, and the values then."""

_TIME = re.compile(rb'\{"t": ?([0-9.]{1,32})[,}]')


@dataclass(frozen=True)
class Stretch:
    """Successive samples that say the same of a GPU's clocks."""

    start: float
    end: float
    """Time of the last sample."""
    reasons: tuple[str, ...] | None
    """Clock-event reasons (see machine.throttle); None where they were not told."""


@dataclass(frozen=True)
class GpuGauges:
    """One GPU over time."""

    host: str
    index: int
    t: float
    """Of the latest reading."""
    latest: Document
    """An element of `gpus` in the telemetry line of that time."""
    courses: Mapping[str, Course] = field(default_factory=dict)
    recent: Recent = ()
    """Utilization."""
    held: tuple[Stretch, ...] = ()
    silent_since: float | None = None
    """Since when it has told nothing at all; None while it speaks."""

    @property
    def silence(self) -> str:
        """Why it tells nothing; empty while it speaks."""
        if self.silent_since is None:
            return ""
        why = self.latest.get("why")
        return str((why.get("util") if isinstance(why, dict) else None) or "it tells nothing")


@dataclass(frozen=True)
class RankGauges:
    """One rank's process over time."""

    rank: int
    t: float
    latest: Document
    courses: Mapping[str, Course] = field(default_factory=dict)


@dataclass(frozen=True)
class HostGauges:
    """One host over time."""

    host: str
    t: float
    latest: Document
    courses: Mapping[str, Course] = field(default_factory=dict)
    """HOST_FIELDS, and `rx NAME` and `tx NAME` of interfaces, in GB/s."""
    recent: Recent = ()
    """CPU."""


@dataclass(frozen=True)
class Gauges:
    """Everything that is measured, as it was at one moment."""

    t: float | None = None
    """Of the latest sample."""
    gpus: tuple[GpuGauges, ...] = ()
    """By host and index."""
    ranks: tuple[RankGauges, ...] = ()
    hosts: tuple[HostGauges, ...] = ()


class _Kept:
    """What is kept of one GPU, rank or host."""

    def __init__(self, t: float, latest: Document, with_courses: bool) -> None:
        self.t, self.latest, self.with_courses = t, latest, with_courses
        self.recent: deque[tuple[float, float | None]] = deque(maxlen=RECENT)
        self.held: deque[Stretch] = deque(maxlen=STRETCHES)
        self.silent_since: float | None = None
        self._envelopes: dict[str, Envelope] = {}
        self._spacing = 0.0

    def add(self, t: float, entry: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """Goes on with the courses of these fields."""
        for name in names:
            value = number(entry.get(name))
            envelope = self._envelopes.get(name)
            if envelope is None:
                if value is None or not self.with_courses:
                    continue  # a course begins with its first value
                envelope = self._envelopes[name] = Envelope(BUCKETS)
            envelope.add(t, value)

    def knows(self, name: str) -> bool:
        return name in self._envelopes

    def count(self, beginning: str) -> int:
        return sum(name.startswith(beginning) for name in self._envelopes)

    def hold(self, t: float, reasons: tuple[str, ...] | None) -> None:
        last = self.held[-1] if self.held else None
        gap = t - last.end if last is not None else 0.0
        if last is not None and last.reasons == reasons and gap <= max(TOGETHER_S, 2.5 * self._spacing):
            self.held[-1] = Stretch(last.start, t, reasons)
        else:
            self.held.append(Stretch(t, t, reasons))
        self._spacing = gap

    @property
    def courses(self) -> dict[str, Course]:
        return {name: envelope.course for name, envelope in self._envelopes.items()}


class GaugeReader:
    """Follows a telemetry folder, or is fed with samples."""

    def __init__(self, folder: RunFolder | None = None, *, from_end: int | None = None) -> None:
        """With `from_end`, starts at most that many bytes before the end of each file."""
        self.behind = False
        """Whether the last poll left something unread because its bite was full."""
        self.latest: Document | None = None
        """The latest sample of all."""
        self._folder = folder
        self._from_end = from_end
        self._tails: dict[str, LineTail] = {}
        self._seen: dict[str, float] = {}
        """Host -> time of its latest sample. A file that was thinned is read again from its start."""
        self._gpus: dict[tuple[str, int], _Kept] = {}
        self._ranks: dict[int, _Kept] = {}
        self._hosts: dict[str, _Kept] = {}

    # Reading

    def poll(self, limit: int = BITE) -> list[str]:
        """Reads on, about `limit` bytes of each file; returns what could not be read, in sentences."""
        self.behind = False
        errors: list[str] = []
        try:
            names = os.listdir(self._folder.telemetry) if self._folder is not None else []
        except OSError:
            return errors  # None was taken, or the folder is gone: whoever reads the run itself says that.
        for name in sorted(names):
            if not name.endswith(".jsonl") or name.startswith("."):
                continue
            assert self._folder is not None
            tail = self._tails.get(name)
            if tail is None:
                tail = self._tails[name] = LineTail(self._folder.telemetry / name, from_end=self._from_end)
            try:
                lines = tail.poll(limit)
            except OSError as error:
                errors.append(f"telemetry/{name} can't be read: {error.strerror}")
                continue
            self.behind |= tail.behind
            for line in lines:
                self.take_line(line, name.removesuffix(".jsonl"))
        return errors

    def take_line(self, line: bytes, host: str) -> None:
        """One line of a telemetry file. What is no sample, or no news, is passed over."""
        time = _TIME.match(line)
        if time is not None and host in self._seen and _float(time[1]) <= self._seen[host]:
            return
        try:
            sample = parse(line)
        except ValueError:
            return
        self.take(sample, host)

    def take(self, sample: Any, host: str) -> None:
        """One sample of a host."""
        t = number(sample.get("t")) if isinstance(sample, dict) else None
        if t is None or t <= self._seen.get(host, float("-inf")):
            return
        self._seen[host] = t
        if self.latest is None or t >= self.latest["t"]:
            self.latest = sample
        for entry in objects(sample.get("gpus")):
            if type(entry.get("index")) is int:
                self._take_gpu(t, host, entry)
        for entry in objects(sample.get("ranks")):
            if type(entry.get("rank")) is int:
                kept = _kept(self._ranks, entry["rank"], t, entry)
                kept.add(t, entry, RANK_FIELDS)
        for entry in objects([sample.get("host")]):
            self._take_host(t, host, entry)

    def _take_gpu(self, t: float, host: str, entry: Document) -> None:
        kept = _kept(self._gpus, (host, entry["index"]), t, entry)
        kept.add(t, entry, GPU_FIELDS)
        kept.recent.append((t, number(entry.get("util"))))
        reasons = entry.get("throttle")
        told = isinstance(reasons, list)
        kept.hold(t, tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else None)
        if told or any(number(entry.get(name)) is not None for name in GPU_FIELDS):
            kept.silent_since = None
        elif kept.silent_since is None:
            kept.silent_since = t

    def _take_host(self, t: float, host: str, entry: Document) -> None:
        kept = _kept(self._hosts, host, t, entry)
        kept.add(t, entry, HOST_FIELDS)
        kept.recent.append((t, number(entry.get("cpu"))))
        net = entry.get("net")
        for name, rates in net.items() if isinstance(net, dict) else ():
            if isinstance(rates, dict) and (kept.knows(f"rx {name}") or kept.count("rx ") < INTERFACES):
                kept.add(t, {f"{way} {name}": rates.get(way) for way in ("rx", "tx")}, (f"rx {name}", f"tx {name}"))

    # What has been read

    @property
    def gauges(self) -> Gauges:
        """How everything is now: cheap, whatever was read."""
        return Gauges(
            t=max(self._seen.values(), default=None),
            gpus=tuple(
                GpuGauges(
                    host, index, kept.t, kept.latest, kept.courses, tuple(kept.recent), tuple(kept.held),
                    kept.silent_since,
                )
                for (host, index), kept in sorted(self._gpus.items())
            ),
            ranks=tuple(
                RankGauges(rank, kept.t, kept.latest, kept.courses) for rank, kept in sorted(self._ranks.items())
            ),
            hosts=tuple(
                HostGauges(host, kept.t, kept.latest, kept.courses, tuple(kept.recent))
                for host, kept in sorted(self._hosts.items())
            ),
        )  # fmt: skip


def _kept(all_kept: dict[Any, _Kept], key: Any, t: float, entry: Document) -> _Kept:
    """What is kept of that one, with its latest sample."""
    kept = all_kept.get(key)
    if kept is None:
        kept = _Kept(t, entry, len(all_kept) < COURSED)
        if len(all_kept) < MOST:
            all_kept[key] = kept
    elif t >= kept.t:
        kept.t, kept.latest = t, entry
    return kept


def _float(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")
