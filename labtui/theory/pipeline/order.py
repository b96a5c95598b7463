"""The one form in which a pipeline schedule is data: for each device, what it does one after the other.

Schedules produce it; the simulator, the Gantt, the exports and a real pipeline run consume it. It says nothing of time.
Kinds are PyTorch's letters: F forward, B whole backward, I gradient of the input, W gradient of the weights (B is I and
W in one piece). Micro-batches, stages and devices count from 0. A *stage* is a piece of the model; where a device has
several (interleaving, V shapes), each is a virtual stage of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Union

KINDS = ("F", "B", "I", "W")


class Action(NamedTuple):
    """One piece of work: a pass of one micro-batch through one stage."""

    kind: str
    microbatch: int
    stage: int


class Pair(NamedTuple):
    """A forward and a backward that overlap as one block; both results are there only when the block ends."""

    forward: Action
    backward: Action


Step = Union[Action, Pair]  # noqa: UP007 - Python 3.9 has no |
Actions = tuple[Step, ...]


@dataclass(frozen=True)
class Order:
    """A schedule: what each device does, in which order, and where each stage lives."""

    name: str
    microbatches: int
    routes: tuple[tuple[int, ...], ...]
    """Ways through the model: the device of each stage. One way for most schedules; two where micro-batches enter at
    both ends (DualPipe: (0, 1, ..., p-1) and (p-1, ..., 1, 0)), so that a stage stands on two devices."""
    devices: tuple[Actions, ...]
    """For each device, its work from first to last."""
    route_of: tuple[int, ...] = ()
    """Which way each micro-batch goes; () means that all take the first."""

    @property
    def stages(self) -> int:
        """How many (virtual) stages the model is cut into."""
        return len(self.routes[0])

    def device_of(self, microbatch: int, stage: int) -> int:
        """The device that has this stage for this micro-batch."""
        return self.routes[self.route_of[microbatch] if self.route_of else 0][stage]


class OrderError(ValueError):
    """An order that can't be: bad sizes, an operation missing or twice, a deadlock. The message is one sentence."""
