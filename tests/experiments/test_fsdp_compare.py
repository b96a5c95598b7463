"""fsdp_compare: every way sees DDP's losses, holds and sends what theory says; checkpoints survive; twins fail."""

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
from labtui.machine import link
from labtui.theory import collectives, models, sharded_step

FOLDER = Path(__file__).parents[2] / "experiments" / "fsdp_compare"
SMALL = {"rounds": 3, "micro_batch": 1}
TINY = models.SIZES["tiny"]
PARAMETERS = models.parameters(TINY)
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

SAME = {"losses equal DDP's", "gradient norms equal DDP's", "clipped gradients equal DDP's"}
TRAFFIC = {f"{name} {of}" for name in ("all_gather", "reduce_scatter", "all_reduce") for of in ("calls", "bytes")}
RESUMED = {"loaded state equals the saved one, bit by bit", "losses after loading equal those without"}
BROKEN = ["local_norm", "same_data", "one_unit", "weights_only", "flipped_bit"]

# One process group for several runs: what takes long is to load torch and to let ranks find each other.
IN_TURN = f"""
import importlib.util, sys
sys.path.insert(0, {str(FOLDER)!r})
found = importlib.util.spec_from_file_location("fsdp_compare", {str(FOLDER / "main.py")!r})
main = importlib.util.module_from_spec(found)
found.loader.exec_module(main)
from labtui.bench import group
def run(me):
    for one in {{runs!r}}:
        sys.argv = ["main.py", *one.split()]
        if me.rank == 0:
            print("run:", one)
        main.main(me)
group.run(run)
"""


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def run(*arguments: str, code: int = 0, **parameters: object) -> dict[str, Any]:
    """What `labtui run --json` tells of a run."""
    settings = [f"--set={name}={value}" for name, value in parameters.items()]
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "fsdp_compare", "--device", "cpu", "--json", *arguments, *settings],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def bare(nproc: int, script: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc), str(script),
         *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu", "PYTHONWARNINGS": "ignore"},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip


def in_turn(tmp_path: Path, nproc: int, *runs: str) -> tuple[dict[str, str], subprocess.CompletedProcess[str]]:
    """What each of these runs, one after the other, said on stdout."""
    script = tmp_path / "in_turn.py"
    script.write_text(IN_TURN.replace("{runs!r}", repr(runs)))
    done = bare(nproc, script)
    said = dict(part.split("\n", 1) for part in done.stdout.split("run: ")[1:])
    return said, done


def failed(said: str) -> set[str]:
    return set(re.findall(r"check FAILED: (.*?):", said))


def passed(said: str) -> set[str]:
    return set(re.findall(r"check passed: (.*?):", said))


def value(document: dict[str, Any], name: str, **labels: object) -> Any:
    (found,) = [
        result["value"] for result in document["results"] if result["name"] == name and result["labels"] == labels
    ]
    return found


