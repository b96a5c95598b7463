"""ZB-H1 and ZB-H2: backwards split into I and W, and the W, for which nobody waits, put where a device would idle.

Qi et al. 2023, Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 2 and figure 3. Both are written by hand
for F = I = W; orders searched for other costs are in `zb_search`.
"""

from __future__ import annotations

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order
from labtui.theory.pipeline.schedules.maker import Maker


def h1(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """ZB-H1: bubble (p-1)(F+I-W), at most p micro-batches held, as in 1F1B (table 2)."""
    return from_kinds("zb-h1", h1_kinds(devices, microbatches))


def h2(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """ZB-H2: bubble (p-1)(F+I-2W), at most 2p - 1 micro-batches held (table 2)."""
    return from_kinds("zb-h2", h2_kinds(devices, microbatches))


def h1_kinds(devices: int, microbatches: int) -> list[list[str]]:
    """By stage, the kinds of ZB-H1's actions: p - stage forwards to warm up, a W once more than `stage` wait."""
    return [_row(microbatches, devices - stage, stage) for stage in range(devices)]


def h2_kinds(devices: int, microbatches: int) -> list[list[str]]:
    """By stage, the kinds of ZB-H2's actions: 2 (p - stage) - 1 forwards, a W once more than 2 stage wait."""
    return [_row(microbatches, 2 * (devices - stage) - 1, 2 * stage) for stage in range(devices)]


def _row(microbatches: int, warm_up: int, waiting: int) -> list[str]:
    """I, then W if more than `waiting` of them wait (the new one counted), then the next F; at the end the W left."""
    begun = min(warm_up, microbatches)
    kinds = ["F"] * begun
    for number in range(1, microbatches + 1):
        kinds.append("I")
        if number > waiting:
            kinds.append("W")
        if begun < microbatches:
            kinds.append("F")
            begun += 1
    kinds += ["W"] * min(waiting, microbatches)
    return kinds


def from_kinds(name: str, kinds: list[list[str]]) -> Order:
    """The order of one stage per device, each given by its kinds alone: of each kind the micro-batches in a row."""
    microbatches = kinds[0].count("F")
    return Order(name, microbatches, (tuple(range(len(kinds))),), tuple(map(_numbered, kinds, range(len(kinds)))))


def _numbered(kinds: list[str], stage: int) -> Actions:
    following = {"F": 0, "I": 0, "W": 0}
    actions = []
    for kind in kinds:
        actions.append(Action(kind, following[kind], stage))
        following[kind] += 1
    return tuple(actions)


MAKERS = {
    "zb-h1": Maker(h1, "backwards split, W fills the drain, memory of 1F1B", pieces=3),
    "zb-h2": Maker(h2, "backwards split, no bubble where F = I = W, memory of two 1F1B", pieces=3),
}
