"""Slices, counters and arrows as a trace that ui.perfetto.dev (or chrome://tracing) opens.

The form is Chrome's trace event format, as JSON: "X" complete events, "C" counters, "s"/"f" flow arrows, "M" names;
`ts` and `dur` are microseconds there. What is given to the writer is neutral (seconds, names), so that the spans of a
run and the operations of a simulated schedule take the same way. Pure: text comes out, the caller writes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labtui.theory.pipeline.gantt import stages_of

if TYPE_CHECKING:
    from labtui.theory.pipeline.timeline import Timeline

UNIT_S = 1e-3
"""Seconds that a simulated schedule's unit of time is drawn as: one unit is 1 ms in the trace."""


@dataclass(frozen=True)
class Slice:
    """Something that took time. `start` and `end` are seconds after a moment that all of a trace share."""

    name: str
    start: float
    end: float
    category: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Shown when the slice is selected."""


@dataclass(frozen=True)
class Track:
    """Slices on one line: of a process (a rank, a device), one of its threads (a lane, a stage)."""

    process: str
    name: str
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class Counter:
    """A number over time, drawn as a curve under its process: points (seconds, value); None and NaN are left out."""

    process: str
    name: str
    points: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True)
class Arrow:
    """From one slice to another, such as a transfer. Each end is a track's (process, name) and a time in the slice."""

    name: str
    source: tuple[str, str]
    leaves: float
    target: tuple[str, str]
    arrives: float


def text(tracks: Sequence[Track], counters: Sequence[Counter] = (), arrows: Sequence[Arrow] = ()) -> str:
    """The whole trace as one JSON document, in ASCII, an event a line.

    Processes and their tracks keep the order in which they come. Slices that overlap on a track without one holding
    the other are moved to a further line of the same name, since the format knows only nesting on one line. Raises
    ValueError for an arrow from or to a track that isn't there.
    """
    events = ",\n".join(json.dumps(event) for event in _events(tracks, counters, arrows))
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{events}\n]}}\n'


def _events(tracks: Sequence[Track], counters: Sequence[Counter], arrows: Sequence[Arrow]) -> Iterator[dict[str, Any]]:
    processes: dict[str, int] = {}
    for process in (*(track.process for track in tracks), *(counter.process for counter in counters)):
        if process not in processes:
            # From 1: process and thread 0 are the idle task to Perfetto.
            processes[process] = pid = len(processes) + 1
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}}
            yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    places: dict[tuple[str, str], list[tuple[int, list[Slice]]]] = {}
    thread = 0
    for track in tracks:
        pid = processes[track.process]
        for lane in _lanes(track.slices):
            thread += 1
            places.setdefault((track.process, track.name), []).append((thread, lane))
            where: dict[str, Any] = {"pid": pid, "tid": thread}
            yield {"ph": "M", "name": "thread_name", **where, "args": {"name": track.name}}
            yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": thread}}
            for each in lane:
                start, end = _microseconds(each.start), _microseconds(each.end)
                event: dict[str, Any] = {
                    "ph": "X",
                    "name": each.name,
                    **where,
                    "ts": start,
                    "dur": round(end - start, 3),
                }
                if each.category:
                    event["cat"] = each.category
                if each.details:
                    event["args"] = dict(each.details)
                yield event
    for counter in counters:
        for at, value in counter.points:
            if value is not None and math.isfinite(value):
                where = {"pid": processes[counter.process], "ts": _microseconds(at)}
                yield {"ph": "C", "name": counter.name, **where, "args": {"value": value}}
    for number, arrow in enumerate(arrows, start=1):
        common = {"name": arrow.name, "cat": "flow", "id": number}
        for phase, track_of, at in (("s", arrow.source, arrow.leaves), ("f", arrow.target, arrow.arrives)):
            if track_of not in places:
                raise ValueError(f"an arrow needs the track {track_of}, which isn't in the trace")
            where = {"pid": processes[track_of[0]], "tid": _lane_at(places[track_of], at), "ts": _microseconds(at)}
            # "e": bound to the slice that holds this moment, not to the next one.
            yield {"ph": phase, **common, **where, **({"bp": "e"} if phase == "f" else {})}