def predictions(document: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {each["name"]: (each["predicted"], each["measured"]) for each in document["predictions"]}


@needs_torch
@pytest.mark.parametrize(
    ("way", "ranks", "fewer", "gathers"),
    [
        pytest.param("reshard_to", 4, 2, 9, marks=pytest.mark.slow),
        pytest.param("reshard", 2, 1, 9, marks=pytest.mark.slow),
    ],
)
def test_beside_ddp(way, ranks, fewer, gathers):
    document = run("--variant", way, "--nproc", str(ranks), **SMALL)
    checks = {check["name"]: check["passed"] for check in document["checks"]}
    assert set(checks) == SAME | TRAFFIC | RESUMED
    assert all(checks.values())
    assert value(document, "resumed_ranks") == fewer

    found = predictions(document)
    assert found["share of the parameters on a rank"] == (1 / ranks, 1 / ranks)
    for kind, each in (("parameters", 4), ("gradients", 4), ("optimizer", 8)):
        predicted, measured = found[f"{kind} held by a rank"]
        assert predicted == each * PARAMETERS / ranks
        assert measured == pytest.approx(predicted, rel=1e-3)
        whole = value(document, "beside_memory", category=kind, moment="after")
        assert whole == pytest.approx(each * PARAMETERS, rel=1e-3)
    assert value(document, "beside_memory", category="buckets", moment="after") == 4 * PARAMETERS
    predicted, measured = found["peak memory of a rank"]
    assert predicted == sharded_step.memory(way, TINY, 1, ranks, reshard_to=2).peak
    assert measured == pytest.approx(predicted, rel=0.1)
    assert value(document, "peak_memory", rank=1) == measured < value(document, "beside_peak_memory", rank=1)
    for moment in ("peak", "forward", "after"):
        parts = [result["value"] for result in document["results"] if result["name"] == "memory"
                 and result["labels"]["moment"] == moment and result["labels"]["category"] != "total"]  # fmt: skip
        assert sum(parts) == value(document, "memory", category="total", moment=moment)

    # Two gathers and a reduction; gloo makes an all-reduce of the last.
    sent = value(document, "bytes_sent")
    least, measured = found["bytes sent per rank and step"]
    assert measured == sent
    assert 1.3 < sent / least < 1.4
    as_gloo, _ = found["bytes sent per rank and step, as gloo does it"]
    assert 0 <= sent - as_gloo < 0.01 * sent
    assert value(document, "collectives", collective="all_gather") == gathers
    ddp = collectives.all_reduce_bytes(4 * PARAMETERS, ranks)
    assert 0 <= value(document, "beside_bytes_sent") - ddp < 0.01 * ddp

    assert value(document, "step_time_over_ddp", stat="median") > 0
    step, other = (value(document, name, stat="median") / 1e3 for name in ("step_time", "beside_step_time"))
    assert value(document, "tokens_per_s") == pytest.approx(ranks * 64 / step)
    assert value(document, "beside_tokens_per_s") == pytest.approx(ranks * 64 / other)
    assert value(document, "clipped_share") == 1
    assert not list(Path(document["folder"]).glob("checkpoint-*"))  # nobody asked to keep it


@needs_torch
def test_each_check_fails_where_something_is_broken(tmp_path):
    """One mistake after the other on two ranks; in the end a checkpoint is cut short, and refused."""
    common = "rounds=3 micro_batch=1"
    said, done = in_turn(
        tmp_path, 2,
        f"mistake=local_norm checkpoint=false {common}",
        f"mistake=same_data checkpoint=false {common}",
        f"mistake=one_unit checkpoint=false beside=false {common}",
        f"mistake=weights_only {common}",
        f"mistake=short_shard beside=false {common}",
    )  # fmt: skip
    local_norm, same_data, one_unit, weights_only, short_shard = said.values()
    # Whether so few steps show it in the losses is not for sure.
    assert failed(local_norm) - {"losses equal DDP's"} == {
        "all_reduce calls", "all_reduce bytes", "gradient norms equal DDP's", "clipped gradients equal DDP's",
    }  # fmt: skip
    assert failed(same_data) == SAME
    assert failed(one_unit) == {"all_gather calls", "all_gather bytes", "reduce_scatter calls"}
    assert failed(weights_only) == RESUMED
    assert passed(weights_only) == SAME | TRAFFIC  # all that a checkpoint has no part in is right on two ranks

    assert done.returncode != 0
    assert re.search(r"can't be loaded whole: \S+/__1_0\.distcp was cut short, [\d,]+ bytes of ", done.stderr)
    assert passed(short_shard) == TRAFFIC and not failed(short_shard)


def settings(**changed: object) -> SimpleNamespace:
    given = {"size": "tiny", "way": "reshard", "reshard_to": 2, "micro_batch": 1, "beside": True, "checkpoint": True,
             "save": "", "load": "", "mistake": "none"}  # fmt: skip
    return SimpleNamespace(**{**given, **changed})


@needs_torch
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"way": "reshard_to", "reshard_to": 3}, "reshard_to=3 must divide the number of ranks, and here are 4"),
        ({"way": "reshard_to", "reshard_to": 8}, "reshard_to=8 must divide the number of ranks, and here are 4"),
        ({"way": "zero1", "save": "somewhere"}, "way=zero1 can neither save nor load"),
        ({"way": "zero1", "load": "somewhere"}, "way=zero1 can neither save nor load"),
        ({"save": "somewhere", "checkpoint": False}, "save says where the checkpoint stays"),
        ({"save": str(FOLDER)}, "must be an empty folder, or none yet"),
        ({"way": "ddp", "mistake": "local_norm"}, "mistake=local_norm can be made with FSDP2 only"),
        ({"mistake": "flipped_bit", "checkpoint": False}, "happens to a checkpoint, and this run makes none"),
    ],
)
def test_what_cant_be_gets_a_sentence(changed, sentence, capsys):
    from labtui.bench import fsdp_limits

    with pytest.raises(SystemExit) as leaving:
        fsdp_limits.refuse_what_cant_be(SimpleNamespace(world_size=4, rank=0), settings(**changed), TINY)
    assert leaving.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said and len(said.splitlines()) == 1


