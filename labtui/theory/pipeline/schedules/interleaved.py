"""Schedules where a device has several chunks of the model: interleaved 1F1B depth first and breadth first, looped BFS.

Stage chunk * p + device is on that device, so a micro-batch goes round the devices once per chunk.
"""

from __future__ import annotations

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order
from labtui.theory.pipeline.schedules.maker import Maker

Pass = tuple[int, int]
"""A chunk and a micro-batch."""


def depth_first(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """Interleaved 1F1B: micro-batches pass the chunks in groups of p (Narayanan et al. 2021, arXiv 2104.04473, 2.2.2).

    Where p doesn't divide m, there are m // p groups (at least one) as equal as can be, the larger ones first: where
    they come out equal these are PyTorch's.
    """
    groups = max(1, microbatches // devices)
    size, larger = divmod(microbatches, groups)
    sizes = [size + 1] * larger + [size] * (groups - larger)
    return _one_f_one_b("interleaved-1f1b", devices, microbatches, virtual, sizes)


def breadth_first(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """Interleaved 1F1B with all micro-batches in one group: a chunk sees all of them before the next chunk does."""
    return _one_f_one_b("interleaved-bfs", devices, microbatches, virtual, [microbatches])


def looped_bfs(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """All forwards chunk by chunk, then all backwards, in each chunk the last micro-batch first.

    Lamy-Poirier 2022 (arXiv 2211.05953); the backwards' order is that of PyTorch's ScheduleLoopedBFS.
    """
    forwards = [(chunk, number) for chunk in range(virtual) for number in range(microbatches)]
    return Order(
        "looped-bfs", microbatches, _round(devices, virtual),
        tuple(_actions(device, devices, forwards, forwards[::-1], len(forwards)) for device in range(devices)),
    )  # fmt: skip


def _one_f_one_b(name: str, devices: int, microbatches: int, virtual: int, sizes: list[int]) -> Order:
    """Warm-up forwards, a forward and a backward in turns, the backwards that are left; both in the groups given.

    Warm-up of device r is 2 (p - 1 - r) + (v - 1) N forwards for groups of N (Megatron-LM d98e8a64, schedules.py).
    """
    forwards: list[Pass] = []
    backwards: list[Pass] = []
    begun = 0
    for size in sizes:
        numbers = range(begun, begun + size)
        forwards += [(chunk, number) for chunk in range(virtual) for number in numbers]
        backwards += [(chunk, number) for chunk in reversed(range(virtual)) for number in numbers]
        begun += size
    rows = []
    for device in range(devices):
        warm_up = min(2 * (devices - 1 - device) + (virtual - 1) * sizes[0], len(forwards))
        rows.append(_actions(device, devices, forwards, backwards, warm_up))
    return Order(name, microbatches, _round(devices, virtual), tuple(rows))


def _actions(device: int, devices: int, forwards: list[Pass], backwards: list[Pass], warm_up: int) -> Actions:
    first = [Action("F", number, chunk * devices + device) for chunk, number in forwards]
    second = [Action("B", number, chunk * devices + device) for chunk, number in backwards]
    steady = len(first) - warm_up
    turns = [action for both in zip(first[warm_up:], second) for action in both]  # noqa: B905 - the shorter one counts
    return (*first[:warm_up], *turns, *second[steady:])


def _round(devices: int, virtual: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(range(devices)) * virtual,)


MAKERS = {
    "interleaved-1f1b": Maker(depth_first, "1F1B with v chunks per device, p micro-batches at a time", 2, True),
    "interleaved-bfs": Maker(breadth_first, "1F1B with v chunks per device, all micro-batches at a time", 2, True),
    "looped-bfs": Maker(looped_bfs, "all forwards chunk by chunk, then all backwards", 2, True),
}
