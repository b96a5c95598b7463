"""pipeline_schedules: its two simulations agree, its checks can fail, and what its guide says comes out of its runs."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.bench import report
from labtui.catalog.guide import Expect, Predict, Quiz, read_guide
from labtui.catalog.guide import Run as Block
from labtui.catalog.manifest import Experiment, read_experiment
from labtui.runs import lesson
from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.critical import critical_path
from labtui.theory.pipeline.order import Action, Order, OrderError
from labtui.theory.pipeline.schedules import SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate

FOLDER = Path(__file__).parents[2] / "experiments" / "pipeline_schedules"
PROVEN = ("starts as a second simulation finds them", "all work once, in turn, after what it needs")
ONE_F_ONE_B = """
def schedule(p, m):
    devices = []
    for stage in range(p):
        w = min({warm_up}, m)
        work = [("F", i) for i in range(w)]
        for j in range(m - w):
            work += [("F", w + j), ("B", j)]
        devices.append(work + [("B", j) for j in range(m - w, m)])
    return devices
"""


@pytest.fixture(scope="module")
def main() -> Iterator[ModuleType]:
    """main.py; what stands beside it isn't left where another experiment's file of that name would be found."""
    beside = [path.stem for path in FOLDER.glob("*.py")]
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("main")
    finally:
        sys.path.remove(str(FOLDER))
        for name in beside:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


class Told:
    """The events of a run, in the place where `report` writes them."""

    greeted, rank = True, 0

    def __init__(self) -> None:
        self.lock, self.events = threading.RLock(), list[dict[str, Any]]()
        self.write = self.events.append

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]

    @property
    def failed(self) -> list[str]:
        return [check["name"] for check in self.of("check") if not check["passed"]]

    def result(self, name: str, **labels: object) -> Any:
        (found,) = [one["value"] for one in self.of("result") if one["name"] == name and one["labels"] == labels]
        return found


Run = Callable[..., Told]


@pytest.fixture
def run(main: ModuleType, experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs main.py in this process: a variant, and settings over it."""
    monkeypatch.setenv("LABTUI_DEVICE", "cpu")

    def run_it(variant: str = "", **given: object) -> Told:
        told = Told()
        monkeypatch.setattr(report, "_out", told)
        values = {**experiment.variant(variant).parameters, **given}
        monkeypatch.setattr(
            sys, "argv", ["main.py", *(f"{name}={json.dumps(value)}" for name, value in values.items())]
        )
        main.main()
        return told

    return run_it


# What the run tells -------------------------------------------------------------------------------------------------


