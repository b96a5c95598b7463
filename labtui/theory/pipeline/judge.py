"""Whether an order can run at all: every operation once, where it belongs, and no device waiting for ever."""

from __future__ import annotations

from collections.abc import Container

from labtui.theory.pipeline.order import KINDS, Action, Actions, Order, OrderError, Step
from labtui.theory.pipeline.peaks import flat

LONGEST_TOLD = 4
"""Devices of a cycle that an error names one by one; of a longer one it names the first three and the last."""

Seen = dict[Action, tuple[int, int]]
"""Where each action stands: device, and the number of its step there."""


def judge(order: Order) -> None:
    """Raises OrderError, one sentence, for the first fault found; returns where there is none.

    Each (micro-batch, stage) needs an F and either a B or an I and a W, on the device that has the stage, in an order
    that can finish: whole and split backwards may be mixed. A deadlock names the cycle of devices that wait.
    """
    _judge_shape(order)
    seen = _judge_actions(order)
    _judge_complete(order, seen)
    _judge_own_order(order, seen)
    _judge_progress(order, seen)


def spoken(action: Action) -> str:
    """F3 of stage 0."""
    return f"{action.kind}{action.microbatch} of stage {action.stage}"


def needed(action: Action, last_stage: int, all_actions: Container[Action]) -> list[Action]:
    """What must have ended before `action` may begin, besides what its device does before it."""
    kind, microbatch, stage = action
    if kind == "F":
        return [Action("F", microbatch, stage - 1)] if stage else []
    if kind == "W":
        return [Action("I", microbatch, stage)]
    own = Action("F", microbatch, stage)
    if stage == last_stage:
        return [own]
    whole = Action("B", microbatch, stage + 1)
    return [own, whole if whole in all_actions else Action("I", microbatch, stage + 1)]


def _judge_shape(order: Order) -> None:
    count = len(order.devices)
    if order.microbatches < 1 or count < 1 or not order.routes or not order.routes[0]:
        raise OrderError("an order needs at least one device, one stage and one micro-batch")
    if any(len(way) != order.stages for way in order.routes):
        raise OrderError("all ways through the model pass the same number of stages")
    for way in order.routes:
        for stage, device in enumerate(way):
            if not 0 <= device < count:
                raise OrderError(f"stage {stage} is on device {device}, but there are {count} devices (from 0)")
    if order.route_of:
        if len(order.route_of) != order.microbatches:
            raise OrderError(f"{len(order.route_of)} micro-batches have a way, but there are {order.microbatches}")
        for microbatch, way_number in enumerate(order.route_of):
            if not 0 <= way_number < len(order.routes):
                raise OrderError(f"micro-batch {microbatch} goes way {way_number}, but there are {len(order.routes)}")


def _judge_actions(order: Order) -> Seen:
    seen: Seen = {}
    for device, steps in enumerate(order.devices):
        for place, step in enumerate(steps):
            if len(step) == 2 and (step[0].kind != "F" or step[1].kind not in ("B", "I")):
                raise OrderError(
                    f"device {device} overlaps {spoken(step[0])} with {spoken(step[1])}, but a pair is a forward and "
                    f"a backward"
                )
            for action in step if len(step) == 2 else (step,):
                kind, microbatch, stage = action
                if kind not in KINDS:
                    raise OrderError(f"device {device} has an operation {kind!r}; there are F, B, I and W")
                if not 0 <= microbatch < order.microbatches:
                    raise OrderError(
                        f"device {device} has {spoken(action)}, but the micro-batches are 0 to {order.microbatches - 1}"
                    )
                if not 0 <= stage < order.stages:
                    raise OrderError(
                        f"device {device} has {spoken(action)}, but the stages are 0 to {order.stages - 1}"
                    )
                home = order.device_of(microbatch, stage)
                if home != device:
                    raise OrderError(f"device {device} has {spoken(action)}, but that stage is on device {home}")
                if action in seen:
                    raise OrderError(f"device {device} has {spoken(action)} twice")
                seen[action] = (device, place)
    return seen


