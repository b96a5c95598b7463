"""Charts of several runs over each other: curves and results in one chart, telemetry on one time axis. Pure.

A series is named after its run's letter, in the order in which the runs are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labtui import charts
from labtui.catalog.manifest import Chart
from labtui.charts import Bar, Series
from labtui.runs.envelope import Course
from labtui.runs.plots import MOST_SERIES, Plot, plots
from labtui.runs.watch import Snapshot

_GPU = (
    ("util", "GPU utilization, mean", "%"), ("mem_used", "memory of a GPU, mean", "B"),
    ("power_w", "power of a GPU, mean", "W"),
)  # fmt: skip
_RANK = (("cpu", "CPU of a rank, mean", "%"), ("rss", "memory of a rank, mean", "B"))
_HOST = (("cpu", "CPU of the host", "%"),)
POINTS = 200
"""Of a curve of telemetry: the mean of several GPUs or ranks is taken at so many moments."""


def letter(place: int) -> str:
    """How the run in that place is called: a, b, c, ..."""
    return charts.LETTERS[place]


def overlaid(snapshots: Sequence[Snapshot], specified: Sequence[Chart]) -> tuple[Plot, ...]:
    """A chart per title that any of the runs has, with the curves of all; several where they would be too many.

    `specified` are the manifest's charts (of all runs' experiments).
    """
    found: dict[str, list[tuple[int, Plot]]] = {}
    for place, snapshot in enumerate(snapshots):
        for plot in plots(snapshot, specified):
            found.setdefault(plot.title, []).append((place, plot))
    return tuple(one for its in found.values() for one in _laid_over(its))


def _laid_over(its: Sequence[tuple[int, Plot]]) -> list[Plot]:
    first = its[0][1]
    if any(plot.bars for _, plot in its):
        bars = tuple(Bar(f"{letter(place)} {bar.name}", bar.value) for place, plot in its for bar in plot.bars)
        return [replace(first, bars=bars)]
    gaps, left_out = sum(plot.gaps for _, plot in its), sum(plot.left_out for _, plot in its)
    named = [(place, line) for place, plot in its for line in plot.lines]
    whole = replace(first, curves=(), growing=False, gaps=gaps, left_out=left_out)
    if len(named) <= MOST_SERIES:
        return [replace(whole, series=tuple(Series(_name(place, line.name), line.points) for place, line in named))]
    # One chart per curve's name: what is compared is the same curve in several runs.
    return [
        replace(
            whole,
            title=f"{first.title}: {name or 'unnamed'}",
            series=tuple(Series(letter(place), line.points) for place, line in named if line.name == name),
        )
        for name in dict.fromkeys(line.name for _, line in named)
    ]


def _name(place: int, name: str) -> str:
    return f"{letter(place)} {name}".strip()


def telemetry(snapshots: Sequence[Snapshot]) -> tuple[Plot, ...]:
    """GPUs, ranks and hosts over the seconds since each run's start; of several GPUs or ranks the mean.

    Empty where no run has any.
    """
    found = []
    for kind, fields in (("gpus", _GPU), ("ranks", _RANK), ("hosts", _HOST)):
        for field, title, unit in fields:
            lines = tuple(
                Series(letter(place), points)
                for place, snapshot in enumerate(snapshots)
                if (points := _mean(snapshot, kind, field))
            )
            if lines:
                found.append(Plot(title, lines, unit, "seconds since the start"))
    return tuple(found)


def _mean(snapshot: Snapshot, kind: str, field: str) -> tuple[tuple[float, float], ...]:
    gauges = getattr(snapshot.gauges, kind)
    courses = [gauge.courses[field] for gauge in gauges if field in gauge.courses and gauge.courses[field].bounds]
    begin = snapshot.status.started if snapshot.status is not None else None
    if not courses or begin is None:
        return ()
    left = min(course.bounds.left for course in courses if course.bounds)
    right = max(course.bounds.right for course in courses if course.bounds)
    width = max(right - left, 1e-9) / POINTS
    sums: dict[int, list[float]] = {}
    for course in courses:
        for column, value in _columns(course, left, width).items():
            sums.setdefault(column, []).append(value)
    return tuple(
        (left + (column + 0.5) * width - begin, sum(values) / len(values)) for column, values in sorted(sums.items())
    )


def _columns(course: Course, left: float, width: float) -> dict[int, float]:
    """The mean of a curve's points in each of its columns."""
    found: dict[int, list[float]] = {}
    for x, y in course.points:
        if y is not None:
            found.setdefault(min(int((x - left) / width), POINTS - 1), []).append(y)
    return {column: sum(values) / len(values) for column, values in found.items()}
