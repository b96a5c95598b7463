"""What a search starts from: the named schedules that keep to the limit of memory, each with the same work per device,
and orders made up for a placement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.optimal.greedy import RULES, greedy
from labtui.theory.pipeline.optimal.grid import SAME
from labtui.theory.pipeline.optimal.placement import Placement, cut, of_order
from labtui.theory.pipeline.order import Order, OrderError
from labtui.theory.pipeline.schedules import SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.pipeline.timeline import Timeline


@dataclass(frozen=True)
class Problem:
    """What an order is searched for. `costs` are those of a stage where a device's share is cut in `virtual`."""

    devices: int
    microbatches: int
    costs: Costs
    virtual: int = 1
    memory_limit: float | None = None
    link_busy: bool = False
    until_b: float = 1.0
    until_w: float = 1.0

    def costs_in(self, pieces: int) -> Costs:
        """The costs of a stage where a device's share is cut in so many."""
        return cut(self.costs, self.virtual, pieces)

    def allows(self, stages: int) -> bool:
        """Whether a model cut in so many stages can be compared: factors by stage are for one number of them."""
        return not self.costs.stages or stages == self.devices * self.virtual

    def run(self, order: Order) -> Timeline:
        """The order in time."""
        pieces = of_order(order).per_device
        return simulate(
            order, self.costs_in(pieces), link_busy=self.link_busy, until_b=self.until_b, until_w=self.until_w
        )

    def fits(self, timeline: Timeline) -> bool:
        """Whether no device holds more than the limit."""
        return self.memory_limit is None or max(timeline.peak_memory) <= self.memory_limit * (1 + SAME)


@dataclass(frozen=True)
class Start:
    """A schedule that the search may start from."""

    name: str
    placement: Placement
    timeline: Timeline


def starts(problem: Problem, tell: Callable[[str], bool]) -> Iterator[Start]:
    """All named schedules that there are for these sizes and that keep to the limit, each in time.

    `tell` is called with the name of each before it is made; where it returns False the rest is left out.
    """
    for name, maker in SCHEDULES.items():
        virtuals = {maker.virtual}
        if maker.chooses_virtual:
            virtuals.add(max(2, problem.virtual))
        limits = {None, problem.memory_limit} if maker.limited else {None}
        for virtual in sorted(virtuals):
            for limit in limits:
                if not tell(name):
                    return
                try:
                    # Costs steer the searches for one stage per device only; factors are refused where they don't fit.
                    costs = problem.costs_in(virtual)
                    order = build(name, problem.devices, problem.microbatches, virtual, costs, limit)
                except (OrderError, ValueError):
                    continue  # not with these sizes
                if not problem.allows(order.stages):
                    continue
                timeline = problem.run(order)
                if problem.fits(timeline):
                    yield Start(name, of_order(order), timeline)


def made_up(problem: Problem, place: Placement) -> list[tuple[str, Timeline]]:
    """Orders of the placement by the rules of `greedy` and one micro-batch at a time, those that keep to the limit."""
    costs = problem.costs_in(place.per_device)
    orders = [("one at a time", place.one_at_a_time())]
    for split in (True, False):
        for rule in RULES:
            order = greedy(place, costs, problem.memory_limit, problem.until_b, problem.until_w, split, rule)
            if order is not None:
                orders.append(("greedy", order))
    timelines = [(name, problem.run(order)) for name, order in orders]
    return [(name, timeline) for name, timeline in timelines if problem.fits(timeline)]
