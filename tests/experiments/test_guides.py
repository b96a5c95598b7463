"""Every guide that labtui brings: it is read without a fault, fits its experiment, and its runs report what it asks.

The runs themselves are made in the slow tests: each run block as a reader would start it.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.catalog import sources
from labtui.catalog.guide import Compare, Expect, Predict, Run, read_guide
from labtui.catalog.manifest import Experiment, read_experiment
from labtui.machine.host import gpu_count
from labtui.runs import control, lesson, side_by_side, start
from labtui.runs.folder import RunFolder
from labtui.runs.records import STOPPED, SUCCEEDED
from labtui.runs.watch import Watch
from labtui.tui import wish
from labtui.tui.lesson import Lesson, pages
from labtui.tui.lesson_lines import page_lines
from labtui.tui.lines import cells

FOLDERS = sorted(path.parent for path in sources.built_in().glob("*/guide.md"))
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def by_name(folder: Path) -> str:
    return folder.name


@pytest.mark.parametrize("folder", FOLDERS, ids=by_name)
def test_a_guide_fits_its_experiment(folder: Path) -> None:
    guide = read_guide(folder, read_experiment(folder))
    assert guide.title_text.startswith("# ") and len(guide.steps) >= 2
    kinds = {type(part) for step in guide.steps for part in step.parts}
    assert {Run, Predict, Expect} <= kinds, "something to do, to guess and to learn from"
    compared = {id for step in guide.steps for part in step.parts if isinstance(part, Compare) for id in part.runs}
    assert compared <= {run.id for run in guide.runs}


@pytest.mark.parametrize("folder", FOLDERS, ids=by_name)
@pytest.mark.parametrize("width", [36, 48, 90])
def test_its_pages_fit_the_terminal(folder: Path, width: int) -> None:
    experiment = read_experiment(folder)
    read = Lesson(folder.name, pages(read_guide(folder, experiment)), experiment)
    for step in range(len(read.pages)):
        lines, placed = page_lines(read.with_progress(read.progress.at(step)), width)
        assert all(cells(line) <= width for line in lines)
        assert len(placed) == sum(1 for part in read.pages[step].parts if hasattr(part, "line"))


def blocks() -> Iterator[object]:
    for folder in FOLDERS:
        try:
            experiment = read_experiment(folder)
            guide = read_guide(folder, experiment)
        except ValueError:
            continue  # the tests above say so
        for block in guide.runs:
            yield pytest.param(experiment, block, id=f"{folder.name}-{block.id}")


@needs_torch
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("experiment", "block"), list(blocks()))
def test_a_guides_run_reports_what_the_guide_asks_for(experiment: Experiment, block: Run, own_folders: Path) -> None:
    gpus = gpu_count()
    if "cpu" not in experiment.variant(block.variant).devices and not gpus:
        pytest.skip("it needs a GPU")
    if block.device == "cuda" and not gpus:
        pytest.skip("it needs a GPU")
    wanted = wish.of_block(experiment, block)
    (folder,) = start.start(own_folders, experiment, [wanted.variant], wanted.settings, wanted.options())
    parts = [part for step in read_guide(experiment.folder, experiment).steps for part in step.parts]
    asked = [part for part in parts if isinstance(part, Predict | Expect) and part.of == block.id]
    if not asked and not any(isinstance(part, Compare) and block.id in part.runs for part in parts):
        _see_it_going(folder)  # it may go on for long, to be stopped
        return
    status = control.wait(folder)
    assert status.state == SUCCEEDED, status.reason
    run = side_by_side.read(folder)
    found = [(part.line, lesson.result(run, part.result, part.where)) for part in asked]
    assert not [f"line {line}: {one.why}" for line, one in found if isinstance(one, lesson.Missing)]


def _see_it_going(folder: RunFolder) -> None:
    """Waits until it has reported progress or has ended, then ends it."""
    following = Watch(folder)
    while (now := following.poll(time.time())).live and now.done is None:
        control.pause(folder.status(), 0.2)
    if now.live:
        control.stop(folder)
    assert control.wait(folder).state in (SUCCEEDED, STOPPED)
