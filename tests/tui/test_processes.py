"""The processes pane: who is alive, who is gone, and what is known of each."""

from __future__ import annotations

from typing import Any

import pytest
from small_lab import HOSTILE, NOW, sample
from test_widgets import check_harmless, snapshot, text

from labtui.runs.gauges import GaugeReader
from labtui.runs.records import RunProcess, Status
from labtui.runs.watch import Snapshot
from labtui.tui.widgets.processes import ProcessesPane

RANKS = tuple(
    RunProcess("rank", 500 + n, 1, n, n, f"ranks/{n}/stdout.log", f"ranks/{n}/stderr.log", "signal") for n in range(3)
)
LAUNCHED = (RunProcess("torchrun", 499, 1), RunProcess("sampler", 498, 1))


def seen(state: str = "running", *samples: dict[str, Any], **fields: Any) -> Snapshot:
    reader = GaugeReader()
    for one in samples:
        reader.take(one, "here")
    status = Status(state, NOW, started=NOW, processes=(*LAUNCHED, *RANKS), **fields)
    return snapshot(status=status, gauges=reader.gauges, taken=reader.gauges.t or NOW)


def shown(run: Snapshot, width: int = 80, height: int = 12, cursor: int = 0) -> list[str]:
    pane = ProcessesPane()
    pane.snapshot, pane.cursor = run, cursor
    return text([tuple(line) for line in pane.build(width, height)]).split("\n")


def test_each_process_has_a_line_with_what_it_takes() -> None:
    lines = shown(seen("running", sample(NOW + 5, ranks=3)))
    assert "3 of 3 ranks alive" in lines[0]
    assert lines[2].split() == ["torchrun", "499", "alive"]
    assert lines[3].split() == ["rank", "0", "500", "alive", "50", "812", "MB", "n/a", "signal"]
    assert lines[6].split() == ["sampler", "498", "alive"]


def test_a_rank_that_is_missing_from_the_samples_is_gone() -> None:
    run = seen("running", sample(NOW + 5, ranks=3), sample(NOW + 9, ranks=2))
    lines = shown(run, cursor=3)
    assert "2 of 3 ranks alive" in lines[0]
    assert "gone" in lines[5]
    assert any("rank 2 was last seen at 0:05; how it ended is known when the run ends" in line for line in lines)


def test_before_any_sample_nobody_knows() -> None:
    assert "n/a" in shown(seen("running"))[3]


def test_how_a_run_ended_stands_with_who_was_named() -> None:
    run = seen("failed", sample(NOW + 5, ranks=3), ended=NOW + 6, exit_code=1, reason="rank 1 was killed by SIGKILL")
    assert any("rank 1 was killed by SIGKILL" in line for line in shown(run, cursor=2))
    assert not any("SIGKILL" in line for line in shown(run, cursor=1))
    assert any("exit code 1: rank 1 was killed" in line for line in shown(run, cursor=0))
    assert "ended" in shown(run)[3]


def test_a_rank_that_nobody_saw_has_no_pid() -> None:
    status = Status("failed", NOW, processes=(RunProcess("rank", None, None, 0, 0, "ranks/0/stdout.log"),))
    assert shown(snapshot(status=status))[2].split()[:4] == ["rank", "0", "n/a", "never"]


def test_what_is_copied() -> None:
    pane = ProcessesPane()
    pane.snapshot = seen()
    pane.build(80, 10)
    assert pane.copied() == ("", "the command of torchrun")
    pane.cursor = 1
    assert pane.copied() == ("500", "the pid of rank 0")


@pytest.mark.parametrize(("width", "height"), [(10, 3), (38, 8), (80, 12)])
def test_whatever_is_recorded_the_pane_is_whole_and_harmless(width: int, height: int) -> None:
    bad = tuple(RunProcess("rank", n, 1, n, n, HOSTILE, HOSTILE, HOSTILE) for n in range(30))
    run = snapshot(
        status=Status("failed", NOW, reason=f"rank 3 {HOSTILE}", processes=(RunProcess(HOSTILE, 1, 1), *bad))
    )
    pane = ProcessesPane()
    pane.snapshot = run
    for cursor in (0, 4, 30):
        pane.cursor = cursor
        lines = [tuple(line) for line in pane.build(width, height)]
        check_harmless(lines, width)
        assert len(lines) == height
