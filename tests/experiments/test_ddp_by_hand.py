"""ddp_by_hand under real torchrun: its proofs hold, its counts are those of theory, and the wrong variant fails."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labtui.catalog.guide import read_guide
from labtui.catalog.manifest import Experiment, read_experiment
from labtui.theory.collectives import all_reduce_bytes

FOLDER = Path(__file__).parents[2] / "experiments" / "ddp_by_hand"
WAYS = ("per_parameter", "flat_buckets", "hooks", "ddp")
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def torchrun(nproc: int, *settings: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(nproc), str(FOLDER / "main.py"),
         *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu", **environment},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def of_variant(experiment: Experiment, name: str) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in experiment.variant(name).parameters.items()]


def verdicts(stdout: str) -> dict[str, bool]:
    return {name: word == "passed" for word, name in re.findall(r"check (passed|FAILED): ([^:]*):", stdout)}


def gradient_checks() -> list[str]:
    return [f"gradients equal the full batch's ({way})" for way in WAYS]


@needs_torch
def test_a_default_run_proves_counts_and_times_four_ways(tmp_path):
    done = torchrun(2, "steps=3", LABTUI_RUN_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    ranks = [
        [json.loads(line) for line in (tmp_path / f"events/rank{rank}.jsonl").read_text().splitlines()]
        for rank in (0, 1)
    ]
    of_kind = {kind: [event for event in ranks[0] if event["kind"] == kind] for kind in
               ("check", "prediction", "result", "metric", "progress")}  # fmt: skip
    checks = {check["name"]: check for check in of_kind["check"]}
    assert set(checks) == {*gradient_checks(), *(f"weights identical on all ranks ({way})" for way in WAYS)}
    assert all(check["passed"] for check in checks.values())

    results = of_kind["result"]
    # The bound means something: every parameter's gradient is far above it.
    (weakest,) = (result["value"] for result in results if result["name"] == "largest_gradient")
    assert weakest > 1000 * checks[gradient_checks()[0]]["at_most"]

    predictions = {prediction["name"]: prediction for prediction in of_kind["prediction"]}
    gradient_bytes = 4 * (8 * (512 * 512 + 512) + 512 + 1)
    for way in WAYS:
        count = predictions[f"collectives per step ({way})"]
        assert count["predicted"] == count["measured"] == (18 if way == "per_parameter" else 4)
        sent = predictions[f"bytes sent per rank and step ({way})"]
        assert sent["predicted"] == all_reduce_bytes(gradient_bytes, 2) == gradient_bytes
        # What is counted holds gloo's headers too: well below 1 KB a collective.
        assert 0 <= sent["measured"] - sent["predicted"] < 1000 * count["measured"]

    losses: dict[int, set[float]] = {}
    for event in of_kind["metric"]:
        if event["name"] == "loss":
            losses.setdefault(event["step"], set()).add(round(event["value"], 5))
    assert [len(values) for values in losses.values()] == [1, 1, 1]  # four ways, one training
    assert min(losses[1]) > min(losses[3])
    timed = {(result["labels"]["way"], result["labels"]["stat"]) for result in results if result["name"] == "step_time"}
    assert timed == {(way, stat) for way in WAYS for stat in ("median", "p10", "p90")}
    assert of_kind["progress"][-1]["done"] == of_kind["progress"][-1]["total"] == 3

    for events in ranks:
        spans = [event for event in events if event["kind"] == "span"]
        assert all(span["start"] <= span["end"] for span in spans)
        for way in WAYS:
            mine = [span for span in spans if span["name"].startswith(f"{way}: ")]
            sent = [span for span in mine if span["lane"] == "communication"]
            backward = [span for span in mine if ": backward " in span["name"]]
            assert len(sent) == (18 if way == "per_parameter" else 4)
            assert len(backward) == 9
            # The point of hooks: the first bucket leaves while backward still computes. Without them it can't.
            early = min(span["start"] for span in sent) < max(span["end"] for span in backward)
            assert early == (way in ("hooks", "ddp"))
    hidden = {result["labels"]["way"]: result["value"] for result in results if result["name"] == "hidden_share"}
    assert hidden["per_parameter"] == hidden["flat_buckets"] == 0
    assert 0 < hidden["hooks"] <= 1
    assert 0 < hidden["ddp"] <= 1


@pytest.mark.slow
@needs_torch
def test_odd_sizes_on_three_ranks_without_labtui(experiment):
    """Uneven shares put right, in float64, sizes that no rank count divides; bare torchrun prints readable lines."""
    settings = of_variant(experiment, "uneven_weighted") + of_variant(experiment, "float64")
    done = torchrun(3, *settings, "width=33", "layers=3", "batch_per_rank=7", "steps=2")
    assert done.returncode == 0, done.stderr
    assert list(verdicts(done.stdout).values()) == [True] * 8
    assert all(re.match(r"\[rank [012]\] \w+", line) for line in done.stdout.splitlines())
    assert re.search(r"gradients equal the full batch's \(ddp\): \S+, at most 1e-14", done.stdout)


@needs_torch
def test_a_mean_of_means_fails_exactly_the_checks_that_are_named(experiment):
    variant = experiment.variant("uneven")
    done = torchrun(2, *of_variant(experiment, "uneven"), "width=64", "layers=2", "steps=1")
    assert done.returncode == 0, done.stderr
    found = verdicts(done.stdout)
    assert [name for name, passed in found.items() if not passed] == list(variant.expect_failure) == gradient_checks()
    assert len(found) == 8  # the weights are identical all the same: identical, and wrong


@pytest.mark.slow
@needs_torch
def test_one_process_is_a_group_too():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "main.py"), "width=16", "layers=1", "steps=1"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(verdicts(done.stdout).values()) == [True] * 8
    assert "bytes sent per rank and step (ddp): predicted 0 B, measured 0 B" in done.stdout
    wrong = subprocess.run(
        [sys.executable, str(FOLDER / "main.py"), "split=uneven"],
        env={**os.environ, "LABTUI_DEVICE": "cpu"}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert wrong.stderr.splitlines()[-1] == "64 examples can't be shared unequally by 1 process"


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("nproc", [1, 3, 4])
@pytest.mark.parametrize("variant", ["", "float64", "uneven_weighted", "one_bucket"])
def test_every_variant_on_other_numbers_of_ranks(experiment, nproc, variant):
    if nproc == 1 and variant == "uneven_weighted":
        pytest.skip("one process has nothing to share out")
    done = torchrun(nproc, *of_variant(experiment, variant), "steps=2")
    assert done.returncode == 0, done.stderr
    assert list(verdicts(done.stdout).values()) == [True] * 8


def test_the_guide_fits_the_experiment(experiment):
    guide = read_guide(FOLDER, experiment)
    assert len(guide.steps) >= 4
    names = {run.variant for run in guide.runs}
    assert {"", "float64", "uneven", "uneven_weighted"} <= names
    assert all(experiment.variant(name).name == name for name in names)
