"""How a run ended, in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.runs.evidence import error_file_line
from labtui.runs.records import FAILED, SUCCEEDED
from labtui.runs.verdict import (
    RankEnd,
    Seen,
    judge,
    last_traceback,
    mark_expected,
    torchrun_failures,
)

# The form of torchrun's report (torch 2.13), shortened.
REPORT = """
train.py FAILED
------------------------------------------------------------
Failures:
[0]:
  time      : 2026-11-29_15:00:00
  host      : vm
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 100)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[1]:
  time      : 2026-11-29_15:00:00
  host      : vm
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 101) (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 101
============================================================
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ann/train.py", line 12, in step
    raise ValueError("no")
  File "/env/site-packages/torch/nn/module.py", line 99, in __call__
    x
ValueError: no
"""


def check(name: str, passed: bool, **more: object) -> dict[str, object]:
    return {"kind": "check", "name": name, "rank": 0, "passed": passed, **more}


def test_torchruns_report_is_read() -> None:
    assert torchrun_failures(REPORT) == {0: 1, 1: -9}
    assert torchrun_failures("all went well") == {}


def test_a_traceback_ends_in_its_error_and_the_users_line() -> None:
    assert last_traceback("noise\n" + TRACEBACK) == "ValueError: no (train.py:12)"
    assert last_traceback("no traceback here") == ""


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    last_traceback("Traceback (most recent call last):\n" + text)
    torchrun_failures(text)


def test_an_error_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    message = {"message": "ValueError: no", "extraInfo": {"py_callstack": TRACEBACK, "timestamp": "1"}}
    path.write_text(json.dumps({"message": message}))
    assert error_file_line(path) == "ValueError: no (train.py:12)"
    path.write_text('{"message": "plain"}')
    assert error_file_line(path) == "plain"
    path.write_text("{")
    assert error_file_line(path) == error_file_line(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("checks", "expect_failure", "state", "reason"),
    [
        ([check("a", True), check("b", True)], [], SUCCEEDED, "all 2 checks passed"),
        ([check("a", True)], [], SUCCEEDED, "its check passed"),
        ([], [], SUCCEEDED, "ended with exit code 0, no checks reported"),
        ([check("a", False, value=0.5, at_most=0.1)], [], FAILED, "check failed: 'a' on rank 0: 0.5, at most 0.1"),
        (
            [check("a", False, value=None, why="nan", at_most=1)],
            [],
            FAILED,
            "check failed: 'a' on rank 0: nan, at most 1",
        ),
        ([check("a", False), check("b", False)], [], FAILED, "check failed: 'a' on rank 0 (and 1 more)"),
        ([check("a", False), check("b", True)], ["a"], SUCCEEDED, "1 of 2 checks passed, 1 failed as intended"),
        ([check("a", True)], ["a"], FAILED, "check 'a' was made to fail and passed"),
        ([check("b", True)], ["a"], FAILED, "check 'a' was made to fail and was not reported"),
        ([check("a", False), check("b", False)], ["a"], FAILED, "check failed: 'b' on rank 0"),
    ],
)
def test_checks_decide_over_a_run_that_ended_well(
    checks: list[dict[str, object]], expect_failure: list[str], state: str, reason: str
) -> None:
    assert judge(Seen(0, checks=checks, expect_failure=expect_failure)) == (state, reason)


def test_an_experiment_that_leaves_with_0_in_the_middle_has_failed() -> None:
    words = "ended with exit code 0 before it was done: rank 1 at 3 of 12, no checks reported"
    assert judge(Seen(0, stopped_at="rank 1 at 3 of 12")) == (FAILED, words)


def test_only_a_failure_that_was_meant_is_marked() -> None:
    marked = mark_expected([check("a", False), check("b", False), check("a", True)], ["a"])
    assert [each.get("expected") for each in marked] == [False, None, None]


def failed(*ranks: RankEnd, output: str = "", **more: object) -> str:
    state, reason = judge(Seen(1, output=output, ranks=ranks, **more))  # type: ignore[arg-type]
    assert state == FAILED
    return reason


def test_the_cause_is_named_rather_than_the_consequence() -> None:
    victim = RankEnd(0, 1.0, 1, "RuntimeError: Connection closed by peer")
    culprit = RankEnd(1, 2.0, 1, "ValueError: no (train.py:12)")
    assert failed(victim, culprit) == "rank 1 raised ValueError: no (train.py:12)"


def test_of_two_causes_the_first_departure_counts() -> None:
    assert failed(RankEnd(0, 2.0, 1, "ValueError: b"), RankEnd(1, 1.0, 3)) == "rank 1 ended with exit code 3"


def test_a_script_that_refuses_is_told_from_one_that_fails() -> None:
    refusal = RankEnd(0, 1.0, 2, "SystemExit: needs 4.1 GB per rank, 3.2 GB are free")
    assert failed(refusal, RankEnd(1, 2.0, -15)) == "rank 0 refused: needs 4.1 GB per rank, 3.2 GB are free"


def test_ranks_that_torchrun_ended_are_not_blamed() -> None:
    assert failed(RankEnd(0, 1.0, -15), RankEnd(1, 2.0, -11)) == "rank 1 was killed by SIGSEGV, a crash in native code"


def test_a_rank_that_left_with_0_let_the_other_down() -> None:
    reason = failed(RankEnd(0, 2.0, 1, "RuntimeError: Connection reset by peer"), RankEnd(1, 1.0))
    assert reason == (
        "rank 1 left early with exit code 0; rank 0, which needed it, then failed: "
        "RuntimeError: Connection reset by peer"
    )
    # The order in which two go is seen only roughly: an exit status that was read counts more.
    victim = RankEnd(0, 1.0, 1, "RuntimeError: Connection closed by peer")
    assert "rank 1 left early with exit code 0" in failed(victim, RankEnd(1, 1.1, status=0))
    assert "left early" not in failed(victim, RankEnd(1, 0.9, status=15))
    # One that went only after the failure was ended by torchrun.
    assert "left early" not in failed(RankEnd(0, 2.0, 1, "RuntimeError: Connection reset by peer"), RankEnd(1, 3.0))


def test_a_full_disk_and_a_busy_port_are_said_plainly() -> None:
    full = "OSError: [Errno 28] No space left on device"
    assert failed(RankEnd(0, 1.0, 1, full)) == f"the disk is full: {full}"
    busy = "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
    assert failed(output=busy) == "port 29500 is in use"
    late = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    late += "port: 49079, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use (train.py:27)"
    words = "was taken by somebody else before rank 0 could listen on it: run it again"
    assert failed(RankEnd(0, 1.0, 1, late)) == f"port 49079 {words}"
    none_left = "OSError: [Errno 99] Cannot assign requested address"
    assert failed(output=none_left) == f"no free port: {none_left}"


def test_a_missing_torch_is_told_apart() -> None:
    assert "has no torch" in failed(output="/usr/bin/python3: No module named torch")


def test_a_killed_command() -> None:
    assert judge(Seen(None, signal=9, launch="command")) == (
        FAILED,
        "command was killed by SIGKILL, often out of memory",
    )
