"""ddp_compare under labtui: each way trains as one process does, its bytes are theory's, and its results compare."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labtui.catalog.guide import read_guide
from labtui.catalog.manifest import Experiment, read_experiment
from labtui.machine import link
from labtui.theory import collectives, flops, models

FOLDER = Path(__file__).parents[2] / "experiments" / "ddp_compare"
SMALL = {"steps": 3, "rounds": 3, "micro_batch": 1, "micro_batches": 2}
PARAMETERS = models.parameters(models.SIZES["tiny"])
SEQUENCES = SMALL["micro_batch"] * SMALL["micro_batches"]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def run(*arguments: str, **parameters: object) -> Any:
    """What `labtui run --json` tells: one run, or a list of them."""
    settings = [f"--set={name}={value}" for name, value in {**SMALL, **parameters}.items()]
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "ddp_compare", "--device", "cpu", "--json", *arguments, *settings],
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


def events(own_folders: Path, document: dict[str, Any], rank: int = 0) -> list[dict[str, Any]]:
    lines = (own_folders / document["id"] / "events" / f"rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@needs_torch
def test_two_variants_in_turn_give_results_that_can_be_compared(own_folders):
    one, every = run("--variants", "one,every_micro_batch", "--timeout", "100")
    assert (one["nproc"], every["nproc"]) == (1, 2)
    assert one["group"] == every["group"]

    def names(document: dict[str, Any]) -> set[tuple[str, str]]:
        return {(result["name"], json.dumps(result["labels"])) for result in document["results"]}

    # All that one process has, two have as well, under the same names and labels.
    assert names(one) <= names(every)
    for document, averages in ((one, 0), (every, 2)):
        checks = {check["name"]: check for check in document["checks"]}
        assert set(checks) == {"parameters by formula and by counting", "loss curve equals one process's"}
        assert checks["loss curve equals one process's"]["at_most"] == 1e-4
        assert all(check["passed"] for check in checks.values())
        ranks = document["nproc"]
        sent = averages * collectives.all_reduce_bytes(4 * PARAMETERS, ranks)
        assert value(document, "bytes_on_wire") == sent
        assert 0 <= value(document, "bytes_sent") - sent <= 0.01 * sent
        step = value(document, "step_time", stat="median") / 1e3
        assert value(document, "tokens_per_s") == pytest.approx(ranks * SEQUENCES * 64 / step)
        exact = flops.training(models.SIZES["tiny"], SEQUENCES)
        assert value(document, "tflops", count="exact") == pytest.approx(exact / step / 1e12)
        assert value(document, "tflops", count="6ND") == pytest.approx(6 * PARAMETERS * SEQUENCES * 64 / step / 1e12)
        assert value(document, "mfu", count="exact") is None  # nobody knows this CPU's peak
        assert value(document, "step_time", stat="p95") >= step * 1e3
        assert value(document, "peak_memory", rank=0) > 16 * PARAMETERS
    assert value(one, "loss_difference") == 0
    assert value(one, "scaling_efficiency") == 1
    assert value(every, "peak_memory", rank=1) - value(one, "peak_memory", rank=0) > 3.9 * PARAMETERS  # DDP's buckets

    found = predictions(every)
    assert found["bytes sent per rank and step"] == (value(every, "bytes_on_wire"), value(every, "bytes_sent"))
    planned, begun = found["all-reduces per step"]
    assert planned == begun == 8  # 4 buckets of 1 MiB, twice
    assert found["FLOPs of one sequence, as torch counts"][0] == found["FLOPs of one sequence, as torch counts"][1]
    assert found["all-reduce of all gradients"][1] > 0
    assert 0 < found["share of the all-reduce that backward can hide, at most"][0] < 1
    assert found["step time, at least"][1] == value(every, "step_time", stat="median")
    assert value(every, "scaling_efficiency") == value(every, "scaling_efficiency", processes=2)
    assert value(every, "scaling_efficiency", processes=1) == 1
    assert -1 < value(every, "communication_share") < 1

    for rank in (0, 1):
        spans = [event for event in events(own_folders, every, rank) if event["kind"] == "span"]
        lanes = {lane: [span for span in spans if span["lane"] == lane] for lane in ("compute", "communication")}
        assert len(lanes["communication"]) == 8
        assert {"every_micro_batch: forward 1", "every_micro_batch: forward 2", "every_micro_batch: optimizer"} <= {
            span["name"] for span in lanes["compute"]
        }
    losses = [event for event in events(own_folders, every) if event["kind"] == "metric" and event["name"] == "loss"]
    assert len(losses) == 2 * SMALL["steps"]
    assert losses[-1]["value"] < losses[0]["value"]


@pytest.mark.slow
@needs_torch
def test_four_processes_send_bfloat16(own_folders):
    document = run("--variant", "bf16_hook", "--nproc", "4", steps=2)
    checks = {check["name"]: check["passed"] for check in document["checks"]}
    assert checks["loss curve equals one process's"]
    # Half the bytes, and by how much the gradients differ: a bfloat16 keeps 8 bits.
    sent = predictions(document)["bytes sent per rank and step"]
    assert sent[0] == collectives.all_reduce_bytes(2 * PARAMETERS, 4)
    assert 0 <= sent[1] - sent[0] < 0.02 * sent[0]
    assert 1e-4 < value(document, "gradient_difference") < 2**-7
    swept = [result["labels"]["processes"] for result in document["results"]
             if result["name"] == "scaling_efficiency" and result["labels"]]  # fmt: skip
    assert swept == [1, 2, 3, 4]
    if len(os.sched_getaffinity(0)) < 4:
        notes = [event["text"] for event in events(own_folders, document) if event["kind"] == "note"]
        assert any("their scaling is that of the cores" in note for note in notes)


@needs_torch
@pytest.mark.slow
def test_on_a_link_of_known_rate_predictions_come_true():
    try:
        link.find(1e9, 2)
    except link.LinkError as error:
        pytest.skip(str(error))
    document = run("--variant", "buckets", "--link", "1gbit", steps=1, rounds=5)
    found = predictions(document)
    predicted, measured = found["all-reduce of all gradients"]
    assert measured == pytest.approx(predicted, rel=0.2)  # 1 % on a quiet machine
    assert 26 < predicted < 53  # 3.28 MB at 1 Gbit/s per rank, or on a bus of two
    predicted, measured = found["step time, at least"]
    assert measured == pytest.approx(predicted, rel=0.4)  # what computing takes depends on who else does
    assert value(document, "hidden_share") == 0  # one bucket: full when backward ends
    assert value(document, "communication_share") > 0.1


def bare(nproc: int, *settings: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(nproc), str(FOLDER / "main.py"),
         *(f"{name}={value}" for name, value in SMALL.items()), *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu", **environment},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.slow
@needs_torch
def test_one_bucket_and_autocast_with_a_profile():
    """Without labtui, on a machine whose profile is known: predictions rest on it, and so does MFU."""
    profile = {"alpha": 1e-3, "beta": 0.5, "tflops": {"bfloat16": 0.1}, "date": "2026-11-29"}
    done = bare(2, "bucket_mb=8192", "autocast=true", LABTUI_PROFILE=json.dumps(profile))
    assert done.returncode == 0, done.stderr
    assert "all-reduces per step: predicted 1, measured 1" in done.stdout
    assert "check passed: loss curve equals one process's" in done.stdout
    # Two messages of 1 ms, and all gradients once at 0.5 GB/s.
    took = 2 * 1 + 4 * PARAMETERS / 0.5e9 * 1e3
    assert f"all-reduce of all gradients: predicted {took:.6g} ms" in done.stdout
    assert "from this machine's profile: 1e+03 us a message, 0.5 GB/s, measured 2026-11-29" in done.stdout
    assert "share of the all-reduce that backward can hide, at most: predicted 0," in done.stdout
    assert "mfu: of 0.1 TFLOP/s, this machine's best bfloat16 matrix product, measured 2026-11-29" in done.stdout


@needs_torch
def test_one_process_is_no_way_for_two(capsys):
    found = importlib.util.spec_from_file_location("ddp_compare", FOLDER / "main.py")
    main = importlib.util.module_from_spec(found)
    found.loader.exec_module(main)
    with pytest.raises(SystemExit) as leaving:
        main.refuse_what_cant_be(SimpleNamespace(world_size=2), SimpleNamespace(way="one"), models.SIZES["tiny"])
    assert leaving.value.code == 2
    sentence = "way=one is one process, not 2: leave the number of processes to the variant, or say 1"
    assert capsys.readouterr().err.splitlines() == [sentence]


@needs_torch
@pytest.mark.slow
def test_what_is_refused_on_two_ranks_is_no_traceback():
    done = bare(2, "way=one")
    assert done.returncode != 0
    assert done.stderr.count("way=one is one process, not 2: leave the number of processes to the variant") >= 1
    assert "RuntimeError" not in done.stderr


@needs_torch
def test_what_needs_more_memory_than_there_is_is_refused_before_it_is_taken():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "main.py"), "size=1b", "micro_batch=4096"],
        env={**os.environ, "LABTUI_DEVICE": "cpu"}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    needed = models.training_bytes(models.SIZES["1b"], 4096, replicas=False) + 4 * models.parameters(models.SIZES["1b"])
    assert last.startswith(f"training size=1b with micro_batch=4096: needs {needed / 1e9:.1f} GB per rank, ")
    assert last.endswith(" GB are free")


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("variant", ["no_sync", "every_micro_batch", "bf16_hook", "buckets"])
@pytest.mark.parametrize("nproc", [1, 3])
def test_every_variant_on_other_numbers_of_processes(variant, nproc):
    document = run("--variant", variant, "--nproc", str(nproc))
    assert all(check["passed"] for check in document["checks"])


def test_the_guide_fits_the_experiment(experiment):
    guide = read_guide(FOLDER, experiment)
    assert len(guide.steps) >= 4
    names = {one.variant for one in guide.runs}
    assert {"one", "every_micro_batch", "no_sync", "bf16_hook", "buckets"} <= names
