"""What holds for every schedule in the registry, whatever the sizes and the costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.judge import judge
from labtui.theory.pipeline.order import Action, Order, OrderError, Pair
from labtui.theory.pipeline.peaks import flat
from labtui.theory.pipeline.schedules import SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.pipeline.timeline import Timeline

QUARTERS = st.integers(0, 12).map(lambda number: number / 4)
"""Times that binary fractions hold exactly, so that equal means equal."""


@st.composite
def orders(draw: st.DrawFn, name: str) -> tuple[Order, Costs]:
    """An order of the schedule and costs: those it was made for, where it looks at costs at all."""
    p, m = draw(st.integers(1, 6)), draw(st.integers(1, 14))
    v = draw(st.integers(1, 3)) if SCHEDULES[name].chooses_virtual else None
    if name == "dualpipe":
        p, m = 2 * ((p + 1) // 2), 2 * m
    if name.startswith("dualpipe"):
        m = max(m, 2 * p)
    costs = Costs(draw(QUARTERS), draw(QUARTERS), draw(QUARTERS), comm=draw(QUARTERS))
    assume(costs.whole > 0)
    try:
        order = build(name, p, m, v, costs)
    except OrderError:
        assume(False)
    if draw(st.booleans()):
        stages = tuple(draw(st.lists(QUARTERS, min_size=order.stages, max_size=order.stages)))
        batches = tuple(draw(st.lists(QUARTERS, min_size=order.microbatches, max_size=order.microbatches)))
        costs = replace(costs, stages=stages, batches=batches)
    return order, costs


def starts_and_ends(timeline: Timeline) -> dict[Action, tuple[int, float, float]]:
    return {
        Action(op.kind, op.microbatch, op.stage): (device, op.start, op.end)
        for device in range(len(timeline.order.devices))
        for op in timeline.ops(device)
    }


def earliest(action: Action, device: int, when: dict, stages: int, comm: float) -> float:
    """When everything that the action needs has come, told anew and plainly."""
    kind, microbatch, stage = action
    if kind == "W":
        needs = [Action("I", microbatch, stage)]
    elif kind == "F":
        needs = [Action("F", microbatch, stage - 1)] * (stage > 0)
    else:
        needs = [Action("F", microbatch, stage)]
        if stage + 1 < stages:
            needs += [after for after in (Action(kind, microbatch, stage + 1) for kind in "BI") if after in when]
            assert len(needs) == 2
    return max((when[need][2] + comm * (when[need][0] != device) for need in needs), default=0)


@pytest.mark.parametrize("name", SCHEDULES)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_schedule(name, data):
    order, costs = data.draw(orders(name))
    judge(order)
    counted = Counter(action for steps in order.devices for action in flat(steps))
    assert set(counted.values()) == {1}
    for stage in range(order.stages):
        for number in range(order.microbatches):
            done = "".join(kind for kind in "FBIW" if Action(kind, number, stage) in counted)
            assert done in ("FB", "FIW")

    timeline = simulate(order, costs)
    when = starts_and_ends(timeline)
    for device, steps in enumerate(order.devices):
        free = 0.0
        for step in steps:
            members = step if isinstance(step, Pair) else (step,)
            could = max(earliest(action, device, when, order.stages, costs.comm) for action in members)
            took = costs.of_pair(*step) if isinstance(step, Pair) else costs.of(*step)
            for action in members:
                assert order.device_of(action.microbatch, action.stage) == device
                # Not before what it needs, nor before the device is free; and not later than that.
                assert when[action] == (device, max(free, could), max(free, could) + took)
            free = when[members[0]][2]
    assert timeline.total == max(ends[-1] for ends in timeline.ends)
    assert timeline.total >= max(timeline.busy) - 1e-9
    assert timeline.total >= timeline.ideal - 1e-9
    if any(timeline.busy):
        assert timeline.bubble_over_ideal == pytest.approx(timeline.total / timeline.ideal - 1)
    assert simulate(order, costs, link_busy=True).total >= timeline.total


@pytest.mark.parametrize("name", SCHEDULES)
@settings(max_examples=6, deadline=None)
@given(st.data())
def test_the_names_of_micro_batches_do_not_matter(name, data):
    order, costs = data.draw(orders(name))
    names = data.draw(st.permutations(range(order.microbatches)))

    def renamed(action: Action) -> Action:
        return action._replace(microbatch=names[action.microbatch])

    devices = tuple(
        tuple(Pair(*map(renamed, step)) if isinstance(step, Pair) else renamed(step) for step in steps)
        for steps in order.devices
    )
    back = sorted(range(order.microbatches), key=names.__getitem__)
    route_of = tuple(order.route_of[old] for old in back) if order.route_of else ()
    batches = tuple(costs.batches[old] for old in back) if costs.batches else ()
    other = simulate(replace(order, devices=devices, route_of=route_of), replace(costs, batches=batches))
    timeline = simulate(order, costs)
    assert other.total == timeline.total
    assert other.peak_memory == timeline.peak_memory


@given(st.integers(1, 9), st.integers(1, 20), QUARTERS, QUARTERS)
@settings(max_examples=40, deadline=None)
def test_gpipe_is_as_long_as_1f1b_where_transfers_are_free_and_stages_equal(p, m, forward, backward):
    assume(forward + backward)
    costs = Costs(forward, backward=backward)
    gpipe, one = (simulate(build(name, p, m), costs) for name in ("gpipe", "1f1b"))
    assert gpipe.total == one.total == (m + p - 1) * (forward + backward)
    assert max(one.peak_in_flight) == min(p, m) <= max(gpipe.peak_in_flight) == m
