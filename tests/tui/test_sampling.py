"""How this machine is: from a live run's telemetry, or from a sampler of our own that ends with us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_lab import MACHINE, REAL_SAMPLER, gpu_run, made_run, reading, sample
from test_watcher import Posted, at_work

from labtui.runs import process
from labtui.runs.folder import RunFolder
from labtui.tui import sampling
from labtui.tui.messages import Machine, MachineRead
from labtui.tui.sampling import MachineWatcher, OwnSampler

SAYS = "import sys, time; print({lines!r}, flush=True); sys.stdin.read()"


def says(*documents: object) -> tuple[str, ...]:
    """A sampler that says just that, and then waits for the end of its stdin."""
    return (sys.executable, "-c", SAYS.format(lines="\n".join(json.dumps(document) for document in documents)))


def watched(posted: Posted, condition: Callable[[Machine], object]) -> Machine:
    message = posted.until(lambda m: isinstance(m, MachineRead) and condition(m.machine))
    assert isinstance(message, MachineRead)
    return message.machine


def alive(pid: int) -> bool:
    stat = process.read_stat(pid)
    return stat is not None and stat.state != "Z"


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    command = says({"machine": {**MACHINE, "gpus_why": None}}, sample(time.time(), [reading(0), reading(1)]))
    monkeypatch.setattr(sampling, "COMMAND", command)


@pytest.mark.usefixtures("scripted")
def test_a_sampler_of_our_own_is_read_and_ended(own_folders: Path) -> None:
    posted = Posted()
    watcher = MachineWatcher(posted.append)
    watcher.show(True)
    with at_work(watcher):
        watcher.follow(None)
        seen = watched(posted, lambda machine: machine.gauges.gpus)
        assert [gpu.latest["util"] for gpu in seen.gauges.gpus] == [97, 97]
        assert seen.document is not None and len(seen.document["gpus"]) == 4
        assert seen.run == ""
        source = watcher._source
        assert isinstance(source, OwnSampler) and source.pid is not None and alive(source.pid)
        pid = source.pid
        # A run becomes live: it measures, and our sampler goes.
        folder = gpu_run(own_folders)
        watcher.follow((folder, "lab_test"))
        live = watched(posted, lambda machine: machine.run == "lab_test")
        assert [gpu.index for gpu in live.gauges.gpus] == [0, 1, 2, 3]
        assert not alive(pid)
        # It ends: we measure again.
        watcher.follow(None)
        watched(posted, lambda machine: machine.run == "" and len(machine.gauges.gpus) == 2 and machine is not seen)
        assert isinstance(watcher._source, OwnSampler)
        last = watcher._source.pid
    assert last is not None and not alive(last), "it ends with the thread"


@pytest.mark.usefixtures("scripted")
def test_the_sampler_ends_when_the_lab_is_killed(tmp_path: Path) -> None:
    code = (
        "import time; from labtui.tui import sampling; sampling.COMMAND = " + repr(sampling.COMMAND) + "\n"
        "ours = sampling.OwnSampler(); ours.look(0.0); print(ours.pid, flush=True); time.sleep(60)"
    )
    lab = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert lab.stdout is not None
    pid = int(lab.stdout.readline())
    lab.kill()
    lab.wait()
    lab.stdout.close()
    deadline = time.monotonic() + 20
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_is_posted_while_nobody_looks(own_folders: Path) -> None:
    folder = gpu_run(own_folders)
    posted = Posted()
    watcher = MachineWatcher(posted.append)
    with at_work(watcher):
        watcher.follow((folder, "lab_test"))
        while watcher._source is None:
            time.sleep(0.005)
        assert posted == []
        watcher.show(True)
        watched(posted, lambda machine: machine.gauges.gpus)


def test_a_live_run_is_posted_as_its_telemetry_grows(own_folders: Path) -> None:
    folder: RunFolder = made_run(own_folders, "running")
    posted = Posted()
    watcher = MachineWatcher(posted.append)
    watcher.show(True)
    with at_work(watcher):
        watcher.follow((folder, "lab_test"))
        watched(posted, lambda machine: machine.gauges.t is None)
        now = time.time()
        with (folder.telemetry / "here.jsonl").open("a") as file:
            file.write(json.dumps(sample(now, [reading(0)])) + "\n")
        assert watched(posted, lambda machine: machine.gauges.gpus).document is None
        folder.machine_file.write_text(json.dumps(MACHINE))
        watched(posted, lambda machine: machine.document == MACHINE)


def test_a_live_run_without_telemetry_says_so(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SILENCE_S", 0.0)
    live = sampling.LiveRun(made_run(own_folders, "running"), "lab_test")
    while not (seen := live.look(0.0)).trouble:
        pass
    assert seen.trouble == "it has no telemetry"


def test_a_host_without_gpus_does_not_flicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "HOST_S", 1e9)
    now = time.time()
    monkeypatch.setattr(sampling, "COMMAND", says({"machine": {"gpus": []}}, *(sample(now + n) for n in range(5))))
    posted = Posted()
    watcher = MachineWatcher(posted.append)
    watcher.show(True)
    with at_work(watcher):
        watcher.follow(None)
        watched(posted, lambda machine: machine.gauges.t is not None)
        looks, look = [], watcher.look
        monkeypatch.setattr(watcher, "look", lambda: (looks.append(1), look())[1])
        source = watcher._source
        assert isinstance(source, OwnSampler)
        source._reader.take(sample(now + 10), "here")
        while len(looks) < 3:
            time.sleep(0.005)
        assert len(posted) <= 3


def test_a_sampler_that_ends_or_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for command, trouble in (
        (("true",), "the sampler has ended"),
        (("/nonexistent",), "can't be started (No such file"),
    ):
        monkeypatch.setattr(sampling, "COMMAND", command)
        ours = OwnSampler()
        deadline = time.monotonic() + 20
        while trouble not in (seen := ours.look(0.0)).trouble:
            assert time.monotonic() < deadline, seen
        assert ours.pid is None and ours.look(0.0).trouble == seen.trouble, "it is not started again at once"
        ours.close()


def test_a_sampler_that_is_silent_is_killed_and_started_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SILENCE_S", 0.0)
    ours = OwnSampler()
    ours.look(0.0)
    pid = ours.pid
    assert pid is not None
    while not (seen := ours.look(0.0)).trouble:
        pass
    assert "silent" in seen.trouble and not alive(pid)
    ours._start_at = 0.0
    ours.look(0.0)
    assert ours.pid not in (None, pid)
    ours.close()


def test_the_real_sampler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "COMMAND", REAL_SAMPLER)
    posted = Posted()
    watcher = MachineWatcher(posted.append)
    watcher.show(True)
    with at_work(watcher):
        watcher.follow(None)
        seen = watched(posted, lambda machine: machine.gauges.t is not None)
        assert seen.document is not None and seen.document["host"] == os.uname().nodename
        assert seen.gauges.hosts[0].latest["mem_available"] > 0