def test_the_lessons_figures(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    told = run()
    for name, held, hops in (("gpipe", [8, 8, 8, 8], 6), ("1f1b", [4, 3, 2, 1], 16)):
        assert told.result("total", schedule=name) == 33
        assert told.result("bubble", schedule=name) == pytest.approx(3 / 11)
        assert told.result("bubble_over_ideal", schedule=name) == 3 / 8
        assert told.result("hops", schedule=name) == hops
        assert [told.result("held", schedule=name, device=device) for device in range(4)] == held
    totals = {name: [told.result("total_at_comm", schedule=name, comm=comm) for comm in (0, 0.5, 1, 2)]
              for name in ("gpipe", "1f1b")}  # fmt: skip
    assert totals == {"gpipe": [33, 36, 39, 45], "1f1b": [33, 41, 49, 65]}
    assert [told.result("bubble_at_m", schedule="1f1b", m=m) for m in (4, 8, 16, 32)] == [
        pytest.approx(3 / (m + 3)) for m in (4, 8, 16, 32)
    ]
    assert not told.failed and len(told.of("check")) == 6
    out = capsys.readouterr().out
    assert "|01234567.........aabbccddeeffgghh|" in out and "|...0aa1bb2cc3dd4ee5ff6gg7hh......|" in out
    assert any("nothing here is measured" in note["text"] for note in told.of("note"))


def test_transfers_count_once_for_each_hop(run: Run) -> None:
    told = run("costly_links")
    predicted = {one["name"]: (one["predicted"], one["measured"]) for one in told.of("prediction")}
    assert predicted["time by the hops (gpipe)"] == (36, 36)
    assert predicted["time by the hops (1f1b)"] == (41, 41)
    # The published formula stands beside, with the reason why it differs, and isn't held against the simulation.
    (formula,) = [one for one in told.of("prediction") if one["name"] == "time by the formula (1f1b)"]
    assert (formula["predicted"], formula["measured"]) == (33, 41) and "transfers take 0.5" in formula["why"]
    assert not told.failed and "time by the formula (1f1b)" not in {check["name"] for check in told.of("check")}


def test_spans_draw_the_schedules_one_after_the_other(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LABTUI_RUN_DIR", str(tmp_path))
    spans = run().of("span")
    assert {span["lane"] for span in spans} == {"GPU0", "GPU1", "GPU2", "GPU3"} and len(spans) == 2 * 4 * 16
    gpipe, later = ([s for s in spans if s["name"].startswith(name)] for name in ("gpipe: ", "1f1b: "))
    assert max(span["end"] for span in gpipe) - gpipe[0]["start"] == pytest.approx(33e-3, abs=1e-5)
    assert min(span["start"] for span in later) > max(span["end"] for span in gpipe)


GUIDE = read_guide(FOLDER, read_experiment(FOLDER))
PARTS = [part for step in GUIDE.steps for part in step.parts]


@pytest.mark.parametrize(
    "block",
    # V-Half and V-Min are searched for, which takes a second in all.
    [pytest.param(block, id=block.id, marks=[pytest.mark.slow] if block.id == "v" else []) for block in GUIDE.runs],
)
def test_the_guides_expectations_hold_in_its_runs(run: Run, experiment: Experiment, block: Block) -> None:
    """Each expect block finds its number good, each predict block a number to compare the guess with."""
    told = run(block.variant, **block.parameters)
    assert sorted(told.failed) == sorted(experiment.variant(block.variant).expect_failure)
    status = SimpleNamespace(results=told.of("result"), predictions=told.of("prediction"))
    found: Any = SimpleNamespace(status=status, machine=None)
    for part in PARTS:
        if isinstance(part, Expect) and part.of == block.id:
            assert lesson.verdict(part, found).word == lesson.GOOD, part
        if isinstance(part, Predict) and part.of == block.id:
            assert isinstance(lesson.result(found, part.result, part.where), lesson.Known), part


def test_the_guide_runs_every_variant(experiment: Experiment) -> None:
    assert {block.variant for block in GUIDE.runs} == {"", *(variant.name for variant in experiment.variants)}


def test_the_guides_answers() -> None:
    def total(name: str, m: int, comm: float) -> float:
        return simulate(build(name, 4, m), Costs(comm=comm)).total

    quizzes = [part for part in PARTS if isinstance(part, Quiz)]
    answers = {quiz.question: quiz.number for quiz in quizzes if quiz.number is not None}
    (of_total,) = [answer for question, answer in answers.items() if question.startswith("p = 8 stages, m = 24")]
    assert of_total == pytest.approx(simulate(build("1f1b", 8, 24)).bubble, abs=5e-4)
    (over_ideal,) = [answer for question, answer in answers.items() if "over the ideal" in question]
    assert over_ideal == simulate(build("1f1b", 4, 8)).bubble_over_ideal
    (longer,) = [answer for question, answer in answers.items() if "m = 64" in question]
    assert longer == total("1f1b", 64, 0.5) - total("gpipe", 64, 0.5)


@pytest.mark.parametrize("p", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_the_guides_rule_for_1f1bs_hops(p: int, rounds: int) -> None:
    m = p * rounds
    assert critical_path(simulate(build("1f1b", p, m))).hops == 2 * (p - 1) * m // p + 2 * (p - 2)
    assert critical_path(simulate(build("gpipe", p, m))).hops == 2 * (p - 1)


# The witness --------------------------------------------------------------------------------------------------------

FACTORS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([name for name, maker in SCHEDULES.items() if not maker.limited and not name.startswith("v-")]),
    st.integers(1, 5), st.integers(1, 9), st.lists(FACTORS, min_size=5, max_size=5), st.data(),
)  # fmt: skip
def test_both_simulations_find_the_same(
    main: ModuleType, name: str, p: int, m: int, times: list[float], data: st.DataObject
) -> None:
    try:
        order = build(name, p, m)
    except OrderError:
        return
    costs = Costs(forward=times[0], input=times[1], weight=times[2], pair=times[3], comm=times[4])
    if data.draw(st.booleans()):
        costs = replace(costs, stages=tuple(data.draw(FACTORS) for _ in range(order.stages)))
    timeline = simulate(order, costs)
    begun = main.by_the_clock(order, costs)
    assert {(op.kind, op.microbatch, op.stage): op.start for _, op in main.work(timeline)} == begun
    assert main.faults(timeline) == 0


def test_the_witness_sees_a_deadlock(main: ModuleType) -> None:
    def row(stage: int, *pieces: str) -> tuple[Action, ...]:
        return tuple(Action(piece[0], int(piece[1]), stage) for piece in pieces)

    order = Order("stuck", 2, ((0, 1),), (row(0, "F0", "B0", "F1", "B1"), row(1, "F0", "F1", "B0", "B1")))
    assert set(main.by_the_clock(order, Costs())) == {("F", 0, 0), ("F", 0, 1)}


@pytest.mark.parametrize("shift", [-1.0, 0.5])
def test_a_wrong_timeline_fails_the_checks(main: ModuleType, monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    right = simulate(build("1f1b", 4, 8))
    starts, ends = list(right.starts), list(right.ends)
    for times in (starts, ends):
        moved = times[2][:]
        moved[3] += shift
        times[2] = moved
    told = Told()
    monkeypatch.setattr(report, "_out", told)
    main.prove("1f1b", replace(right, starts=tuple(starts), ends=tuple(ends)))
    assert told.failed == [f"{check} (1f1b)" for check in PROVEN]


def test_work_that_is_missing_or_twice_is_a_fault(main: ModuleType) -> None:
    right = simulate(build("gpipe", 2, 2))
    rows = right.order.devices
    less = replace(right.order, devices=(rows[0][:-1], rows[1]))
    assert main.faults(replace(right, order=less)) > 0
    other = replace(right.order, devices=((*rows[0][:-1], rows[0][-2]), rows[1]))
    assert main.faults(replace(right, order=other)) > 0


# The exercise -------------------------------------------------------------------------------------------------------


def test_1f1b_solves_the_exercise(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(ONE_F_ONE_B.format(warm_up="p - 1 - stage"))
    told = run(own=str(mine))
    assert not told.failed and len(told.of("check")) == 12 + 6 + 2
    assert told.result("total", schedule="yours") == 33 and told.result("peak_memory", schedule="yours") == 4
    assert told.result("total_at_comm", schedule="yours", comm=0.5) == 41


def test_twice_the_warm_up_keeps_transfers_off_the_critical_path(run: Run, tmp_path: Path) -> None:
    """The guide's second exercise: GPipe's total, memory that does not grow with m; links may take (F+B)/2."""
    mine = tmp_path / "mine.py"
    mine.write_text(ONE_F_ONE_B.format(warm_up="2 * (p - 1 - stage)"))
    told = run(own=str(mine), m=32, schedules="gpipe")
    assert told.result("peak_memory", schedule="yours") == 7
    for comm, same in ((0.5, True), (1, True), (2, False)):
        totals = [told.result("total_at_comm", schedule=name, comm=comm) for name in ("yours", "gpipe")]
        assert (totals[0] == totals[1]) == same


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "def schedule(p, m):\n    return [[('F', 0)] for _ in range(p)]\n",
            "device 0 has no backward (B, or I and W) of micro-batch 0",
        ),
        ("def schedule(p, m):\n    return [] + p\n", "mine.py, line 2: TypeError: can only concatenate list"),
        ("def schedule(p, m)\n", "mine.py: SyntaxError: expected ':'"),
        ("def plan(p, m):\n    return []\n", "mine.py defines no function schedule(p, m)"),
        ("def schedule(p, m):\n    return None\n", "a list for each of the 4 devices is expected, not None"),
    ],
)
def test_a_schedule_that_is_none_fails_with_its_reason(run: Run, tmp_path: Path, text: str, sentence: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(text)
    told = run(own=str(mine))
    checks = {check["name"]: check for check in told.of("check")}
    assert sentence in checks["can run (p=4 m=8)"]["value"] and "can run (p=4 m=8)" in told.failed
    assert any(note["text"].startswith("your schedule isn't shown: ") for note in told.of("note"))
    assert told.result("total", schedule="1f1b") == 33  # the others are shown all the same


# What can't be ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"schedules": "dualpipe", "p": 3}, "dualpipe needs an even number of devices, not 3"),
        ({"schedules": "1f1b, 1f2b"}, "there is no schedule '1f2b'; there are naive, gpipe"),
        ({"schedules": ""}, "there is no schedule ''"),
        ({"own": "nowhere.py"}, "own is 'nowhere.py', and there is no such file"),
        ({"p": 0}, "p is 0, its minimum is 1"),
    ],
)
def test_what_cant_be_is_one_sentence(
    run: Run, capsys: pytest.CaptureFixture[str], given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SystemExit) as left:
        run(**given)
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(sentence)


