from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path

import pytest

from labtui.cli import report, show
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import EXIT_CODES, Labels, RunProcess

SUMMARY = {
    "t": 1_764_417_800.0,
    "sentence": "rank 1 waits in all_reduce #3 for rank 0: it is at main.py:9 in sleep",
    "ranks": [
        {"rank": 0, "how": "signal", "line": "main.py:9 in sleep", "collective": None, "file": "stacks/rank0.txt"},
        {"rank": 1, "how": None, "line": None, "collective": "all_reduce #3", "why": "py-spy\x1b[2J failed"},
    ],
}


def full(make_run) -> RunFolder:
    """A run that has something of everything."""
    return make_run(
        request={
            "variant": "uneven", "parameters": {"bucket_mb": 25, "way": "hooks"}, "environment": {"NCCL_DEBUG": "INFO"},
            "group": "20251129-120000-ddp_by_hand-0001",
        },
        status={
            "reason": "all 2 checks as expected",
            "processes": (
                RunProcess("torchrun", 10, 1),
                RunProcess("rank", 12, 3, rank=1, stdout="ranks/1.log"),
                RunProcess("rank", 11, 2, rank=0, stdout="ranks/0.log", stacks="signal"),
            ),
            "checks": (
                {"rank": 0, "name": "same weights", "value": 0.0, "at_most": 1e-6, "passed": True},
                {"rank": 0, "name": "gradients", "value": 0.31, "at_most": 1e-6, "passed": False, "expected": False},
                {"rank": 1, "name": "loss", "value": None, "at_least": 0, "passed": False, "why": "nan"},
                {"rank": 1, "name": "count", "value": 12, "equal": 12, "passed": True},
            ),
            "predictions": (
                {"name": "bytes sent per rank", "predicted": 6442450, "measured": 6442450, "unit": "B"},
                {"name": "time", "predicted": 0.5, "measured": 0.6, "unit": "s"},
                {"name": "wire", "predicted": 0, "measured": None, "unit": "B", "why": "not counted on cpu"},
            ),
            "results": (
                {"name": "step_time", "value": 0.0123, "unit": "s", "labels": {"way": "hooks", "ranks": 2}},
                {"name": "loss", "value": None, "why": "inf", "labels": {}},
            ),
            "events": {"rank0": 9, "bad_lines": 1},
        },
        labels=Labels(tags=("good",), note="look at\nthe buckets"),
    )  # fmt: skip


def test_everything_a_person_wants_to_see(labtui, make_run) -> None:
    folder = full(make_run)
    done = labtui("show", "last")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:3] == [
        f"run         {folder.id}",
        "state       succeeded: all 2 checks as expected",
        "experiment  ddp_by_hand, variant uneven",
    ]
    assert "tags        good" in lines
    assert "note        look at the buckets" in lines
    assert f"folder      {folder.path}" in lines
    assert f"ran as      2 processes, on cpu, ann at {os.uname().nodename}" in lines
    place = {line: number for number, line in enumerate(lines)}
    assert "  bucket_mb  25" in lines and "  way        hooks" in lines and "  NCCL_DEBUG  INFO" in lines
    assert [line.split() for line in lines[place["ranks"] + 2 :][:2]] == [
        ["0", "11", "signal", "ranks/0.log"],
        ["1", "12", "-", "ranks/1.log"],
    ]
    checks = [" ".join(line.split()) for line in lines[place["checks"] + 2 :][:4]]
    assert checks == [
        "ok 0 same weights 0 at most 1e-06",
        "failed as intended 0 gradients 0.31 at most 1e-06",
        "FAILED 1 loss nan at least 0",
        "ok 1 count 12 must be 12",
    ]
    predicted = [" ".join(line.split()) for line in lines[place["predicted, then measured"] + 1 :][:4]]
    assert predicted == [
        "prediction predicted measured measured / predicted",
        "bytes sent per rank 6,442,450 B 6,442,450 B 1.000",
        "time 0.5 s 0.6 s 1.200",
        "wire 0 B not counted on cpu -",
    ]
    results = [" ".join(line.split()) for line in lines[place["results"] + 2 :][:2]]
    assert results == ["step_time 0.0123 s way=hooks, ranks=2", "loss inf"]
    assert place["predicted, then measured"] < place["results"]
    assert lines[-1] == "1 line of its events can't be read"


def test_json_is_the_document(labtui, make_run) -> None:
    folder = full(make_run)
    document = labtui("show", "last", "--json").json
    assert document["id"] == folder.id
    assert [check["passed"] for check in document["checks"]] == [True, False, False, True]
    assert "stacks" not in document


def test_a_foreign_nan_is_no_json(labtui, make_run) -> None:
    make_run(status={"results": ({"name": "loss", "value": math.nan, "labels": {}},)})
    assert labtui("show", "last", "--json").json["results"][0]["value"] is None
    assert "loss    nan" in labtui("show", "last").out


