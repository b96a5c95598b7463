"""The published formulas beside the simulation: equal where they hold, with a reason where they don't."""

from __future__ import annotations

import pytest

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.formulas import FORMULAS, compare, interleaved_span, worker_memory
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.peaks import peak_memory
from labtui.theory.pipeline.schedules import SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate

EXACT = [name for name, formula in FORMULAS.items() if name in SCHEDULES and not formula.estimate]


@pytest.mark.parametrize("name", EXACT)
def test_simulation_and_formula_agree_or_it_says_why(name):
    agreed = 0
    for p in (1, 2, 3, 4, 8):
        for m in (1, 2, 3, 4, 8, 9, 10, 16, 23):
            for v in (None, 1, 3):
                try:
                    order = build(name, p, m, v)
                except OrderError:
                    continue
                beside = compare(name, simulate(order), v or SCHEDULES[name].virtual)
                assert beside.expected_peak == pytest.approx(beside.simulated_peak)
                if beside.expected == pytest.approx(beside.simulated):
                    agreed += 1
                    assert beside.why == ()
                else:
                    assert m < FORMULAS[name].enough(p)
                    assert f"needs at least {FORMULAS[name].enough(p)} micro-batches" in beside.why[0]
    assert agreed >= 9


@pytest.mark.parametrize(
    ("name", "p", "m", "costs", "says"),
    [
        ("1f1b", 4, 8, Costs(comm=0.5), "transfers take 0.5 each"),
        ("gpipe", 4, 8, Costs(stages=(1, 1, 1, 2)), "stages or micro-batches cost different times"),
        ("interleaved-1f1b", 4, 2, Costs(), "at least 4 micro-batches"),
        ("zb-h1", 4, 8, Costs(1, 1, 3), "for F = I = W"),
        ("dualpipe", 4, 8, Costs(1, 3, 1), "for F = I = W"),
        ("dualpipe", 4, 8, Costs(1, 1, 1, backward=1.5), "than I + W"),
    ],
)
def test_why_they_differ(name, p, m, costs, says):
    beside = compare(name, simulate(build(name, p, m), costs), SCHEDULES[name].virtual)
    assert beside.expected != pytest.approx(beside.simulated)
    assert says in "; ".join(beside.why)


def test_no_formula_is_none():
    assert compare("interleaved-zb", simulate(build("interleaved-zb", 4, 8)), 2) is None


def test_dualpipes_figures():
    """The official picture: 8 devices, 20 micro-batches, 66 units of which 6 idle; peak PP + 1."""
    for name, p, m in (("dualpipe", 8, 20), ("dualpipev", 4, 10)):
        assert FORMULAS[name].time(p, m, 1, Costs()) == 6
        assert compare(name, simulate(build(name, p, m)), 2).simulated == 66


def test_interleaved_by_zero_bubbles_closed_form():
    """Table 5, 1F1B-I of 1.5B: v = (22 + 2) / 8 = 3, times of table 9 in ms."""
    for m, times, comm, rate in (
        (24, (18.522, 18.086, 9.337), 0.601, 0.1055),
        (32, (18.513, 18.086, 9.331), 0.626, 0.0818),
        (64, (18.546, 18.097, 9.321), 0.762, 0.0443),
    ):
        cost = interleaved_span(8, m, 3, sum(times), comm)
        assert (cost - m * sum(times)) / cost == pytest.approx(rate, abs=6e-5)


@pytest.mark.parametrize("name", ["zb-h1", "zb-h2"])
def test_memory_of_each_worker(name):
    p = 5
    order = build(name, p, 3 * p)
    for until_b, until_w in ((1, 1), (1, 0), (34, 32)):
        expected = tuple(worker_memory(name, worker, p, until_b, until_w) for worker in range(p))
        assert peak_memory(order, until_b, until_w) == pytest.approx(expected)


def test_pairs_that_overlap_are_named_as_the_reason() -> None:
    costs = Costs(pair=2.7)
    found = compare("dualpipe", simulate(build("dualpipe", 8, 20, costs=costs), costs))
    assert found is not None and found.simulated < found.expected
    assert len(found.why) == 1 and found.why[0].startswith("an overlapped pair takes another time than F + B")
