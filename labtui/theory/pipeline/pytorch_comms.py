"""A pipeline order with what PyTorch adds before it runs one: transfers between ranks, and FSDP's steps.

The result is torch 2.13's own (`_add_unshard_reshard`, `_add_reduce_grad`, `_add_send_recv`, receives not deferred),
action by action: a test holds it against the installed torch. Actions have PyTorch's further kinds here; UNSHARD,
RESHARD and REDUCE_GRAD concern a stage, whatever their micro-batch says.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from labtui.theory.pipeline.order import Action, Actions, Order, Pair, Step
from labtui.theory.pipeline.simulate import simulate

TRANSFERS = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
SHARDING = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
UNSHARDED_AT_ONCE = 3
"""Stages whose parameters FSDP keeps whole on a rank: those that the rank needs next."""


def delivery(order: Order, action: Action) -> tuple[Action, Action] | None:
    """The send and the receive that carry this action's result to another device; None where it stays or ends."""
    kind, microbatch, stage = action
    if kind not in ("F", "B", "I"):
        return None
    letter, target = ("F", stage + 1) if kind == "F" else ("B", stage - 1)
    if not 0 <= target < order.stages:
        return None
    if order.device_of(microbatch, stage) == order.device_of(microbatch, target):
        return None
    return Action(f"SEND_{letter}", microbatch, stage), Action(f"RECV_{letter}", microbatch, target)


def lowered(order: Order) -> tuple[Actions, ...]:
    """By device, the order's steps with transfers and FSDP's steps among them. OrderError where the order is faulty.

    The devices take turns, each does a step if its inputs are there; a send and its receive are written at the same
    moment. So between two devices sends and receives come in the same order, and none waits for ever.
    """
    simulate(order)  # judges what can't be run, and is far quicker than judging what can
    waiting = [deque(_with_sharding(steps)) for steps in order.devices]
    lines: list[list[Step]] = [[] for _ in order.devices]
    there: set[tuple[str, int, int]] = set()
    last = order.stages - 1

    def ready(action: Action) -> bool:
        kind, microbatch, stage = action
        if kind == "F":
            return stage == 0 or ("F", microbatch, stage) in there
        if kind in ("B", "I"):
            return stage == last or ("B", microbatch, stage) in there
        return True

    while any(waiting):
        for device, steps in enumerate(waiting):
            if not steps or not all(map(ready, _parts(steps[0]))):
                continue
            step = steps.popleft()
            lines[device].append(step)
            for action in _parts(step):
                kind, microbatch, stage = action
                if kind in ("F", "B", "I"):
                    there.add(("F", microbatch, stage + 1) if kind == "F" else ("B", microbatch, stage - 1))
                carried = delivery(order, action)
                if carried is not None:
                    send, receive = carried
                    lines[device].append(send)
                    lines[order.device_of(microbatch, receive.stage)].append(receive)
    return tuple(map(tuple, lines))


def _parts(step: Step) -> tuple[Action, ...]:
    return (step.forward, step.backward) if isinstance(step, Pair) else (step,)


def _with_sharding(steps: Actions) -> Iterator[Step]:
    """A device's steps with UNSHARD before a stage is needed, RESHARD when it is not among the next few, and
    REDUCE_GRAD after its last weight gradient."""
    left = Counter(action.stage for step in steps for action in _parts(step) if action.kind in ("B", "W"))
    whole: set[int] = set()
    for step, soon in zip(steps, _stages_ahead(steps)):  # noqa: B905 - Python 3.9
        for stage in sorted(whole.difference(soon)):
            yield Action("RESHARD", 0, stage)
        for stage in soon:
            if stage not in whole:
                yield Action("UNSHARD", 0, stage)
        whole = set(soon)
        yield step
        for action in _parts(step):
            if action.kind in ("B", "W"):
                left[action.stage] -= 1
                if not left[action.stage]:
                    yield Action("REDUCE_GRAD", 0, action.stage)
    for stage in sorted(whole):
        yield Action("RESHARD", 0, stage)


def _stages_ahead(steps: Actions) -> list[tuple[int, ...]]:
    """For each step, the next different stages that the device needs, this step's first."""
    ahead: list[tuple[int, ...]] = []
    needed: tuple[int, ...] = ()
    for step in reversed(steps):
        # A dictionary keeps the first of equal keys: what is needed now goes before what is needed later.
        nearest = dict.fromkeys([action.stage for action in _parts(step)] + list(needed))
        needed = tuple(nearest)
        ahead.append(needed[:UNSHARDED_AT_ONCE])
    ahead.reverse()
    return ahead
