"""What a run has to draw: its manifest's charts, then each metric that none of them shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labtui import charts
from labtui.catalog.manifest import Chart
from labtui.charts import Bar, Scale, Series
from labtui.runs.clean import clean_line
from labtui.runs.watch import Curve, Snapshot

MOST_SERIES = 6
"""More than this in one live chart can't be told apart; the heading says how many are left out."""
LONG = 256
"""A curve of more points hardly changes within a second."""


@dataclass(frozen=True)
class Plot:
    """One chart's content: series of results, curves of metrics, or bars."""

    title: str
    series: tuple[Series, ...] = ()
    unit: str = ""
    x_label: str = ""
    x_scale: str = charts.LINEAR
    y_scale: str = charts.LINEAR
    left_out: int = 0
    """Series or curves that are not shown."""
    gaps: int = 0
    """Points that are no finite number."""
    bars: tuple[Bar, ...] = ()
    """Where x is no number."""
    curves: tuple[tuple[str, Curve], ...] = ()
    """With the names by which they are told apart."""
    growing: bool = False
    """Whether points are still added: then there is room at the right, so that what is drawn can stay where it is."""

    @cached_property
    def lines(self) -> tuple[Series, ...]:
        """What is drawn. A curve's points are made here, so that plots that nobody looks at cost nothing."""
        return self.series or tuple(Series(name, curve.points) for name, curve in self.curves)

    def text(self, width: int, height: int, *, ascii: bool = False) -> str:
        """The chart for reading rather than watching: lines of at most `width` characters, drawn by plotext."""
        if not self.bars:
            return charts.text(
                self.lines, width=width, height=height, title=self.title, x_label=self.x_label, y_label=self.unit,
                x_scale=self.x_scale, y_scale=self.y_scale, ascii=ascii,
            )  # fmt: skip
        names = min(max(len(bar.name) for bar in self.bars), width // 2)
        lengths = charts.bar_lengths(self.bars, max(width - names - 14, 1))
        lines = [
            f"{bar.name[:names]:<{names}} {'#' * round((length or 0) / 8)} "
            + ("-" if (value := charts.number(bar.value)) is None else charts.label(value))
            for bar, length in zip(self.bars, lengths, strict=True)
        ]
        return "\n".join([f"{self.title}, {self.unit}" if self.unit else self.title, *lines])

    @property
    def is_long(self) -> bool:
        """Whether one point more is hardly seen."""
        return any(len(curve.course) > LONG for _, curve in self.curves)

    def axes(self) -> tuple[Scale, Scale] | None:
        """The scales of x and y; None while there is nothing to draw."""
        xs: Iterable[Any] = (x for line in self.lines for x, _ in line.points)
        ys: Iterable[Any] = (y for line in self.lines for _, y in line.points)
        if self.curves and self.x_scale == self.y_scale == charts.LINEAR:
            bounds = [curve.course.bounds for _, curve in self.curves if curve.course.bounds is not None]
            xs = [x for its in bounds for x in (its.left, its.right)]
            ys = [y for its in bounds for y in (its.low, its.high)]
        x = charts.fit(xs, self.x_scale, round_out=self.growing)
        y = charts.fit(ys, self.y_scale, round_out=True)
        return (x, y) if x is not None and y is not None else None


def plots(snapshot: Snapshot, specified: Sequence[Chart]) -> tuple[Plot, ...]:
    """All plots of a run, the manifest's first. Those without a point yet are left out."""
    found = [plot for chart in specified if (plot := _specified(snapshot, chart)) is not None]
    shown = {chart.y for chart in specified if chart.x == "step"}
    for name in dict.fromkeys(curve.name for curve in snapshot.curves):
        if name not in shown:
            curves = [curve for curve in snapshot.curves if curve.name == name]
            found.append(_of_curves(name, curves, None, growing=snapshot.live))
    return tuple(found)


def _specified(snapshot: Snapshot, chart: Chart) -> Plot | None:
    if chart.x == "step":
        curves = [curve for curve in snapshot.curves if curve.name == chart.y]
        return _of_curves(chart.title, curves, chart, growing=snapshot.live) if curves else None
    series = charts.from_results(snapshot.results, x=chart.x, y=chart.y, series=chart.series or "")
    bars = () if series else charts.bars_from_results(snapshot.results, x=chart.x, y=chart.y, series=chart.series or "")
    if not series and not bars:
        return None
    unit = next((str(r["unit"]) for r in snapshot.results if r.get("name") == chart.y and r.get("unit")), "")
    gaps = sum(charts.number(y) is None for line in series for _, y in line.points)
    if bars:
        return Plot(chart.title, unit=unit, bars=tuple(Bar(clean_line(bar.name), bar.value) for bar in bars))
    named = tuple(Series(clean_line(line.name), line.points) for line in series)
    left_out = max(len(named) - MOST_SERIES, 0)
    return Plot(chart.title, named[:MOST_SERIES], unit, chart.x, chart.x_scale, chart.y_scale, left_out, gaps)


def _of_curves(title: str, curves: Sequence[Curve], chart: Chart | None, *, growing: bool) -> Plot:
    several_ranks = len({curve.rank for curve in curves}) > 1
    return Plot(
        title=clean_line(title),
        unit=clean_line(curves[0].unit),
        x_label="step",
        x_scale=chart.x_scale if chart else charts.LINEAR,
        y_scale=chart.y_scale if chart else charts.LINEAR,
        left_out=max(len(curves) - MOST_SERIES, 0),
        gaps=sum(curve.gaps for curve in curves),
        curves=tuple((_curve_name(curve, chart, several_ranks), curve) for curve in curves[:MOST_SERIES]),
        growing=growing,
    )


def _curve_name(curve: Curve, chart: Chart | None, several_ranks: bool) -> str:
    labels: Mapping[str, Any] = curve.labels
    if chart is not None and chart.series and chart.series in labels:
        labels = {chart.series: labels[chart.series]}
    parts = [str(value) for value in labels.values()]
    if several_ranks:
        parts.append(f"rank {curve.rank}")
    return clean_line(" ".join(parts))
