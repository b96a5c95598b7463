"""The simulator: each device does its actions in the given order, each as soon as it can. Knows no schedule by name.

Rules: an F needs the F of the stage before, the B (or I) of the last stage its own F, another B or I also that of the
stage after, a W its own I. What comes from another device arrives `comm` after its end; a transfer occupies no device.
With `link_busy` each directed link between two devices carries one transfer at a time, in the order in which they are
produced. A pair begins when both its actions could and takes one block of time; both results are there at its end.
"""

from __future__ import annotations

from array import array

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.judge import judge
from labtui.theory.pipeline.order import Order
from labtui.theory.pipeline.timeline import Timeline

ABSENT = -1.0
"""Not arrived yet. Below it, -2 - d: device d waits for it."""
FORWARD_DONE, INPUT_DONE, ALL_DONE, WRONG = 1, 2, 3, 4
"""What has been done of a (micro-batch, stage); WRONG is a second time, or a backward's part before what it needs."""


class _Fault(Exception):
    """The order can't be run; `judge` says why."""


def simulate(
    order: Order,
    costs: Costs | None = None,
    *,
    link_busy: bool = False,
    until_b: float = 1.0,
    until_w: float = 1.0,
) -> Timeline:
    """The timeline of the order; `costs` None is the lesson's F=1, B=2.

    `until_b` and `until_w` are activation sizes for the timeline's peak memory, see `peaks.peak_memory`.
    Raises OrderError where the order is faulty or never finishes, ValueError where the costs have factors for another
    number of stages or micro-batches than the order has, or an activation's size is below 0.
    """
    costs = costs or Costs()
    if not (until_b >= 0 and until_w >= 0):
        raise ValueError(f"an activation has at least 0 of a micro-batch's memory, not {min(until_b, until_w):g}")
    stages = order.stages if order.routes else 0
    for what, factors, number in (
        ("stages", costs.stages, stages),
        ("micro-batches", costs.batches, order.microbatches),
    ):
        if factors and len(factors) != number:
            raise ValueError(f"there are {number} {what}, but costs have factors for {len(factors)}")
    try:
        starts, ends = _run(order, costs, link_busy)
    except (_Fault, LookupError):
        judge(order)
        raise
    return Timeline(order, costs, starts, ends, link_busy, until_b, until_w)


def _run(order: Order, costs: Costs, link_busy: bool) -> tuple[tuple[array[float], ...], tuple[array[float], ...]]:
    """Starts and ends of the actions by device. Flat lists and one loop: 100,000 operations are to feel instant.

    A (micro-batch, stage) has the number stage * m + micro-batch. What arrives (activations or a gradient, by number)
    has one sender and one receiver, so a device that has to wait leaves its name there, and nothing is looked at twice.
    """
    m, stages, comm = order.microbatches, order.stages, costs.comm
    if m < 1 or len(order.route_of) not in (0, m) or any(len(way) != stages for way in order.routes):
        raise _Fault
    # Dictionaries, for a list would take a number below 0 for one from its end.
    homes = [dict(enumerate(way)) for way in order.routes]
    home_of = {microbatch: homes[way] for microbatch, way in enumerate(order.route_of or (0,) * m)}
    last, first_number_of_last = stages - 1, m * (stages - 1)
    activations = [0.0] * m + [ABSENT] * first_number_of_last
    gradients = [ABSENT] * (m * stages)
    nothing = [0.0] * (m * stages)
    # By kind: what it needs to have come, and its time by stage.
    plans = {
        kind: (needs, [base * factor for factor in costs.stages or (1.0,) * stages])
        for kind, needs, base in (
            ("F", activations, costs.forward),
            ("B", gradients, costs.backward),
            ("I", gradients, costs.input),
            ("W", nothing, costs.weight),
        )
    }
    by_batch = costs.batches or (1.0,) * m
    done = bytearray(m * stages)
    links: dict[tuple[int, int], float] = {}
    starts, ends = tuple(array("d") for _ in order.devices), tuple(array("d") for _ in order.devices)
    at, free = [0] * len(order.devices), [0.0] * len(order.devices)
    ready = list(range(len(order.devices) - 1, -1, -1))

    def finish(kind: str, microbatch: int, stage: int, device: int, now: float) -> None:
        """Notes that an action is done and sends its result on."""
        home = home_of[microbatch]
        if home[stage] != device:
            raise _Fault
        number = stage * m + microbatch
        before = done[number]
        if kind == "F":
            done[number] = WRONG if before else FORWARD_DONE
            if stage == last:
                to, target = gradients, device
            else:
                to, target = activations, home[stage + 1]
                number += m
        elif kind == "W":
            done[number] = ALL_DONE if before == INPUT_DONE else WRONG
            return
        else:
            if before == FORWARD_DONE:
                done[number] = ALL_DONE if kind == "B" else INPUT_DONE
            else:
                done[number] = WRONG
            if not stage:
                return
            to, target = gradients, home[stage - 1]
            number -= m
        if target != device:
            if link_busy:
                now = max(now, links.get((device, target), 0.0))
                links[device, target] = now + comm
            now += comm
        waiting = to[number]
        if waiting < ABSENT:
            ready.append(int(-2 - waiting))
        to[number] = now

    while ready:
        device = ready.pop()
        steps, now = order.devices[device], free[device]
        start, end, name = starts[device].append, ends[device].append, -2.0 - device
        index = len(steps)
        for index in range(at[device], len(steps)):
            step = steps[index]
            if len(step) == 3:
                kind, microbatch, stage = step
                arrivals, took = plans[kind]
                number = stage * m + microbatch
                came = arrivals[number]
                if came < 0:
                    arrivals[number] = name
                    break
                if came > now:
                    now = came
                start(now)
                now += took[stage] * by_batch[microbatch]
                end(now)
                finish(kind, microbatch, stage, device, now)
            else:
                if step[0].kind != "F" or step[1].kind not in ("B", "I"):
                    raise _Fault
                begin = now
                for kind, microbatch, stage in step:
                    arrivals, number = plans[kind][0], stage * m + microbatch
                    if arrivals[number] < 0:
                        arrivals[number] = name
                        break
                    begin = max(begin, arrivals[number])
                else:
                    now = begin + costs.of_pair(*step)
                    for kind, microbatch, stage in step:
                        start(begin)
                        end(now)
                        finish(kind, microbatch, stage, device, now)
                    continue
                break
        else:
            index = len(steps)
        at[device], free[device] = index, now
    if done.count(ALL_DONE) != len(done) or any(place < len(steps) for place, steps in zip(at, order.devices)):  # noqa: B905
        raise _Fault
    return starts, ends
