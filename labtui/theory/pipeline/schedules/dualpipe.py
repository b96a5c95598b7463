"""DualPipe and DualPipeV: micro-batches run towards each other, and a forward overlaps with a backward of the others.

Both are the same eight steps. In DualPipe half of the micro-batches enter at each end of the pipeline, so a device has
one stage of each direction. In DualPipeV all enter at device 0, turn at the last device and come back (a V), so a
device has an early and a late stage, and does what the device of the same place in the first half of a DualPipe of
twice the devices does. Source: deepseek-ai/DualPipe at 3da1bbea; DeepSeek-V3 (arXiv 2412.19437) figure 5. PyTorch's
ScheduleDualPipeV (torch 2.13) gives the same orders.

Most backwards are whole (B); only some while filling and draining are split (I, W). An overlapped pair gives both its
results only at its end.
"""

from __future__ import annotations

from collections import deque

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order, OrderError, Pair, Step
from labtui.theory.pipeline.schedules.maker import Maker


def dualpipe(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """DualPipe: `devices` stages, each on two devices; micro-batches 0 to m/2 - 1 enter at device 0, the others at the
    last. Needs devices and micro-batches even and two micro-batches for each device, else raises OrderError."""
    p, m = devices, microbatches
    if p < 2 or p % 2:
        raise OrderError(f"dualpipe needs an even number of devices, not {p}")
    if m % 2:
        raise OrderError(f"dualpipe needs an even number of micro-batches, not {m}: half of them enter at each end")
    if m < 2 * p:
        raise OrderError(f"dualpipe on {p} devices needs at least {2 * p} micro-batches, not {m}")
    work = []
    for device in range(p):
        near = min(device, p - 1 - device)  # how far the device is from the nearer end
        own, other = (0, m // 2) if device < p // 2 else (m // 2, 0)
        work.append(_eight_steps(near, p // 2, m // 2, _Side(near, own), _Side(p - 1 - near, other)))
    ways = (tuple(range(p)), tuple(reversed(range(p))))
    return Order("dualpipe", m, ways, tuple(work), (0,) * (m // 2) + (1,) * (m // 2))


def dualpipev(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """DualPipeV: 2p stages in a V, stage s and stage 2p - 1 - s on device s. Needs two micro-batches for each device,
    else raises OrderError."""
    p, m = devices, microbatches
    if m < 2 * p:
        raise OrderError(f"dualpipev on {p} devices needs at least {2 * p} micro-batches, not {m}")
    work = tuple(_eight_steps(device, p, m, _Side(device), _Side(2 * p - 1 - device)) for device in range(p))
    return Order("dualpipev", m, ((*range(p), *reversed(range(p))),), work)


class _Side:
    """One of a device's two stages: which micro-batch comes next, forwards and backwards."""

    def __init__(self, stage: int, first: int = 0) -> None:
        self.stage, self.next_forward, self.next_backward = stage, first, first

    def forward(self) -> Action:
        self.next_forward += 1
        return Action("F", self.next_forward - 1, self.stage)

    def backward(self, kind: str = "B") -> Action:
        self.next_backward += 1
        return Action(kind, self.next_backward - 1, self.stage)


def _eight_steps(h: int, half: int, count: int, early: _Side, late: _Side) -> Actions:
    """The work of one device: the h-th of `half` from its end, `count` micro-batches on each of its two sides."""
    steps: list[Step] = []
    postponed: deque[Action] = deque()  # weight gradients, the oldest is done first

    def input_gradient(side: _Side) -> None:
        action = side.backward("I")
        steps.append(action)
        postponed.append(action._replace(kind="W"))

    def weight_gradient() -> None:
        steps.append(postponed.popleft())

    def overlapped(forward: _Side, backward: _Side) -> None:
        steps.append(Pair(forward.forward(), backward.backward()))

    # 1. Fill: forwards of the early side, until the first one has come back to the late side.
    for _ in range(2 * (half - h - 1)):
        steps.append(early.forward())
    # 2. Forwards of both sides in turn.
    for _ in range(h + 1):
        steps += early.forward(), late.forward()
    # 3. The first backwards have come: split, for nothing else is there to do.
    for _ in range(half - h - 1):
        input_gradient(late)
        weight_gradient()
        steps.append(late.forward())
    # 4. The main part: each forward overlaps with a backward of the other side.
    for round_ in range(count - 2 * half + h + 1):
        if round_ == 0 and h == half - 1:
            # One after the other in the middle: the next device gets this forward sooner, and the bubble is smaller.
            steps += early.forward(), late.backward()
        else:
            overlapped(early, late)
        overlapped(late, early)
    # 5. The early side has no forwards left.
    for _ in range(half - h - 1):
        steps.append(late.backward())
        overlapped(late, early)
    # 6. Only backwards are left; the second half of them is split, so that gradients travel on sooner.
    for number in range(2 * (h + 1)):
        side = early if number % 2 else late
        if number < h + 1:
            steps.append(side.backward())
        else:
            input_gradient(side)
    # 7. Postponed weight gradients fill the waits for the last backwards.
    for _ in range(half - h - 1):
        weight_gradient()
        input_gradient(early)
    # 8. The weight gradients that are left.
    for _ in range(h + 1):
        weight_gradient()
    return tuple(steps)


MAKERS = {
    "dualpipe": Maker(dualpipe, "micro-batches from both ends, a forward overlaps with a backward"),
    "dualpipev": Maker(dualpipev, "dualpipe folded to a V on half of the devices", virtual=2),
}
