"""Lanes: what was measured over the time of a run, one beneath the other on one axis of time. Pure.

A lane is some lines high and as wide as there is room. Blank means that nothing is known; the lowest block is the
lane's own zero.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labtui.runs.envelope import Bucket, Course
from labtui.runs.gauges import TOGETHER_S, Stretch
from labtui.tui.lines import Piece
from labtui.tui.words import axis_time


@dataclass(frozen=True)
class Span:
    """What was measured within one column."""

    high: float
    sum: float
    count: int
    """Samples; of a bucket of many the last one stands for all."""

    @property
    def mean(self) -> float:
        return self.sum / self.count


NONE, MARK = "·", "━"
"""In a lane of marks: it is known that there was nothing; there was something."""

_HORIZONS = (
    10, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400, 21600, 43200, 86400,
)  # fmt: skip
_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True)
class TimeAxis:
    """The time of a run, from its start; seconds since the epoch."""

    start: float
    end: float
    """Its right edge."""
    now: float
    """How far things can be known."""

    def column(self, t: float, width: int) -> int:
        """The column in which a moment lies, before 0 or beyond the last one too."""
        return int((t - self.start) / (self.end - self.start) * width // 1)


def time_axis(start: float, now: float, *, live: bool) -> TimeAxis:
    """The axis of a run. While it is alive there is room at the right: else every column would move at every tick."""
    seconds = max(now - start, 1.0)
    if live:
        place = bisect_left(_HORIZONS, seconds)
        seconds = float(_HORIZONS[place]) if place < len(_HORIZONS) else (seconds // 86400 + 1) * 86400.0
    return TimeAxis(start, start + seconds, now)


def columns(course: Course, axis: TimeAxis, width: int) -> list[Span | None]:
    """A course in that many columns. A sample counts until the next one; None where there is none."""
    return Columns().of(course, axis, width)


class Columns:
    """The columns of a course that grows: each time only what is new in it is looked at."""

    def __init__(self) -> None:
        self._source: list[Bucket] | None = None
        self._place: tuple[float, float, int] | None = None
        self._done = 0
        """Buckets that are in `_spans` for good."""
        self._spans: list[Span | None] = []

    def of(self, course: Course, axis: TimeAxis, width: int) -> list[Span | None]:
        """See `columns`."""
        place = (axis.start, axis.end, width)
        if self._source is not course.source or self._place != place or course.settled < self._done:
            self._source, self._place, self._done = course.source, place, 0
            self._spans = [None] * width
        # How long a bucket lasts is known when the two behind it have begun.
        final = max(course.settled - 1, self._done)
        first = max(self._done - 1, 0)
        buckets = list(course.since(first))
        _fill(self._spans, buckets, self._done - first, final - first, axis)
        self._done = final
        spans = self._spans.copy()
        _fill(spans, buckets, final - first, len(buckets), axis)
        return spans


def _fill(spans: list[Span | None], buckets: Sequence[Bucket], first: int, end: int, axis: TimeAxis) -> None:
    """Puts buckets first to end - 1 where they belong."""
    width, last = len(spans), len(buckets) - 1
    if width < 1:
        return
    scale = width / (axis.end - axis.start)
    for n in range(first, end):
        x, _, high, value = buckets[n]
        if high is None:
            continue
        value = high if value is None else value
        before = x - buckets[n - 1][0] if n else 0.0
        if n == last:
            until = min(x + before if before <= TOGETHER_S else x, axis.now)
        else:
            gap = buckets[n + 1][0] - x
            behind = buckets[n + 2][0] - buckets[n + 1][0] if n + 2 <= last else 0.0
            until = x + gap if gap <= max(TOGETHER_S, 2.5 * max(before, behind)) else x
        start = int((x - axis.start) * scale // 1)
        for column in range(max(start, 0), min(max(int((until - axis.start) * scale // 1), start + 1), width)):
            there = spans[column]
            spans[column] = (
                Span(high, value, 1)
                if there is None
                else Span(max(there.high, high), there.sum + value, there.count + 1)
            )


def value_at(course: Course | None, t: float) -> float | None:
    """What held at a moment: a sample counts until the next one, unless that is late. Of merged ones, the last."""
    if course is None or not len(course):
        return None
    buckets = list(course)
    place = bisect_right(buckets, t, key=lambda bucket: bucket[0]) - 1
    if place < 0:
        return None
    x, value = buckets[place][0], buckets[place][3]
    before = x - buckets[place - 1][0] if place else 0.0
    return value if t - x <= max(TOGETHER_S, 2.5 * before) else None


def lane(spans: Sequence[Span | None], bottom: float, top: float, rows: int) -> list[str]:
    """The columns as blocks on `rows` lines, the uppermost first.

    A column is filled up to the mean of its samples; on several lines what reaches far beyond it is shaded.
    """
    # The uppermost eighth stays free: it parts a full lane from the one above.
    most = 8 * rows - 1
    reach = top - bottom

    def level(value: float) -> int:
        """From 1 to `most`: what is known is never blank."""
        part = (min(max(value, bottom), top) - bottom) / reach if reach > 0 else 0.0
        return 1 + round(part * (most - 1))

    if rows == 1:
        return ["".join(" " if span is None else _BLOCKS[level(span.mean)] for span in spans)]
    levels = [None if span is None else (level(span.mean), level(span.high)) for span in spans]
    return ["".join(_cell(pair, 8 * row) for pair in levels) for row in reversed(range(rows))]


_BLOCKS = " ▁▂▃▄▅▆▇█"


def _cell(levels: tuple[int, int] | None, below: int) -> str:
    """One cell of several above each other; `below` levels are beneath it."""
    if levels is None:
        return " "
    mean, high = levels[0] - below, levels[1] - below
    return _BLOCKS[min(mean, 8)] if mean > 0 else "░" if high >= 4 else " "


def marks(stretches: Iterable[Stretch], reason: str, axis: TimeAxis, width: int) -> list[Piece]:
    """When the reason was in force (MARK), when others or none were (NONE); blank where nothing was told."""
    cells = [" "] * width
    told = list(stretches)
    for n, stretch in enumerate(told):
        if stretch.reasons is None:
            continue
        until = stretch.end
        if n + 1 < len(told) and told[n + 1].start - until <= TOGETHER_S:
            until = told[n + 1].start
        first = axis.column(stretch.start, width)
        is_in_force = reason in stretch.reasons
        for column in range(max(first, 0), min(max(axis.column(until, width), first + 1), width)):
            if is_in_force or cells[column] == " ":
                cells[column] = MARK if is_in_force else NONE
    pieces: list[Piece] = []
    for cell in cells:
        if pieces and pieces[-1][0][0] == cell:
            pieces[-1] = (pieces[-1][0] + cell, pieces[-1][1])
        else:
            pieces.append((cell, "warn" if cell == MARK else "dim"))
    return pieces


def axis_line(axis: TimeAxis, width: int) -> list[Piece]:
    """The axis on one line: a label behind each tick."""
    seconds = axis.end - axis.start
    wanted = max(width // 12, 1)
    step = next((step for step in _STEPS if seconds / step <= wanted), 86400 * max(int(seconds / wanted / 86400), 1))
    pieces: list[Piece] = []
    used = 0
    for n in range(int(seconds / step) + 1):
        at, label = axis.column(axis.start + n * step, width), axis_time(n * step)
        if at < used or at + 1 + len(label) > width:
            continue
        pieces += [("─" * (at - used) + ("└" if n == 0 else "┴"), "rule"), (label, "dim")]
        used = at + 1 + len(label)
    return [*pieces, ("─" * (width - used), "rule")]
