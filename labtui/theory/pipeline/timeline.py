"""A simulated schedule: when each action began and ended, and what follows from it. Knows not how it was found."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import fsum
from operator import sub
from typing import NamedTuple

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Order
from labtui.theory.pipeline.peaks import peak_in_flight, peak_memory


class Op(NamedTuple):
    """An action in time. Two with the same `pair` are one overlapped block; None for all others."""

    kind: str
    microbatch: int
    stage: int
    start: float
    end: float
    pair: int | None


@dataclass(frozen=True)
class Timeline:
    """Starts and ends in the unit of the costs, by device: its actions in order, a pair as its forward and backward."""

    order: Order
    costs: Costs
    starts: tuple[array[float], ...]
    ends: tuple[array[float], ...]
    link_busy: bool = False
    until_b: float = 1.0
    until_w: float = 1.0

    def ops(self, device: int) -> Iterator[Op]:
        """What the device does, from first to last. Pairs are numbered through all devices."""
        pair = self._first_pair[device] - 1
        times = iter(zip(self.starts[device], self.ends[device]))  # noqa: B905 - Python 3.9
        for step in self.order.devices[device]:
            if len(step) == 2:
                pair += 1
                for action in step:
                    yield Op(*action, *next(times), pair)
            else:
                yield Op(*step, *next(times), None)

    def pair_number(self, device: int, index: int) -> int | None:
        """The number of the pair that is the device's step `index`; None where that is no pair."""
        if len(self.order.devices[device][index]) != 2:
            return None
        return self._first_pair[device] + self._pairs_until[device][index] - 1

    @cached_property
    def _pairs_until(self) -> list[list[int]]:
        return [list(accumulate(len(step) == 2 for step in steps)) for steps in self.order.devices]

    @cached_property
    def _first_pair(self) -> list[int]:
        return list(accumulate((sum(len(step) == 2 for step in steps) for steps in self.order.devices), initial=0))

    @cached_property
    def total(self) -> float:
        """From 0 to the end of the last action of all."""
        return max((ends[-1] for ends in self.ends if ends), default=0.0)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """By device, the time in which it works; an overlapped pair counts once."""
        work = []
        for device, steps in enumerate(self.order.devices):
            took = list(map(sub, self.ends[device], self.starts[device]))
            if self._first_pair[device] != self._first_pair[device + 1]:
                times = iter(took)
                took = [max(next(times) for _ in step) if len(step) == 2 else next(times) for step in steps]
            work.append(fsum(took))
        return tuple(work)

    @cached_property
    def idle(self) -> tuple[float, ...]:
        """By device, the time of the total in which it doesn't work."""
        return tuple(max(0.0, self.total - busy) for busy in self.busy)

    @property
    def ideal(self) -> float:
        """The work of an average device: what the total would be if nobody ever waited."""
        return fsum(self.busy) / len(self.busy)

    @property
    def bubble(self) -> float:
        """Idle share of the total, over all devices: (p-1)/(m+p-1) for 1F1B."""
        return fsum(self.idle) / (len(self.idle) * self.total) if self.total else 0.0

    @property
    def bubble_over_ideal(self) -> float:
        """Idle time over the ideal time: (p-1)/m for 1F1B (Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1).

        0 where no work costs anything, as with transfers alone: it would be infinite, which JSON can't say.
        """
        return fsum(self.idle) / fsum(self.busy) if any(self.busy) else 0.0

    @cached_property
    def spans(self) -> tuple[float, ...]:
        """By device, from the start of its first action to the end of its last."""
        return tuple(
            ends[-1] - starts[0] if ends else 0.0
            for starts, ends in zip(self.starts, self.ends)  # noqa: B905
        )

    @property
    def bubble_of_span(self) -> float:
        """Idle share of the longest span: the bubble rate of Zero Bubble's tables (arXiv 2401.10241 section 4.3).

        It doesn't count the time before a device's first action: a new step could begin there before the last one ends.
        """
        longest = max(self.spans)
        return max(0.0, (longest - self.ideal) / longest) if longest else 0.0

    @cached_property
    def peak_in_flight(self) -> tuple[int, ...]:
        """By device, the most (micro-batch, stage) pieces held at once; see `peaks`."""
        return peak_in_flight(self.order)

    @cached_property
    def peak_memory(self) -> tuple[float, ...]:
        """By device, the same in units of one device's whole share of a micro-batch, with the activation sizes."""
        return peak_memory(self.order, self.until_b, self.until_w)