def _microseconds(seconds: float) -> float:
    """To the nanosecond, which is what Perfetto keeps."""
    return round(seconds * 1e6, 3)


def _lanes(slices: Iterable[Slice]) -> list[list[Slice]]:
    """The slices on as few lines as it takes for those of each line to follow each other or nest; at least one line."""
    lanes: list[list[Slice]] = []
    still_open: list[list[float]] = []
    """For each line the ends of the slices that hold the next one, outermost first."""
    for each in sorted(slices, key=lambda one: (one.start, -one.end)):
        for lane, ends in zip(lanes, still_open, strict=True):
            while ends and _microseconds(ends[-1]) <= _microseconds(each.start):
                ends.pop()
            if not ends or each.end <= ends[-1]:
                lane.append(each)
                ends.append(each.end)
                break
        else:
            lanes.append([each])
            still_open.append([each.end])
    return lanes or [[]]


def _lane_at(lanes: Sequence[tuple[int, Sequence[Slice]]], at: float) -> int:
    """The thread of the line on which something goes on at that moment; the first where nothing does."""
    if len(lanes) > 1:
        for thread, lane in lanes:
            if any(each.start <= at <= each.end for each in lane):
                return thread
    return lanes[0][0]


# Simulated schedules ------------------------------------------------------------------------------------------------


def from_timeline(timeline: Timeline) -> str:
    """The trace of a simulated schedule: a process for each device, a track for each of its stages.

    Beside them what the device holds in activations, in (micro-batch, stage) pieces, and an arrow for each transfer
    from one device to another. One unit of the schedule's time is 1 ms.
    """
    order = timeline.order
    slices: dict[tuple[int, int], list[Slice]] = {
        (device, stage): [] for device in range(len(order.devices)) for stage in stages_of(order, device)
    }
    counters = []
    ended: dict[tuple[str, int, int], tuple[int, float]] = {}
    """(kind, micro-batch, stage) -> device and a time within; B and I both as B, since both send the gradient on."""
    begun: list[tuple[str, int, int, int, float]] = []
    for device in range(len(order.devices)):
        changes: list[tuple[float, int]] = []
        for kind, microbatch, stage, start, end, pair in timeline.ops(device):
            details = {"kind": kind, "micro-batch": microbatch, "stage": stage}
            if pair is not None:
                details["overlapped pair"] = pair
            slices[device, stage].append(
                Slice(f"{kind}{microbatch}", start * UNIT_S, end * UNIT_S, KINDS[kind], details)
            )
            if kind == "F":
                changes.append((start, 1))
            elif kind != "I":
                changes.append((end, -1))
            middle = (start + end) / 2 * UNIT_S
            if kind != "W":
                passed = "F" if kind == "F" else "B"
                ended[passed, microbatch, stage] = (device, middle)
                begun.append((passed, microbatch, stage, device, middle))
        counters.append(Counter(f"GPU{device}", "activations held", _held(changes)))
    arrows = []
    for kind, microbatch, stage, device, middle in begun:
        before = stage - 1 if kind == "F" else stage + 1
        source = ended.get((kind, microbatch, before))
        if source is not None and source[0] != device:
            what = "activations" if kind == "F" else "gradient"
            ends = (f"GPU{source[0]}", f"stage {before}"), source[1], (f"GPU{device}", f"stage {stage}"), middle
            arrows.append(Arrow(f"{what} of micro-batch {microbatch}", *ends))
    tracks = [Track(f"GPU{device}", f"stage {stage}", tuple(each)) for (device, stage), each in slices.items()]
    return text(tracks, counters, arrows)


KINDS = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


def _held(changes: Iterable[tuple[float, int]]) -> tuple[tuple[float, float], ...]:
    """The running sum over time, in seconds; where something goes and something comes at once, only the outcome."""
    points: dict[float, float] = {0.0: 0}
    held = 0
    for at, change in sorted(changes):
        held += change
        points[at * UNIT_S] = held
    return tuple(points.items())
