"""Interleaved zero bubble: v chunks per device as in interleaved 1F1B, backwards split as in ZB-H1.

The order of torch.distributed.pipelining's ScheduleInterleavedZeroBubble (torch 2.13).
"""

from __future__ import annotations

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order
from labtui.theory.pipeline.schedules.maker import Maker


def interleaved_zb(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """Device r warms up with (v - 1) N + p - 1 - r forwards, N micro-batches in a group, and lets r of its W wait.

    Stage chunk * p + device is on that device. There are m // p groups (at least one). Where they don't come out equal,
    the first ones are one larger here; PyTorch refuses that.
    """
    groups = max(1, microbatches // devices)
    size, larger = divmod(microbatches, groups)
    forwards: list[tuple[int, int]] = []
    backwards: list[tuple[int, int]] = []
    begun = 0
    for group in range(groups):
        numbers = range(begun, begun + size + (group < larger))
        forwards += [(chunk, number) for chunk in range(virtual) for number in numbers]
        backwards += [(chunk, number) for chunk in reversed(range(virtual)) for number in numbers]
        begun = numbers.stop
    first = size + (larger > 0)
    rows = []
    for device in range(devices):
        warm_up = min((virtual - 1) * first + devices - 1 - device, len(forwards))
        rows.append(_actions(device, devices, forwards, backwards, warm_up))
    return Order("interleaved-zb", microbatches, (tuple(range(devices)) * virtual,), tuple(rows))


def _actions(
    device: int, devices: int, forwards: list[tuple[int, int]], backwards: list[tuple[int, int]], warm_up: int
) -> Actions:
    actions = []

    def act(kind: str, which: tuple[int, int]) -> None:
        chunk, number = which
        actions.append(Action(kind, number, chunk * devices + device))

    for which in forwards[:warm_up]:
        act("F", which)
    for index, which in enumerate(backwards):
        if warm_up + index < len(forwards):
            act("F", forwards[warm_up + index])
        act("I", which)
        if index >= device:
            act("W", backwards[index - device])
    for which in backwards[max(0, len(backwards) - device) :]:
        act("W", which)
    return tuple(actions)


MAKERS = {
    "interleaved-zb": Maker(interleaved_zb, "interleaved 1F1B with split backwards", 2, True, pieces=3),
}