def _judge_complete(order: Order, seen: Seen) -> None:
    for stage in range(order.stages):
        for microbatch in range(order.microbatches):
            forward, whole, inputs, weights = (Action(kind, microbatch, stage) in seen for kind in ("F", "B", "I", "W"))
            if forward and whole and not inputs and not weights:
                continue
            if forward and not whole and inputs and weights:
                continue
            device = order.device_of(microbatch, stage)
            of = f"micro-batch {microbatch} in stage {stage}"
            if not forward:
                raise OrderError(f"device {device} has no forward (F) of {of}")
            if whole:
                raise OrderError(f"device {device} has a whole backward (B) of {of} and a part of it (I or W) again")
            if not inputs and not weights:
                raise OrderError(f"device {device} has no backward (B, or I and W) of {of}")
            missing = "W (gradient of the weights)" if inputs else "I (gradient of the input)"
            raise OrderError(f"device {device} has no {missing} of {of}, only the other half of its backward")


def _judge_own_order(order: Order, seen: Seen) -> None:
    """What a device needs of itself in the same stage: F before its backward, I before W."""
    for device, steps in enumerate(order.devices):
        for action in flat(steps):
            kind, microbatch, stage = action
            before = {"B": "F", "I": "F", "W": "I"}.get(kind)
            if before is None:
                continue
            earlier = Action(before, microbatch, stage)
            if seen[earlier] == seen[action]:
                raise OrderError(
                    f"device {device} overlaps {spoken(action)} with its own {before}, which it needs first"
                )
            if seen[earlier] > seen[action]:
                raise OrderError(f"device {device} has {spoken(action)} before its {before}")


def _judge_progress(order: Order, seen: Seen) -> None:
    last = order.stages - 1
    at = [0] * len(order.devices)

    def blocked_by(step: Step) -> tuple[Action, Action] | None:
        """(the action that waits, what it waits for), None if the step can run."""
        for action in step if len(step) == 2 else (step,):
            for need in needed(action, last, seen):
                device, place = seen[need]
                if at[device] <= place:
                    return action, need
        return None

    waiting: dict[int, list[int]] = {}
    ready = list(range(len(order.devices)))
    while ready:
        device = ready.pop()
        steps: Actions = order.devices[device]
        before = at[device]
        while at[device] < len(steps):
            block = blocked_by(steps[at[device]])
            if block is not None:
                waiting.setdefault(seen[block[1]][0], []).append(device)
                break
            at[device] += 1
        if at[device] > before:
            # Whoever waits for this device looks again; it may have to wait for more. Only if there is something new:
            # two devices that wait for each other would look for ever.
            ready += waiting.pop(device, [])
    stuck = [device for device, steps in enumerate(order.devices) if at[device] < len(steps)]
    if not stuck:
        return
    device = stuck[0]
    trail: list[tuple[int, Action, Action, int]] = []
    told: dict[int, int] = {}
    while device not in told:
        block = blocked_by(order.devices[device][at[device]])
        assert block is not None
        told[device] = len(trail)
        waits, need = block
        other = seen[need][0]
        trail.append((device, waits, need, other))
        device = other
    cycle = trail[told[device] :]
    first, waits, need, other = cycle[0]
    if len(cycle) == 1:
        raise OrderError(
            f"the order never finishes: device {first} has {spoken(waits)} before {spoken(need)}, which it needs first"
        )
    words = [f"device {first} waits with {spoken(waits)} for {spoken(need)} on device {other}"]
    words += [
        f"which waits with {spoken(waits)} for {spoken(need)} on device {other}"
        for _, waits, need, other in cycle[1 : LONGEST_TOLD - 1]
    ]
    if len(cycle) >= LONGEST_TOLD:
        device, waits, need, other = cycle[-1]
        between = len(cycle) - LONGEST_TOLD
        if between:
            words.append(f"and so on over {between} more device{'s' * (between > 1)} to device {device}")
        words.append(f"which waits with {spoken(waits)} for {spoken(need)} on device {other}")
    raise OrderError(f"the order never finishes: {', '.join(words)}")
