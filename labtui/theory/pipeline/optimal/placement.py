"""Where stages may live in a search for the best order, and the plainest order for each such placement.

A placement cuts every device's share of the model into the same number of pieces. So that placements compare fairly,
a device's whole share costs the same in each: cut in n, a stage costs an n-th of it. A transfer costs the same in all.
"""

from __future__ import annotations

from dataclasses import dataclass

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order

STRAIGHT, V_SHAPE, BOTH_WAYS, LOOPED = "straight", "v", "both-ways", "looped"
WORDS = {
    STRAIGHT: "one stage per device",
    V_SHAPE: "down the devices and back up",
    BOTH_WAYS: "from both ends, weights held twice",
    LOOPED: "several times down the devices",
}


@dataclass(frozen=True)
class Placement:
    """Where the stages live. `per_device` is how many stages of a device a micro-batch passes."""

    kind: str
    microbatches: int
    routes: tuple[tuple[int, ...], ...]
    route_of: tuple[int, ...]
    per_device: int

    @property
    def devices(self) -> int:
        """How many there are."""
        return max(self.routes[0]) + 1

    @property
    def stages(self) -> int:
        """Into how many the model is cut."""
        return len(self.routes[0])

    def route(self, microbatch: int) -> tuple[int, ...]:
        """The device of each stage for this micro-batch."""
        return self.routes[self.route_of[microbatch] if self.route_of else 0]

    def fits(self, order: Order) -> bool:
        """Whether the order has its stages here."""
        ways = order.route_of if len(order.routes) > 1 else ()
        return (order.routes, tuple(ways)) == (self.routes, self.route_of)

    def one_at_a_time(self) -> Order:
        """Each micro-batch goes down and back before the next one begins: nothing needs less memory."""
        rows: list[list[Action]] = [[] for _ in range(self.devices)]
        for microbatch in range(self.microbatches):
            way = self.route(microbatch)
            for stage, device in enumerate(way):
                rows[device].append(Action("F", microbatch, stage))
            for stage in range(len(way) - 1, -1, -1):
                rows[way[stage]].append(Action("B", microbatch, stage))
        return self.order("one at a time", tuple(map(tuple, rows)))

    def order(self, name: str, rows: tuple[Actions, ...]) -> Order:
        """An order with its stages here."""
        return Order(name, self.microbatches, self.routes, rows, self.route_of)


def placement(kind: str, devices: int, microbatches: int, virtual: int = 2) -> Placement | None:
    """The placement of this kind; None where there is none for these sizes. `virtual` is for LOOPED only."""
    down = tuple(range(devices))
    if kind == STRAIGHT:
        return Placement(kind, microbatches, (down,), (), 1)
    if kind == V_SHAPE and devices > 1:
        return Placement(kind, microbatches, ((*down, *reversed(down)),), (), 2)
    if kind == BOTH_WAYS and devices % 2 == 0 and microbatches > 1:
        # An odd number of devices would leave the one in the middle with half a share of weights; DualPipe has none.
        half = (microbatches + 1) // 2
        ways = (0,) * half + (1,) * (microbatches - half)
        return Placement(kind, microbatches, (down, tuple(reversed(down))), ways, 1)
    if kind == LOOPED and virtual > 1:
        return Placement(kind, microbatches, (down * virtual,), (), virtual)
    return None


def of_order(order: Order) -> Placement:
    """The placement of a named schedule."""
    devices = len(order.devices)
    for kind in (STRAIGHT, V_SHAPE, BOTH_WAYS):
        found = placement(kind, devices, order.microbatches)
        if found is not None and found.fits(order):
            return found
    per_device = order.routes[0].count(0)
    kind = LOOPED if len(order.routes) == 1 else BOTH_WAYS
    return Placement(kind, order.microbatches, order.routes, order.route_of, per_device)


def cut(costs: Costs, virtual: int, pieces: int) -> Costs:
    """The costs of a stage where a device's share is cut in `pieces`, from those where it is cut in `virtual`."""
    if pieces == virtual:
        return costs
    share = virtual / pieces
    return Costs(
        forward=costs.forward * share, input=costs.input * share, weight=costs.weight * share,
        backward=costs.backward * share, pair=costs.pair * share, comm=costs.comm,
        stages=costs.stages, batches=costs.batches,
    )  # fmt: skip
