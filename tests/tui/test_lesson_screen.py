"""A guide in the Lab, as a reader goes through it: steps, runs, guesses, answers; and what is kept of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_lab import event, filled_run, made_run, screen_text, stopped, until, until_shown, write_events
from textual.pilot import Pilot

from labtui.catalog.manifest import Experiment
from labtui.runs import progress, start
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.progress import Progress
from labtui.tui.app import LabApp
from labtui.tui.screens.form import FormScreen

GUIDE = """# The guide

It says [rank0].

## First

```run
id = "base"
variant = "long"
```
```predict
of = "base"
result = "busbw"
where = { size_bytes = 1024 }
ask = "How fast is it?"
unit = "GB/s"
```
```expect
of = "base"
result = "busbw"
where = { size_bytes = 1024 }
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
```quiz
question = "Which is right?"
choices = ["one", "two"]
correct = [1]
why = "It comes second."
```
"""


@pytest.fixture
def app(own_folders: Path, lab: Experiment) -> Iterator[LabApp]:
    (lab.folder / "guide.md").write_text(GUIDE)
    with stopped(LabApp(own_folders)) as app:
        yield app


@pytest.fixture
def started(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was started; each becomes a run that has already ended."""
    asked: list[tuple[Any, ...]] = []

    def fake(root: Path, experiment: Experiment, variants: Any, settings: Any, options: Any) -> list[RunFolder]:
        asked.append((list(variants), dict(settings), options))
        return [ended_run(own_folders, len(asked), variants[0])]

    monkeypatch.setattr(start, "start", fake)
    return asked


def ended_run(root: Path, number: int = 1, variant: str = "long") -> RunFolder:
    folder = filled_run(root, "succeeded", number=number)
    request = json.loads(folder.request_file.read_text())
    write_json(folder.request_file, {**request, "variant": variant})
    status = json.loads(folder.status_file.read_text())
    results = [json.loads(line) for line in folder.rank_events(0).read_text().splitlines() if '"result"' in line]
    write_json(folder.status_file, {**status, "results": results})
    return folder


async def down_to(pilot: Pilot[Any], app: LabApp, wanted: Callable[[Any], object]) -> None:
    """Down through text and blocks until such a block is chosen."""
    for _ in range(60):
        if app.lab.guide.chosen is not None and wanted(app.lab.guide.chosen):
            return
        await pilot.press("down")
    raise AssertionError(f"never chosen\n{screen_text(app)}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12)])
async def test_a_guide_is_gone_through_by_keys(
    app: LabApp, started: list[tuple[Any, ...]], size: tuple[int, int]
) -> None:
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.lab.reader, "the guide is read")
        await pilot.press("tab")
        await until_shown(pilot, "It says [rank0].")
        await until(pilot, lambda: app.lab.guide.has_focus, "the guide has the focus")
        await down_to(pilot, app, lambda block: getattr(block, "id", "") == "base")
        await pilot.press("enter")
        await until_shown(pilot, "00:09 · all 2")
        assert app.current_mode == "lab", "who reads a guide stays in it"
        assert [asked[:2] for asked in started] == [(["long"], {})]
        await down_to(pilot, app, lambda block: getattr(block, "ask", ""))
        assert "11.2" not in screen_text(app)
        await pilot.press("enter", *"12 GB/s".replace(" ", ""), "enter")
        await until_shown(pilot, "within 10 %")
        assert "11.2 GB/s" in screen_text(app)
        await pilot.press("n")
        await until_shown(pilot, "step 2 of 2")
        await down_to(pilot, app, lambda block: getattr(block, "choices", ()))
        await pilot.press("enter")
        await until_shown(pilot, "Your answer")
        await pilot.press("down", "enter")
        await until_shown(pilot, "It comes second.")
        text = screen_text(app)
        assert len(text.split("\n")) == size[1] and all(line.isprintable() for line in text.split("\n"))
    await until(pilot, lambda: progress.read("lab_test").answers, "the progress is kept")
    kept = progress.read("lab_test")
    assert kept.step == 1 and kept.guesses == {"How fast is it?": 12.0} and kept.answers == {"Which is right?": [1]}
    assert set(kept.runs) == {"base"}


async def test_it_goes_on_where_it_was_left(app: LabApp, own_folders: Path) -> None:
    runs = {"base": ended_run(own_folders).id, "other": ended_run(own_folders, 2, "").id}
    progress.write("lab_test", Progress(1, runs, {"How fast is it?": 12.0}, {"Which is right?": [0]}))
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "11.2 GB/s")
        text = screen_text(app)
        assert "step 2 of 2" in text and "x 1" in text and "!! not right" in text
        await pilot.press("tab", "tab")
        asked: list[tuple[str, ...]] = []
        app.compare.open = lambda ids: asked.append(tuple(ids))  # type: ignore[method-assign,assignment]
        await pilot.press("enter")
        await until(pilot, lambda: asked == [tuple(runs.values())], "the runs are to be compared")


async def test_a_live_run_moves_its_block(app: LabApp, own_folders: Path) -> None:
    folder = made_run(own_folders, "running")
    progress.write("lab_test", Progress(runs={"base": folder.id, "other": "20260101-000000-lab_test-0000"}))
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "▎ R Run base")
        write_events(folder, event("progress", done=3, total=12))
        await until_shown(pilot, "3 of 12")
        await pilot.press("n")
        await until_shown(pilot, "is not there any more")


async def test_a_number_can_be_seen_without_a_guess(app: LabApp, own_folders: Path) -> None:
    progress.write("lab_test", Progress(runs={"base": ended_run(own_folders).id}))
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "it comes after your guess")
        await pilot.press("s")
        await until_shown(pilot, "choose a question")
        await pilot.press("tab", "tab", "s")
        await until_shown(pilot, "shown without a guess")
        assert "So fast." in screen_text(app)


async def test_enter_starts_nothing_that_is_not_in_view(
    app: LabApp, lab: Experiment, started: list[tuple[Any, ...]]
) -> None:
    (lab.folder / "guide.md").write_text("## First\n\n" + "A line.\n\n" * 30 + GUIDE[GUIDE.index("```run") :])
    async with app.run_test(size=(40, 12)) as pilot:
        await until(pilot, lambda: app.lab.reader, "the guide is read")
        await pilot.press("tab", "enter")
        await until_shown(pilot, "nothing to act on is in view")
        await pilot.press("tab")
        await until(pilot, lambda: app.lab.guide.chosen, "tab goes to the first block")
        await pilot.press("G")
        assert getattr(app.lab.guide.chosen, "result", "") == "busbw", "what is partly in view can be chosen"
        assert not started