@needs_torch
def test_what_needs_more_memory_than_there_is_is_refused_part_by_part(capsys):
    import torch

    from labtui.bench import fsdp_limits

    me = SimpleNamespace(world_size=1, rank=0, device=torch.device("cpu"), largest=lambda value: value)
    with pytest.raises(SystemExit) as leaving:
        fsdp_limits.refuse_what_cant_be(me, settings(size="1b", micro_batch=4096, checkpoint=False), models.SIZES["1b"])
    assert leaving.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("way=reshard size=1b micro_batch=4096 (parameters 4.84, gradients 4.84, optimizer 9.69, ")
    assert "and ddp beside it: parameters 4.84, " in said
    assert re.search(r"beside=false leaves that out\): needs [\d.]+ GB per rank, [\d.]+ GB are free$", said)


@needs_torch
def test_an_old_torch_is_told_which_version_is_needed(monkeypatch, capsys):
    from torch.distributed import fsdp

    from labtui.bench import fsdp_limits

    monkeypatch.delattr(fsdp, "fully_shard")
    with pytest.raises(SystemExit) as leaving:
        fsdp_limits.refuse_old_torch()
    assert leaving.value.code == 2
    assert "has no FSDP2 (fully_shard): 2.6 or newer is needed" in capsys.readouterr().err


def test_the_guide_fits_the_experiment(experiment):
    guide = read_guide(FOLDER, experiment)
    assert {one.variant for one in guide.runs} == {one.name for one in experiment.variants} - {"short_shard"}


# ---- Slow: every variant under labtui, on other numbers of ranks, and a checkpoint that moves between launches.


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("variant", ["ddp", "zero1", "no_reshard", "reshard_to", "mixed", "bf16", "recompute",
                                     "offload", "toy", "checkpoint"])  # fmt: skip
def test_every_variant(variant):
    document = run("--variant", variant)
    assert document["state"] == "succeeded"
    if variant == "toy":
        assert predictions(document)["share of the parameters on a rank"] == (0.5, 0.5)
        assert value(document, "parameters") == 4208640
        losses = [value(document, "toy_loss", step=step) for step in (0, 10, 20, 30)]
        assert losses == sorted(losses, reverse=True)  # which they are exactly is shown, beside the text's
    else:
        for predicted, measured in (predictions(document)[f"{kind} held by a rank"] for kind in
                                    ("parameters", "gradients", "optimizer")):  # fmt: skip
            assert measured == pytest.approx(predicted, rel=0.01)
        predicted, measured = predictions(document)["peak memory of a rank"]
        assert measured == pytest.approx(predicted, rel=0.1)


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("variant", BROKEN)
def test_a_broken_variant_succeeds_by_failing_as_it_should(variant):
    document = run("--variant", variant)
    assert document["state"] == "succeeded"
    assert {check["name"] for check in document["checks"] if not check["passed"]} == {
        check["name"] for check in document["checks"] if check.get("expected") is False
    }


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(("variant", "words"), [("missing_shard", "is missing"), ("short_shard", "was cut short")])
def test_a_damaged_checkpoint_fails_the_run_with_the_file_s_name(variant, words):
    document = run("--variant", variant, code=1)
    assert document["state"] == "failed"
    assert f"__1_0.distcp {words}" in document["reason"]


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("nproc", [1, 3])
@pytest.mark.parametrize("way", ["ddp", "zero1", "reshard", "no_reshard", "recompute"])
def test_other_numbers_of_ranks(way, nproc):
    document = run("--variant", way, "--nproc", str(nproc), **SMALL)
    assert document["state"] == "succeeded"
    assert all(check["passed"] for check in document["checks"])  # on 3 ranks with padding
    predicted, measured = predictions(document)["peak memory of a rank"]
    assert measured == pytest.approx(predicted, rel=0.1)


@needs_torch
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_second_launch_on_other_ranks_goes_on_where_the_first_ended(tmp_path):
    saved = tmp_path / "saved"
    first = run("--variant", "reshard", rounds=3, micro_batch=2, save=saved)
    assert sorted(path.name for path in saved.iterdir()) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    for way, nproc in (("no_reshard", 4), ("ddp", 1)):
        second = run("--nproc", str(nproc), "--set", f"way={way}", rounds=3, micro_batch=4 // nproc, load=saved)
        assert second["state"] == "succeeded"
        assert value(second, "loss") < value(first, "loss")
    other = run("--set", "size=baby", code=1, load=saved, **SMALL)
    assert "is a checkpoint of another model" in other["reason"]


@needs_torch
@pytest.mark.slow
def test_on_a_slow_link_more_bytes_take_longer():
    try:
        link.find(1e9, 2)
    except link.LinkError as error:
        pytest.skip(str(error))
    document = run("--variant", "reshard", "--link", "1gbit", rounds=5, micro_batch=1, checkpoint="false")
    assert 1.3 < value(document, "step_time_over_ddp", stat="median") < 3  # 2 times the bytes
