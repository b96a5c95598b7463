"""`?` says the focused pane's keys first, each key once; the first start's page fits; exports and pictures by a key."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_lab import HOSTILE, filled_run, screen_text, stopped, until, until_shown
from textual import events

from labtui.catalog.manifest import Experiment
from labtui.runs import welcome
from labtui.tui import actions
from labtui.tui.app import LabApp
from labtui.tui.lines import cells
from labtui.tui.screens.help import sections
from labtui.tui.screens.welcome import page
from labtui.tui.widgets.pane import Pane

LAST = (actions.LIST, actions.SCREEN, actions.APP)


@pytest.fixture
def app(own_folders: Path, lab: Experiment) -> Iterator[LabApp]:
    with stopped(LabApp(own_folders)) as app:
        yield app


# ?


def test_the_focused_panes_keys_come_first_and_once() -> None:
    class Log(Pane):
        title = "Log of rank 0"
        places = (actions.PANE, actions.LIST)

    found = sections((actions.RUN, actions.PANE, actions.SCREEN, actions.APP), LAST, Log())
    assert found == [
        ("in focus: Log of rank 0", (actions.PANE, actions.LIST)),
        ("Run", (actions.RUN,)),
        ("everywhere", (actions.SCREEN, actions.APP)),
    ]


def test_a_pane_whose_keys_do_not_work_on_the_screen_has_none() -> None:
    found = sections((actions.SIMULATE, actions.APP), (actions.APP,), Pane())
    assert [title for title, _ in found][:1] == ["Simulate"]


async def test_it_is_about_where_one_is(app: LabApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("3", "question_mark")
        await until_shown(pilot, "in focus: ")
        text = screen_text(app)
        assert text.index("in focus") < text.index("one line up")
        await pilot.press("G")
        await until_shown(pilot, "states")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.runs, "the Runs again")


# The first start


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12), (20, 6), (200, 60)])
def test_the_page_fits(size: tuple[int, int]) -> None:
    width, height = size
    lines = page(Path("/home/ann/a/rather/long/path/to/the/folder/of/all/logs") / HOSTILE.replace("\x00", ""), *size)
    text = "\n".join("".join(piece for piece, _ in line) for line in lines)
    assert len(lines) <= height and all(cells(line) == width for line in lines)
    assert text.replace("\n", "").isprintable()
    assert "Any key" in text
    if width >= 80:
        for wanted in ("1 Lab", "6 Machine", "enter", "ctrl+p", "Runs are kept as plain files in /home", "only once"):
            assert wanted in text


async def test_the_first_start_says_what_it_is_and_any_key_goes_on(own_folders: Path, lab: Experiment) -> None:
    welcome.marker().unlink()
    for first in (True, False):
        with stopped(LabApp(own_folders, welcome=True)) as app:
            async with app.run_test(size=(80, 24)) as pilot:
                if first:
                    await until_shown(pilot, "Welcome to labtui")
                    app.screen.post_message(events.Key("x", "x"))  # two at once
                    await pilot.press("x")
                await until_shown(pilot, "A lab test")
                assert app.is_running and app.screen is app.lab
    assert welcome.marker().exists()


# Exports and pictures


async def test_a_run_is_exported_in_the_chosen_form(
    app: LabApp, own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled_run(own_folders, "succeeded")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    async with app.run_test(size=(160, 40)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("3")
        await until_shown(pilot, "lab_test")
        await pilot.press("E")
        await until_shown(pilot, "Export into the current folder")
        await pilot.press("enter")
        await until_shown(pilot, f"written: {tmp_path}"[:40])
        assert (Path.cwd() / f"{folder.id}.md").read_text().startswith("#")
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "run", "the run")
        await pilot.press("E", "down", "enter")
        await until(pilot, (Path.cwd() / f"{folder.id}.csv").exists, "the csv")
        (Path.cwd() / f"{folder.id}.json").mkdir()
        monkeypatch.chdir("/proc")
        await pilot.press("E", "enter")
        await until_shown(pilot, "the export can't be written:")


async def test_a_picture_of_the_screen_is_written(app: LabApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    async with app.run_test(size=(120, 30)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("ctrl+s")
        await until_shown(pilot, "written: ")
        await pilot.press("question_mark", "f12")
        await until(pilot, lambda: len(list(Path.cwd().iterdir())) == 2, "one of the keys, too")
    for path in Path.cwd().iterdir():
        text = path.read_text()
        assert path.name.startswith("labtui-lab-") and path.suffix == ".svg"
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert "url(http" not in text and "@font-face" not in text, "it asks nobody for a font"
