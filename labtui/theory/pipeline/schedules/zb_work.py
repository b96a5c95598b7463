"""What the search of `zb_search` places: durations by stage and micro-batch, and the memory that they may take.

One stage per device, micro-batches in their order in each kind of work, backwards split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.schedules.factors import factors

Kinds = list[list[str]]
"""By stage, the kinds F, I, W of its actions from first to last."""


NOISE = 1e-9
"""Share of a duration, or of the memory, below which a difference is one of adding floats up."""


class Hopeless(Exception):
    """An attempt that has become longer than what is already known."""


@dataclass(frozen=True)
class Work:
    """The durations are by stage, then by micro-batch; activations are in units of one micro-batch's on one device."""

    forward: tuple[tuple[float, ...], ...]
    input: tuple[tuple[float, ...], ...]
    weight: tuple[tuple[float, ...], ...]
    comm: float
    limit: float
    """The most a device may hold: 1 for each micro-batch between its F and its I, and `until_w` from there to its W."""
    until_w: float

    @property
    def stages(self) -> int:
        """How many there are, one per device."""
        return len(self.forward)

    @property
    def microbatches(self) -> int:
        """How many pass them."""
        return len(self.forward[0])

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """All the work of each stage: a span is this and what the stage waits after its first action."""
        return tuple(sum(f) + sum(i) + sum(w) for f, i, w in zip(self.forward, self.input, self.weight))  # noqa: B905

    @cached_property
    def least(self) -> float:
        """No order with the micro-batches in a row has a shorter longest span, whatever memory it takes.

        A stage does all its own work. And stage 0's span holds the first forward down to any stage, all forwards and
        gradients of inputs there, the last gradient back up and its W: for Zero Bubble's 1.5B model with m=24 (table 5)
        that is what ZB-2p reaches.
        """
        least = max(self.busy)
        there = back = 0.0
        for stage in range(self.stages):
            chain = there + sum(self.forward[stage]) + sum(self.input[stage]) + back + self.weight[0][-1]
            least = max(least, chain)
            there += self.forward[stage][0] + self.comm
            back += self.input[stage][-1] + self.comm
        return least

    def fits(self, kinds: Kinds) -> bool:
        """Whether every stage keeps to the limit."""
        return max(map(self._peak, kinds)) <= self.room

    @property
    def room(self) -> float:
        """The limit with what sums of fractions may be off."""
        return self.limit * (1 + NOISE)

    def _peak(self, kinds: list[str]) -> float:
        whole = split = 0
        peak = 0.0
        for kind in kinds:
            if kind == "F":
                whole += 1
                peak = max(peak, whole + split * self.until_w)
            elif kind == "I":
                whole, split = whole - 1, split + 1
            else:
                split -= 1
        return peak


def work_of(devices: int, microbatches: int, costs: Costs, limit: float, until_w: float) -> Work:
    """The work of a pipeline with these costs."""
    by_stage, batches = factors(costs, devices, microbatches)

    def durations(base: float) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(base * factor * batch for batch in batches) for factor in by_stage)

    return Work(
        durations(costs.forward), durations(costs.input), durations(costs.weight), costs.comm, limit, until_w
    )  # fmt: skip
