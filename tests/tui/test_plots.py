"""Which plots a run has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labtui.catalog.manifest import Chart
from labtui.charts import Bar, Series
from labtui.runs.folder import RunFolder
from labtui.runs.watch import Curve, Snapshot
from labtui.tui.plots import MOST_SERIES, plots


def snapshot(**fields: Any) -> Snapshot:
    return Snapshot(folder=RunFolder(Path("x")), taken=0.0, **fields)


def curve(name: str, rank: int = 0, **labels: Any) -> Curve:
    return Curve(name, rank, "ms", labels, ((0.0, 1.0), (1.0, None)), None, 1)


def result(value: Any, **labels: Any) -> dict[str, Any]:
    return {"kind": "result", "name": "busbw", "value": value, "unit": "GB/s", "labels": labels}


def test_the_manifests_charts_come_first_and_other_metrics_after() -> None:
    seen = snapshot(curves=(curve("loss"), curve("step_time")), results=(result(3.0, size=1024),))
    specified = [Chart("Bandwidth", "size", "busbw", x_scale="log2"), Chart("Time", "step", "step_time"),
                 Chart("Not yet", "step", "nothing")]  # fmt: skip
    bandwidth, time, loss = plots(seen, specified)
    assert (bandwidth.title, bandwidth.unit, bandwidth.x_scale) == ("Bandwidth", "GB/s", "log2")
    assert bandwidth.series == (Series("", ((1024, 3.0),)),)
    assert (time.title, time.x_label, time.gaps) == ("Time", "step", 1)
    assert loss.title == "loss"


def test_curves_are_named_by_what_tells_them_apart() -> None:
    several = snapshot(curves=(curve("loss", 0, way="hooks", size=3), curve("loss", 1, way="ddp", size=3)))
    (plot,) = plots(several, [Chart("Loss", "step", "loss", series="way")])
    assert [series.name for series in plot.series] == ["hooks rank 0", "ddp rank 1"]
    alone = snapshot(curves=(curve("loss"),))
    assert [series.name for series in plots(alone, ())[0].series] == [""]


def test_too_many_curves_are_left_out_and_counted() -> None:
    (plot,) = plots(snapshot(curves=tuple(curve("loss", rank) for rank in range(64))), ())
    assert len(plot.series) == MOST_SERIES
    assert plot.left_out == 64 - MOST_SERIES


def test_where_x_is_no_number_there_are_bars() -> None:
    seen = snapshot(results=(result(3.0, way="hooks"), result(None, way="ddp")))
    (plot,) = plots(seen, [Chart("By way", "way", "busbw")])
    assert plot.bars == (Bar("hooks", 3.0), Bar("ddp", None))
