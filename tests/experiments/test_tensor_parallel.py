"""tensor_parallel: a shared block is one process's block; its exchanges, bytes and memory are theory's; twins fail."""

from __future__ import annotations

import importlib
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
from labtui.theory import tensor_parallel as theory

FOLDER = Path(__file__).parents[2] / "experiments" / "tensor_parallel"
SMALL = {"width": 64, "tokens": 16, "sequences": 2, "seconds": 0}
BLOCK = theory.Block(sequences=2, tokens=16, width=64, heads=8, kv_heads=8)
EXCHANGE = theory.exchanged(BLOCK, 4)  # bytes of all tokens
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

VALUES = ("output equals", "input gradient equals", "weight gradients equal")
BY_HAND = {"by_hand": theory.ALL_REDUCES, "by_hand_sp": theory.SEQUENCE_PARALLEL,
           "by_hand_sp_lean": theory.SEQUENCE_PARALLEL_LEAN}  # fmt: skip
BOTH = {"all_gather": 2, "reduce_scatter": 2}


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def run(*arguments: str, small: bool = True, code: int = 0) -> dict[str, Any]:
    """What `labtui run --json` tells of a run."""
    settings = [f"--set={name}={value}" for name, value in SMALL.items()] if small else []
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "tensor_parallel", "--device", "cpu", "--json", *settings, *arguments],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def values(document: dict[str, Any], name: str, *labels: str) -> dict[Any, Any]:
    """All results of that name by these labels."""
    return {
        tuple(result["labels"][label] for label in labels): result["value"]
        for result in document["results"]
        if result["name"] == name
    }


def predictions(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in document["predictions"]}


