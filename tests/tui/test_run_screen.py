"""The Run screen's panes and keys: places, search and filter, the timeline, copying, stopping, the bell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_lab import HOSTILE, event, filled_run, gpu_run, screen_text, stopped, until, until_shown, write_events

from labtui.catalog.manifest import Experiment
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Status
from labtui.tui.app import LabApp


@pytest.fixture
def app(own_folders: Path, lab: Experiment) -> Iterator[LabApp]:
    with stopped(LabApp(own_folders)) as app:
        yield app


def add_spans(folder: RunFolder, rank: int = 0) -> None:
    started = folder.status().started
    assert started is not None
    steps = (("compute", "forward", 1.0, 1.2), ("compute", "backward", 1.2, 1.6), ("communication", "bucket", 1.3, 1.7))
    spans = (event("span", lane=lane, name=name, start=started + a, end=started + b) for lane, name, a, b in steps)
    write_events(folder, *spans, rank=rank)


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (40, 12)])
async def test_seven_panes_share_four_places(app: LabApp, own_folders: Path, size: tuple[int, int]) -> None:
    add_spans(gpu_run(own_folders))
    async with app.run_test(size=size) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "hello from rank 0")
        found = screen_text(app)
        if size[0] >= 120:
            assert "T timeline" in found and "P processes" in found
        for key, words in (
            ("T", "forward: from"), ("P", "4 of 4 ranks alive"), ("C", "loss"), ("F", "Findings"), ("p", "SHM"),
            ("m", "power cap"), ("L", "hello from rank 0"),
        ):  # fmt: skip
            await pilot.press(key)
            await until_shown(pilot, words)
            lines = screen_text(app).split("\n")
            assert len(lines) == size[1] and all(line.isprintable() for line in lines)


async def test_the_timeline_is_walked_by_keys_and_copied(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = gpu_run(own_folders, "succeeded")
    add_spans(folder)
    add_spans(folder, 1)
    copied: list[str] = []
    monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "T")
        await until_shown(pilot, "forward: from 1.000 s")
        assert "at the same time: rank 1 forward" in screen_text(app).replace("│", "").replace("\n", "")
        await pilot.press("full_stop")
        await until_shown(pilot, "backward: from 1.200 s")
        await pilot.press("down", "y")
        await until_shown(pilot, "copied: what is under the cursor")
        assert copied[0].startswith("rank 0 · communication: bucket: from 1.300 s")
        width = app.run_screen.timeline.view.seconds
        await pilot.press("plus", "right", "greater_than_sign", "minus", "0")
        await pilot.pause()
        assert app.run_screen.timeline.view.seconds == pytest.approx(width)
        await pilot.press("m", "comma", "y")
        await until_shown(pilot, "copied: these numbers")
        assert " at 0:" in copied[1] and "util %" in copied[1]
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.run_screen.machine.at is None, "esc: back to the end")
        assert app.current_mode == "run"


async def test_logs_are_searched_filtered_wrapped_and_merged(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders)
    (folder.ranks / "0" / "stdout.log").write_text("".join(f"line {n}\n" for n in range(900)) + "x" * 200 + "END\n")
    (folder.ranks / "1" / "stderr.log").write_text(f"{HOSTILE}\nTraceback (most recent call last):\n  in main\n")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "line 899")
        await pilot.press("slash", *"line 25", "enter")
        await until_shown(pilot, "line 259")
        assert app.run_screen.log_pane.hit == 259, "from the end backwards"
        await pilot.press("N")
        await until(pilot, lambda: app.run_screen.log_pane.hit == 258, "the one before")
        await pilot.press("n", "n")
        await until_shown(pilot, "from the log's other end")
        await pilot.press("escape", "slash", *"/(a+)+/", "enter")
        await until_shown(pilot, "a repeat within a repeat")
        await pilot.press("escape", "ampersand", *"line 88", "enter")
        await until_shown(pilot, "11 of 901")
        assert "line 899" not in screen_text(app) and "line 889" in screen_text(app)
        await pilot.press("escape", "w")
        await until_shown(pilot, "xEND")
        await pilot.press("t")
        await until_shown(pilot, "in main")
        assert app.run_screen.log_pane.name_shown == "1 stderr"
        await pilot.press("escape", "right")
        await until_shown(pilot, "[1!] Traceback")
        await pilot.press("o")
        await until_shown(pilot, "the merged log is no file")
        assert all(line.isprintable() for line in screen_text(app).split("\n"))


async def test_following_stops_when_one_scrolls_up(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders)
    log = folder.ranks / "0" / "stdout.log"
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "line 99")
        await pilot.press("up")
        await until_shown(pilot, "f follows")
        with log.open("a") as file:
            file.write("more\n" * 5)
        await until_shown(pilot, "+5 new")
        await pilot.press("f")
        await until_shown(pilot, "105 lines")


async def test_the_bell_rings_when_the_run_on_show_ends(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled_run(own_folders)
    rung: list[Any] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(app.current_mode))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "running")
        await pilot.press("1")
        status = folder.status().document()
        write_json(folder.status_file, Status.read({**status, "state": "failed", "ended": 1.0}).document())
        await until(pilot, lambda: rung, "the bell rings in another screen too")
        await pilot.press("2")
        await until_shown(pilot, "failed")
        assert rung == ["lab"]


async def test_a_run_that_is_being_stopped_can_be_hurried(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled_run(own_folders)

    def stop(asked: RunFolder) -> None:
        with folder.agent_log.open("a") as file:
            file.write("12:03:51 SIGTERM to torchrun (pid 412)\n")

    folder.agent_log.write_text("12:00:00 owner\n")
    monkeypatch.setattr("labtui.runs.control.stop", stop)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "running")
        await pilot.press("s", "y")
        await until_shown(pilot, "SIGTERM sent to torchrun (pid 412); SIGKILL in")
        await pilot.press("s")
        await until_shown(pilot, "being stopped already")
        await pilot.press("n")
        status = folder.status().document()
        write_json(folder.status_file, {**status, "state": "stopped", "reason": "on request", "ended": 1.0})
        await until_shown(pilot, "has ended: stopped, on request")
