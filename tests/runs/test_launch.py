"""The command and the environment of ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from labtui.runs.folder import RunFolder
from labtui.runs.launch import REAL_COMMAND, bridge, starter_environment, torchrun_command, worker_environment
from labtui.runs.masking import MASK
from labtui.runs.records import Request

FOLDER = RunFolder(Path("/logs/20261129-120312-x-7f3a"))


def environment(environ: dict[str, str], runtime: Path | None = None, **more: Any) -> dict[str, str]:
    request = Request(FOLDER.id, "x", (), "p", "h", "u", 0, 1.0, **{"device": "cpu", **more})
    return worker_environment(environ, request, FOLDER, runtime)


def test_parameters_travel_as_json() -> None:
    command = torchrun_command("python", Path("/e/main.py"), 4, {"n": 3, "b": True, "s": "a b"}, FOLDER.ranks)
    assert command[:3] == ("python", "-m", "torch.distributed.run") and "--standalone" in command
    assert command[-4:] == ("/e/main.py", "n=3", "b=true", 's="a b"')


def test_an_experiments_ranks_get_what_keeps_them_sound() -> None:
    got = environment({"HOME": "/h"})
    assert got["OMP_NUM_THREADS"] == "1" and got["PYTHONUNBUFFERED"] == "1"
    assert got["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID" and got["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert got["LABTUI_RUN_ID"] == FOLDER.id and got["LABTUI_RUN_DIR"] == str(FOLDER.path)
    assert got["LABTUI_DEVICE"] == "cpu" and got["LABTUI_AGENT_PID"] == str(os.getpid()) and got["HOME"] == "/h"


def test_what_the_user_set_wins() -> None:
    got = environment({"OMP_NUM_THREADS": "8"}, environment={"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "X_TOKEN": MASK})
    assert got["OMP_NUM_THREADS"] == "8" and got["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    assert "X_TOKEN" not in got, "a mask is no value"


def test_a_users_command_gets_log_settings_and_keeps_its_threads() -> None:
    got = environment({}, launch="command", device=None)
    assert got["PET_REDIRECTS"] == "3" and got["PET_LOG_DIR"] == str(FOLDER.ranks)
    assert "OMP_NUM_THREADS" not in got and "PYTHONWARNINGS" not in got and "LABTUI_DEVICE" not in got


def test_a_run_within_a_run_is_a_run_of_its_own() -> None:
    outer = {"LABTUI_RUN_ID": "outer", "LABTUI_RUN_DIR": "/outer", "LABTUI_LOGS": "/l", REAL_COMMAND: "[]"}
    assert starter_environment(outer, {"A_KEY": "s"}) == {"LABTUI_LOGS": "/l", "A_KEY": "s"}


def test_only_labtui_can_be_imported_over_the_bridge(tmp_path: Path) -> None:
    bridge(tmp_path)
    got = environment({"PYTHONPATH": "/mine"}, tmp_path)
    assert got["PYTHONPATH"] == f"{tmp_path}/python:/mine"
    assert os.listdir(tmp_path / "python") == ["labtui"]
    code = "import labtui.bench.report, sys, json; print(json.dumps(labtui.__file__))"
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code], env={"PYTHONPATH": str(tmp_path / "python")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == f"{tmp_path}/python/labtui/__init__.py"