def test_strange_events_are_shown_all_the_same(labtui, make_run) -> None:
    """A copied folder may hold anything that is JSON."""
    odd: dict[str, object] = {
        "name": ["x"],
        "value": {"a": 1},
        "unit": 5,
        "labels": "no object",
        "passed": "yes",
        "rank": "r",
    }
    make_run(
        status={
            "checks": (odd, {}),
            "predictions": (odd, {"predicted": "a", "measured": True}, {}),
            "results": (odd, {}),
        }
    )
    done = labtui("show", "last")
    assert (done.code, done.err) == (0, "")
    assert "['x']" in done.out


def test_a_long_list_is_cut_and_says_so(labtui, make_run) -> None:
    results = tuple({"name": f"r{number}", "value": number, "labels": {}} for number in range(200))
    make_run(status={"results": results})
    lines = labtui("show", "last").out.splitlines()
    assert lines[-1] == f"  ... and {201 - report.MOST_LINES} more (--json has all)"
    assert len(labtui("show", "last", "--json").json["results"]) == 200


def test_a_live_run_is_shown_from_its_events(labtui, make_run) -> None:
    folder = make_run("running")
    event = {"t": 1.0, "rank": 0, "kind": "check", "name": "so far", "passed": True}
    folder.rank_events(0).write_text(f"{json.dumps(event)}\nnonsense\n")
    out = labtui("show", "last").out
    assert "so far" in out and "1 line of its events can't be read" in out
    assert labtui("show", "last", "--json").json["bad_lines"] == 1


@pytest.mark.parametrize("record", ["run.json", "status.json"])
@pytest.mark.parametrize("content", ["{", "[]", "\x00", '{"schema": 99}'])
def test_an_unreadable_run_is_one_sentence(labtui, make_run, record: str, content: str) -> None:
    folder = make_run()
    (folder.path / record).write_text(content)
    assert record in labtui("show", "last").sentence


@pytest.mark.parametrize("state", sorted(EXIT_CODES))
def test_wait_returns_the_runs_exit_code(labtui, make_run, state: str) -> None:
    make_run(state, status={"agent": None})
    assert labtui("show", "last").code == 0
    assert labtui("show", "last", "--wait").code == EXIT_CODES[state]
    assert labtui("show", "last", "--wait", "--json").json["state"] == state


def test_wait_waits(labtui, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run("running")
    looks = []

    def look_again(status: object, seconds: float) -> None:
        looks.append(status)
        write_json(folder.status_file, {"state": "timed_out", "created": 1.0, "ended": 2.0})

    monkeypatch.setattr("labtui.runs.control.pause", look_again)
    assert labtui("show", "last", "--wait").code == 124
    assert len(looks) == 1


def test_stacks_of_a_running_run(labtui, make_run) -> None:
    folder = make_run("running")

    def answer(number: int, frame: object) -> None:
        write_json(folder.stacks_summary, SUMMARY)

    before = signal.signal(signal.SIGUSR1, answer)
    try:
        done = labtui("show", "last", "--stacks")
        folder.stacks_summary.unlink()
        document = labtui("show", "last", "--stacks", "--json").json
    finally:
        signal.signal(signal.SIGUSR1, before)
    lines = done.out.splitlines()
    assert lines[-1] == f"  {SUMMARY['sentence']}"
    assert [" ".join(line.split()) for line in lines[-3:-1]] == [
        "0 main.py:9 in sleep -",
        "1 unknown: py-spy failed all_reduce #3",
    ]
    assert not any(line.startswith("checks") for line in lines)
    assert document["stacks"] == SUMMARY


def test_stacks_of_a_run_that_has_ended(labtui, make_run) -> None:
    folder = make_run("timed_out")
    assert "only running ranks have stacks" in labtui("show", "last", "--stacks").sentence
    write_json(folder.stacks_summary, SUMMARY)
    assert labtui("show", "last", "--stacks").out.splitlines()[-1] == f"  {SUMMARY['sentence']}"
    assert labtui("show", "last").out.splitlines()[-1] == f"  {SUMMARY['sentence']}"
    assert labtui("show", "last", "--stacks", "--json").json["stacks"] == SUMMARY


def test_an_empty_summary_says_nothing_is_known() -> None:
    assert report.stacks({})[-1].strip() == "nothing is known"


def test_lines_fit_the_terminal(labtui, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    full(make_run)
    monkeypatch.setattr("labtui.cli.output.line_width", lambda: 40)
    assert max(map(len, labtui("show", "last").out.splitlines())) <= 40


def test_a_summary_that_is_no_object_is_none(make_run) -> None:
    folder = make_run()
    write_json(folder.stacks_summary, [1])
    assert show._last_stacks(folder) is None


def test_a_path_shows_a_copied_run(labtui, make_run, tmp_path: Path) -> None:
    folder = make_run(root=tmp_path / "copied")
    assert labtui("show", str(folder.path), "--json").json["folder"] == str(folder.path)
