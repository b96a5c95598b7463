"""A whole run on GPUs that are not there: the fake NVML plays a training curve, a throttled GPU and one that is lost,
while a command writes an NCCL log of four cards into the file that NCCL_DEBUG_FILE names."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import fixture
from fake_nvml.fixture import FakeNvml
from gpu_play import CASE, play
from lab import end, launch, until

from labtui.runs.folder import RunFolder, read_json
from labtui.runs.records import SUCCEEDED

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml


def samples(folder: RunFolder) -> list[dict[str, Any]]:
    paths = folder.telemetry.glob("*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def of_gpu(folder: RunFolder, index: int) -> list[dict[str, Any]]:
    return [gpu for sample in samples(folder) for gpu in sample["gpus"] if gpu["index"] == index]


def nccl_of(folder: RunFolder) -> dict[str, Any]:
    document: dict[str, Any] = read_json(folder.nccl_file) if folder.nccl_file.exists() else {}
    return document


def test_paths_and_gpus_are_followed_while_they_change(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_nvml: FakeNvml
) -> None:
    folder = play(own_folders, tmp_path, monkeypatch, fake_nvml)

    # While it runs: half of the log, the first tick of the curve.
    until(lambda: nccl_of(folder).get("links"), "the first links are known")
    half = nccl_of(folder)
    until(lambda: any(gpu["util"] == 10 for gpu in of_gpu(folder, 0)), "the curve begins")
    until(lambda: read_json(folder.machine_file).get("gpus"), "machine.json names the GPUs")
    machine = read_json(folder.machine_file)
    assert [gpu["name"] for gpu in machine["gpus"]] == ["NVIDIA GeForce RTX 5090"] * 4
    assert machine["topology"] is not None and machine["driver"]

    fake_nvml.tick(1)
    until(lambda: any(gpu["util"] == 55 for gpu in of_gpu(folder, 0)), "the curve rises")
    fake_nvml.tick(2)
    until(lambda: of_gpu(folder, 1)[-1]["throttle"] == ["sw_power_cap"], "a GPU is held back")
    until(lambda: of_gpu(folder, 2)[-1]["util"] is None, "a GPU is lost")
    lost = of_gpu(folder, 2)[-1]
    assert "lost" in lost["why"]["util"] and lost["mem_used"] is None, "unknown is not 0"
    assert of_gpu(folder, 3)[-1]["util"] == 97, "one sick GPU hides no other"

    (folder.path / "go").touch()
    expected = json.loads(Path(f"{CASE}.json").read_text())
    until(lambda: nccl_of(folder).get("pairs") == expected["pairs"], "all links are known")
    (folder.path / "done").touch()
    status = end(folder)

    # Afterwards: the same from the folder.
    assert status.state == SUCCEEDED, status.reason
    document = nccl_of(folder)
    assert len(half["links"]) <= len(document["links"])
    for field in ("kind", "nccl_version", "nranks", "nnodes", "transports", "pairs", "channels", "network", "warnings"):
        wanted = sorted(expected[field]) if field == "warnings" else expected[field]
        found = sorted(document[field]) if field == "warnings" else document[field]
        assert found == wanted, field
    assert document["diagnosis"] and document["bandwidth"] == [[0, 1, 11.25]]
    assert {len(sample["gpus"]) for sample in samples(folder)} <= {0, 4}
    assert list(folder.nccl.iterdir())


def test_a_failure_of_nccl_is_told_with_its_cause(own_folders: Path, tmp_path: Path) -> None:
    case = CASE.with_name("nccl-2.28-shm-no-space")
    code = (
        "import os, sys; log = os.environ['NCCL_DEBUG_FILE'].replace('%h', 'host').replace('%p', '1');"
        f"open(log, 'wb').write(open({str(case) + '.log'!r}, 'rb').read()); sys.exit(1)"
    )
    folder = launch(own_folders, [sys.executable, "-c", code])
    status = end(folder)
    diagnosis = nccl_of(folder)["diagnosis"]
    assert status.reason == f"ended with exit code 1; NCCL's log: {diagnosis}" and "/dev/shm" in diagnosis


def test_nccls_settings_are_the_users_where_they_said_so(own_folders: Path) -> None:
    code = "import os; print({name: value for name, value in os.environ.items() if name.startswith('NCCL')})"
    command = [sys.executable, "-c", code]
    ours = launch(own_folders, command)
    users = launch(own_folders, command, environment={"NCCL_DEBUG": "WARN"})
    quiet = launch(own_folders, command, quiet_nccl=True)
    for folder in (ours, users, quiet):
        assert end(folder).state == SUCCEEDED
    said = eval(ours.output.read_text())
    assert said["NCCL_DEBUG"] == "INFO" and said["NCCL_DEBUG_SUBSYS"] == "INIT,ENV,GRAPH,P2P,NET,NVLS"
    assert said["NCCL_DEBUG_FILE"] == f"{ours.path}/nccl/%h.%p.log"
    assert eval(users.output.read_text())["NCCL_DEBUG"] == "WARN"
    assert eval(quiet.output.read_text()) == {}
    assert not ours.nccl_file.exists(), "no log, no paths"


def test_a_ranks_gpu_is_recorded_also_where_cuda_renumbers(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_nvml: FakeNvml
) -> None:
    for name, value in fake_nvml.environ.items():
        monkeypatch.setenv(name, value)
    fake_nvml.script("gpus 4")
    code = "import os, time\nwhile not os.path.exists(os.environ['LABTUI_RUN_DIR'] + '/done'): time.sleep(0.02)"
    environment = {"RANK": "0", "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "2,3"}
    inner = [
        sys.executable,
        "-c",
        f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {code!r}]))",
    ]
    folder = launch(
        own_folders, ["env", *(f"{n}={v}" for n, v in environment.items()), "sh", "-c", 'exec "$@"', "x", *inner]
    )

    def placed() -> dict[str, Any]:
        place: dict[str, Any] = read_json(folder.machine_file).get("ranks", {}).get("0", {})
        return place

    until(lambda: folder.machine_file.exists() and placed().get("nvml_index") is not None, "the rank's GPU is known")
    gpus = read_json(folder.machine_file)["gpus"]
    assert placed()["nvml_index"] == 2 and placed()["uuid"] == gpus[2]["uuid"]
    (folder.path / "done").touch()
    assert end(folder).state == SUCCEEDED
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
