"""Processes are pid and start time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import until

from labtui.runs import ladder, process
from labtui.runs.records import RunProcess

Child = subprocess.Popen[bytes]


@pytest.fixture
def sleeper() -> Iterator[Child]:
    code = "import signal, time; signal.signal(signal.SIGUSR2, print); print(1, flush=True); time.sleep(3600)"
    child = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, ladder.RUN_ID: "test-run"}, stdout=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == b"1\n"
    yield child
    child.kill()
    child.wait()


def stat_of(child: Child) -> process.Stat:
    stat = process.read_stat(child.pid)
    assert stat is not None
    return stat


def test_a_process_is_pid_and_start_time(sleeper: Child) -> None:
    stat = stat_of(sleeper)
    assert process.alive(stat.pid, stat.start)
    assert not process.alive(stat.pid, stat.start + 1), "a reused pid is another process"
    assert not process.send(stat.pid, stat.start + 1, signal.SIGKILL)
    assert not process.alive(None, None)
    assert process.alive(stat.pid, stat.start)


def test_a_name_with_spaces_and_parentheses_is_read(tmp_path: Path) -> None:
    program = tmp_path / "a) b (c"
    shutil.copy(shutil.which("sleep") or "sleep", program)
    child = subprocess.Popen([program, "3600"], start_new_session=True)
    try:
        until(lambda: stat_of(child).name.startswith("a"), "it has begun")
        stat = stat_of(child)
        assert (stat.name, stat.parent, stat.session) == ("a) b (c", os.getpid(), child.pid)
    finally:
        child.kill()
        child.wait()


def test_a_zombie_has_ended(sleeper: Child) -> None:
    stat = stat_of(sleeper)
    sleeper.kill()
    until(lambda: process.read_stat(stat.pid) is None or stat_of(sleeper).state == "Z", "a zombie")
    assert not process.alive(stat.pid, stat.start)


def test_what_a_process_catches(sleeper: Child) -> None:
    assert process.catches(sleeper.pid, signal.SIGUSR2)
    assert not process.catches(sleeper.pid, signal.SIGUSR1)
    assert not process.catches(2**22 + 1, signal.SIGUSR2)


def test_processes_of_a_run_are_found_by_its_id(sleeper: Child) -> None:
    assert [stat.pid for stat in process.carrying(ladder.RUN_ID, "test-run")] == [sleeper.pid]
    assert process.carrying(ladder.RUN_ID, "test-ru") == []
    assert sleeper.pid in [stat.pid for stat in process.descendants(os.getpid())]
    assert (process.environment(sleeper.pid) or {})[ladder.RUN_ID] == "test-run"


def test_the_ladder_ends_what_is_only_known_by_the_runs_id(sleeper: Child) -> None:
    said: list[str] = []
    came_to = ladder.end("test-run", None, [], between=lambda: sleeper.poll() and None, log=said.append)
    assert (came_to.killed, came_to.stuck) == (1, ())
    assert sleeper.wait() == -signal.SIGKILL
    assert "found by its LABTUI_RUN_ID" in said[0]


def test_the_ladder_spares_what_it_is_told_to_and_reused_pids(sleeper: Child) -> None:
    stat = stat_of(sleeper)
    stranger = RunProcess("rank", stat.pid, stat.start + 1, 0, 0)
    came_to = ladder.end("test-run", None, [stranger], spare=[stat.pid])
    assert came_to.killed == 0 and process.alive(stat.pid, stat.start)


def test_a_stopped_process_is_ended_gently_too(sleeper: Child) -> None:
    os.kill(sleeper.pid, signal.SIGSTOP)
    stat = stat_of(sleeper)
    until(lambda: process.stopped(stat.pid, stat.start), "it is stopped")
    said: list[str] = []
    came_to = ladder.end("test-run", RunProcess("torchrun", stat.pid, stat.start), [], log=said.append)
    assert (came_to.killed, came_to.stuck) == (0, ())
    assert said == [f"SIGTERM to torchrun (pid {stat.pid})"]


def test_how_a_process_ended_is_told_until_it_is_reaped() -> None:
    child = subprocess.Popen(["sh", "-c", "read line; exit 3"], stdin=subprocess.PIPE)
    start = stat_of(child).start
    assert process.exit_status(child.pid, start) is None, "it still runs"
    assert child.stdin is not None
    child.stdin.close()
    until(lambda: process.exit_status(child.pid, start) is not None, "it has ended")
    status = process.exit_status(child.pid, start)
    assert status is not None and os.waitstatus_to_exitcode(status) == 3
    assert process.exit_status(child.pid, start + 1) is None, "another process"
    child.wait()
    assert process.exit_status(child.pid, start) is None