def test_sizes_at_the_edge(run: Run) -> None:
    told = run(p=1, m=1, comm=1.0, schedules="naive, gpipe, 1f1b, zb-h1")
    assert not told.failed and told.result("total", schedule="1f1b") == 3
    told = run(forward=0.0, input=0.0, weight=0.0)
    assert not told.failed and told.result("bubble", schedule="1f1b") == 0


# Under labtui -------------------------------------------------------------------------------------------------------


def test_under_labtui_and_without_torch(own_folders: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "pipeline_schedules", "--variant", "formula_with_links", "--json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert document["state"] == "succeeded" and (document["nproc"], document["device"]) == (1, "cpu")
    failed = [check["name"] for check in document["checks"] if not check["passed"]]
    assert failed == ["time by the formula (gpipe)", "time by the formula (1f1b)"]
    events = (own_folders / document["id"] / "events" / "rank0.jsonl").read_text().splitlines()
    hello = json.loads(events[0])
    assert hello["kind"] == "hello" and "torch" not in hello["versions"]


def test_what_is_refused_under_labtui_is_the_runs_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labtui", "run", "pipeline_schedules", "--set=schedules=zb-7", "--json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["reason"].startswith("rank 0 refused: there is no schedule 'zb-7'; ")


@pytest.mark.slow
def test_by_hand_it_prints_pictures_and_lines(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "main.py"), "schedules=zb-h1"], cwd=tmp_path,
        env={**os.environ, "LABTUI_DEVICE": "cpu"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "|0123...aA4bB5cC6dD7eEfFgGhH|" in done.stdout and "[rank 0] span" not in done.stdout