async def test_what_is_no_number_is_told(app: LabApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.lab.reader, "the guide is read")
        await pilot.press("tab", "tab", "enter", *"fast", "enter")
        await until_shown(pilot, "fast is no number")
        assert not progress.read("lab_test").guesses


async def test_enter_in_the_list_runs_the_steps_run_and_watches_it(
    app: LabApp, started: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "step     base")
        await pilot.press("n")
        await until_shown(pilot, "step     other")
        await pilot.press("p", "enter", "enter")
        await until(pilot, lambda: app.current_mode == "run", "the run is watched")
        assert [asked[0] for asked in started] == [["long"]], "a key that is held down starts one run"
        await pilot.press("1", "v", "down", "down", "enter", "enter")
        await until(pilot, lambda: len(started) == 2, "a chosen variant goes before the step's run")
        assert started[1][0] == ["wrong"]


async def test_a_form_is_filled_checked_and_started(
    app: LabApp, lab: Experiment, started: list[tuple[Any, ...]], own_folders: Path
) -> None:
    ended_run(own_folders, 7)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "1 run ")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, FormScreen), "the form")
        await pilot.press("down", "9", "9", "up")
        await until_shown(pilot, "1 to mend")
        await pilot.press("enter")
        await until_shown(pilot, "lab_test takes 1 to 64 processes, not 299")
        await pilot.press("ctrl+d", "backspace", "4", "q", "backspace")
        await until(pilot, lambda: "to mend" not in screen_text(app), "it is mended")
        assert isinstance(app.screen, FormScreen), "q is a letter here"
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "›   --nproc" in screen_text(app), "as last time")
        await pilot.press("ctrl+u", "4", "enter")
        await until(pilot, lambda: started, "it is started")
        assert started[0][0] == ["long"] and started[0][2].nproc == 4


async def test_the_exact_command_is_shown_and_copied(app: LabApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "planned", lambda root, experiment, variant, *rest: f"env A=1 torchrun {variant} x")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.lab.reader, "the guide is read")
        await pilot.press("c")
        await until_shown(pilot, "env A=1 torchrun long x")
        assert app.clipboard == "env A=1 torchrun long x"
        assert "or: labtui run lab_test --variant long" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.lab, "it is left")


async def test_progress_that_cannot_be_kept_is_told(app: LabApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(progress, "write", refuse)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.lab.reader, "the guide is read")
        await pilot.press("n")
        await until_shown(pilot, "where you are in the guide can't be kept")
