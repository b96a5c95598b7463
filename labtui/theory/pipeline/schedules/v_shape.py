"""V shapes: device d has stage d and stage 2p - 1 - d, so a micro-batch goes down the devices and comes back up.

ZB-V: Qi et al. 2023 (arXiv 2401.10241), section 6 and figure 8; the order is that of torch.distributed.pipelining's
ScheduleZBVZeroBubble (torch 2.13), which equals the figure but for the order of the last W. V-Half and V-Min: Qi et al.
2024, Pipeline Parallelism with Controllable Memory (arXiv 2405.15362): a building block repeated every six units of
time, then squeezed. Here the squeezing is `v_squeeze`.
"""

from __future__ import annotations

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order
from labtui.theory.pipeline.schedules.maker import Maker
from labtui.theory.pipeline.schedules.v_squeeze import Block, squeezed


def zb_v(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """ZB-V: no bubble within a device's span where F = I = W, with the memory of 1F1B: p micro-batches."""
    rows = tuple(_zb_v_row(devices, microbatches, device) for device in range(devices))
    return Order("zb-v", microbatches, route(devices), rows)


def v_half(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """V-Half: about half of 1F1B's memory, (p + 2) // 2 micro-batches, and half its bubble where F = I = W."""
    gap = 3 if devices % 2 == 0 else 0  # Without it two of the block's passes would meet in one slot of a device.
    blocks = [
        Block(2 * d, 3 * devices - 2 - d, 3 * devices - 1 + gap + 2 * d, 6 * devices - 2 + gap - d)
        for d in range(devices)
    ]
    return squeezed("v-half", microbatches, route(devices), blocks, costs)


def v_min(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """V-Min: about a third of 1F1B's memory, (p + 4) // 3 micro-batches, two thirds of its bubble where F = I = W."""
    gap = 2 if devices % 3 == 0 else 0
    blocks = [Block(d, 2 * devices - 1 - d, 2 * devices + gap + d, 4 * devices - 1 + gap - d) for d in range(devices)]
    return squeezed("v-min", microbatches, route(devices), blocks, costs)


def route(devices: int) -> tuple[tuple[int, ...], ...]:
    """Where the 2p stages live: down and back up."""
    return ((*range(devices), *reversed(range(devices))),)


def _zb_v_row(devices: int, microbatches: int, device: int) -> Actions:
    """One device of ZB-V. It needs 2p - 1 micro-batches to be full; with fewer those that aren't there are left out."""
    count = max(2 * devices - 1, microbatches)
    early, late = device, 2 * devices - 1 - device
    begun: dict[tuple[str, int], int] = {}
    actions: list[Action] = []

    def act(kinds: str, stage: int) -> None:
        for kind in kinds:
            number = begun.get((kind, stage), 0)
            begun[kind, stage] = number + 1
            if number < microbatches:
                actions.append(Action(kind, number, stage))

    left = devices - device  # devices from here to the turn, this one included
    # Fill: forwards of the early stage, then of both in turn, then the first gradients of the late stage.
    for _ in range(2 * left - 1):
        act("F", early)
    for _ in range(device):
        act("F", late)
        act("F", early)
    for _ in range(left):
        act("FIW", late)
    # Steady: forward and both parts of the backward, in both stages in turn.
    while begun["F", late] < count:
        if begun["F", early] < count:
            act("F", early)
        act("IW", early)
        act("FIW", late)
    # Drain: the last gradients of inputs go first, for other devices wait for them; W fills what is left.
    for _ in range(device):
        act("I", early)
        act("I", late)
    for _ in range(left):
        act("IW", early)
    for stage in (late, early):
        act("W" * (count - begun.get(("W", stage), 0)), stage)
    return tuple(actions)


MAKERS = {
    "zb-v": Maker(zb_v, "a V of 2p stages, split backwards, no bubble where F = I = W, memory of 1F1B", 2, pieces=3),
    "v-half": Maker(v_half, "a V of 2p stages, split backwards, half the memory of 1F1B", 2, pieces=3),
    "v-min": Maker(v_min, "a V of 2p stages, split backwards, a third of the memory of 1F1B", 2, pieces=3),
}
