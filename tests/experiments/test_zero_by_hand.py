"""zero_by_hand: four stages that train as one process does, hold what the formula says and send what theory says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labtui.catalog.guide import read_guide
from labtui.catalog.manifest import Experiment, read_experiment
from labtui.theory import collectives, memory

FOLDER = Path(__file__).parents[2] / "experiments" / "zero_by_hand"
STAGES = ("ddp", "zero1", "zero2", "zero3")
CHECKS = (
    "gradients equal the full batch's",
    "weights equal one process's",
    "weights identical on all ranks",
    "a rank holds what the formula says",
)
ALL_CHECKS = [f"{check} ({stage})" for stage in STAGES for check in CHECKS]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def run(*arguments: str, **parameters: object) -> dict[str, Any]:
    """What `labtui run --json` tells."""
    settings = [f"--set={name}={value}" for name, value in parameters.items()]
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "zero_by_hand", "--device", "cpu", "--json", *arguments, *settings],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def value(document: dict[str, Any], name: str, **labels: object) -> Any:
    (found,) = [
        result["value"] for result in document["results"] if result["name"] == name and result["labels"] == labels
    ]
    return found


def predictions(document: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {each["name"]: (each["predicted"], each["measured"]) for each in document["predictions"]}


def proved(document: dict[str, Any]) -> dict[str, float]:
    """The value of each check, all of which must have passed."""
    assert [check["name"] for check in document["checks"] if check["passed"]] == ALL_CHECKS
    return {check["name"]: check["value"] for check in document["checks"]}


def held_and_sent_as_theory_says(document: dict[str, Any], ranks: int, parameters: int, padded: int) -> None:
    found = predictions(document)
    for stage in STAGES:
        state = memory.state_bytes(parameters, ranks, stage, memory.FP32_ADAM)
        for kind in ("parameters", "gradients", "optimizer"):
            predicted, measured = found[f"{kind} when backward ends ({stage})"]
            assert predicted == round(getattr(state, kind))
            assert measured == getattr(memory.state_bytes(padded, ranks, stage, memory.FP32_ADAM), kind)
            assert measured == pytest.approx(predicted, rel=0.02)
            assert value(document, "bytes_held", way=stage, kind=kind) == measured
        assert value(document, "bytes_held", way=stage, kind="other") == 0
        assert (
            value(document, "state_held", way=stage) == memory.state_bytes(padded, ranks, stage, memory.FP32_ADAM).total
        )
        predicted, measured = found[f"activations when forward ends ({stage})"]
        assert predicted == measured > 0

        half = (ranks - 1) / ranks * 4 * padded  # of an all-reduce
        best = {"ddp": 2, "zero1": 2, "zero2": 2, "zero3": 3}[stage] * half
        assert found[f"bytes per rank and step, at best ({stage})"] == (best, best)
        predicted, measured = found[f"bytes sent per rank and step ({stage})"]
        assert predicted == {"ddp": 2, "zero1": 3, "zero2": 3, "zero3": 4}[stage] * half  # gloo's reduce-scatter is 2
        planned, issued = found[f"collectives per step ({stage})"]
        assert planned == issued
        assert 0 <= measured - predicted < 1000 * issued * (ranks - 1)  # what is counted holds gloo's headers too
        assert value(document, "times_ddp", way=stage, count="best") == {"zero3": 1.5}.get(stage, 1)
    peaks = [value(document, "peak_memory", way=stage) for stage in STAGES]
    assert peaks[0] > peaks[1] > peaks[3]  # what gloo lets go of late may blur the step in between


@needs_torch
def test_four_stages_are_one_training_and_hold_and_send_ever_other_amounts(own_folders):
    document = run("--timeout", "100", layers=3, width=128, rounds=2, steps=3)
    values = proved(document)
    # The bounds mean something: gradients and what training moves are far above them.
    bounds = {check["name"]: check.get("at_most") for check in document["checks"]}
    assert value(document, "largest_gradient") > 1000 * bounds[ALL_CHECKS[0]]
    assert value(document, "largest_change") > 10 * bounds[ALL_CHECKS[1]]
    assert len({values[f"weights equal one process's ({stage})"] for stage in STAGES}) == 1
    count = 3 * (128 * 128 + 128) + 129
    held_and_sent_as_theory_says(document, 2, count, count + 1)
    assert value(document, "times_ddp", way="zero3", count="measured") == pytest.approx(2, rel=0.05)
    assert len({value(document, "loss", way=stage) for stage in STAGES}) == 1
    assert value(document, "step_time_over_ddp", way="zero3", stat="median") > 0

    lines = (own_folders / document["id"] / "events" / "rank1.jsonl").read_text().splitlines()
    spans = [event for event in map(json.loads, lines) if event["kind"] == "span"]
    assert {span["lane"] for span in spans} == {"compute", "communication"}

    def order(stage: str) -> list[str]:
        """The first letters of what this stage did in a step, one layer after the other."""
        return [span["name"].split()[1] for span in spans if span["name"].startswith(f"{stage}: ")]

    # When each thing is sent is what tells the stages apart.
    assert order("ddp") == ["forward"] * 4 + ["backward"] * 4 + ["all_reduce"] * 4 + ["AdamW"] * 4
    assert order("zero1")[4:] == ["backward"] * 4 + ["reduce_scatter"] * 4 + ["AdamW", "all_gather"] * 4
    assert order("zero2")[4:] == ["backward", "reduce_scatter"] * 4 + ["AdamW", "all_gather"] * 4
    assert order("zero3") == (
        ["all_gather", "forward"] * 4 + ["all_gather", "backward", "reduce_scatter"] * 4 + ["AdamW"] * 4
    )


DRIVER = f"""\
import importlib.util, json, sys
from labtui.bench import group, report
spec = importlib.util.spec_from_file_location("main", {str(FOLDER / "main.py")!r})
main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(main)
settings = json.loads(sys.argv[1])
def each(me):
    for name, parameters in settings.items():
        report.note(f"run {{name}}")
        sys.argv[1:] = parameters
        main.main(me)
