"""A recording: lanes of what was measured, marks where clocks were held back, metrics and remarks, as lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labtui.runs.envelope import Course
from labtui.runs.gauges import Stretch
from labtui.tui import gpu_words
from labtui.tui.lanes import Columns, TimeAxis, axis_line, lane, marks
from labtui.tui.lines import Line, Piece, fit, struck, wrap

TALLEST = 3
"""Lines of a lane, where there is much room."""
GONE_S = 2.5
"""A rank that is missing from the samples for longer has ended, or can't be looked at any more."""
VALUE = 10
"""Cells for the value now."""
_GAP = 2
_LEAST_LANE = 8


@dataclass(frozen=True)
class Gauge:
    """A lane: a name, the value now, and how it came to it."""

    name: str
    value: str
    course: Course | None
    bottom: float
    top: float
    role: str = "area"
    value_role: str = "strong"
    whose: str = ""
    """At the right of its name: the rank, where there are several lanes of one name."""
    key: str = ""
    """Tells it from all others in the pane, for as long as the run goes."""


@dataclass(frozen=True)
class Recording:
    """What a pane shows: lanes, when clocks were held back, and remarks."""

    axis: TimeAxis | None
    gauges: Sequence[Gauge] = ()
    metrics: Sequence[Gauge] = ()
    held: Sequence[Stretch] = ()
    reasons: Sequence[str] = ()
    """Of which there are lanes of marks; a single empty one says that nothing was held back."""
    remarks: Sequence[Piece] = ()
    marks_at: int = 0
    """Below how many gauges they stand."""
    names: int = 11
    """Width of the names."""
    at: float | None = None
    """The moment that is looked at; None where that is the end."""

    def room(self, width: int) -> int:
        """Columns of the lanes; 0 where there is no room for any."""
        room = width - self.names - VALUE - _GAP
        return 0 if room < _LEAST_LANE or self.axis is None else room


def drawn(
    recording: Recording, width: int, height: int, top: int = 0, memory: dict[str, Columns] | None = None
) -> tuple[list[Line], int]:
    """The lines on show when the upper ones are scrolled to `top`, and where that really is.

    The run's metrics, the axis and remarks stay below. `memory` is what was drawn before: it makes it cheap to draw
    the same again with something added.
    """
    room = recording.room(width)
    fixed = len(recording.gauges) + len(recording.reasons) + bool(room)
    least = max(1, height // 6)
    grave = min(sum(len(wrap(said, width)) for said, role in recording.remarks if role != "dim"), least)
    metrics = recording.metrics if fixed + len(recording.metrics) + grave <= height else recording.metrics[:1]
    spare = height - fixed - len(metrics)
    remarks = _remarks(recording.remarks, width, spare, least)
    # What room is left over makes lanes taller, the first ones first.
    lanes = len(recording.gauges) + len(metrics)
    more, further = divmod(max(spare - len(remarks), 0), max(lanes, 1))
    heights = [min(1 + more + (place < further), TALLEST) for place in range(lanes)]
    painter = _Painter(recording, room, {} if memory is None else memory)

    below = [line for gauge, its in zip(metrics, heights[len(recording.gauges) :], strict=True)
             for line in painter.gauge(gauge, its)]  # fmt: skip
    if room and recording.axis is not None:
        axis: Line = ((" " * (width - room), ""), *axis_line(recording.axis, room))
        below.append(axis if painter.cursor is None else struck(axis, painter.cursor, "↑"))
    below += remarks
    below = below if len(below) < height else below[: height // 2]

    rows: list[tuple[int, Gauge | str]] = list(zip(heights, recording.gauges, strict=False))
    rows[recording.marks_at : recording.marks_at] = [(1, reason) for reason in recording.reasons]
    shown = max(height - len(below), 0)
    top = max(0, min(top, sum(its for its, _ in rows) - shown))
    above: list[Line] = []
    skipped = 0
    for its, row in rows:
        if skipped + its <= top:  # scrolled away
            skipped += its
        elif len(above) < shown + top - skipped:
            above += painter.gauge(row, its) if isinstance(row, Gauge) else [painter.marks(row)]
    return [*above[top - skipped : top - skipped + shown], *below], top


def _remarks(remarks: Sequence[Piece], width: int, spare: int, least: int) -> list[Line]:
    """As many as there is room for; what is grave has some in any case."""
    lines: list[Line] = []
    for said, role in remarks:
        room = spare if role == "dim" else max(spare, least)
        texts = wrap(said, width)
        if role != "dim" or len(lines) + len(texts) <= room:
            lines += [((text, role),) for text in texts][: max(room - len(lines), 0)]
    return lines


class _Painter:
    """Draws lanes `room` columns wide; where there is no room, only what they say."""

    def __init__(self, recording: Recording, room: int, memory: dict[str, Columns]) -> None:
        self._recording, self._room, self._memory = recording, room, memory
        self.cursor: int | None = None
        """The cell of each line that belongs to the moment that is looked at."""
        if recording.at is not None and recording.axis is not None and room:
            self.cursor = recording.names + VALUE + _GAP + recording.axis.column(recording.at, room)

    def _struck(self, line: Line) -> Line:
        return line if self.cursor is None else struck(line, self.cursor)

    def gauge(self, gauge: Gauge, tall: int) -> list[Line]:
        names = self._recording.names
        whose = f" {gauge.whose}" if gauge.whose else ""
        told: Line = (
            (fit(gauge.name, names - len(whose)) + whose, "dim"),
            (fit(gauge.value, VALUE, right=True), gauge.value_role),
        )
        if not self._room or self._recording.axis is None or gauge.course is None:
            return [*[()] * (tall - 1), told]
        known = self._memory.setdefault(gauge.key, Columns())
        spans = known.of(gauge.course, self._recording.axis, self._room)
        *upper, lowest = lane(spans, gauge.bottom, gauge.top, tall)
        blank = " " * (names + VALUE + _GAP)
        lines: list[Line] = [((blank, ""), (row, gauge.role)) for row in upper]
        return [self._struck(line) for line in (*lines, (*told, (" " * _GAP, ""), (lowest, gauge.role)))]

    def marks(self, reason: str) -> Line:
        held, at = self._recording.held, self._recording.at
        now = held[-1].reasons if held else None
        if at is not None:
            now = next((stretch.reasons for stretch in reversed(held) if stretch.start <= at), None)
        in_force = ("now" if at is None else "yes") if reason and now is not None and reason in now else ""
        told: Line = (
            (fit(gpu_words.reason(reason) if reason else "held back", self._recording.names), "dim"),
            (fit(in_force, VALUE, right=True), "warn"),
        )
        if not self._room or self._recording.axis is None:
            return told
        return self._struck((*told, (" " * _GAP, ""), *marks(held, reason, self._recording.axis, self._room)))
