"""allreduce_sweep in real processes: labels, columns, factors and proofs; and the corruption that must be seen."""

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

FOLDER = Path(__file__).parents[2] / "experiments" / "allreduce_sweep"
SMALL = ("max_bytes=65536", "seconds=0.02")
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def main(*settings: str, nproc: int = 1, **environment: str) -> subprocess.CompletedProcess[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc)]
    return subprocess.run(
        [sys.executable, *(torchrun if nproc > 1 else []), str(FOLDER / "main.py"), *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu", **environment},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def labtui_run(*arguments: str) -> tuple[int, dict]:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "allreduce_sweep", "--device", "cpu", "--json", *settings, *arguments],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
@needs_torch
def test_labtui_runs_it_on_four_processes_with_labels_factors_and_fit():
    code, run = labtui_run("--nproc", "4")
    assert (code, run["state"]) == (0, "succeeded")
    assert [(check["name"], check["value"], check["passed"]) for check in run["checks"]] == [("#wrong is 0", 0, True)]
    by_size = {size: {} for size in (1024, 4096, 16384, 65536)}
    whole = {}
    for each in run["results"]:
        labels = dict(each["labels"])
        size, stat = labels.pop("size_bytes", None), labels.pop("stat", "")
        assert labels == {"collective": "all_reduce", "dtype": "float32", "world_size": 4}
        (whole if size is None else by_size[size])[each["name"] + stat] = each["value"]
    for size, found in by_size.items():
        assert found["wrong"] == 0
        assert found["algbw"] == pytest.approx(size / found["time_us"] / 1e3)
        assert found["busbw"] == pytest.approx(1.5 * found["algbw"])
        assert 0 < found["time_min_us"] <= found["time_us"] <= found["time_p95_us"]
        assert found["slowest_rank"] in range(4)
        assert found["slowest_over_fastest"] >= 1
    assert whole["average_busbw"] == pytest.approx(sum(found["busbw"] for found in by_size.values()) / 4)
    assert whole["fit_errormean"] <= whole["fit_errorlargest"]
    assert whole["half_plateau_bytes"] == pytest.approx(whole["latency_us"] * whole["plateau_busbw"] * 1e3 / 1.5)
    (prediction,) = run["predictions"]
    assert prediction["name"] == "time of 65536 B"
    # The lesson's formula with the latency and rate that were assumed.
    assert prediction["predicted"] == pytest.approx(6 * 200 + 1.5 * 65536 / 1e3)
    assert prediction["measured"] == by_size[65536]["time_us"]


@needs_torch
def test_a_corrupted_sum_is_counted_and_fails_the_run_unless_that_was_expected():
    code, run = labtui_run("--variant", "corrupted")
    assert (code, run["state"], run["nproc"]) == (0, "succeeded", 2)
    (check,) = run["checks"]
    assert (check["passed"], check["expected"]) == (False, False)
    assert check["value"] == 4  # one element in each of four sizes
    assert [each["value"] for each in run["results"] if each["name"] == "wrong"] == [1, 1, 1, 1]

    code, run = labtui_run("--set", "corrupt=true", "--nproc", "1")
    assert (code, run["state"]) == (1, "failed")
    assert "#wrong is 0" in run["reason"]


@pytest.mark.slow
@needs_torch
def test_bare_torchrun_prints_the_table_of_nccl_tests():
    done = main(*SMALL, "collective=reduce_scatter", "dtype=bfloat16", nproc=2)
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("# reduce_scatter, 2 ranks, gloo") :].splitlines()
    heading = next(line for line in table if "size" in line).split()
    assert heading[1:10] == ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"]
    rows = [line.split() for line in table if re.match(r" +\d", line)]
    assert [row[:5] for row in rows] == [
        [str(size), str(size // 4), "bfloat16", "sum", "-1"] for size in (1024, 4096, 16384, 65536)
    ]  # the count is one rank's share: half the elements, of two bytes each
    assert {row[8] for row in rows} == {"0"}
    assert "# Out of bounds values : 0 OK" in table


@pytest.mark.slow
@needs_torch
def test_every_pair_of_ranks_in_both_directions(tmp_path):
    done = main(*SMALL, "collective=pairs", nproc=3, LABTUI_RUN_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "events/rank0.jsonl").read_text().splitlines()]
    busbw = [event["labels"] for event in events if event.get("name") == "busbw"]
    pairs = [(labels["src"], labels["dst"], labels["size_bytes"]) for labels in busbw]
    assert pairs == [
        (src, dst, size) for src in range(3) for dst in range(3) if src != dst for size in (1024, 65536)
    ]  # the largest size of each pair comes last: it is what stands beside its path
    assert {labels["collective"] for labels in busbw} == {"send_recv"}
    assert [event["passed"] for event in events if event["kind"] == "check"] == [True]
    matrix = done.stdout.splitlines()
    assert matrix[1].split() == ["to", "0", "to", "1", "to", "2"]
    assert [line.split()[2 + index] for index, line in enumerate(matrix[2:5])] == ["-", "-", "-"]


@needs_torch
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["collective=pairs"], r"pairs need at least 2 processes, this is 1: collective=all_reduce can still show .*"),
        (["max_bytes=1000000000000"], r"all_reduce of 1000000000000 B \(max_bytes\): needs 1250\.0 GB per rank, "
                                      r"\d+\.\d [GM]B are free"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(settings, sentence):
    done = main(*settings)
    assert done.returncode == 2
    assert re.fullmatch(sentence, done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("nproc", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv", "pairs"]
)
def test_every_collective_on_other_numbers_of_ranks(nproc, collective):
    done = main(*SMALL, f"collective={collective}", nproc=nproc)
    if nproc == 1 and collective in ("send_recv", "pairs"):
        assert done.returncode == 2
        return
    assert done.returncode == 0, done.stderr
    assert "check passed: #wrong is 0" in done.stdout


def test_the_guide_fits_the_experiment(experiment):
    guide = read_guide(FOLDER, experiment)
    assert len(guide.steps) >= 4
    names = {run.variant for run in guide.runs}
    assert {"", "p2p_off", "pairs", "corrupted"} <= names
    assert {"baseline", "p2p_off", "shm_off", "ring", "tree", "net_socket", "two", "four", "lo"} <= {
        variant.name for variant in experiment.variants
    }
