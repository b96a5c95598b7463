"""Which plots a run has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labtui.catalog.manifest import Chart
from labtui.charts import Bar, Series
from labtui.runs.envelope import Envelope
from labtui.runs.folder import RunFolder
from labtui.runs.plots import MOST_SERIES, plots
from labtui.runs.records import Status
from labtui.runs.watch import Curve, Snapshot


def snapshot(**fields: Any) -> Snapshot:
    return Snapshot(folder=RunFolder(Path("x")), taken=0.0, **fields)


def curve(name: str, rank: int = 0, **labels: Any) -> Curve:
    envelope = Envelope()
    envelope.add(0.0, 1.0)
    envelope.add(1.0, None)
    return Curve(name, rank, "ms", labels, envelope.course, 1)


def result(value: Any, **labels: Any) -> dict[str, Any]:
    return {"kind": "result", "name": "busbw", "value": value, "unit": "GB/s", "labels": labels}


def test_the_manifests_charts_come_first_and_other_metrics_after() -> None:
    seen = snapshot(curves=(curve("loss"), curve("step_time")), results=(result(3.0, size=1024),))
    specified = [Chart("Bandwidth", "size", "busbw", x_scale="log2"), Chart("Time", "step", "step_time"),
                 Chart("Not yet", "step", "nothing")]  # fmt: skip
    bandwidth, time, loss = plots(seen, specified)
    assert (bandwidth.title, bandwidth.unit, bandwidth.x_scale) == ("Bandwidth", "GB/s", "log2")
    assert bandwidth.lines == (Series("", ((1024, 3.0),)),)
    assert (time.title, time.x_label, time.gaps) == ("Time", "step", 1)
    assert loss.title == "loss"


def test_curves_are_named_by_what_tells_them_apart() -> None:
    several = snapshot(curves=(curve("loss", 0, way="hooks", size=3), curve("loss", 1, way="ddp", size=3)))
    (plot,) = plots(several, [Chart("Loss", "step", "loss", series="way")])
    assert [series.name for series in plot.lines] == ["hooks rank 0", "ddp rank 1"]
    alone = snapshot(curves=(curve("loss"),))
    assert [series.name for series in plots(alone, ())[0].lines] == [""]


def test_too_many_curves_are_left_out_and_counted() -> None:
    (plot,) = plots(snapshot(curves=tuple(curve("loss", rank) for rank in range(64))), ())
    assert len(plot.lines) == MOST_SERIES
    assert plot.left_out == 64 - MOST_SERIES


def test_a_growing_curve_leaves_the_axes_where_they_are() -> None:
    def axes(steps: int, state: str) -> Any:
        envelope = Envelope()
        for step in range(steps):
            envelope.add(float(step), 2.0 - step / 1000)
        grown = Curve("loss", 0, "", {}, envelope.course)
        return plots(snapshot(curves=(grown,), status=Status(state, 0.0)), ())[0].axes()

    assert axes(220, "running") == axes(230, "running"), "so that hardly anything of it is painted again"
    x, y = axes(220, "succeeded")
    assert (x.low, x.high) == (0.0, 219.0) and y.low <= 1.781 < 2.0 <= y.high


def test_where_x_is_no_number_there_are_bars() -> None:
    seen = snapshot(results=(result(3.0, way="hooks"), result(None, way="ddp")))
    (plot,) = plots(seen, [Chart("By way", "way", "busbw")])
    assert plot.bars == (Bar("hooks", 3.0), Bar("ddp", None))
