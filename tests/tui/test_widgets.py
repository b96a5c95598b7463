"""What widgets draw, as pure functions: exact widths, no control characters, unknown is n/a."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_lab import HOSTILE, NOW, event

from labtui.runs.folder import RunFolder
from labtui.runs.records import Request, Status
from labtui.runs.rows import Row
from labtui.runs.watch import Progress, Snapshot
from labtui.tui.lines import Line, cells
from labtui.tui.log_lines import log_line, tab_line
from labtui.tui.messages import History, Listing, LogWindow
from labtui.tui.widgets.catalog import tallies
from labtui.tui.widgets.findings import Findings, check_facts, findings
from labtui.tui.widgets.headline import headline
from labtui.tui.widgets.history import HistoryTable
from labtui.tui.widgets.log import LogPane

WIDTHS = [8, 20, 44, 80, 160]


def text(lines: list[Line] | tuple[Line, ...]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def check_harmless(lines: list[Line], width: int) -> None:
    for line in lines:
        assert cells(line) <= width, line
        for piece, _ in line:
            assert piece.isprintable(), piece


def snapshot(**fields: Any) -> Snapshot:
    request = Request(
        id="x", experiment="lab_test", command=(), python="", host="here", user="ann", uid=1, created=NOW, nproc=2,
        device="cpu",
    )  # fmt: skip
    given: dict[str, Any] = {
        "folder": RunFolder(Path("20251129-120312-lab_test-0001")), "taken": NOW + 41, "request": request,
        "status": Status("running", NOW, started=NOW),
    }  # fmt: skip
    return Snapshot(**{**given, **fields})


def hostile() -> Snapshot:
    """A run in which everybody writes what they shouldn't."""
    return snapshot(
        status=Status("failed", NOW, started=NOW, ended=NOW + 3, reason=HOSTILE),
        errors=(HOSTILE,),
        checks=(event("check", name=HOSTILE, value=HOSTILE, equal=HOSTILE, passed=False), event("check")),
        predictions=(event("prediction", name=HOSTILE, predicted=HOSTILE, measured=None, unit=HOSTILE),),
        results=(event("result", name=HOSTILE, value=1.0, unit=HOSTILE, labels={HOSTILE: HOSTILE}),),
        notes=(event("note", text=HOSTILE),),
        versions={"torch": HOSTILE},
        bad_lines=3,
        dropped=1,
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_hostile_gets_through(width: int) -> None:
    seen = hostile()
    for lines in (findings(seen, width), headline(seen, HOSTILE, 1.0, width)):
        check_harmless(lines, max(width, 30))
    assert all(cells(line) == width for line in headline(seen, HOSTILE, 1.0, width))


# Findings


def test_checks_say_what_they_measured_and_which_bound_it_kept() -> None:
    checks = (
        event("check", name="same weights", value=3e-8, at_most=1e-6, passed=True),
        event("check", name="enough", value=0.5, at_least=0.9, passed=False),
        event("check", name="wrong on purpose", value=1.0, at_most=1e-6, passed=False, expected=False),
        event("check", name="a fact", value=True, passed=True),
    )
    shown = text(findings(snapshot(checks=checks), 80))
    assert "ok same weights" in shown and "3e-8 <= 1e-6" in shown
    assert "!! enough" in shown and "0.5 < 0.9" in shown
    assert "ok wrong on purpose" in shown and "(meant to fail)" in shown
    assert [piece for piece, _ in check_facts(checks)] == ["1 failed", " · ", "2 ok", " · ", "1 failed as meant"]


def test_a_check_of_many_ranks_is_one_line_with_the_worst_value() -> None:
    checks = tuple(
        replaced for rank in range(3)
        for replaced in [{**event("check", name="g", value=rank * 1e-8, at_most=1e-6, passed=True), "rank": rank}]
    )  # fmt: skip
    shown = text(findings(snapshot(checks=checks), 80))
    assert shown.count("ok g") == 1
    assert "2e-8 <= 1e-6" in shown and "x3" in shown
    failing = (*checks, {**event("check", name="g", value=0.0, at_most=1e-6, passed=False), "rank": 3})
    assert "!! g" in text(findings(snapshot(checks=failing), 80))


def test_predictions_stand_beside_what_was_measured() -> None:
    predictions = (
        event("prediction", name="bytes", predicted=8_407_044, measured=8_416_980, unit="B"),
        event("prediction", name="same", predicted=18, measured=18),
        event("prediction", name="unknown", predicted=3, measured=None),
        event("prediction", name="far", predicted=1, measured=40),
    )
    shown = text(findings(snapshot(predictions=predictions), 80)).splitlines()
    assert shown[1].split()[-6:] == ["8.41", "MB", "8.42", "MB", "+0.1", "%"]
    assert shown[2].split() == ["same", "18", "18", "="]
    assert shown[3].split() == ["unknown", "3", "n/a"]
    assert shown[4].split()[-1] == "x40"


def test_a_finding_is_copied_with_all_its_figures() -> None:
    pane = Findings()
    pane.snapshot = snapshot(
        checks=(event("check", name="same", value=3.123456789e-8, at_most=1e-6, passed=True),),
        results=(event("result", name="busbw", value=11.23456789, unit="GB/s", labels={"size_bytes": 1024}),),
        predictions=(event("prediction", name="sent", predicted=1.5, measured=2, unit="B"),),
        notes=(event("note", text=HOSTILE),),
    )
    pane.build(60, 20)
    copied = []
    for _ in range(9):
        copied.append(pane.copied()[0])
        pane.scroll_rows(1)
    assert copied[:3] == [
        "same: 3.123456789e-08, at_most 1e-06", "sent: predicted 1.5, measured 2 B",
        "busbw size_bytes=1024: 11.23456789 GB/s",
    ]  # fmt: skip
    assert copied[3].startswith("rank 0: [rank0]")


def test_what_could_not_be_read_is_said() -> None:
    shown = text(findings(snapshot(bad_lines=2, dropped=1, errors=("run.json is no JSON",)), 80))
    assert "2 lines of the event files could not be read" in shown
    assert "1 event more" in shown
    assert "run.json is no JSON" in shown
    assert text(findings(snapshot(), 80)) == "nothing has been reported yet"


# Headline


def test_the_headline_tells_state_time_and_progress() -> None:
    seen = snapshot(progress={0: Progress(6, 12), 1: Progress(3, 12)})
    first, second = text(headline(seen, "DDP by hand", 1.0, 100)).splitlines()
    assert "R  DDP by hand · default" in first
    assert "3/12  running  00:41 of about 01:00" in first, "the rank that is least far counts"
    assert "2 processes on cpu" in second
    short, _ = text(headline(seen, "DDP by hand", 1.0, 40)).splitlines()
    assert "00:41" in short


def test_the_headline_guesses_the_end_once_enough_has_passed() -> None:
    first = (NOW + 10, 0.0)
    guessed = snapshot(progress={0: Progress(10, 100, NOW + 40, first), 1: Progress(11, 100, NOW + 40, first)})
    assert "00:41, about 04:29 left" in text(headline(guessed, "", None, 100))
    for early in (
        Progress(10, None, NOW + 40, first), Progress(1, 100, NOW + 40, first), Progress(10, 100, NOW + 12, first),
        Progress(10, 100, None, None), Progress(100, 100, NOW + 40, first),
    ):  # fmt: skip
        assert "about" not in text(headline(snapshot(progress={0: early}), "", None, 100))
    late = snapshot(progress={0: Progress(10, 100, NOW + 12, (NOW, 0.0))}, taken=NOW + 50)
    assert "about" not in text(headline(late, "", None, 100)), "the next report is overdue"


@pytest.mark.parametrize("state", ["failed", "stopped", "timed_out", "lost", "queued"])
def test_the_reason_of_an_end_is_in_the_headline(state: str) -> None:
    seen = snapshot(status=Status(state, NOW, reason="because of this"))
    assert "because of this" in text(headline(seen, "", None, 80))


def test_a_run_that_cannot_be_read_still_has_a_headline() -> None:
    seen = snapshot(request=None, status=None, errors=("run.json can't be read: No such file or directory",))
    shown = text(headline(seen, "", None, 80))
    assert "run.json can't be read" in shown and "20251129-120312-lab_test-0001" in shown


# Logs


@given(st.text("ab\x1b[]0;31mH\x07\r\t\x00漢🙂", max_size=60), st.integers(1, 50))
def test_a_log_line_is_harmless_and_fits(raw: str, width: int) -> None:
    check_harmless([log_line(raw, width)], width)


def test_colours_are_kept_and_all_other_escapes_dropped() -> None:
    line = log_line("\x1b]0;title\x07plain \x1b[31;1mred\x1b[0m [rank0] \x1b[2J\x1b[5;5Hend\tx", 80)
    assert "".join(piece for piece, _ in line) == "plain red [rank0] end   x"
    styles = dict(line)
    assert str(styles["red"]) == "bold color(1)"


def test_tabs_show_the_current_one_and_mark_stderr() -> None:
    tabs = [str(rank) for rank in range(64)] + ["output"]
    for current in ("0", "31", "63", "output"):
        line = tab_line(tabs, current, False, {"3"}, 40)
        assert cells(line) == 40
        assert (f" {current} ", "cursor strong") in line
    assert "!" in "".join(piece for piece, _ in tab_line(["2", "3"], "2", False, {"3"}, 40))
    assert " 2 stderr " in "".join(piece for piece, _ in tab_line(["2", "3"], "2", True, {"3"}, 40))


def test_a_log_shows_its_window_and_what_it_leaves_out() -> None:
    pane = LogPane()
    pane.logs, pane.name_shown = [("0", 10), ("0 stderr", 3)], "0"
    assert "nothing on stdout; e shows its stderr" in text(list(pane.shown_lines(60, 5)))
    lines = tuple(f"line {n}" for n in range(80, 100))
    pane.window = LogWindow("0", 80, lines, 100, skipped=2_000_000)
    assert text(list(pane.shown_lines(60, 5))).split("\n")[1:] == ["line 96", "line 97", "line 98", "line 99"]
    assert ("following", "live") in pane.facts()
    pane.following, pane._top = False, 90
    assert text(list(pane.shown_lines(60, 4))).split("\n")[1:] == ["line 90", "line 91", "line 92"]
    pane._top, pane.window = 0, replace(pane.window, first=0)
    assert "2 MB before this are not shown" in text(list(pane.shown_lines(60, 4)))
    pane.window = LogWindow("0", trouble="stdout.log can't be read: Permission denied")
    assert "Permission denied" in text(list(pane.shown_lines(60, 4)))


# Runs


def row(number: int, **fields: Any) -> Row:
    given: dict[str, Any] = {
        "id": f"r{number}", "experiment": "lab_test", "variant": "", "group": None, "state": "succeeded",
        "reason": "all well",
        "exit_code": 0, "created": NOW, "started": NOW, "ended": NOW + 10, "nproc": 2, "device": "cpu", "user": "ann",
        "host": "here", "tags": (), "note": "", "star": False,
    }  # fmt: skip
    return Row(**{**given, **fields})


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_rows_of_runs_fit_and_are_harmless(width: int) -> None:
    table = HistoryTable()
    hostile = row(0, experiment=HOSTILE, variant=HOSTILE, reason=HOSTILE, nproc=None, tags=(HOSTILE,), note=HOSTILE)
    table.show(History(listing=Listing((hostile,), 1)), NOW)
    for chosen in (False, True):
        check_harmless([table.row(0, width, chosen=chosen), table.header(width)], max(width, 44))


def test_a_row_tells_state_time_and_reason() -> None:
    table = HistoryTable()
    failed = row(0, state="failed", reason="rank 1 was killed", started=None)
    table.show(History(listing=Listing((failed,), 1)), NOW)
    shown = text([table.row(0, 120, chosen=True)])
    assert shown.startswith("›!! lab_test") and "rank 1 was killed" in shown


def test_experiments_are_tallied_with_the_live_run_first() -> None:
    rows = [row(2), row(1, state="running"), row(0, experiment="other")]
    counted = tallies(rows, 3)
    assert counted["lab_test"].runs == 2 and counted["lab_test"].newest.id == "r1"
    assert not counted["other"].at_least
    assert tallies(rows, 700)["other"].at_least
