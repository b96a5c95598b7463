"""ZB-H1 and ZB-H2 against the paper (Qi et al. 2023, arXiv 2401.10241): figure 3, tables 2 and 5."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Order
from labtui.theory.pipeline.peaks import peak_memory
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.published.zero_bubble import CASES, MODELS, TOLERANCE, interleaved_span, rate

UNIT = Costs(1, 1, 1)
FIGURE_3 = {
    "zb-h1": (
        "F1 F2 F3 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 F8 B5 W5 B6 W6 B7 W7 B8 W8",
        "F1 F2 F3 B1 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 F8 B6 W5 B7 W6 B8 W7 W8",
        "F1 F2 B1 F3 B2 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 F8 B7 W5 B8 W6 W7 W8",
        "F1 B1 F2 B2 F3 B3 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 F8 B8 W5 W6 W7 W8",
    ),
    "zb-h2": (
        "F1 F2 F3 F4 F5 F6 F7 B1 W1 F8 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7 B8 W8",
        "F1 F2 F3 F4 F5 B1 F6 B2 F7 B3 W1 F8 B4 W2 B5 W3 B6 W4 B7 W5 B8 W6 W7 W8",
        "F1 F2 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 W1 F8 B6 W2 B7 W3 B8 W4 W5 W6 W7 W8",
        "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 W1 F8 B8 W2 W3 W4 W5 W6 W7 W8",
    ),
}


def as_in_the_figure(order: Order) -> tuple[str, ...]:
    """There the gradient of the input is called B, and micro-batches count from 1."""
    return tuple(
        " ".join(f"{kind.replace('I', 'B')}{microbatch + 1}" for kind, microbatch, _ in steps)
        for steps in order.devices
    )


@pytest.mark.parametrize(("name", "spans"), [("zb-h1", (27, 26, 25, 24)), ("zb-h2", (24, 24, 24, 24))])
def test_figure_3_row_by_row(name, spans):
    order = build(name, 4, 8)
    assert as_in_the_figure(order) == FIGURE_3[name]
    timeline = simulate(order, UNIT)
    assert timeline.total == 27
    assert timeline.spans == spans


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-{case.microbatches}")
def test_the_rates_of_table_5(case):
    for name in ("1f1b", "1f1b-i", "zb-h1", "zb-h2"):
        assert rate(case, name) == pytest.approx(case.rates[name], abs=TOLERANCE), name


def test_the_rate_of_the_total_is_another_one():
    run = simulate(build("zb-h2", 4, 8), UNIT)
    assert run.bubble_of_span == 0
    assert run.bubble == pytest.approx(3 / 27)


@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=lambda case: case.model)
def test_interleaved_run_as_soon_as_possible_takes_a_transfer_per_device_more_than_table_5(case):
    v = (MODELS[case.model].layers + 2) // case.devices
    costs = Costs(case.forward / v, case.input / v, case.weight / v, comm=case.comm)
    run = simulate(build("interleaved-1f1b", case.devices, case.microbatches, v), costs)
    assert max(run.spans) == pytest.approx(interleaved_span(case) + case.devices * case.comm)


@given(p=st.integers(1, 8), more=st.integers(0, 12), until_w=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_the_memory_of_each_worker_is_that_of_section_2_3(p, more, until_w):
    m = 2 * p + more
    h1, h2 = (peak_memory(build(name, p, m), 1, until_w) for name in ("zb-h1", "zb-h2"))
    for stage in range(p):
        assert h1[stage] == p - stage + stage * until_w
        # The last of the warm-up's forwards and the waiting W's are there at once.
        assert h2[stage] == 2 * (p - stage) - 1 + 2 * stage * until_w


@given(
    p=st.integers(1, 8), more=st.integers(0, 9), forward=st.integers(2, 6), spread=st.integers(0, 2),
)  # fmt: skip
def test_the_bubbles_of_table_2(p, more, forward, spread):
    """(p-1)(F+I-W) and (p-1)(F+I-2W), where F = I and W is at most as long."""
    costs = Costs(forward, forward, forward - spread)
    h1 = simulate(build("zb-h1", p, 2 * p + more), costs)
    assert max(h1.spans) - h1.ideal == (p - 1) * (2 * forward - costs.weight)
    h2 = simulate(build("zb-h2", p, 2 * p + more), costs)
    assert max(h2.spans) - h2.ideal == (p - 1) * (2 * forward - 2 * costs.weight)


@given(p=st.integers(1, 8), m=st.integers(1, 8), w=st.integers(0, 2))
def test_with_few_micro_batches_only_one_w_is_left_over(p, m, w):
    """For m <= p the appendix has (m+p-1)(F+I)+W."""
    m = min(m, p)
    run = simulate(build("zb-h1", p, m), Costs(2, 2, w))
    assert run.total == (m + p - 1) * 4 + w
