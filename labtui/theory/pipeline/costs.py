"""What each piece of work costs: the time of a forward, of the parts of a backward, of a transfer. Knows no schedule.

Times have no unit of their own: ones (the lesson's forward is 1), milliseconds, whatever the caller means. They are
those of one *virtual* stage: a device with two chunks does two forwards of `forward` each for a micro-batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LETTERS = {"F": "forward", "B": "backward", "I": "input", "W": "weight", "FB": "pair"}
"""PyTorch's letters for the kinds of work, as in `F=1,B=2`; FB is a forward and a backward that overlap."""


@dataclass(frozen=True, init=False)
class Costs:
    """Times of the kinds of work, all at least 0.

    forward   1 unless given
    backward  of a whole backward: I + W unless given, 2 where neither is
    input     the backward's gradient of the input: half of B, or what W leaves of it
    weight    the backward's gradient of the weights: half of B, or what I leaves of it
    pair      a forward and a whole backward that overlap as one block: F + B unless given
    comm      a transfer between two devices, of activations as of gradients
    stages    factors by (virtual) stage, for slow stages and uneven layers; () are ones
    batches   factors by micro-batch; () are ones

    B may differ from I + W when all three are given: a split backward can cost more than a whole one.
    """

    forward: float
    input: float
    weight: float
    backward: float
    pair: float
    comm: float
    stages: tuple[float, ...]
    batches: tuple[float, ...]

    def __init__(
        self,
        forward: float = 1.0,
        input: float | None = None,
        weight: float | None = None,
        backward: float | None = None,
        pair: float | None = None,
        comm: float = 0.0,
        stages: tuple[float, ...] = (),
        batches: tuple[float, ...] = (),
    ) -> None:
        """Raises ValueError where a cost is negative or not finite, or I or W alone is more than B."""
        given = {"F": forward, "B": backward, "I": input, "W": weight, "FB": pair, "comm": comm}
        for letter, value in given.items():
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"a cost is a finite number of at least 0, not {letter}={value:g}")
        for what, factors in (("stage", stages), ("micro-batch", batches)):
            for number, factor in enumerate(factors):
                if not (math.isfinite(factor) and factor >= 0):
                    raise ValueError(f"the factor of {what} {number} is a finite number >= 0, not {factor:g}")
        if backward is None:
            input = 1.0 if input is None else input
            weight = 1.0 if weight is None else weight
            backward = input + weight
        if input is None:
            input = backward / 2 if weight is None else backward - weight
        if weight is None:
            weight = backward - input
        if input < 0 or weight < 0:
            part, value = ("W", weight + 0.0) if input < 0 else ("I", input)
            raise ValueError(
                f"{part}={value:g} is a part of the whole backward B={backward:g} and can't be more than it"
            )
        values = (forward, input, weight, backward, forward + backward if pair is None else pair, comm)
        for name, value in zip(("forward", "input", "weight", "backward", "pair", "comm"), values):  # noqa: B905
            object.__setattr__(self, name, float(value))
        object.__setattr__(self, "stages", tuple(map(float, stages)))
        object.__setattr__(self, "batches", tuple(map(float, batches)))

    @property
    def whole(self) -> float:
        """A forward and a backward of one stage in pieces: F + I + W, Zero Bubble's sum of T."""
        return self.forward + self.input + self.weight

    @property
    def equal(self) -> bool:
        """Whether all stages and all micro-batches cost the same."""
        return len(set(self.stages)) <= 1 and len(set(self.batches)) <= 1

    def of(self, kind: str, microbatch: int, stage: int) -> float:
        """The time of one action of kind F, B, I or W; KeyError for another kind."""
        base: float = getattr(self, LETTERS[kind])
        return base * self._factor(microbatch, stage)

    def of_pair(self, forward: tuple[str, int, int], backward: tuple[str, int, int]) -> float:
        """The time of an overlapped block of two (kind, micro-batch, stage).

        With factors, or where the backward is only an I, the block takes FB / (F + B) of what its two parts cost.
        """
        if backward[0] == "B" and not self.stages and not self.batches:
            return self.pair
        apart = self.forward + self.backward
        return (self.of(*forward) + self.of(*backward)) * (self.pair / apart if apart else 1.0)

    def _factor(self, microbatch: int, stage: int) -> float:
        return (self.stages[stage] if self.stages else 1.0) * (self.batches[microbatch] if self.batches else 1.0)


def parse(text: str, comm: float = 0.0) -> Costs:
    """Costs from `F=1,B=2`, `F=1,I=1,W=1` or `FB=3`; "" is the default. ValueError, one sentence, for anything else."""
    given: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        letter, equals, number = (piece.strip() for piece in part.partition("="))
        if not equals or letter not in LETTERS:
            raise ValueError(f"{part.strip()!r} isn't a cost: write F, B, I, W or FB with its time, as in F=1,B=2")
        if letter in given:
            raise ValueError(f"the cost of {letter} is given twice")
        try:
            given[letter] = float(number)
        except ValueError:
            raise ValueError(f"{number!r} isn't a number for the cost of {letter}") from None
    return Costs(comm=comm, **{LETTERS[letter]: value for letter, value in given.items()})  # type: ignore[arg-type]
