"""Clocks that jump, pids that are somebody else's by now, a machine that was restarted."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faults.audit import Process, audit, identity, written
from faults.workers import at_work, launcher, script
from lab import launch

from labtui.cli.main import main
from labtui.runs import lost, process, state
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import LOST, QUEUED, SUCCEEDED, Owner, RunProcess
from labtui.runs.telemetry import FULL_S, thin

MakeRun = Callable[..., RunFolder]


@pytest.fixture
def stranger() -> Iterator[Process]:
    """Somebody's process, which leads a group of its own."""
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    yield identity(child.pid)
    child.kill()
    child.wait()


def dead_run(make_run: MakeRun, agent: Owner, *processes: RunProcess) -> RunFolder:
    """A run that was running when its agent went, with one event and no last word."""
    folder = make_run("running", request={"uid": os.getuid()}, status={"agent": agent, "processes": processes})
    folder.agent_log.write_text("")
    event = {"t": 1.0, "rank": 0, "kind": "check", "name": "it began", "passed": True}
    folder.rank_events(0).write_text(json.dumps(event) + "\n")
    return folder


def test_a_pid_that_is_somebody_elses_by_now(make_run: MakeRun, stranger: Process) -> None:
    pid, start = stranger
    agent = Owner(pid, start - 1, process.boot_id(), os.uname().nodename)
    ranks = [RunProcess("torchrun", pid, start - 1), RunProcess("rank", pid, start - 1, 0, 0)]
    folder = dead_run(make_run, agent, *ranks)
    before = written(folder)
    status = audit(folder, LOST, f"its agent (pid {pid}) is gone and left no last word", before=before)
    assert status.checks[0]["name"] == "it began"
    assert process.alive(pid, start), "the stranger was left alone"
    assert main(["stop", folder.id]) == 2


def test_the_machine_was_restarted(make_run: MakeRun, stranger: Process) -> None:
    """Pids and start times begin anew: even one that fits is another process."""
    pid, start = stranger
    agent = Owner(pid, start, "another-boot", os.uname().nodename)
    folder = dead_run(make_run, agent, RunProcess("torchrun", pid, start), RunProcess("rank", pid, start, 0, 0))
    before = written(folder)
    assert state.observe(folder).reason == "the machine was restarted while it ran"
    lost.bury(folder)
    assert process.alive(pid, start), "the stranger was left alone"
    assert folder.status().checks[0]["name"] == "it began"
    # The record still names the stranger's numbers, which the audit would take for a process that is left.
    write_json(folder.status_file, {**folder.status().document(), "processes": []})
    audit(folder, LOST, "the machine was restarted while it ran", before=before)


@pytest.mark.slow
def test_the_clock_jumps_back(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strange_library: Path
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(strange_library))
    monkeypatch.setenv("STRANGE_CLOCK", str(clock))
    body = """
        wait_for('go')
        report.metric("loss", 0.5, step=1)
        wait_for('done')
    """
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, body)), stall_s=60)
    at_work(folder)
    before = written(folder)
    clock.write_text("-3600")
    (folder.path / "go").touch()
    (folder.path / "done").touch()
    monkeypatch.delenv("LD_PRELOAD")
    monkeypatch.delenv("STRANGE_CLOCK")
    status = audit(folder, SUCCEEDED, "all 2 checks passed", before=before)
    seconds = status.seconds(time.time())
    assert seconds is not None and 0 < seconds < 120, "it took what it took"


def test_folders_from_the_future_are_listed(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The clock was wrong when they were made, or is now."""
    ahead = time.time() + 86_400
    done, waits = make_run(created=ahead), make_run("queued", created=ahead)
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert done.id in out and "Traceback" not in err
    assert main(["show", done.id]) == 0
    # Nobody starts it any more, whatever its time says.
    assert state.observe(waits).state == LOST
    write_json(waits.request_file, replace(waits.request(), created=time.time()).document())
    # `runs` has buried it: as it would have been a moment after it was made.
    fresh = replace(waits.status(), state=QUEUED, created=time.time(), ended=None, reason="")
    write_json(waits.status_file, fresh.document())
    assert state.observe(waits).state == QUEUED


def test_telemetry_of_a_time_that_came_twice_is_thinned_alike() -> None:
    started = 1000.0
    late = started + FULL_S
    times = [late + second for second in range(3000)] + [late + second for second in range(600, 3000)]
    lines = [json.dumps({"t": t}).encode() for t in times]
    kept = [json.loads(line)["t"] for line in thin(lines, started, late + 100_000)]
    assert kept.count(late + 1200) == 2, "a jump back loses no minute"
    assert len(kept) == pytest.approx(len(times) / 60, abs=2)
