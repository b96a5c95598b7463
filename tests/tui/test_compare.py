"""Runs side by side: lines of any width, what they say, and the screen over real folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_lab import HOSTILE, filled_run, screen_text, stopped, until, until_shown

from labtui.catalog.manifest import Experiment
from labtui.runs import watch
from labtui.runs.compare import Compared
from labtui.runs.folder import write_json
from labtui.runs.records import SUCCEEDED, Request, Status
from labtui.tui import compare_lines
from labtui.tui.app import LabApp
from labtui.tui.compare_lines import SideBySide
from labtui.tui.lines import Line, cells
from labtui.tui.widgets.compared import ComparedCharts


def reported(name: str, value: float | None, unit: str = "", **labels: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "labels": labels}


def run(*results: dict[str, Any], checks: Any = (), predictions: Any = (), **asked: Any) -> Compared:
    request = Request("id", "ring", (), "p", "h", "u", 0, 1.0, **{"nproc": 2, **asked})
    return Compared(request, Status(SUCCEEDED, 1.0, results=results, checks=checks, predictions=predictions))


def timed(median: float, low: float, high: float) -> list[dict[str, Any]]:
    return [reported("step", value, "ms", stat=stat) for stat, value in
            (("median", median), ("p10", low), ("p90", high))]  # fmt: skip


def text(lines: list[Line]) -> list[str]:
    return ["".join(piece for piece, _ in line).rstrip() for line in lines]


A = run(*timed(10, 9, 11), reported("sent", 8e6, "B"), variant="a", checks=({"name": "sum", "passed": True},))
B = run(*timed(10.5, 10, 12), reported("sent", 8e6, "B"), variant="b", checks=({"name": "sum", "passed": False},),
        predictions=({"name": "bytes", "predicted": 10, "measured": 15},))  # fmt: skip
C = run(*timed(20, 19, 21), variant="c", environment={"NCCL_P2P_DISABLE": "1"})
THREE = SideBySide(("one", "two", "three"), (A, B, C))


def test_what_differs_comes_first_and_numbers_stand_beside_the_baselines() -> None:
    lines = text(compare_lines.lines(THREE, 100))
    assert lines[0].startswith(" a ok  ring, a one") and lines[0].endswith("baseline")
    order = [next(n for n, line in enumerate(lines) if line.startswith(start)) for start in
             ("differs", "environment.NCCL", "result", "check", "measured / predicted")]  # fmt: skip
    assert order == sorted(order)
    (step,) = (line.split() for line in lines if line.startswith("step"))
    assert step == ["step,", "ms", "10", "±1", "10.5", "±2", "1.05", "~", "20", "±1", "2.00", "▲"]
    (sent,) = (line.split() for line in lines if line.startswith("sent"))
    assert sent == ["sent,", "B", "8", "MB", "8", "MB", "1.00", "=", "-", "-"]
    assert any(line.startswith("~ both scatter") for line in lines)
    (check,) = (line.split() for line in lines if line.startswith("sum"))
    assert check == ["sum", "ok", "!!", "failed", "-"]
    (told,) = (line.split() for line in lines if line.startswith("bytes"))
    assert told == ["bytes", "-", "1.500", "-"]


def test_another_baseline_turns_the_ratios() -> None:
    lines = text(compare_lines.lines(replace(THREE, baseline=2), 100))
    (step,) = (line.split() for line in lines if line.startswith("step"))
    assert step[2:4] == ["20", "±1"] and "0.50" in step and "▼" in step
    assert "a/c" in next(line for line in lines if line.startswith("result"))


@pytest.mark.parametrize("width", [20, 40, 80, 160])
@pytest.mark.parametrize("runs", [2, 5, 8])
def test_every_line_fits_and_is_harmless(width: int, runs: int) -> None:
    hostile = run(reported(HOSTILE, 1e300, HOSTILE, way=HOSTILE), variant=HOSTILE, parameters={HOSTILE: HOSTILE},
                  checks=({"name": HOSTILE, "passed": False},))  # fmt: skip
    compared = SideBySide((HOSTILE,) * runs, (hostile, *[A] * (runs - 1)), missing=(HOSTILE,))
    for line in compare_lines.lines(compared, width):
        assert all(piece.isprintable() for piece, _ in line)
        if width >= 40 + 26 * (runs - 1):
            assert cells(line) <= width


def test_charts_lie_over_each_other_or_side_by_side(own_folders: Path, lab: Experiment) -> None:
    folders = [filled_run(own_folders, "succeeded", number=number) for number in range(2)]
    snapshots = tuple(watch.read_whole(folder) for folder in folders)
    charts = ComparedCharts()
    charts.show(SideBySide(("one", "two"), (A, B), snapshots, lab.charts))
    titles = set()
    for _ in range(8):
        titles.add(charts.title)
        over = text(list(charts.shown_lines(80, 20)))
        charts.apart = True
        apart = text(list(charts.shown_lines(80, 20)))
        charts.apart = False
        assert apart[0].split()[:2] == ["a", "b"] and over != apart
        if charts.title == "loss":
            picture = charts._each[0][-1].text(39, 19).split("\n")
            assert [line[:39].rstrip() for line in apart[1:]] == picture, "as plotext drew it, spaces included"
        charts._turn(1)
    assert {"Bus bandwidth", "Bytes sent", "loss", "CPU of the host"} <= titles
    empty = ComparedCharts()
    empty.show(None)
    assert "nothing to draw" in text(list(empty.shown_lines(80, 20)))[0]


@pytest.fixture
def app(own_folders: Path, lab: Experiment) -> Iterator[LabApp]:
    with stopped(LabApp(own_folders)) as app:
        yield app


async def test_marked_runs_and_groups_are_laid_side_by_side(app: LabApp, own_folders: Path) -> None:
    folders = [filled_run(own_folders, "succeeded", number=number) for number in range(3)]
    for place, folder in enumerate(folders):
        following = folders[place + 1].id if place < 2 else None
        request = replace(folder.request(), group=folders[0].id, next=following, variant=f"v{place}")
        write_json(folder.request_file, request.document())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await until_shown(pilot, "no runs are compared yet")
        await pilot.press("3")
        await until_shown(pilot, "of 3")
        await pilot.press("space", "space", "c")
        await until_shown(pilot, "2 runs · baseline a")
        assert "v2" in screen_text(app) and "v0" not in screen_text(app)
        await pilot.press("b")
        await until_shown(pilot, "baseline b")
        await pilot.press("tab", "t")
        await until_shown(pilot, "1 of")
        await pilot.resize_terminal(40, 12)
        await pilot.press("escape")
        await until(pilot, lambda: app.current_mode == "runs", "back to the Runs")
        await pilot.resize_terminal(120, 40)
        app.runs.table.marked.clear()
        await pilot.press("c")
        await until_shown(pilot, "3 runs · baseline a")
        assert all(f"v{place}" in screen_text(app) for place in range(3))
