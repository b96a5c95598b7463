"""The driver: not there, silent, and a GPU that is lost in the middle of a run (fake NVML)."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_nvml.fixture import FakeNvml
from faults.audit import audit, next_run_works, written
from lab import launch, until

from labtui.runs import process, state
from labtui.runs.folder import RunFolder, read_json
from labtui.runs.records import RUNNING, SUCCEEDED

pytestmark = pytest.mark.slow

TRAINING = """
import os, time
from pathlib import Path
from labtui.bench import report
report.check("it began", passed=True)
print("is here", flush=True)
while not Path(os.environ["LABTUI_RUN_DIR"], "done").exists():
    time.sleep(0.02)
"""


def samples(folder: RunFolder) -> list[dict[str, Any]]:
    paths = folder.telemetry.glob("*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines(keepends=True) if b"\n" in line]


def train(root: Path, **options: object) -> RunFolder:
    folder = launch(root, [sys.executable, "-c", TRAINING], device="cuda", nproc=1, **options)
    until(lambda: folder.output.exists() and "is here" in folder.output.read_text(), "it trains")
    return folder


def test_no_driver(own_folders: Path) -> None:
    folder = train(own_folders)
    until(lambda: len(samples(folder)) > 1, "telemetry")
    before = written(folder)
    (folder.path / "done").touch()
    audit(folder, SUCCEEDED, "its check passed", before=before)
    assert all(sample["gpus"] == [] and "load1" in sample["host"] for sample in samples(folder))
    assert read_json(folder.machine_file).get("gpus", []) == []


def test_a_gpu_is_lost(own_folders: Path, fake_nvml: FakeNvml) -> None:
    fake_nvml.script("gpus 2", "gpu * util 55", "lost 1 1")
    folder = train(own_folders)
    until(lambda: samples(folder) and len(samples(folder)[-1]["gpus"]) == 2, "both GPUs are seen")
    before = written(folder)
    fake_nvml.tick(1)
    until(lambda: samples(folder)[-1]["gpus"][1]["util"] is None, "one is lost")
    lost = samples(folder)[-1]["gpus"]
    assert "lost" in lost[1]["why"]["util"] and lost[1]["mem_used"] is None and lost[0]["util"] == 55
    assert state.observe(folder).state == RUNNING, "it is for the training to say what that means"
    (folder.path / "done").touch()
    audit(folder, SUCCEEDED, "its check passed", before=before)


@pytest.mark.parametrize("call", ["nvmlInit_v2", "nvmlDeviceGetUtilizationRates"])
def test_a_driver_that_does_not_answer(own_folders: Path, fake_nvml: FakeNvml, call: str) -> None:
    """It delays neither start nor end, and the host is measured all the same."""
    fake_nvml.script("gpus 2", f"delay {call} 3600000")
    folder = train(own_folders)
    until(lambda: len(samples(folder)) > 2, "telemetry goes on")
    before = written(folder)
    (folder.path / "done").touch()
    audit(folder, SUCCEEDED, "its check passed", before=before)
    assert all("cpu" in sample["host"] for sample in samples(folder)[1:])


def test_a_sampler_that_hangs_delays_nothing(own_folders: Path) -> None:
    folder = train(own_folders)
    until(lambda: samples(folder), "telemetry")
    agent = state.observe(folder).agent
    assert agent is not None
    below = process.descendants(agent.pid)
    (sampler,) = (each for each in below if b"labtui.machine.sampler" in Path(f"/proc/{each.pid}/cmdline").read_bytes())
    before = written(folder)
    os.kill(sampler.pid, signal.SIGSTOP)
    until(lambda: process.stopped(sampler.pid, sampler.start), "it is stopped")
    (folder.path / "done").touch()
    audit(folder, SUCCEEDED, "its check passed", before=before, also_gone=[(sampler.pid, sampler.start)])
    next_run_works(own_folders)
