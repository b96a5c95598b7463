"""Whole screens as text, at the sizes that people have, beside what they looked like when somebody last looked.

A change of a screen that was meant is written down, and then looked at like any other change, by

    LABTUI_WRITE_SNAPSHOTS=1 .venv/bin/python -m pytest tests/tui/test_snapshots.py

Text rather than pictures: one sees in the difference what became of the screen, and no new version of Textual touches
them by drawing alone. Colours are not in them, but for the one without: it must be grey.
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_lab import NOW, event, filled_run, gpu_run, made_run, screen_text, stopped, until, write_events
from textual.pilot import Pilot

from labtui.catalog.manifest import Experiment
from labtui.runs import labelling, progress
from labtui.runs.folder import write_json
from labtui.runs.progress import Progress
from labtui.runs.records import FAILED, LOST, STOPPED, Labels
from labtui.tui import sampling
from labtui.tui.app import LabApp

SNAPSHOTS = Path(__file__).parent / "snapshots"
WRITE = bool(os.environ.get("LABTUI_WRITE_SNAPSHOTS"))  # before a test is kept from seeing the user's settings
ASK = "How fast is it?"
GUIDE = f"""# The guide

It says [rank0], and that *theory* comes `first`.

## First

Four numbers make a mean.

```quiz
question = "What is the mean of 2 and 4?"
number = 3
tolerance = 0
why = "Half of 6."
```
```run
id = "base"
variant = "long"
```
```predict
of = "base"
result = "busbw"
where = {{ size_bytes = 1024 }}
ask = "{ASK}"
unit = "GB/s"
```
```expect
of = "base"
result = "busbw"
where = {{ size_bytes = 1024 }}
at_least = 9
good = "So fast."
```

## Second

```run
id = "other"
```
```compare
runs = ["base", "other"]
```
"""


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One moment, one host, one time zone."""
    now = time.gmtime(NOW)
    strftime = time.strftime
    host = os.uname()
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(time, "strftime", lambda shape, t=now: strftime(shape, t))
    monkeypatch.setattr(time, "localtime", lambda t=NOW: time.gmtime(t))
    monkeypatch.setattr(sampling, "SILENCE_S", 1e9)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((host[0], "gpu-server", *host[2:])))


def shown(app: LabApp) -> str:
    return "".join(f"{line.rstrip()}\n" for line in screen_text(app).split("\n"))


async def compare(pilot: Pilot[Any], name: str, *texts: str) -> None:
    """Waits until the screen is as it was, or fails with what is different; `texts` are there once all has come."""
    app: LabApp = pilot.app  # type: ignore[assignment]
    file = SNAPSHOTS / f"{name}.txt"
    await until(pilot, lambda: all(text in shown(app) for text in texts), f"{texts} on the screen")
    if WRITE:
        await settled(pilot, lambda: shown(app))
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown(app))
    wanted = file.read_text() if file.exists() else ""
    try:
        await until(pilot, lambda: shown(app) == wanted, "the screen of the snapshot")
    except AssertionError:
        lines = difflib.unified_diff(wanted.splitlines(), shown(app).splitlines(), f"{file.name}", "now", lineterm="")
        raise AssertionError("\n".join(["the screen has changed:", *lines])) from None


async def settled(pilot: Pilot[Any], look: Callable[[], str]) -> None:
    """Until nothing has changed for a while; only where snapshots are written."""
    before, same = look(), 0
    while same < 20:
        await pilot.pause(0.05)
        now = look()
        before, same = now, same + 1 if now == before else 0


@pytest.fixture
def guide(own_folders: Path, lab: Experiment) -> None:
    """Somebody has come half through the first step."""
    (lab.folder / "guide.md").write_text(GUIDE)
    result = {"name": "busbw", "value": 11.2, "unit": "GB/s", "labels": {"size_bytes": 1024}}
    base = filled_run(own_folders, "succeeded", results=(result,))
    write_json(base.request_file, {**base.request().document(), "variant": "long"})
    reached = Progress().with_run("base", base.id).with_guess(ASK, 11.0).with_answer("What is the mean of 2 and 4?", 3)
    progress.write(lab.name, reached)


