"""The screens over a small lab, at three sizes, with real reading threads and nothing started."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_lab import (
    HOSTILE,
    NCCL,
    event,
    filled_run,
    gpu_run,
    lost,
    made_run,
    reading,
    sample,
    screen_text,
    stopped,
    until,
    until_shown,
    write_events,
)  # fmt: skip

from labtui.catalog.manifest import Experiment
from labtui.catalog.reading import CatalogError
from labtui.runs import control, start
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Status
from labtui.tui import sampling
from labtui.tui.app import LabApp, delete_runs
from labtui.tui.words import goodbye

SIZES = [(80, 24), (120, 40), (40, 12)]


@pytest.fixture
def app(own_folders: Path, lab: Experiment) -> Iterator[LabApp]:
    with stopped(LabApp(own_folders)) as app:
        yield app


def check_lines(app: LabApp) -> None:
    """Every line of the screen is whole and harmless."""
    height = app.size.height
    lines = screen_text(app).split("\n")
    assert len(lines) == height
    assert all(line.isprintable() for line in lines)


# Lab


@pytest.mark.parametrize("size", SIZES)
async def test_the_lab_lists_experiments_guide_and_command(app: LabApp, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        await until_shown(pilot, "A lab test")
        text = screen_text(app)
        assert "Data" in text and "Pipeline" in text and "Another one" in text
        assert "odd" in text and "1 broken" in text
        if size[0] >= 80:
            await until_shown(pilot, "It says [rank0].")
            assert "labtui run lab_test" in text
        else:
            await pilot.press("tab")
            await until_shown(pilot, "It says [rank0].")
        check_lines(app)


async def test_a_broken_manifest_is_shown_with_its_error(app: LabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("G")
        await until_shown(pilot, "topic is [rank0], data expected")
        await pilot.press("enter")
        await until_shown(pilot, "odd can't be run")


async def test_experiments_show_the_state_of_their_newest_run(app: LabApp, own_folders: Path) -> None:
    made_run(own_folders, "failed", number=0)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "›!! A lab test")
        assert "1 run " in screen_text(app)
        made_run(own_folders, "running", number=1)
        await until_shown(pilot, "›R  A lab test")
        assert "R 1 live" in screen_text(app)


async def test_the_guide_can_be_scrolled(app: LabApp, lab: Experiment) -> None:
    (lab.folder / "guide.md").write_text("# The guide\n\n" + "A line.\n\n" * 40 + "## The end\n\nIt ends here.\n")
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "The guide")
        await pilot.press("tab", "G")
        await until_shown(pilot, "It ends here.")
        await pilot.press("g")
        await until_shown(pilot, "The guide")


# The machine strip


async def test_the_strip_shows_a_live_runs_gpus(app: LabApp, own_folders: Path) -> None:
    folder = gpu_run(own_folders)
    async with app.run_test(size=(118, 36)) as pilot:
        await until_shown(pilot, "held back by")
        text = screen_text(app)
        assert "─ lab_test ─" in text and "power cap" in text and "11.2/16.0" in text
        assert "2  n/a  GPU is lost since" in text
        await until_shown(pilot, "4x RTX 4080")
        strip = app.lab.strip.region
        assert screen_text(app).split("\n")[strip.y][app.lab.experiments.size.width] == "┴"
        check_lines(app)
        await pilot.resize_terminal(80, 24)
        await until_shown(pilot, "labtui run lab_test")
        assert "GPU is lost since" in screen_text(app) and "held back by" in screen_text(app)
        check_lines(app)
        await pilot.resize_terminal(40, 12)
        await until_shown(pilot, "GPU %  97! 97 n/a 97")
        check_lines(app)
        with (folder.telemetry / "here.jsonl").open("a") as file:
            file.write(json.dumps(sample(time.time(), [reading(0), reading(1, util=3), lost(2), reading(3)])) + "\n")
        await until_shown(pilot, "GPU %  97 3 n/a 97")


async def test_without_a_run_a_sampler_of_ours_measures(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = {"machine": {"gpus": [], "gpus_why": "no NVIDIA driver [x] \x1b[2J"}}
    said = "\n".join(json.dumps(one) for one in (why, sample(time.time())))
    monkeypatch.setattr(sampling, "COMMAND", ("sh", "-c", 'printf "%s\\n" "$0"; cat', said))
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "no GPU: no NVIDIA driver [x]")
        assert "120 GB free" in screen_text(app)
        check_lines(app)
        source = app.machine_watcher._source
        assert isinstance(source, sampling.OwnSampler) and source.pid is not None
        await pilot.press("2")
        await until(pilot, lambda: app.current_mode == "run", "another screen")
        assert source.pid is not None, "it goes on, so that a minute is known when one comes back"
        made_run(own_folders, "running")
        await until(pilot, lambda: source.pid is None, "a live run measures itself")


async def test_no_sampler_is_started_before_the_first_paint(app: LabApp, monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[bool] = []
    start = sampling.OwnSampler._start
    monkeypatch.setattr(
        sampling.OwnSampler,
        "_start",
        lambda self, clock: (painted.append("leave" in screen_text(app)), start(self, clock)),
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: painted, "the sampler is started")
        assert painted == [True]


# Starting


async def test_a_run_is_started_in_the_chosen_variant_and_shown(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def fake(root: Path, experiment: Experiment, variants: Any, settings: Any, options: Any) -> list[RunFolder]:
        asked.append((root, experiment.name, list(variants), dict(settings)))
        return [filled_run(own_folders)]

    monkeypatch.setattr(start, "start", fake)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("v")
        await until_shown(pilot, "it takes long")
        await pilot.press("down", "enter")
        await until_shown(pilot, "--variant long")
        await pilot.press("enter")
        await until_shown(pilot, "Findings")
        await until_shown(pilot, "A lab test · default")
        assert asked == [(own_folders, "lab_test", ["long"], {})]
        await pilot.press("escape")
        await until_shown(pilot, "Experiments")


async def test_what_cannot_be_started_is_a_sentence(app: LabApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> list[RunFolder]:
        raise CatalogError("lab_test runs on cuda only, and no GPU was found [x]")

    monkeypatch.setattr(start, "start", refuse)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("enter")
        await until_shown(pilot, "!! lab_test runs on cuda only, and no GPU was found [x]")
        await pilot.press("escape")
        await until(pilot, lambda: "no GPU" not in screen_text(app), "esc takes the notice away")


async def test_an_error_that_nobody_knows_ends_the_app_with_code_1(
    app: LabApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> list[RunFolder]:
        raise RuntimeError("never thought of")

    monkeypatch.setattr(start, "start", fail)
    with pytest.raises(RuntimeError, match="never thought of"):
        async with app.run_test(size=(80, 24)) as pilot:
            await until_shown(pilot, "A lab test")
            await pilot.press("enter")
            await until(pilot, lambda: app.return_code is not None, "the app ends")
    assert app.return_code == 1


# Run


@pytest.mark.parametrize("size", SIZES)
async def test_a_live_run_shows_all_that_it_reported(app: LabApp, own_folders: Path, size: tuple[int, int]) -> None:
    filled_run(own_folders)
    async with app.run_test(size=size) as pilot:
        await until_shown(pilot, "2 shows lab_test")
        await pilot.press("2")
        await until_shown(pilot, "hello from rank 0")
        assert "2/12" in screen_text(app)
        found = screen_text(app)
        for _ in range(5):
            check_lines(app)
            await pilot.press("tab")
            await pilot.pause()
            found += screen_text(app)
        for text in ("same weights", "812 MB", "Bus bandwidth, GB/s", "hello from rank 0"):
            assert text in found
        if size[0] >= 80:
            assert "failed as" in found and "1 of 3" in found


async def test_charts_and_logs_are_turned_by_keys(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders)
    (folder.ranks / "1" / "stderr.log").write_text("Traceback\n")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "hello from rank 0")
        await pilot.press("right")
        await until_shown(pilot, "hello from rank 1")
        await pilot.press("e")
        await until_shown(pilot, "Traceback")
        await pilot.press("left", "tab", "right")
        await until_shown(pilot, "Bytes sent, B")
        await pilot.press("right")
        await until_shown(pilot, "loss, nats")


@pytest.mark.parametrize("size", [(160, 45), (118, 36), (80, 24), (40, 12)])
async def test_a_gpu_runs_machine_and_paths(app: LabApp, own_folders: Path, size: tuple[int, int]) -> None:
    gpu_run(own_folders)
    async with app.run_test(size=size) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "hello from rank 0")
        await pilot.press("m")
        await until_shown(pilot, "GPU 0 · RTX 4080 · rank 3" if size[0] > 80 else "─ GPU 0 · RTX")
        text = screen_text(app)
        assert "power cap" in text and "━" in text and "loss" in text and "0:00" in text
        check_lines(app)
        await pilot.press("right", "right")
        await until_shown(pilot, "GPU 2")
        assert "GPU is lost since" in screen_text(app)
        await pilot.press("right", "right")
        await until_shown(pilot, "Ranks")
        assert "812 MB" in screen_text(app)
        check_lines(app)
        await pilot.press("p")
        await until_shown(pilot, "SHM")
        assert "measured 10.9 to 11.2 of 15.8 GB/s" in screen_text(app).replace("│", "")
        await pilot.press("right")
        await until_shown(pilot, "Paths: ceiling")
        await pilot.press("right")
        await until_shown(pilot, "Paths: measured")
        check_lines(app)
        assert ("Findings" in screen_text(app)) == (size[0] >= 150), "one place for both where it is narrow"
        await pilot.press("z", "G")
        await until_shown(pilot, "Peer access is off")
        await pilot.press("z", "shift+tab")
        await until_shown(pilot, "Findings")
        check_lines(app)


async def test_paths_and_bandwidth_appear_while_the_run_goes_on(app: LabApp, own_folders: Path) -> None:
    folder = gpu_run(own_folders)
    folder.nccl_file.unlink()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "p")
        await until_shown(pilot, "NCCL has not told its paths yet")
        write_json(folder.nccl_file, {**NCCL, "bandwidth": []})
        await until_shown(pilot, "SHM")
        assert "measured" not in screen_text(app)
        write_events(folder, event("result", name="p2p", value=12.5, unit="GB/s", labels={"src": 2, "dst": 3}))
        await until_shown(pilot, "measured 12.5 of 15.8 GB/s")


async def test_on_the_cpu_the_same_panes_speak_of_gloo(app: LabApp, own_folders: Path) -> None:
    filled_run(own_folders)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "m")
        await until_shown(pilot, "gloo over lo (loopback)")
        text = screen_text(app)
        assert "CPU %" in text and "812 MB" in text and "lo GB/s" in text
        await pilot.press("p")
        await until_shown(pilot, "no paths to")
        check_lines(app)


async def test_the_machine_pane_repaints_changed_cells_only(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = gpu_run(own_folders)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "GPU 0 · RTX 4080")
        regions: list[Any] = []
        pane = type(app.run_screen.machine)
        real = pane.refresh
        monkeypatch.setattr(pane, "refresh", lambda self, *r, **k: (regions.extend(r), real(self, *r, **k))[1])
        app.run_screen.machine.redraw()
        assert regions == []
        with (folder.telemetry / "here.jsonl").open("a") as file:
            file.write(json.dumps(sample(time.time(), [reading(0, temp_c=77)])) + "\n")
        await until_shown(pilot, "77")
        assert regions and all(region.height == 1 for region in regions)
        app.run_screen.action_show_paths()
        await pilot.pause()
        regions.clear()
        app.run_screen.findings.redraw()
        assert not app.run_screen.findings.display and regions == [], "what is behind another is not drawn"


async def test_zoom_gives_one_pane_all_the_room(app: LabApp, own_folders: Path) -> None:
    filled_run(own_folders)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "hello from rank 0")
        await pilot.press("z")
        await until(pilot, lambda: "Findings" not in screen_text(app), "only the log is shown")
        await pilot.press("tab", "tab", "tab")
        await until_shown(pilot, "same weights")
        await pilot.press("escape")
        await until_shown(pilot, "Ranks")


async def test_a_run_that_ends_while_it_is_watched(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "running")
        ended = Status("failed", 1.0, started=2.0, ended=43.0, reason="rank 1 was killed by SIGKILL")
        write_json(folder.status_file, ended.document())
        await until_shown(pilot, "rank 1 was killed by SIGKILL")
        assert "00:41" in screen_text(app)


async def test_a_long_log_is_followed_scrolled_and_followed_again(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders)
    log = folder.ranks / "0" / "stdout.log"
    log.write_text("".join(f"line {n}\n" for n in range(5000)))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "line 4999")
        await pilot.press("g")
        await until_shown(pilot, "line 0 ")
        await pilot.press("pagedown")
        await until(pilot, lambda: "line 0 " not in screen_text(app), "a page further")
        await pilot.press("f")
        await until_shown(pilot, "following")
        with log.open("a") as file:
            file.write("the newest line\n")
        await until_shown(pilot, "the newest line")


async def test_what_a_rank_printed_never_reaches_the_terminal_raw(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders)
    (folder.ranks / "0" / "stdout.log").write_text(HOSTILE + "\nthe end\n")
    write_events(
        folder, event("note", text=HOSTILE), event("check", name=HOSTILE, value=HOSTILE, passed=False),
        event("metric", name=HOSTILE, value=1.0, step=1, unit=HOSTILE),
    )  # fmt: skip
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "the end")
        await until_shown(pilot, "[rank0]")
        check_lines(app)


async def test_a_run_whose_folder_is_deleted_says_so(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders, "succeeded")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "same weights")
        shutil.rmtree(folder.path)
        await until_shown(pilot, f"the folder of {folder.id} is gone")


async def test_a_torn_folder_is_still_shown(app: LabApp, own_folders: Path) -> None:
    folder = filled_run(own_folders, "succeeded")
    folder.status_file.write_text('{"state"')
    with folder.rank_events(0).open("a") as file:
        file.write("nonsense\n")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await until_shown(pilot, "1 unreadable")
        await until_shown(pilot, f"!! {folder.id}: status.json")
        app._open(folder)
        await pilot.press("2")
        await until_shown(pilot, "status.json is no JSON")
        await until_shown(pilot, "same weights")


async def test_stop_asks_first(app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled_run(own_folders)
    asked: list[RunFolder] = []
    monkeypatch.setattr(control, "stop", asked.append)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "running")
        await pilot.press("s")
        await until_shown(pilot, f"Stop {folder.id}?")
        await pilot.press("n")
        await until(pilot, lambda: "Stop 2" not in screen_text(app), "the question goes")
        assert asked == []
        await pilot.press("s")
        await until_shown(pilot, f"Stop {folder.id}?")
        await pilot.press("y")
        await until_shown(pilot, "has been asked to stop")
        assert asked == [folder]


async def test_stacks_are_taken_off_the_loop_and_their_sentence_shown(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_run(own_folders)
    monkeypatch.setattr(control, "request_stacks", lambda folder: {"sentence": "all wait for rank 1 in all_reduce #12"})
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "running")
        await pilot.press("x")
        await until_shown(pilot, "all wait for rank 1 in all_reduce #12")


async def test_an_ended_run_is_neither_stopped_nor_asked(app: LabApp, own_folders: Path) -> None:
    filled_run(own_folders, "succeeded")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "succeeded")
        await pilot.press("s")
        await until_shown(pilot, "has ended already")
        await pilot.press("x")
        await until_shown(pilot, "only live ranks have stacks")


# Runs


async def test_the_history_opens_runs_again_and_deletes(
    app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [filled_run(own_folders, "succeeded", number=number) for number in range(3)]
    again: list[RunFolder] = []

    def fake(root: Path, folder: RunFolder, settings: Any, options: Any) -> RunFolder:
        again.append(folder)
        return folder

    monkeypatch.setattr(start, "rerun", fake)
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.press("3")
        await until_shown(pilot, "1 of 3")
        check_lines(app)
        await pilot.resize_terminal(80, 24)
        await until_shown(pilot, "all 2 checks")
        check_lines(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.current_mode == "run", "the run is opened")
        assert app.run_screen.folder == folders[1]
        await pilot.press("escape", "R")
        await until(pilot, lambda: again == [folders[1]], "it is run again")
        await until(pilot, lambda: app.current_mode == "run", "and shown")
        await pilot.press("3", "D")
        await until_shown(pilot, "of 2")
        await pilot.press("D", "u")
        await until_shown(pilot, "1 to delete")
        assert app.runs.to_delete == (folders[1].id,)
        assert all(folder.path.exists() for folder in folders), "until labtui is left"
        delete_runs(own_folders, app.runs.to_delete)
        assert [folder.path.exists() for folder in folders] == [True, False, True]


async def test_a_live_run_is_not_deleted(app: LabApp, own_folders: Path) -> None:
    folder = made_run(own_folders, "running")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until_shown(pilot, "R  lab_test")
        await pilot.press("D")
        await until_shown(pilot, "stop it first")
        assert folder.path.exists()


async def test_more_runs_are_read_as_one_scrolls(
    own_folders: Path, lab: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        made_run(own_folders, number=number)
    monkeypatch.setattr("labtui.tui.app.FIRST_ROWS", 10)
    with stopped(LabApp(own_folders)) as app:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("3")
            await until_shown(pilot, "1 of 30")
            await pilot.press("G")
            await until(pilot, lambda: len(app.history.rows) >= 20, "more rows are read")
            await pilot.press("G")
            await until(pilot, lambda: len(app.history.rows) == 30, "all rows are read")
            await pilot.press("G")
            await until_shown(pilot, "30 of 30")


async def test_runs_are_found_sorted_labelled_and_marked(app: LabApp, own_folders: Path) -> None:
    folders = [made_run(own_folders, ("succeeded", "failed")[number % 2], number=number) for number in range(4)]
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("3")
        await until_shown(pilot, "1 of 4")
        await pilot.press("slash", *"state:failed")
        await until_shown(pilot, "1 of 2 (of 4)")
        await pilot.press("enter", "down", "asterisk")
        await until(pilot, lambda: folders[1].labels().star, "it has a star")
        await pilot.press("t", *"paper v2", "enter")
        await until_shown(pilot, "#paper #v2")
        await pilot.press("n", *"the best", "enter")
        await until_shown(pilot, "#paper #v2 the best")
        check_lines(app)
        await pilot.press("escape")
        await until_shown(pilot, "of 4")
        await pilot.press("c")
        await until_shown(pilot, "mark two runs")
        await pilot.press("g", "space", "space")
        await until_shown(pilot, "2 marked")
        assert app.runs.table.marked == [folders[3].id, folders[2].id]
        await pilot.press("o")
        await until_shown(pilot, "by experiment ↑")
        await pilot.press("O")
        await until_shown(pilot, "by experiment ↓")
        await pilot.press("slash", *"nosuchrun")
        await until_shown(pilot, "none (of 4)")
        await pilot.press("escape")
        await until_shown(pilot, "of 4")


# Everywhere


async def test_help_and_palette(app: LabApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("question_mark")
        await until_shown(pilot, "esc closes")
        check_lines(app)
        await pilot.press("escape", "ctrl+p")
        await until(pilot, lambda: type(app.screen).__name__ == "CommandPalette", "the palette opens")
        await pilot.press(*"all Runs")
        await until_shown(pilot, "all Runs")
        await until(pilot, lambda: "No matches" not in screen_text(app) and "3" in screen_text(app), "it finds")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: app.current_mode == "runs", "it does what was chosen")


async def test_attach_opens_on_the_run(own_folders: Path, lab: Experiment) -> None:
    folder = filled_run(own_folders)
    with stopped(LabApp(own_folders, folder)) as app:
        async with app.run_test(size=(80, 24)) as pilot:
            await until_shown(pilot, "hello from rank 0")
            assert folder.id in screen_text(app)


@pytest.mark.slow
async def test_no_size_breaks_a_screen(app: LabApp, own_folders: Path) -> None:
    filled_run(own_folders)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "A lab test")
        for key in ("1", "2", "3", "4", "5", "6", "question_mark"):
            await pilot.press(key)
            for width, height in ((1, 1), (5, 3), (20, 6), (240, 70), (40, 12)):
                await pilot.resize_terminal(width, height)
                await until(pilot, lambda wanted=height: len(screen_text(app).split("\n")) == wanted, "the new size")
                check_lines(app)


async def test_leaving_leaves_runs_alone_and_says_how_to_come_back(app: LabApp, own_folders: Path) -> None:
    folder = made_run(own_folders, "running")
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "2 shows lab_test")
        await pilot.press("q")
    assert app.return_code == 0
    said = "\n".join(goodbye(app.history.live, 0.0))
    assert folder.id in said and "`labtui` shows it again" in said
    assert goodbye((), 0.0) == []


async def test_only_what_changed_is_sent(app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled_run(own_folders, "succeeded")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until_shown(pilot, "same weights")
        regions: list[Any] = []
        real = type(app.run_screen.findings).refresh
        monkeypatch.setattr(
            type(app.run_screen.findings), "refresh", lambda self, *r, **k: (regions.extend(r), real(self, *r, **k))[1]
        )
        app.run_screen.findings.redraw()
        assert regions == [], "nothing changed, nothing is sent"
        write_events(folder, event("check", name="one more", passed=True))
        await until_shown(pilot, "one more")
        assert regions and all(region.height == 1 for region in regions)
