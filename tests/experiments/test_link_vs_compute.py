"""link_vs_compute under labtui and bare: its figures hang together, and the next run gets them as its profile."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labtui.catalog.guide import read_guide
from labtui.catalog.manifest import Experiment, read_experiment
from labtui.runs import profile
from labtui.runs.folder import RunFolder
from labtui.theory.flops import flops_per_byte, tokens_to_hide

FOLDER = Path(__file__).parents[2] / "experiments" / "link_vs_compute"
SMALL = {"max_size": 256, "max_bytes": 1048576, "seconds": 0.02}
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def run(nproc: int, **parameters: object) -> dict[str, Any]:
    """The run as `labtui run --json` tells it."""
    settings = [f"--set={name}={value}" for name, value in {**SMALL, **parameters}.items()]
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "link_vs_compute", "--device", "cpu", "--nproc", str(nproc), "--json",
         *settings],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def values(document: dict[str, Any], name: str, **labels: object) -> list[float]:
    return [
        result["value"]
        for result in document["results"]
        if result["name"] == name and labels.items() <= result["labels"].items()
    ]


@needs_torch
def test_two_processes_measure_compute_link_and_their_balance(own_folders):
    document = run(2)
    checks = {check["name"]: check["passed"] for check in document["checks"]}
    assert checks == {
        "matrix products are exact (float32)": True,
        "matrix products are exact (bfloat16)": True,
        "#wrong is 0": True,
    }
    (beta,), (alpha,) = values(document, "beta"), values(document, "alpha")
    assert beta > 0
    assert alpha >= 0
    for dtype in ("float32", "bfloat16"):
        (best,) = values(document, "best_tflops", dtype=dtype)
        assert best == max(values(document, "tflops", dtype=dtype)) > 0
        (ratio,) = values(document, "flops_per_byte", dtype=dtype)
        assert ratio == pytest.approx(flops_per_byte(best, beta))
        assert values(document, "tokens_to_hide", dtype=dtype) == [pytest.approx(tokens_to_hide(ratio, 2, 4))]
    assert len(values(document, "busbw", collective="all_reduce", world_size=2)) == 4  # 16 KB to 1 MB
    assert sorted(map(round, values(document, "published_flops_per_byte"))) == [6181, 9700, 19780]
    (prediction,) = document["predictions"]
    assert (prediction["predicted"], prediction["measured"]) == (1.0, beta)
    assert prediction["why"] == "no profile of this machine: 200 us a message and 1 GB/s were assumed"

    # What it found is this machine's profile from now on.
    folder = RunFolder(own_folders / document["id"])
    found = profile.newest(own_folders, folder.request())
    assert found is not None
    assert (found["alpha"], found["beta"], found["run"]) == (alpha, beta, document["id"])
    assert found["tflops"]["float32"] == values(document, "best_tflops", dtype="float32")[0]


@pytest.mark.slow
@needs_torch
def test_four_processes(own_folders):
    document = run(4, dtype="float32")
    assert all(check["passed"] for check in document["checks"])
    assert len(values(document, "busbw", world_size=4)) == 4
    assert values(document, "best_tflops", dtype="bfloat16") == []


@needs_torch
@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        (
            ["dtype=float32", "max_size=256", "seconds=0"],
            0,
            "one process has no link to measure: only what it computes",
        ),
        (["max_size=65536"], 2, "multiplying [65536, 65536] matrices (max_size): needs 51.5 GB per rank, 1.0 GB are"),
        (["dtype=float16"], 2, "dtype is 'float16', 'both' or 'float32' or 'bfloat16' expected"),
    ],
)
def test_one_process_says_what_it_can_show_and_what_it_cannot(settings, code, said):
    script = (
        "import sys; from labtui.bench import group, hardware; hardware.free_memory = lambda group: 1e9;"
        "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(FOLDER / "main.py"), *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_guide_fits_the_experiment(experiment):
    guide = read_guide(FOLDER, experiment)
    assert len(guide.steps) >= 4
    assert guide.runs
