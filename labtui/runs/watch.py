"""A run as it grows: one object that follows a run's folder, and the frozen snapshots it gives.

Reads the folder only, so that a live, a finished, a copied and a torn run look the same. Whatever a run writes, memory
stays bounded: curves keep their envelope, other events their first or newest few. Knows no screen and signals nobody.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labtui.charts import number
from labtui.runs import state
from labtui.runs.envelope import Envelope, Point
from labtui.runs.folder import RunFolder
from labtui.runs.records import Document, RecordError, Request, Status
from labtui.runs.tail import BITE, Event, EventTail, LineTail
from labtui.runs.verdict import mark_expected

CURVES = 512
SPANS = 4096
"""Newest spans kept, per run."""
NOTES = 200
EVENTS_KEPT = 2000
"""Checks, predictions and results kept, each."""
TELEMETRY_REACH = 1 << 16
"""Bytes before the end of a telemetry file from which the latest record is looked for."""


@dataclass(frozen=True)
class Curve:
    """A metric of one rank over its steps (or over its reports, where no step was given)."""

    name: str
    rank: int
    unit: str
    labels: Mapping[str, Any]
    points: tuple[Point, ...]
    latest: float | None
    """The last value; None where it was no finite number."""
    gaps: int
    """Points that were no finite number."""


@dataclass(frozen=True)
class Progress:
    """How far a rank is."""

    done: float
    total: float | None


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
    rank_samples: Mapping[int, Document] = field(default_factory=dict)
    """The last sample of each rank, with its time "t": the latest sample holds only those that are still there."""
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

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._tail = EventTail(folder)
        self._telemetry: dict[str, LineTail] = {}
        self._request: Request | None = None
        self._status: Status | None = None
        self._sample: Document | None = None
        self._rank_samples: dict[int, Document] = {}
        self._progress: dict[int, Progress] = {}
        self._kept: dict[str, list[Event]] = {"check": [], "prediction": [], "result": []}
        self._notes: deque[Event] = deque(maxlen=NOTES)
        self._spans: deque[Event] = deque(maxlen=SPANS)
        self._envelopes: dict[tuple[str, int, str], Envelope] = {}
        self._curves: dict[tuple[str, int, str], Curve] = {}
        self._versions: dict[str, str] = {}
        self._events = 0
        self._dropped = 0

    def poll(self, now: float, limit: int = BITE) -> Snapshot:
        """Reads on, about `limit` bytes of events, and says how the run is. Never raises for the folder's content."""
        errors = self._read_records(now)
        new = self._tail.poll(limit)
        for event in new:
            self._take(event)
        self._events += len(new)
        errors += [f"events/{name} can't be read: {why}" for name, why in self._tail.errors.items()]
        errors += self._read_telemetry()
        for key, envelope in self._envelopes.items():
            curve = self._curves[key]
            if curve.points is not envelope.points:
                points = envelope.points
                self._curves[key] = replace(curve, points=points, latest=points[-1][1], gaps=envelope.gaps)
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
            telemetry=self._sample,
            rank_samples=dict(self._rank_samples),
            logs=self._logs(status),
            events=self._events,
            bad_lines=self._tail.bad_lines,
            dropped=self._dropped,
            new=tuple(new),
            behind=self._tail.behind,
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
        return errors

    def _read_telemetry(self) -> list[str]:
        errors = []
        try:
            names = os.listdir(self.folder.telemetry)
        except OSError:
            return []  # None was taken, or the folder is gone, which is said already.
        for name in sorted(names):
            if not name.endswith(".jsonl"):
                continue
            if name not in self._telemetry:
                self._telemetry[name] = LineTail(self.folder.telemetry / name, from_end=TELEMETRY_REACH)
            try:
                lines = self._telemetry[name].poll()
            except OSError as error:
                errors.append(f"telemetry/{name} can't be read: {error.strerror}")
                continue
            for line in lines:
                self._take_sample(line)
        return errors

    def _take_sample(self, line: bytes) -> None:
        try:
            sample = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(sample, dict) or number(sample.get("t")) is None:
            return
        if self._sample is None or sample["t"] >= self._sample["t"]:
            self._sample = sample
        ranks = sample.get("ranks")
        for entry in ranks if isinstance(ranks, list) else ():
            if isinstance(entry, dict) and type(entry.get("rank")) is int:
                before = self._rank_samples.get(entry["rank"])
                if before is None or sample["t"] >= before["t"]:
                    self._rank_samples[entry["rank"]] = {**entry, "t": sample["t"]}

    def _take(self, event: Event) -> None:
        kind, rank = event["kind"], event["rank"]
        if kind == "metric":
            self._take_metric(event)
        elif kind == "progress":
            done, total = number(event.get("done")), number(event.get("total"))
            if done is not None:
                self._progress[rank] = Progress(done, total)
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
            self._curves[key] = Curve(name, rank, str(event.get("unit") or ""), labels, (), None, 0)
        step = number(event.get("step"))
        envelope.add(float(envelope.count) if step is None else step, number(event.get("value")))

    def _logs(self, status: Status | None) -> tuple[Log, ...]:
        logs = []
        for process in status.ranks if status else ():
            for suffix, place in (("", process.stdout), (" stderr", process.stderr)):
                if place is not None:
                    logs.append(_log(f"{process.rank}{suffix}", self.folder.path / place))
        logs.append(_log("output", self.folder.output))
        logs.append(_log("agent", self.folder.agent_log))
        return tuple(logs)


def _log(name: str, path: Path) -> Log:
    try:
        return Log(name, path, path.stat().st_size)
    except (OSError, ValueError):  # ValueError: a path with a NUL in it, from a status.json that nobody of us wrote
        return Log(name, path, 0)
