"""A run as it grows: one object that follows a run's folder, and the frozen snapshots it gives.

Reads the folder only, so that a live, a finished, a copied and a torn run look the same. Whatever a run writes, memory
stays bounded: curves keep their envelope, other events their first or newest few. Knows no screen and signals nobody.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from labtui.charts import number
from labtui.runs import state
from labtui.runs.envelope import Course, Envelope, Point
from labtui.runs.folder import RunFolder, read_json
from labtui.runs.gauges import GaugeReader, Gauges
from labtui.runs.records import Document, RecordError, Request, Status
from labtui.runs.tail import BITE, Event, EventTail
from labtui.runs.verdict import mark_expected

CURVES = 512
SPANS = 4096
"""Newest spans kept, per run."""
NOTES = 200
EVENTS_KEPT = 2000
"""Checks, predictions and results kept, each."""
TELEMETRY_REACH = 1 << 16
"""Bytes before the end of a telemetry file from which the latest record is looked for where nobody wants the rest."""
TELEMETRY_BITE = 1 << 18
"""A line of telemetry takes longer to take in than one of events, and a screen wants its turn."""
TIMED = 16
"""So many curves are also kept over time, in fewer points than over their steps."""
TIMED_POINTS = 512


@dataclass(frozen=True)
class Curve:
    """A metric of one rank over its steps (or over its reports, where no step was given)."""

    name: str
    rank: int
    unit: str
    labels: Mapping[str, Any]
    course: Course
    gaps: int = 0
    """Points that were no finite number."""
    timed: Course | None = field(default=None, compare=False)
    """The same over time (seconds since the epoch); None for all but the first few curves."""

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """In the order in which they came; made when they are first asked for."""
        return self.course.points

    @property
    def latest(self) -> float | None:
        """The last value; None where it was no finite number."""
        return self.course.last[3] if self.course.last is not None else None


ENOUGH_S, ENOUGH_SHARE = 5.0, 0.02
"""How much of a run must have been reported before its end can be guessed: seconds, and share of the whole."""
LATE = 4.0
"""A report that is so many times later than its predecessors were apart says that something has changed."""


@dataclass(frozen=True)
class Progress:
    """How far a rank is."""

    done: float
    total: float | None
    t: float | None = field(default=None, compare=False)
    """When it was reported; seconds since the epoch."""
    first: tuple[float, float] | None = field(default=None, compare=False)
    """The time of the first report, and `done` then."""

    def seconds_left(self, now: float) -> float | None:
        """About how long it still takes, if it goes on as since its first report; None before that can be said."""
        if self.total is None or self.t is None or self.first is None or self.total <= self.done:
            return None
        passed, came = self.t - self.first[0], self.done - self.first[1]
        if passed < ENOUGH_S or came < ENOUGH_SHARE * self.total or came <= 0:
            return None
        left = (self.total - self.done) * passed / came - (now - self.t)
        # The next report is long overdue: then it does not go on as before.
        return left if now - self.t < LATE * max(passed / came, ENOUGH_S) and left > 0 else None


@dataclass(frozen=True)
class Log:
    """A file in which somebody's output lies."""

    name: str
    """"0", "1", ... for a rank's stdout, "0 stderr" for its stderr; "output" (of the command itself), "agent"."""
    path: Path
    size: int
    """Bytes; 0 where there is no file."""


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. What could not be read is empty, and `errors` says so."""

    folder: RunFolder
    taken: float
    request: Request | None = None
    status: Status | None = None
    errors: tuple[str, ...] = ()
    """Why something is missing, in sentences."""
    progress: Mapping[int, Progress] = field(default_factory=dict)
    checks: tuple[Document, ...] = ()
    """Those that the variant is made to fail, and that failed, carry "expected": false."""
    predictions: tuple[Document, ...] = ()
    results: tuple[Document, ...] = ()
    notes: tuple[Document, ...] = ()
    curves: tuple[Curve, ...] = ()
    spans: tuple[Document, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    telemetry: Document | None = None
    """The latest sample."""
    gauges: Gauges = field(default=Gauges(), compare=False)
    """What telemetry says over time, of ranks that are gone too. It is new where `telemetry` is."""
    machine: Document | None = None
    """machine.json; None where there is none (yet)."""
    nccl: Document | None = None
    """nccl.json, likewise."""
    logs: tuple[Log, ...] = ()
    events: int = 0
    bad_lines: int = 0
    dropped: int = 0
    """Events that were read but not kept, to bound memory."""
    new: tuple[Event, ...] = ()
    """The events that came with this snapshot: what a plain log of the run goes on with."""
    behind: bool = False
    """Whether there is more to read at once."""

    @property
    def live(self) -> bool:
        return self.status is not None and self.status.live

    @property
    def seconds(self) -> float | None:
        """Wall time of the run so far, or in all; None before it started."""
        return None if self.status is None else self.status.seconds(self.taken)

    @property
    def done(self) -> Progress | None:
        """The progress of the rank that is least far, since the others wait for it; None where none was reported."""
        return min(self.progress.values(), key=lambda p: p.done / p.total if p.total else p.done, default=None)


class Watch:
    """Follows one run's folder."""

    def __init__(self, folder: RunFolder, *, history: bool = False) -> None:
        """With `history` the telemetry is read from its beginning, otherwise just its end."""
        self.folder = folder
        self._tail = EventTail(folder)
        self._gauges = GaugeReader(folder, from_end=None if history else TELEMETRY_REACH)
        self._machine = _Document(folder.machine_file)
        self._nccl = _Document(folder.nccl_file)
        self._request: Request | None = None
        self._status: Status | None = None
        self._progress: dict[int, Progress] = {}
        self._kept: dict[str, list[Event]] = {"check": [], "prediction": [], "result": []}
        self._notes: deque[Event] = deque(maxlen=NOTES)
        self._spans: deque[Event] = deque(maxlen=SPANS)
        self._envelopes: dict[tuple[str, int, str], Envelope] = {}
        self._curves: dict[tuple[str, int, str], Curve] = {}
        self._timed: dict[tuple[str, int, str], Envelope] = {}
        self._told: dict[tuple[str, int, str], int] = {}
        """Points of each curve when it was last put into a snapshot."""
        self._versions: dict[str, str] = {}
        self._events = 0
        self._dropped = 0
        self._places: dict[str, Path | None] = {}
        """Path of a log as status.json has it -> the file; None where it would lead out of the folder."""

    def poll(self, now: float, limit: int = BITE) -> Snapshot:
        """Reads on, about `limit` bytes of events, and says how the run is. Never raises for the folder's content."""
        errors = self._read_records(now)
        new = self._tail.poll(limit)
        for event in new:
            self._take(event)
        self._events += len(new)
        errors += [f"events/{name} can't be read: {why}" for name, why in self._tail.errors.items()]
        errors += self._gauges.poll(min(limit, TELEMETRY_BITE))
        for key, envelope in self._envelopes.items():
            curve = self._curves[key]
            if self._told.get(key) != envelope.count:
                self._told[key] = envelope.count
                timed = self._timed[key].course if key in self._timed else None
                self._curves[key] = replace(curve, course=envelope.course, gaps=envelope.gaps, timed=timed)
        status = self._status
        ended = status is not None and not status.live
        expected = self._request.expect_failure if self._request else ()
        return Snapshot(
            folder=self.folder,
            taken=now,
            request=self._request,
            status=status,
            errors=tuple(errors),
            progress=dict(self._progress),
            checks=(status.checks if ended and status else ()) or mark_expected(self._kept["check"], expected),
            predictions=tuple(self._kept["prediction"]) or (status.predictions if status else ()),
            results=tuple(self._kept["result"]) or (status.results if status else ()),
            notes=tuple(self._notes),
            curves=tuple(self._curves.values()),
            spans=tuple(self._spans),
            versions=dict(self._versions),
            telemetry=self._gauges.latest,
            gauges=self._gauges.gauges,
            machine=self._machine.content,
            nccl=self._nccl.content,
            logs=self._logs(status),
            events=self._events,
            bad_lines=self._tail.bad_lines,
            dropped=self._dropped,
            new=tuple(new),
            behind=self._tail.behind or self._gauges.behind,
        )

    def _read_records(self, now: float) -> list[str]:
        if not self.folder.path.is_dir():
            return [f"the folder of {self.folder.id} is gone"]
        errors = []
        if self._request is None:
            try:
                self._request = self.folder.request()
            except (RecordError, RecursionError) as error:
                errors.append(f"{error}")
        try:
            self._status = state.observe(self.folder, now)
        except (RecordError, RecursionError) as error:
            if f"{error}" not in errors:
                errors.append(f"{error}")
        return errors + [why for document in (self._machine, self._nccl) if (why := document.read())]

    def _take(self, event: Event) -> None:
        kind, rank = event["kind"], event["rank"]
        if kind == "metric":
            self._take_metric(event)
        elif kind == "progress":
            done, total = number(event.get("done")), number(event.get("total"))
            if done is not None:
                t, before = number(event.get("t")), self._progress.get(rank)
                first = before.first if before is not None else (t, done) if t is not None else None
                if before is not None and (done < before.done or total != before.total):
                    first = (t, done) if t is not None else None  # it counts something else now
                self._progress[rank] = Progress(done, total, t, first)
        elif kind == "span":
            self._dropped += len(self._spans) == SPANS
            self._spans.append(event)
        elif kind == "note":
            self._dropped += len(self._notes) == NOTES
            self._notes.append(event)
        elif kind == "hello" and isinstance(event.get("versions"), dict):
            self._versions.update({str(name): str(version) for name, version in event["versions"].items()})
        elif kind in self._kept:
            if len(self._kept[kind]) < EVENTS_KEPT:
                self._kept[kind].append(event)
            else:
                self._dropped += 1

    def _take_metric(self, event: Event) -> None:
        labels = event["labels"] if isinstance(event.get("labels"), dict) else {}
        name, rank = str(event.get("name")), event["rank"]
        key = (name, rank, repr(sorted(labels.items())) if labels else "")
        envelope = self._envelopes.get(key)
        if envelope is None:
            if len(self._envelopes) >= CURVES:
                self._dropped += 1
                return
            envelope = self._envelopes[key] = Envelope()
            self._curves[key] = Curve(name, rank, str(event.get("unit") or ""), labels, envelope.course)
            if len(self._timed) < TIMED:
                self._timed[key] = Envelope(TIMED_POINTS)
        step, t = number(event.get("step")), number(event.get("t"))
        envelope.add(float(envelope.count) if step is None else step, number(event.get("value")))
        if key in self._timed and t is not None:
            self._timed[key].add(t, number(event.get("value")))

    def _logs(self, status: Status | None) -> tuple[Log, ...]:
        logs: list[tuple[str, str]] = []
        for process in status.ranks if status else ():
            for suffix, place in (("", process.stdout), (" stderr", process.stderr)):
                if place is not None:
                    logs.append((f"{process.rank}{suffix}", place))
        logs += [("output", self.folder.output.name), ("agent", self.folder.agent_log.name)]
        for _, place in logs:
            if place not in self._places:
                self._places[place] = self.folder.inside(place)
        return tuple(_log(name, path) for name, place in logs if (path := self._places[place]) is not None)


def read_whole(folder: RunFolder) -> Snapshot:
    """The run as it is now, read to its end, telemetry from its beginning."""
    watch = Watch(folder, history=True)
    snapshot = watch.poll(time.time())
    while snapshot.behind:
        snapshot = watch.poll(time.time())
    return snapshot


class _Document:
    """A JSON file that is replaced as a whole, read again when it was."""

    def __init__(self, path: Path) -> None:
        self.content: Document | None = None
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._error = ""

    def read(self) -> str:
        """Reads it if it is another one than before; returns why it can't be read, in a sentence, or nothing."""
        try:
            facts = self._path.stat()
        except OSError:
            return ""  # not there yet; what was read stays
        seen = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if seen != self._seen:
            self._seen, self._error = seen, ""
            try:
                content = read_json(self._path)
                if not isinstance(content, dict):
                    raise RecordError(f"{self._path.name} is no JSON object")
                self.content = content
            except RecordError as error:
                self._error = str(error)
        return self._error


def _log(name: str, path: Path) -> Log:
    try:
        return Log(name, path, path.stat().st_size)
    except OSError:
        return Log(name, path, 0)
