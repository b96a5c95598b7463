"""A run that wants GPUs on which somebody else computes is refused with their names."""

from __future__ import annotations

import getpass
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import fixture
from fake_nvml.fixture import FakeNvml
from lab import end, launch

from labtui.runs import foreign
from labtui.runs.ladder import RUN_ID
from labtui.runs.records import FAILED, Request

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml


@pytest.fixture
def machine(fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    for name, value in fake_nvml.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake_nvml


def busy(visible: str | None = None, **asked: Any) -> str:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    request = Request("id", "command", (), "", "", "", 0, 0.0, environment=environment, **asked)
    # By a process of its own: the library reads its settings when it is loaded.
    code = (
        "import os, pickle, sys; from labtui.runs import foreign;"
        "print(foreign.busy(pickle.load(sys.stdin.buffer), os.environ))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(request), capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_who_is_on_the_gpus_is_named(machine: FakeNvml) -> None:
    machine.script("gpus 4", f"gpu 1 proc {os.getpid()} C 11000")
    told = busy(device="cuda", nproc=2)
    assert told.startswith("used by others: GPU 1 by ") and told.endswith("(--share runs beside them)")
    assert f"of {getpass.getuser()} (pid {os.getpid()}, 11.5 GB)" in told
    assert not busy(device="cuda", nproc=1), "GPU 0 is free"
    assert not busy(device="cuda", nproc=2, share=True)
    assert not busy(device="cpu", nproc=2)
    assert "GPU 1" in busy("1,2", device="cuda", nproc=1), "GPUs are counted as the run sees them"
    assert "GPU 1" in busy("0,1"), "a command takes what it is shown"
    assert not busy(), "of this command nobody knows which it takes"


def test_runs_of_labtui_are_left_to_the_queue(machine: FakeNvml) -> None:
    code = "print(flush=True); input()"
    environment = {**os.environ, RUN_ID: "another"}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as ours:
        assert ours.stdout is not None
        ours.stdout.readline()
        machine.script("gpus 1", f"gpu 0 proc {ours.pid} C 100")
        assert not busy(device="cuda", nproc=1)
        ours.communicate(b"\n")


def test_a_driver_that_is_not_there_holds_nothing_up(own_folders: Path) -> None:
    assert not foreign.busy(Request("id", "command", (), "", "", "", 0, 0.0, device="cuda", nproc=2), {})


def test_the_run_ends_before_it_starts(own_folders: Path, machine: FakeNvml) -> None:
    machine.script("gpus 1", f"gpu 0 proc {os.getpid()} C 100")
    status = end(launch(own_folders, [sys.executable, "-c", "pass"], device="cuda", nproc=1))
    assert (status.state, status.ranks) == (FAILED, ())
    assert status.reason.startswith("used by others: GPU 0 by ")
