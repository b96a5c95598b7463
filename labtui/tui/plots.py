"""What a run has to draw: its manifest's charts, then each metric that none of them shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labtui import charts
from labtui.catalog.manifest import Chart
from labtui.charts import Bar, Scale, Series
from labtui.runs.clean import clean_line
from labtui.runs.watch import Curve, Snapshot

MOST_SERIES = 6
"""More than this in one live chart can't be told apart; the heading says how many are left out."""


@dataclass(frozen=True)
class Plot:
    """One chart's content."""

    title: str
    series: tuple[Series, ...]
    unit: str = ""
    x_label: str = ""
    x_scale: str = charts.LINEAR
    y_scale: str = charts.LINEAR
    left_out: int = 0
    """Series that are not shown."""
    gaps: int = 0
    """Points that are no finite number."""
    bars: tuple[Bar, ...] = ()
    """Instead of series, where x is no number."""

    def axes(self) -> tuple[Scale, Scale] | None:
        """The scales of x and y; None while there is nothing to draw."""
        x = charts.fit((x for line in self.series for x, _ in line.points), self.x_scale)
        y = charts.fit((y for line in self.series for _, y in line.points), self.y_scale, round_out=True)
        return (x, y) if x is not None and y is not None else None


def plots(snapshot: Snapshot, specified: Sequence[Chart]) -> tuple[Plot, ...]:
    """All plots of a run, the manifest's first. Those without a point yet are left out."""
    found = [plot for chart in specified if (plot := _specified(snapshot, chart)) is not None]
    shown = {chart.y for chart in specified if chart.x == "step"}
    for name in dict.fromkeys(curve.name for curve in snapshot.curves):
        if name not in shown:
            curves = [curve for curve in snapshot.curves if curve.name == name]
            found.append(_of_curves(name, curves, None))
    return tuple(found)


def _specified(snapshot: Snapshot, chart: Chart) -> Plot | None:
    if chart.x == "step":
        curves = [curve for curve in snapshot.curves if curve.name == chart.y]
        return _of_curves(chart.title, curves, chart) if curves else None
    series = charts.from_results(snapshot.results, x=chart.x, y=chart.y, series=chart.series or "")
    bars = () if series else charts.bars_from_results(snapshot.results, x=chart.x, y=chart.y, series=chart.series or "")
    if not series and not bars:
        return None
    unit = next((str(r["unit"]) for r in snapshot.results if r.get("name") == chart.y and r.get("unit")), "")
    gaps = sum(charts.number(y) is None for line in series for _, y in line.points)
    if bars:
        return Plot(chart.title, (), unit, bars=tuple(Bar(clean_line(bar.name), bar.value) for bar in bars))
    named = tuple(Series(clean_line(line.name), line.points) for line in series)
    return _bounded(Plot(chart.title, named, unit, chart.x, chart.x_scale, chart.y_scale, gaps=gaps))


def _of_curves(title: str, curves: Sequence[Curve], chart: Chart | None) -> Plot:
    several_ranks = len({curve.rank for curve in curves}) > 1
    series = tuple(Series(_curve_name(curve, chart, several_ranks), curve.points) for curve in curves)
    plot = Plot(
        title=clean_line(title),
        series=series,
        unit=clean_line(curves[0].unit),
        x_label="step",
        x_scale=chart.x_scale if chart else charts.LINEAR,
        y_scale=chart.y_scale if chart else charts.LINEAR,
        gaps=sum(curve.gaps for curve in curves),
    )
    return _bounded(plot)


def _curve_name(curve: Curve, chart: Chart | None, several_ranks: bool) -> str:
    labels: Mapping[str, Any] = curve.labels
    if chart is not None and chart.series and chart.series in labels:
        labels = {chart.series: labels[chart.series]}
    parts = [str(value) for value in labels.values()]
    if several_ranks:
        parts.append(f"rank {curve.rank}")
    return clean_line(" ".join(parts))


def _bounded(plot: Plot) -> Plot:
    if len(plot.series) <= MOST_SERIES:
        return plot
    return replace(plot, series=plot.series[:MOST_SERIES], left_out=len(plot.series) - MOST_SERIES)