def events(logs: Path, document: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    lines = (logs / document["id"] / "events" / f"rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def equal_checks(*labels: str) -> set[str]:
    return {f"{value} one process's ({label})" for label in labels for value in VALUES}


def exchanges(document: dict[str, Any], part: str, way: str, phase: str) -> dict[str, int]:
    found = values(document, "exchanges", "part", "way", "phase", "collective")
    return {key[3]: count for key, count in found.items() if key[:3] == (part, way, phase)}


@needs_torch
def test_two_ranks_prove_count_and_measure_every_way(own_folders: Path) -> None:
    document = run("--nproc", "2")
    assert document["reason"] == "all 47 checks passed"
    checks = {check["name"]: check for check in document["checks"]}
    shared = [("mlp", "by_hand"), ("attention", "by_hand"), *(("block", way) for way in BY_HAND)]
    shared += [("attention", "dtensor"), ("block", "dtensor"), ("block", "dtensor_sp")]
    unprepared = [("attention", "dtensor_unprepared"), ("block", "dtensor_unprepared")]
    names = equal_checks(*(f"{part}, {way}" for part, way in shared + unprepared))
    names |= {f"exchanges in {phase} ({part}, {way})" for part, way in shared for phase in ("forward", "backward")}
    assert set(checks) == {*names, "sequence parallelism sends what all-reduces send, ideally"}
    assert {checks[name]["at_most"] for name in equal_checks("block, by_hand")} == {1e-5}

    # Two exchanges in each direction, and what it costs to keep less or to tell DTensor less.
    for phase in ("forward", "backward"):
        assert exchanges(document, "block", "by_hand", phase) == {"all_reduce": 2}
        assert exchanges(document, "block", "dtensor", phase) == {"all_reduce": 2}
        assert exchanges(document, "block", "by_hand_sp", phase) == BOTH
        assert exchanges(document, "block", "dtensor_sp", phase) == BOTH
    assert exchanges(document, "block", "by_hand_sp_lean", "backward") == {"all_gather": 4, "reduce_scatter": 2}
    assert exchanges(document, "attention", "dtensor_unprepared", "backward") == {"all_reduce": 3}
    assert exchanges(document, "block", "dtensor_unprepared", "backward") == {"all_reduce": 4}
    assert exchanges(document, "block", "by_hand_sp", "after") == {"all_reduce": 1}
    foretold = predictions(document)
    six = foretold["all-reduces (block, dtensor_unprepared)"]
    assert six["predicted"] == six["measured"] == 6

    for way, layout in BY_HAND.items():
        kept = foretold[f"activation bytes per rank (block, {way})"]
        assert kept["predicted"] == kept["measured"] == sum(theory.kept(BLOCK, 2, 4, layout).values())
    # Two ranks: each all-reduce sends its size, each half of it half. On the wire, gloo's reduce-scatter is whole.
    ideal = values(document, "bytes_ideal", "part", "way")
    assert ideal["block", "by_hand"] == ideal["block", "by_hand_sp"] == 4 * EXCHANGE
    assert ideal["block", "by_hand_sp_lean"] == 5 * EXCHANGE
    assert ideal["block", "dtensor_unprepared"] == 6 * EXCHANGE
    for way, sent in (("by_hand", 4), ("by_hand_sp", 6), ("dtensor", 4), ("dtensor_sp", 6)):
        found = foretold[f"bytes sent per rank (block, {way})"]
        assert found["predicted"] == sent * EXCHANGE
        assert 0 <= found["measured"] - found["predicted"] < 12 * 1000  # gloo's headers: below 1 KB a collective
        assert ("gloo makes of each reduce-scatter an all-reduce" in found.get("why", "")) == way.endswith("sp")

    assert set(values(document, "block_time", "of")) == {
        (of,) for of in ("one_process", "shared", "silent", "exchanges")
    }
    waits = foretold["a block's waiting over its computing"]
    assert waits["measured"] == values(document, "waiting_over_computing")[()]
    assert "200 us a message and 1 GB/s were assumed; computing takes " in waits["why"]
    pays = foretold["link from which on sharing pays"]
    assert pays["predicted"] is None
    assert "run link_vs_compute first" in pays["why"]
    for rank in (0, 1):
        said = events(own_folders, document, rank)
        lanes = [event["lane"] for event in said if event["kind"] == "span"]
        assert (lanes.count("communication"), lanes.count("compute")) == (4, 5)
    (sentence,) = [
        event["text"] for event in events(own_folders, document, 0)
        if event["kind"] == "note" and "times longer" in event["text"]
    ]  # fmt: skip
    assert re.match(r"on this link a layer would wait \S+ times longer than it computes \(no profile", sentence)


@pytest.mark.slow
@needs_torch
def test_four_ranks_share_two_heads_of_keys_and_values(own_folders: Path) -> None:
    document = run("--variant", "grouped_query")
    assert document["nproc"] == 4
    assert document["reason"] == "all 26 checks passed"
    grouped = theory.Block(2, 16, 64, heads=8, kv_heads=2)
    for way, layout in BY_HAND.items():
        kept = predictions(document)[f"activation bytes per rank (block, {way})"]
        assert kept["predicted"] == kept["measured"] == sum(theory.kept(grouped, 4, 4, layout).values())
    # Gradients of shared heads are added up once more, among those who share; forward and backward stay as they are.
    assert exchanges(document, "attention", "by_hand", "after") == {"all_reduce": 1}
    assert exchanges(document, "block", "by_hand_sp", "after") == {"all_reduce": 2}
    notes = [event["text"] for event in events(own_folders, document, 0) if event["kind"] == "note"]
    assert any("DTensor's part is left out: it cuts a matrix into as many pieces as ranks" in note for note in notes)


BROKEN = """
import sys
sys.path.insert(0, {folder!r})
from labtui.bench import group
import layers, main

def everything(me):
    sys.argv[1:] = [*{small!r}, "cut=wrong"]
    main.main(me)
    sys.argv[1:] = [*{small!r}, "kv_heads=1"]
    layers.sum_parts = lambda parameters, ranks: None
    layers.Enter.backward = staticmethod(lambda context, gradient: gradient)
    once = layers.gathered
    layers.Gather.forward = staticmethod(lambda context, own: (once(own), once(own))[1])
    main.parameters.read = lambda script, read=main.parameters.read: read({main!r})
    main.main(me)

group.run(everything)
"""


@needs_torch
def test_every_kind_of_check_has_a_twin_that_fails(tmp_path: Path, experiment: Experiment) -> None:
    """The wrong cut fails as its manifest says. And with one head of keys and values for both ranks: f forgets to add
    up in backward, nobody adds up parts afterwards, and sequence parallelism gathers everything twice."""
    script = tmp_path / "broken.py"
    small = [f"{name}={value}" for name, value in SMALL.items()]
    profile = {"alpha": 1e-3, "beta": 0.5, "tflops": {"float32": 0.1}, "date": "2026-11-29"}
    script.write_text(BROKEN.format(folder=str(FOLDER), main=str(FOLDER / "main.py"), small=small))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu",
             "PYTHONPATH": str(FOLDER.parents[1]), "LABTUI_PROFILE": json.dumps(profile)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {
        name: verdict == "passed"
        for verdict, name in re.findall(
            r"check (passed|FAILED): (.*?\)|sequence parallelism [^:]*)(?::|$)", done.stdout
        )
    }
    failed = {name for name, passed in found.items() if not passed}
    assert {name for name in failed if "wrong)" in name} == set(experiment.variant("wrong_cut").expect_failure)
    assert equal_checks("attention, wrong") <= found.keys() - failed
    assert {name for name in failed if "wrong)" not in name} == {
        # Without f's sum, input gradients and in a block the weight gradients that come from them are parts.
        "input gradient equals one process's (mlp, by_hand)",
        "input gradient equals one process's (attention, by_hand)",
        "input gradient equals one process's (block, by_hand)",
        # Without the last sums, what several ranks have in common is.
        "weight gradients equal one process's (attention, by_hand)",
        "weight gradients equal one process's (block, by_hand)",
        "weight gradients equal one process's (block, by_hand_sp)",
        "weight gradients equal one process's (block, by_hand_sp_lean)",
        "exchanges in backward (mlp, by_hand)",
        "exchanges in backward (attention, by_hand)",
        "exchanges in backward (block, by_hand)",
        "exchanges in forward (block, by_hand_sp)",
        "sequence parallelism sends what all-reduces send, ideally",
    }
    # What waits and what would pay rests on the profile: four exchanges of two messages, and a share of the work.
    assert f"exchanges of a block: predicted {4 * (2 + EXCHANGE / 0.5e9 * 1e3):.6g} ms" in done.stdout
    alone = 3 * theory.Block(2, 16, 64, 8, kv_heads=1).forward_flops / 0.1e12
    assert f"link from which on sharing pays: predicted {4 * EXCHANGE / (alone / 2) / 1e9:.6g} GB/s" in done.stdout
    assert "at 0.1 TFLOP/s, this machine's best float32 product, measured 2026-11-29" in done.stdout


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the experiment's folder, and forgets it afterwards."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("main", "layers", "by_dtensor", "swapped")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


@needs_torch
@pytest.mark.parametrize(
    ("ranks", "changed", "sentence"),
    [
        (3, {}, "8 heads can't be shared equally by 3 ranks: one head can't be cut"),
        (2, {"width": 60}, "a width of 60 can't be shared equally by 8 heads"),
        (2, {"kv_heads": 5}, "8 heads can't share 5 heads of keys and values equally"),
        (2, {"tokens": 15}, "15 tokens can't be shared equally by 2 ranks, as sequence parallelism does"),
        (1, {"cut": "wrong"}, "cut=wrong takes at least 2 processes: with one nothing is cut"),
        (1, {"tokens": 10**6, "width": 65536}, "a block of width=65536 with 1000000 tokens: needs "),
    ],
)
def test_what_cant_be_shared_is_refused(
    beside: Any, capsys: pytest.CaptureFixture[str], ranks: int, changed: dict[str, Any], sentence: str
) -> None:
    import torch

    settings = {**SMALL, "heads": 8, "kv_heads": 0, "dtype": "float32", "cut": "right", **changed}
    me = SimpleNamespace(world_size=ranks, rank=0, device=torch.device("cpu"), largest=lambda value: value)
    with pytest.raises(SystemExit) as leaving:
        beside("main").shape_to_share(me, SimpleNamespace(**settings))
    assert leaving.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(sentence)


@needs_torch
def test_a_torch_without_dtensor_is_told_what_is_missing(beside: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed.tensor", None)
    sentence = beside("by_dtensor").missing(2, heads_are_copied=False)
    assert re.match(r"DTensor's part is left out: it needs torch 2.5 or newer, this is 2\.", sentence)


@needs_torch
def test_the_idea_in_one_process(beside: Any) -> None:
    assert beside("main").in_one_process() < 1e-5


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "checks"), [("four", 47), ("eight", 47), ("float64", 47), ("swapped_cut", 9), ("wrong_cut", 9)]
)
def test_every_variant(variant: str, checks: int) -> None:
    document = run("--variant", variant)
    assert len(document["checks"]) == checks
    if variant == "float64":
        assert max(values(document, "difference", "part", "way", "of").values()) < 1e-12
    if variant == "swapped_cut":
        # The exchange in the middle is four times as wide, in forward and in backward.
        assert values(document, "bytes_ideal", "part", "way")["mlp", "swapped"] == 10 * EXCHANGE


@needs_torch
@pytest.mark.slow
def test_one_process_has_nobody_to_exchange_with() -> None:
    document = run("--nproc", "1")
    assert document["reason"] == "all 26 checks passed"
    assert not values(document, "block_time", "of")


@needs_torch
@pytest.mark.slow
def test_on_a_link_of_known_rate_waiting_comes_true() -> None:
    try:
        link.find(1e9, 2)
    except link.LinkError as error:
        pytest.skip(str(error))
    document = run("--variant", "shaped", "--set=sequences=16", small=False)  # 2 MB an exchange
    exchanging = predictions(document)["exchanges of a block"]
    assert exchanging["measured"] == pytest.approx(exchanging["predicted"], rel=0.3)


def test_the_guide_fits_the_experiment(experiment: Experiment) -> None:
    guide = read_guide(FOLDER, experiment)
    assert len(guide.steps) >= 6
    names = {one.variant for one in guide.runs}
    assert {"", "float64", "four", "grouped_query", "swapped_cut", "wrong_cut", "shaped"} <= names
