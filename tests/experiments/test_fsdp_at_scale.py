"""fsdp_at_scale: two pretended ranks are like two real ones to the byte, and of 64 what theory says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labtui.catalog.guide import read_guide
from labtui.catalog.manifest import Experiment, read_experiment
from labtui.theory import fsdp, memory, models

FOLDER = Path(__file__).parents[2] / "experiments" / "fsdp_at_scale"
TINY = models.SIZES["tiny"]
LIKE_REAL = "every category within 1 % of the real step"
SAME_CALLS = "the same collectives as in the real step"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def labtui_run(*arguments: str, **parameters: object) -> subprocess.CompletedProcess[str]:
    settings = [f"--set={name}={value}" for name, value in {"size": "tiny", **parameters}.items()]
    return subprocess.run(
        [sys.executable, "-m", "labtui", "run", "fsdp_at_scale", "--json", *arguments, *settings],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip


def run(*arguments: str, **parameters: object) -> Any:
    done = labtui_run(*arguments, **parameters)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def bare(*settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / "main.py"), *settings],
        env={**os.environ, "LABTUI_DEVICE": "cpu"}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip


def values(document: dict[str, Any], name: str, **labels: object) -> dict[tuple, Any]:
    return {
        tuple(result["labels"].values()): result["value"]
        for result in document["results"]
        if result["name"] == name and labels.items() <= result["labels"].items()
    }


@needs_torch
def test_pretended_ranks_are_like_real_ones(own_folders):
    # Of a size at which the fullest moment is in a reduce-scatter, where gloo copies and others don't.
    document = run("--variant", "beside", sequences=4, precision="bfloat16")
    checks = [(check["rank"], check["name"]) for check in document["checks"] if check["passed"]]
    assert {(rank, name) for rank in (0, 1) for name in (LIKE_REAL, SAME_CALLS)} <= set(checks)
    assert len(checks) == len(document["checks"]) == 10
    memory_, real = values(document, "memory"), values(document, "real_memory")
    reported = [result for result in document["results"] if result["name"] in ("memory", "real_memory")]
    assert len(reported) == len(memory_) + len(real)  # by rank 0, once
    assert memory_ == real
    assert memory_["parameters", "after"] == memory_["gradients", "after"] == 2 * models.parameters(TINY)
    assert 0 < memory_["activations", "peak"] <= memory_["activations", "forward"]
    calls = values(document, "collectives")
    assert calls == {("all_gather",): 2 * TINY.layers + 1, ("reduce_scatter",): TINY.layers + 1}


@needs_torch
@pytest.mark.filterwarnings("ignore:Failed to initialize NumPy")
def test_what_differs_from_the_real_step_fails_the_check(capsys):
    """By less than 1 % in a category, by more, by a category that isn't there, by one collective."""
    from labtui.bench import at_scale
    from labtui.bench.tracker import Tracked

    def step(calls=("all_gather",), **peak):
        sizes = {"parameters": 1000, "optimizer": 2000, **peak}
        return SimpleNamespace(memory=Tracked(sizes, sizes, sizes), seen=SimpleNamespace(calls=list(calls)))

    def verdicts(other):
        capsys.readouterr()
        at_scale.compare(0, step(), other)
        return [
            line.split(":")[0].rpartition(" ")[2] for line in capsys.readouterr().out.splitlines() if "check" in line
        ]

    assert verdicts(step(optimizer=2019)) == ["passed", "passed"]
    assert verdicts(step(optimizer=2021)) == ["FAILED", "passed"]
    assert verdicts(step(optimizer=0)) == ["FAILED", "passed"]
    assert verdicts(step(temporary=1)) == ["FAILED", "passed"]
    assert verdicts(step(calls=())) == ["passed", "FAILED"]


@pytest.mark.slow
@needs_torch
def test_one_of_forty_eight():
    done = bare("size=tiny", "ranks=48", "sequences=2")
    assert done.returncode == 0, done.stderr
    assert "FAILED" not in done.stdout
    assert done.stdout.count("check passed") == 6
    assert "of memory and traffic, not of time" in done.stdout
    found = {
        name: (float(predicted), float(measured))
        for name, predicted, measured in re.findall(
            r"prediction ([^:]+): predicted (\S+) B, measured (\S+) B", done.stdout
        )
    }
    parameters = models.parameters(TINY)
    plain = memory.state_bytes(parameters, 48, "zero3", memory.FP32_ADAM)
    # 128 rows make 3 for each of 48 ranks, which are 144; 72 make 2, which are 96.
    padding = float(re.search(r"result padding = (\S+)", done.stdout)[1])
    assert 0.05 < padding < 0.15
    for name in ("parameters", "gradients", "optimizer"):
        predicted, measured = found[f"{name} held by a rank"]
        assert predicted == pytest.approx(getattr(plain, name), rel=1e-5)
        assert measured == pytest.approx(predicted * (1 + padding), rel=1e-2)
    for name in ("activations after forward", "total at the peak", "gathered weights at the peak"):
        predicted, measured = found[name]
        assert measured == pytest.approx(predicted, rel=0.15), name
    predicted, measured = found["bytes sent by a rank"]
    assert predicted == pytest.approx(fsdp.textbook_sent(parameters, 48, weight=2), rel=1e-5)
    assert measured > predicted  # padding is sent as well
    table = [line for line in done.stdout.splitlines() if not line.startswith("[rank")]
    assert len(table) > 8
    assert max(map(len, table)) < 80


# ---- Slow: the other variants, and what can't be.


@needs_torch
@pytest.mark.slow
def test_without_a_warm_up_they_are_not_like_real_ones(own_folders):
    document = run("--variant", "no_warm_up")
    failed = [check for check in document["checks"] if not check["passed"]]
    assert {(check["rank"], check["name"], check["expected"]) for check in failed} == {
        (0, LIKE_REAL, False), (1, LIKE_REAL, False),
    }  # fmt: skip
    assert all(check["value"] > 0.5 for check in failed)
    assert "failed as intended" in document["reason"]


@needs_torch
@pytest.mark.slow
def test_what_cannot_be_is_said_in_a_sentence(own_folders):
    done = bare("beside=true")
    assert done.returncode == 2
    sentence = "beside=true holds real ranks against pretended ones: at least 2 processes are needed"
    assert done.stderr.splitlines()[-1] == sentence
    sentence = "one process pretends to be one of ranks=64: take 1 process, not 2, or beside=true"
    assert sentence in json.loads(labtui_run("--nproc", "2").stdout)["reason"]


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("variant", ["keep", "float32", "too_many"])
def test_other_variants(own_folders, variant):
    document = run("--variant", variant)
    assert all(check["passed"] for check in document["checks"])


def test_the_guide_fits_the_experiment(experiment):
    guide = read_guide(FOLDER, experiment)
    assert len(guide.steps) >= 4
    assert {"", "beside", "no_warm_up", "keep", "too_many"} <= {one.variant for one in guide.runs}