async def test_the_lab_at_80_x_24(own_folders: Path, guide: None) -> None:
    with stopped(LabApp(own_folders)) as app:
        async with app.run_test(size=(80, 24)) as pilot:
            await compare(pilot, "lab_80x24", "1 run", "make a mean")


async def test_a_guide_at_40_x_12_and_at_120_x_40(own_folders: Path, guide: None) -> None:
    with stopped(LabApp(own_folders)) as app:
        async with app.run_test(size=(40, 12)) as pilot:
            await until(pilot, lambda: app.lab.guide.lesson and app.lab.guide.lesson.looks, "the guide and its run")
            await pilot.press("tab")
            await until(pilot, lambda: app.lab.focused is app.lab.guide, "the focus in the guide")
            for _ in range(3):
                await pilot.press("tab")
            await compare(pilot, "guide_40x12", "your guess was")
            await pilot.resize_terminal(120, 40)
            await compare(pilot, "guide_120x40", "So fast.")


async def test_a_run_on_four_gpus_at_120_x_40(own_folders: Path, lab: Experiment) -> None:
    run = gpu_run(own_folders)
    write_events(
        run,
        event("check", name="same weights", value=0.0, at_most=1e-6, passed=True),
        event("prediction", name="bytes sent", predicted=6442450, measured=6442450, unit="B"),
        event("result", name="busbw", value=11.2, unit="GB/s", labels={"size_bytes": 1024}),
        event("result", name="busbw", value=12.2, unit="GB/s", labels={"size_bytes": 2048}),
    )
    with stopped(LabApp(own_folders, run)) as app:
        async with app.run_test(size=(120, 40)) as pilot:
            await compare(pilot, "run_120x40", "hello from rank 0", "bytes sent", "power cap")


async def test_a_run_in_ascii_at_80_x_24(own_folders: Path, lab: Experiment) -> None:
    run = filled_run(own_folders)
    with stopped(LabApp(own_folders, run, ascii=True)) as app:
        async with app.run_test(size=(80, 24)) as pilot:
            await compare(pilot, "run_ascii_80x24", "hello from rank 0", "same weights")
            assert shown(app).isascii()


async def test_the_runs_without_colour(own_folders: Path, lab: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    states = ("running", "succeeded", FAILED, STOPPED, LOST)
    runs = [made_run(own_folders, state, number=n, reason=f"why it is {state}") for n, state in enumerate(states)]
    labelling.write(runs[1], Labels(tags=("reference",), note="the good one", star=True))
    monkeypatch.setenv("NO_COLOR", "1")
    with stopped(LabApp(own_folders)) as app:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("3")
            await until(pilot, lambda: "lab_test" in shown(app), "the runs")
            await pilot.press("down", "space")
            await compare(pilot, "runs_no_color_80x24", "1 marked", "reference")
            strips = app.screen._compositor.render_strips()
            colours = {
                colour.triplet
                for strip in strips
                for segment in strip
                for colour in (segment.style.color, segment.style.bgcolor)
                if segment.style is not None and colour is not None and colour.triplet is not None
            }
            assert colours and all(len(set(colour)) == 1 for colour in colours), colours


async def test_two_runs_side_by_side_at_120_x_40(own_folders: Path, lab: Experiment) -> None:
    for number, busbw in enumerate((11.2, 9.7)):
        results = tuple(
            {"name": "busbw", "value": busbw + size, "unit": "GB/s", "labels": {"size_bytes": 1024 << size}}
            for size in range(3)
        )
        checks = ({"name": "same weights", "value": 0.0, "at_most": 1e-6, "passed": not number},)
        run = filled_run(own_folders, "succeeded", number=number, results=results, checks=checks)
        write_json(run.request_file, {**run.request().document(), "parameters": {"bucket_mb": 2 << number}})
    with stopped(LabApp(own_folders)) as app:
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("3")
            await until(pilot, lambda: "1 of 2" in shown(app), "the runs")
            await pilot.press("space", "down", "space", "c")
            await compare(pilot, "compare_120x40", "baseline", "bucket_mb", "same weights")


def test_there_is_no_snapshot_without_a_test() -> None:
    named = Path(__file__).read_text()
    assert all(f'"{file.stem}"' in named for file in SNAPSHOTS.glob("*.txt"))
