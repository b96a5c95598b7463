"""Critical paths: their hops are what a transfer costs the schedule, and why GPipe suffers less from it than 1F1B."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.critical import critical_path, first_waits, waits
from labtui.theory.pipeline.order import Action
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate

HOPS_OF_1F1B = [
    (4, 8, 16), (8, 24, 54), (8, 32, 68), (8, 64, 124), (16, 48, 118), (32, 96, 246), (2, 8, 8), (4, 4, 10), (4, 2, 6),
]  # fmt: skip


@pytest.mark.parametrize(("p", "m", "hops"), HOPS_OF_1F1B)
def test_hops_of_1f1b_grow_with_the_micro_batches_and_gpipes_do_not(p, m, hops):
    assert critical_path(simulate(build("1f1b", p, m))).hops == hops
    assert critical_path(simulate(build("gpipe", p, m))).hops == 2 * (p - 1)


@given(
    st.sampled_from(["gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "dualpipe", "dualpipev"]),
    st.sampled_from([(2, 4), (4, 8), (4, 11), (6, 12)]),
    st.sampled_from([0, 0.25, 0.3, 2]),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_path_has_no_gaps_and_says_what_more_comm_would_cost(name, sizes, comm, link_busy):
    if name == "dualpipe" and sizes[1] % 2:
        return
    order = build(name, *sizes)
    timeline = simulate(order, Costs(comm=comm), link_busy=link_busy)
    path = critical_path(timeline)
    assert path.steps[0].op.start == 0
    assert path.steps[-1].op.end == timeline.total
    for before, step in zip(path.steps, path.steps[1:], strict=False):
        assert step.op.start == pytest.approx(before.op.end + step.hops * comm)
        assert (step.hops > 0) == (step.device != before.device)
    assert sum(step.hops for step in path.steps) == path.hops
    # The slope of the total, a little to the right of this comm.
    more = 2**-20
    assert simulate(order, Costs(comm=comm + more), link_busy=link_busy).total == pytest.approx(
        timeline.total + path.hops * more, abs=more / 100
    )


def test_the_path_through_a_pair():
    """It enters a block by one of its two inputs and leaves it by either result."""
    path = critical_path(simulate(build("dualpipe", 4, 8), Costs(comm=1)))
    assert any(step.op.pair is not None for step in path.steps)


def test_what_each_device_waited_for_first():
    first = first_waits(simulate(build("1f1b", 4, 8), Costs(comm=0.5)))
    # Device 0 starts at once; after its warm-up it waits for the first gradient, which left device 1 half a unit ago.
    assert (first[0].need, first[0].source) == (Action("B", 0, 1), 1)
    assert (first[0].op.kind, first[0].start, first[0].end) == ("B", 4, first[0].sent + 0.5)
    assert [(wait.need, wait.start, wait.sent, wait.end) for wait in first[1:3]] == [
        (Action("F", 0, 0), 0, 1, 1.5),
        (Action("F", 0, 1), 0, 2.5, 3),
    ]
    assert first_waits(simulate(build("1f1b", 1, 8))) == (None,)


@pytest.mark.parametrize("name", ["1f1b", "dualpipev", "interleaved-zb"])
def test_waits_are_the_idle_time_within_the_total(name):
    timeline = simulate(build(name, 4, 8))
    for device, idle in enumerate(timeline.idle):
        waited = sum(wait.end - wait.start for wait in waits(timeline, device))
        assert waited + timeline.total - timeline.ends[device][-1] == pytest.approx(idle)
