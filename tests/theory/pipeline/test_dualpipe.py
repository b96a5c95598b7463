"""DualPipe and DualPipeV against DeepSeek's pictures, formula and order, and against PyTorch's DualPipeV."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline import pytorch_csv
from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Order, OrderError, Pair, Step
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.pipeline.timeline import Timeline

DATA = Path(__file__).parents[2] / "data/pipeline"
PYTORCH = json.loads((DATA / "pytorch_orders.json").read_text())
PICTURES = json.loads((DATA / "dualpipe.json").read_text())
COSTS = Costs(1.0, backward=2.0)


def row(timeline: Timeline, device: int) -> str:
    """A device as the pictures draw it."""
    cells = ["."] * round(timeline.total)
    for op in timeline.ops(device):
        if op.pair is not None and op.kind == "F":
            cells[round(op.start) : round(op.end)] = "Fgg"
        elif op.pair is None:
            length = round(op.end) - round(op.start)
            cells[round(op.start) : round(op.end)] = {"F": "F", "W": "W"}.get(op.kind, "g") * length
    return "".join(cells)


def written(step: Step, order: Order) -> str:
    """A step as `order_notation` of the data says."""
    if isinstance(step, Pair):
        return f"{written(step.forward, order)}+{written(step.backward, order)}"
    kind, number, stage = step
    if order.name == "dualpipe":
        half = order.microbatches // 2
        return f"{kind}{number // half}.{number % half}"
    return f"{kind}{int(stage >= order.stages // 2)}.{number}"


@pytest.mark.parametrize("name", ["dualpipe", "dualpipev"])
def test_the_order_is_deepseeks(name):
    case = PICTURES[name]
    order = build(name, case["p"], case["m"])
    assert [" ".join(written(step, order) for step in steps) for steps in order.devices] == case["order"]


@pytest.mark.parametrize("name", ["dualpipe", "dualpipev"])
def test_the_picture_row_by_row(name):
    case = PICTURES[name]
    run = simulate(build(name, case["p"], case["m"]), COSTS)
    rows = [row(run, device) for device in range(case["p"])]
    # Half of DualPipe's devices make a DualPipeV.
    assert rows == PICTURES["dualpipe"]["as_soon_as_possible"][: case["p"]]
    assert (run.total, set(run.idle), set(run.peak_in_flight)) == (66, {6}, {9})
    for ours, picture in zip(rows, case["picture"], strict=True):
        # The picture draws a lone backward of the end at the right edge of a slot of three units, we as soon as it can.
        assert ours.replace(".", "") == picture.replace(".", "")
        assert len(ours) == len(picture)
        same = next((at for at, (a, b) in enumerate(zip(ours, picture, strict=True)) if a != b), 66)
        assert same == 66 or (ours[same] == "g" and picture[same] == ".")


def test_results_of_a_pair_are_there_only_at_its_end():
    """Else DualPipe of the picture would take 63: the rule is the schedule's own, and this shows that it bites."""
    order = build("dualpipe", 8, 20)
    apart = tuple(
        tuple(action for step in steps for action in (step if isinstance(step, Pair) else (step,)))
        for steps in order.devices
    )
    assert simulate(order, COSTS).total == 66
    assert simulate(Order("apart", 20, order.routes, apart, order.route_of), COSTS).total == 63


@pytest.mark.parametrize(
    ("p", "m", "total"),
    [(4, 8, 26), (4, 12, 38), (8, 16, 54), (8, 20, 66), (8, 32, 102), (16, 32, 110), (16, 40, 134)],
)
def test_both_have_the_formulas_bubble_and_peak(p, m, total):
    """(PP/2-1)(F&B+B-3W) idle on every device, PP+1 held; DualPipeV has PP/2 devices and half of the micro-batches."""
    for run in (simulate(build("dualpipe", p, m), COSTS), simulate(build("dualpipev", p // 2, m // 2), COSTS)):
        assert run.total == total
        assert set(run.idle) == {(p / 2 - 1) * (3 + 2 - 3)}
        assert set(run.peak_in_flight) == {p + 1}


@given(half=st.integers(1, 6), more=st.integers(0, 12), fb=st.floats(2.0, 3.0))
@settings(max_examples=40, deadline=None)
def test_the_formula_holds_for_every_size_and_for_pairs_that_hide_something(half, more, fb):
    p, m = 2 * half, 4 * half + 2 * more
    costs = Costs(1.0, backward=2.0, pair=fb)
    for name, devices, batches in (("dualpipe", p, m), ("dualpipev", half, m // 2)):
        run = simulate(build(name, devices, batches), costs)
        assert max(run.idle) == pytest.approx((half - 1) * (fb + 2 - 3), abs=1e-9)
        assert set(run.peak_in_flight) == {p + 1}


@given(half=st.integers(1, 8), more=st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_a_device_of_the_v_does_what_one_of_the_first_half_does(half, more):
    n = 2 * half + more
    both_ways, v = build("dualpipe", 2 * half, 2 * n), build("dualpipev", half, n)

    def sides(steps, direction):
        def name(action: Action) -> tuple[str, int, bool]:
            return action.kind, action.microbatch % n, direction(action)

        return [tuple(map(name, step)) if isinstance(step, Pair) else name(step) for step in steps]

    for device in range(half):
        ours = sides(both_ways.devices[device], lambda action: action.microbatch >= n)
        assert ours == sides(v.devices[device], lambda action: action.stage >= half)
        # The second half mirrors the first, with the two directions changed.
        mirrored = sides(both_ways.devices[2 * half - 1 - device], lambda action: action.microbatch < n)
        assert ours == mirrored


def test_pytorchs_dualpipev_is_the_same_order():
    cases = [case for case in PYTORCH["cases"] if case["schedule"] == "DualPipeV"]
    assert sorted((case["p"], case["m"]) for case in cases) == [(2, 4), (4, 8), (4, 10), (4, 20)]
    for case in cases:
        order = build("dualpipev", case["p"], case["m"])
        assert pytorch_csv.write(order).splitlines() == [cells.replace(" ", ",") for cells in case["rows"]]
        run = simulate(order, COSTS)
        assert (run.total, list(run.peak_in_flight)) == (case["total"], case["peaks"])


@pytest.mark.parametrize(
    ("name", "p", "m", "sentence"),
    [
        ("dualpipe", 3, 12, "dualpipe needs an even number of devices, not 3"),
        ("dualpipe", 1, 12, "dualpipe needs an even number of devices, not 1"),
        ("dualpipe", 4, 9, "dualpipe needs an even number of micro-batches, not 9: half of them enter at each end"),
        ("dualpipe", 8, 14, "dualpipe on 8 devices needs at least 16 micro-batches, not 14"),
        ("dualpipev", 4, 7, "dualpipev on 4 devices needs at least 8 micro-batches, not 7"),
    ],
)
def test_what_can_not_be(name, p, m, sentence):
    with pytest.raises(OrderError) as raised:
        build(name, p, m)
    assert str(raised.value) == sentence