group.run(each)
"""


def in_turn(
    folder: Path, runs: dict[str, list[str]], *launcher: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[str, Any]]]:
    """Several runs in one start, which takes longer than they do; and what rank 0 reported in each."""
    driver = folder / "driver.py"
    driver.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, *launcher, str(driver), json.dumps(runs)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu", "LABTUI_RUN_DIR": str(folder)},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    told: dict[str, dict[str, Any]] = {}
    document: dict[str, Any] = {"notes": []}  # of what is said before the first
    for event in map(json.loads, (folder / "events" / "rank0.jsonl").read_text().splitlines()):
        if event["kind"] == "note" and event["text"].startswith("run "):
            document = told[event["text"][4:]] = {"checks": [], "results": [], "predictions": [], "notes": []}
        elif f"{event['kind']}s" in ("checks", "results", "predictions"):
            document[f"{event['kind']}s"].append(event)
        elif event["kind"] == "note":
            document["notes"].append(event["text"])
    assert list(told) == list(runs), done.stderr
    return done, told


@needs_torch
def test_four_processes_cut_what_four_does_not_divide_and_each_mistake_fails_the_checks_that_are_named(
    experiment, tmp_path
):
    mistakes = {
        name: ["layers=2", "width=64", "rounds=1"]
        + [f"{key}={json.dumps(value)}" for key, value in experiment.variant(name).parameters.items()]
        for name in ("sum", "stale", "keep", "float64")
    }
    odd = {"odd": ["layers=2", "width=33", "batch_per_rank=5", "rounds=1"]}
    done, told = in_turn(tmp_path, odd | mistakes, "-m", "torch.distributed.run", "--nproc-per-node", "4")
    assert done.returncode == 0, done.stderr

    proved(told["odd"])
    held_and_sent_as_theory_says(told["odd"], 4, 2 * (33 * 33 + 33) + 34, 2 * 1124 + 36)
    assert any("zeros fill its 2,278 parameters up to 2,284" in note for note in told["odd"]["notes"])
    assert any("gloo does a reduce-scatter as an all-reduce" in note for note in told["odd"]["notes"])

    for name in mistakes:
        checks = told[name]["checks"]
        assert [check["name"] for check in checks] == ALL_CHECKS
        failed = [check["name"] for check in checks if not check["passed"]]
        assert failed == list(experiment.variant(name).expect_failure), name
    # A factor N in the gradients hardly shows in the loss, AdamW being what it is.
    wrong, right = (value(told[name], "loss", way="ddp") for name in ("sum", "stale"))
    assert wrong == pytest.approx(right, rel=0.01)
    # Whole gradients that nobody names any more are found all the same.
    count = 2 * (64 * 64 + 64) + 65
    assert value(told["keep"], "bytes_held", way="zero2", kind="other") == 4 * (count + 3)
    assert {check["at_most"] for check in told["float64"]["checks"] if "one process's" in check["name"]} == {1e-12}


@pytest.mark.slow
@needs_torch
def test_one_process_cuts_nothing_and_says_so_and_what_does_not_fit_is_refused_before_it_is_taken(tmp_path):
    done, told = in_turn(
        tmp_path, {"small": ["layers=1", "width=16", "rounds=1"], "huge": ["layers=24", "width=32768"]}
    )
    small = told["small"]
    proved(small)
    assert "one process has nobody to share with: nothing is cut, and all four stages hold the same" in small["notes"]
    assert {value(small, "state_held", way=stage) for stage in STAGES} == {16 * (16 * 16 + 16 + 17)}
    assert predictions(small)["bytes sent per rank and step (zero3)"] == (0, 0)
    assert done.returncode == 2
    assert re.fullmatch(
        r"layers=24 and width=32768, at all four stages side by side: needs [\d.]+ GB per rank, [\d.]+ GB are free",
        done.stderr.splitlines()[-1],
    )


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("nproc", [1, 3, 5])
@pytest.mark.parametrize("variant", ["", "float64"])
def test_other_numbers_of_processes(nproc, variant):
    proved(run("--variant", variant, "--nproc", str(nproc), layers=5, rounds=2))


def test_theory_says_1_1_and_one_and_a_half_times_ddp():
    """The bytes that the experiment predicts, by the costs of collectives: ZeRO's paper, section 7."""
    for ranks in (2, 4, 64):
        reduced = collectives.cost("all_reduce", 1e9, ranks).busiest
        half = (
            collectives.cost("reduce_scatter", 1e9, ranks).busiest,
            collectives.cost("all_gather", 1e9, ranks).busiest,
        )
        assert sum(half) / reduced == pytest.approx(1)
        assert (half[0] + 2 * half[1]) / reduced == pytest.approx(1.5)


def test_the_guide_fits_the_experiment(experiment):
    guide = read_guide(FOLDER, experiment)
    assert len(guide.steps) >= 4
    assert {run.variant for run in guide.runs} == {"", "float64", "sum", "stale", "keep"}
