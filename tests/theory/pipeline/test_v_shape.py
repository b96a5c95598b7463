"""ZB-V, V-Half and V-Min against PyTorch, the paper's figure and the repository of the papers' authors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.judge import judge
from labtui.theory.pipeline.order import Order
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate

UNIT = Costs(1, 1, 1)
PEAKS = {"zb-v": lambda p: p, "v-half": lambda p: (p + 2) // 2, "v-min": lambda p: (p + 4) // 3}
"""In micro-batches: the Hugging Face space sail/pipeline-parallelism-with-controllable-memory, description1.md."""

# torch 2.13, torch.distributed.pipelining._schedule_visualizer.get_schedule_ops of ZBVZeroBubble.
PYTORCH_4_8 = (
    "0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 7I3 7W3 0F7 0I0 0W0 7F4 7I4 7W4 0I1 0W1 7F5 "
    "7I5 7W5 0I2 0W2 7F6 7I6 7W6 0I3 0W3 7F7 7I7 7W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7",
    "1F0 1F1 1F2 1F3 1F4 6F0 1F5 6F1 6I0 6W0 6F2 6I1 6W1 6F3 6I2 6W2 1F6 1I0 1W0 6F4 6I3 6W3 1F7 1I1 1W1 6F5 6I4 6W4 "
    "1I2 1W2 6F6 6I5 6W5 1I3 1W3 6F7 6I6 6W6 1I4 6I7 1I5 1W4 1I6 1W5 1I7 1W6 6W7 1W7",
    "2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 5I1 5W1 2F5 2I0 2W0 5F4 5I2 5W2 2F6 2I1 2W1 5F5 5I3 5W3 2F7 2I2 2W2 "
    "5F6 5I4 5W4 2I3 2W3 5F7 5I5 5W5 2I4 5I6 2I5 5I7 2I6 2W4 2I7 2W5 5W6 5W7 2W6 2W7",
    "3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4I0 4W0 3F4 3I0 3W0 4F4 4I1 4W1 3F5 3I1 3W1 4F5 4I2 4W2 3F6 3I2 3W2 4F6 4I3 4W3 "
    "3F7 3I3 3W3 4F7 4I4 4W4 3I4 4I5 3I5 4I6 3I6 4I7 3I7 3W4 4W5 4W6 4W7 3W5 3W6 3W7",
)
# Qi et al. 2023 (arXiv 2401.10241) figure 8, which prints the micro-batches only.
FIGURE_8 = (
    "1 2 3 4 5 6 7 1 1 1 2 2 2 3 3 3 4 4 4 8 1 1 5 5 5 2 2 6 6 6 3 3 7 7 7 4 4 8 8 8 5 5 6 6 7 7 8 8",
    "1 2 3 4 5 1 6 2 1 1 3 2 2 4 3 3 7 1 1 5 4 4 8 2 2 6 5 5 3 3 7 6 6 4 4 8 7 7 5 8 6 5 7 8 8 6 7 8",
    "1 2 3 1 4 2 5 3 1 1 4 2 2 6 1 1 5 3 3 7 2 2 6 4 4 8 3 3 7 5 5 4 4 8 6 6 5 7 6 8 7 5 8 7 6 8 7 8",
    "1 1 2 2 3 3 4 4 1 1 5 1 1 5 2 2 6 2 2 6 3 3 7 3 3 7 4 4 8 4 4 8 5 5 5 6 6 7 7 8 8 5 6 6 7 7 8 8",
)
# Longest spans that sail-sg/zero-bubble-pipeline-parallelism's greedy (zbv_greedy) gives at 39f2c186, F = I = W = 1.
GREEDY = {
    "v-min": {(4, 8): 59, (4, 12): 83, (4, 20): 131, (6, 18): 125, (8, 24): 171, (8, 32): 219, (16, 48): 347},
    "v-half": {(4, 8): 53, (4, 12): 77, (4, 20): 125, (6, 18): 119, (8, 24): 161, (8, 32): 209, (16, 48): 329},
}


def written(order: Order) -> tuple[str, ...]:
    return tuple(" ".join(f"{stage}{kind}{number}" for kind, number, stage in steps) for steps in order.devices)


def test_zb_vs_order_is_pytorchs():
    assert written(build("zb-v", 4, 8)) == PYTORCH_4_8


def test_zb_v_is_figure_8_up_to_the_order_of_the_last_w():
    order = build("zb-v", 4, 8)
    for device, (steps, figure) in enumerate(zip(order.devices, FIGURE_8, strict=True)):
        ours, theirs = [step.microbatch + 1 for step in steps], [int(number) for number in figure.split()]
        same = next((place for place, pair in enumerate(zip(ours, theirs, strict=True)) if len(set(pair)) > 1), 48)
        assert same == 48 or device
        # Where they part, no forward is left, and what is left differs in its order alone.
        assert "F" not in {step.kind for step in steps[same:]}
        assert Counter(ours[same:]) == Counter(theirs[same:])
        last_inputs = [step for step in steps[same:] if step.kind == "I"]
        assert len(last_inputs) <= 4 * (device > 0)


@pytest.mark.parametrize(
    ("p", "m", "total", "span"), [(4, 8, 51, 48), (4, 12, 75, 72), (2, 4, 25, 24), (8, 20, 127, 120)]
)
def test_zb_v_has_no_bubble_within_a_span_where_all_work_is_equal(p, m, total, span):
    run = simulate(build("zb-v", p, m), UNIT)
    assert run.total == total
    assert set(run.spans) == {span} == {6 * m}
    assert set(run.peak_in_flight) == {2 * p}


@pytest.mark.parametrize("name", GREEDY)
def test_spans_are_not_longer_than_the_authors(name):
    for (p, m), printed in GREEDY[name].items():
        if p <= 8:
            assert max(simulate(build(name, p, m), UNIT).spans) <= printed, (p, m)


@pytest.mark.slow
@pytest.mark.parametrize("name", GREEDY)
def test_a_large_span_is_not_longer_than_the_authors(name):
    assert max(simulate(build(name, 16, 48), UNIT).spans) <= GREEDY[name][16, 48]


def test_v_min_is_shorter_than_the_authors_where_a_forward_goes_first():
    assert max(simulate(build("v-min", 8, 24), UNIT).spans) == 167 < GREEDY["v-min"][8, 24]


@pytest.mark.parametrize("name", PEAKS)
def test_peaks_are_those_published(name):
    for p in range(1, 9):
        held = simulate(build(name, p, 3 * p), UNIT).peak_memory
        assert max(held) == PEAKS[name](p), p
        assert max(simulate(build(name, p, 1), UNIT).peak_memory) == 1


COSTS = st.integers(0, 8).map(lambda number: number / 4)


@pytest.mark.parametrize("name", PEAKS)
@settings(max_examples=15, deadline=None)
@given(p=st.integers(1, 7), m=st.integers(1, 12), f=COSTS, i=COSTS, w=COSTS, comm=COSTS, slow=st.integers(0, 30))
def test_any_costs_give_an_order_that_can_run_within_the_peak(name, p, m, f, i, w, comm, slow):
    costs = Costs(f, i, w, comm=comm)
    if slow < 2 * p:
        costs = replace(costs, stages=tuple(3.0 if stage == slow else 1.0 for stage in range(2 * p)))
    order = build(name, p, m, costs=costs)
    judge(order)
    assert max(simulate(order, costs).peak_memory) <= PEAKS[name](p)


def test_the_order_follows_the_costs():
    costs = Costs(1, 1.3, 0.5, comm=0.3)
    blind, seeing = build("v-half", 6, 18), build("v-half", 6, 18, costs=costs)
    assert max(simulate(seeing, costs).spans) < max(simulate(blind, costs).spans)


def test_factors_for_another_number_of_stages_are_refused():
    with pytest.raises(ValueError, match="factors for 4 stages, but there are 8"):
        build("v-min", 4, 8, costs=Costs(1, stages=(1, 1, 1, 2)))
