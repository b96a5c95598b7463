"""labtui simulate optimal: what it prints, how it is ended, and what can't be."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest


def test_without_ortools_one_sentence_says_how_to_get_it(labtui: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    done = labtui("simulate", "optimal")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "labtui: the optimal schedule is found by OR-Tools, which isn't installed: "
        "pip install 'labtui[solver]', or ortools\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["1f1b", "--time-limit", "3"], "--time-limit is for the search of `optimal`"),
        (["1f1b", "--placement", "v"], "--placement is for the search of `optimal`"),
        (["optimal", "--time-limit", "0"], "--time-limit is above 0 seconds, not 0"),
        (["optimal", "--time-limit", "nan"], "--time-limit is above 0 seconds, not nan"),
        (["optimal", "--placement", "v,w"], "--placement 'w' isn't one of straight, v, both-ways, looped"),
        (["optimal", "--stage-cost", "9=2"], "--stage-cost names 9, but the stages are 0 to 3"),
    ],
)
def test_what_cant_be_asked(labtui: Any, arguments: list[str], words: str) -> None:
    done = labtui("simulate", *arguments)
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1


def test_all_are_those_that_need_no_solver(labtui: Any) -> None:
    done = labtui("simulate", "all", "-p", "2", "-m", "4", "--no-gantt")
    assert done.code == 0 and "dualpipev" in done.out and "optimal" not in done.out


# With the solver ----------------------------------------------------------------------------------------------------

UNIT = ("-p", "4", "-m", "8", "--cost", "F=1,I=1,W=1")


@pytest.fixture
def solver() -> None:
    pytest.importorskip("ortools")


@pytest.mark.usefixtures("solver")
def test_the_document_has_bound_and_gap(labtui: Any) -> None:
    told = labtui("simulate", "optimal", *UNIT, "--memory-limit", "3", "--placement", "straight", "--json").json
    assert (told["schedule"], told["total"], told["bound"], told["gap"]) == ("optimal", 31, 31, 0)
    assert told["proven"] is True and told["stopped"] is None
    assert told["started_from"] == told["best_named"] == {"schedule": "zb-1p", "total": 33}
    assert max(told["peak_memory"]) <= 3 and told["virtual_stages"] == 4 and told["formula"] is None
    assert told["placements"][0].items() >= {"kind": "straight", "total": 31, "bound": 31, "searched": True}.items()
    assert {(op["kind"], op["end"] - op["start"]) for row in told["devices"] for op in row} == {
        ("F", 1), ("I", 1), ("W", 1)
    }  # fmt: skip


@pytest.mark.usefixtures("solver")
def test_the_words_beside_another_schedule(labtui: Any) -> None:
    done = labtui("simulate", "zb-v", "optimal", *UNIT, "--memory-limit", "4", "--cost-of", "device")
    assert done.code == 0 and done.err == "" and max(map(len, done.out.splitlines())) < 80
    lines = done.out.splitlines()
    row = next(line.split() for line in lines if line.startswith("optimal  ") and "%" in line)
    assert row[:3] == ["optimal", "4", "25"]  # from both ends; a V's best is 25.5
    assert "optimal        proven: no order of these placements has a smaller total" in lines
    assert "straight, one stage per device: none below 27" in done.out


@pytest.mark.usefixtures("solver")
def test_a_device_cut_in_two_has_stages_of_half_the_costs(labtui: Any) -> None:
    told = labtui("simulate", "optimal", *UNIT, "--memory-limit", "4", "--placement", "v", "--json").json
    assert (told["total"], told["proven"], told["virtual_stages"], told["ideal"]) == (25.5, True, 8, 24)
    assert (told["costs"]["F"], told["best_named"]["schedule"]) == (0.5, "zb-v")
    text = labtui("simulate", "optimal", *UNIT, "--memory-limit", "4", "--placement", "v").out
    assert "costs          a device's share is cut in 2 here" in text


@pytest.mark.usefixtures("solver")
def test_a_limit_below_the_minimum_says_the_minimum(labtui: Any) -> None:
    done = labtui("simulate", "optimal", "--memory-limit", "0.5")
    assert (done.code, done.out) == (2, "")
    assert done.err == "labtui: every device needs memory for at least 1 micro-batch, above the limit of 0.5\n"


@pytest.mark.usefixtures("solver")
def test_a_sweep_takes_it(labtui: Any) -> None:
    told = labtui(
        "simulate", "1f1b", "optimal", "--sweep", "m=2,4", "-p", "2", "--placement", "straight", "--json"
    ).json
    totals = {line["schedule"]: [point["total"] for point in line["points"]] for line in told["schedules"]}
    assert totals == {"1f1b": [9, 15], "optimal": [7, 13]}


@pytest.mark.usefixtures("solver")
def test_ctrl_c_keeps_the_best_so_far() -> None:
    command = [
        sys.executable, "-m", "labtui.cli.main", "simulate", "optimal", "-p", "8", "-m", "16", "--cost", "F=1,I=1,W=1",
        "--memory-limit", "5", "--placement", "v", "--time-limit", "100", "--json",
    ]  # fmt: skip
    terminal, stderr = pty.openpty()
    try:
        search = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        os.close(stderr)
        said = b""
        while b"none below" not in said:  # the solver is at work
            said += os.read(terminal, 4096)
        search.send_signal(signal.SIGINT)
        out, _ = search.communicate(timeout=60)
    finally:
        os.close(terminal)
    told = json.loads(out)
    assert search.returncode == 0 and told["stopped"] == "asked" and told["proven"] is False
    assert told["total"] <= told["best_named"]["total"] and 0 < told["bound"] < told["total"]
    assert b"ctrl-c keeps the best" in said
