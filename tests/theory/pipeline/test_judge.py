"""Faulty orders: each fault is named in one sentence, by the judge as by the simulator, which never hangs on one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.judge import judge
from labtui.theory.pipeline.order import Action, Actions, Order, OrderError, Pair, Step
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate

LINE = (tuple(range(2)),)


def action(text: str) -> Action:
    """0F3 is the forward of micro-batch 3 in stage 0, as PyTorch writes it."""
    kind = next(letter for letter in text if letter.isalpha())
    stage, _, microbatch = text.partition(kind)
    return Action(kind, int(microbatch), int(stage))


def order(*rows: str, m: int, routes: tuple[tuple[int, ...], ...] = LINE) -> Order:
    """Rows of actions; `0F1+0B0` is a pair."""
    devices: list[Actions] = []
    for row in rows:
        steps: list[Step] = []
        for text in row.split():
            parts = [action(part) for part in text.split("+")]
            steps.append(Pair(*parts) if len(parts) == 2 else parts[0])
        devices.append(tuple(steps))
    return Order("mine", m, routes, tuple(devices))


FAULTS = {
    "a forward is missing": (
        order("0F0 0B0 0B1", "1F0 1B0 1F1 1B1", m=2),
        "no forward (F) of micro-batch 1 in stage 0",
    ),
    "a backward is missing": (order("0F0", "1F0 1B0", m=1), "device 0 has no backward (B, or I and W)"),
    "half a backward": (order("0F0 0I0", "1F0 1B0", m=1), "no W (gradient of the weights)"),
    "the other half": (order("0F0 0W0", "1F0 1B0", m=1), "no I (gradient of the input)"),
    "whole and half": (order("0F0 0B0 0W0", "1F0 1B0", m=1), "a whole backward (B)"),
    "twice": (order("0F0 0F0 0B0", "1F0 1B0", m=1), "F0 of stage 0 twice"),
    "on the wrong device": (order("0F0 1F0 0B0", "1B0", m=1), "F0 of stage 1, but that stage is on device 1"),
    "no such micro-batch": (order("0F0 0F1 0B0", "1F0 1B0", m=1), "F1 of stage 0, but the micro-batches are 0 to 0"),
    "a micro-batch below 0": (order("0F-1 0B0", "1F0 1B0", m=1), "F-1 of stage 0"),
    "no such stage": (order("0F0 0B0 7F0", "1F0 1B0", m=1), "F0 of stage 7, but the stages are 0 to 1"),
    "no such kind": (order("0F0 0X0", "1F0 1B0", m=1), "'X'"),
    "backward before forward": (order("0B0 0F0", "1F0 1B0", m=1), "B0 of stage 0 before its F"),
    "weights before input": (order("0F0 0W0 0I0", "1F0 1B0", m=1), "W0 of stage 0 before its I"),
    "a pair of forwards": (order("0F0+0F1 0B0 0B1", "1F0 1B0 1F1 1B1", m=2), "a pair is a forward and a backward"),
    "a pair of what needs itself": (order("0F0 0B0", "1F0+1B0", m=1), "overlaps B0 of stage 1 with its own F"),
    "no work": (Order("mine", 0, LINE, ((), ())), "at least one device, one stage and one micro-batch"),
    "no way": (Order("mine", 1, (), ((), ())), "at least one device, one stage and one micro-batch"),
    "a stage nowhere": (order("0F0 0B0", m=1, routes=((0, 5),)), "stage 1 is on device 5"),
    "ways of two lengths": (replace(order("0F0 0B0", m=1), routes=((0,), (0, 0))), "same number of stages"),
    "a way too few": (replace(order("0F0 0B0", m=1, routes=((0,),)), route_of=(0, 0)), "2 micro-batches have a way"),
    "no such way": (replace(order("0F0 0B0", m=1, routes=((0,),)), route_of=(3,)), "goes way 3"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("look", [judge, simulate])
def test_a_fault_is_named(name, look):
    faulty, says = FAULTS[name]
    with pytest.raises(OrderError) as caught:
        look(faulty)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("look", [judge, simulate])
def test_a_deadlock_names_the_cycle(look):
    crossed = order("0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1", m=2)
    with pytest.raises(OrderError) as caught:
        look(crossed)
    assert str(caught.value) == (
        "the order never finishes: device 0 waits with B0 of stage 0 for B0 of stage 1 on device 1, "
        "which waits with F1 of stage 1 for F1 of stage 0 on device 0"
    )


def test_devices_that_only_wait_for_the_cycle_are_left_out_of_it():
    """Device 0 waits with B0 of stage 0 for device 1, but the cycle is between the devices 1 and 2."""
    crossed = order("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2F1 2B0 2B1", m=2, routes=((0, 1, 2),))
    with pytest.raises(OrderError, match="never finishes") as caught:
        judge(crossed)
    assert "device 0" not in str(caught.value)


def test_a_long_cycle_is_told_in_short():
    """Twelve devices in a ring, each with its second chunk first."""
    p = 12
    rows = [f"{p + r}F0 {r}F0 {p + r}B0 {r}B0" for r in range(p)]
    with pytest.raises(OrderError) as caught:
        judge(order(*rows, m=1, routes=(tuple(range(p)) * 2,)))
    assert str(caught.value) == (
        "the order never finishes: device 0 waits with F0 of stage 12 for F0 of stage 11 on device 11, "
        "which waits with F0 of stage 23 for F0 of stage 22 on device 10, "
        "which waits with F0 of stage 22 for F0 of stage 21 on device 9, "
        "and so on over 8 more devices to device 1, "
        "which waits with F0 of stage 13 for F0 of stage 12 on device 0"
    )


def test_a_v_whose_device_does_its_late_stage_first():
    with pytest.raises(OrderError, match="device 1 has F0 of stage 2 before F0 of stage 1, which it needs first"):
        judge(order("0F0 3F0 3B0 0B0", "2F0 1F0 2B0 1B0", m=1, routes=((0, 1, 1, 0),)))


def test_whole_and_split_backwards_in_one_order_are_no_fault():
    mixed = order("0F0 0F1 0B0 0I1 0W1", "1F0 1I0 1F1 1B1 1W0", m=2)
    judge(mixed)
    assert simulate(mixed).total > 0


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_simulator_refuses_just_what_the_judge_refuses(data):
    """Orders with two steps of a device swapped, one left out, one doubled or one moved to another device."""
    name = data.draw(st.sampled_from(["1f1b", "interleaved-1f1b", "zb-h1", "dualpipev", "dualpipe"]))
    good = build(name, 2, 4)
    devices = [list(steps) for steps in good.devices]
    steps = devices[data.draw(st.integers(0, 1))]
    one, other = (data.draw(st.integers(0, len(steps) - 1)) for _ in "ab")
    change = data.draw(st.sampled_from(["swap", "drop", "double", "move"]))
    if change == "swap":
        steps[one], steps[other] = steps[other], steps[one]
    elif change == "drop":
        del steps[one]
    elif change == "double":
        steps.insert(other, steps[one])
    else:
        devices[data.draw(st.integers(0, 1))].insert(0, steps.pop(one))
    changed = replace(good, devices=tuple(map(tuple, devices)))
    try:
        judge(changed)
    except OrderError as error:
        with pytest.raises(OrderError) as caught:
            simulate(changed)
        assert str(caught.value) == str(error)
    else:
        simulate(changed)
