"""Whole numbers for a solver that knows no others: times exactly where they are fractions with small denominators."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil, floor, lcm

DENOMINATOR = 10**6
SAME = 1e-12
"""Relative difference that is taken for an error of floats: 1.1 * 3 is 33/10."""
LARGEST_SUM = 1 << 40
"""Units in all durations together; the solver multiplies them with memory and has 63 bits."""
FINEST = 10**6
"""Units of the longest duration where they can't be exact."""


class Grid:
    """`per_unit` steps of the grid are one unit of time. Rounding is down, so that a bound found here holds."""

    def __init__(self, durations: Iterable[float]) -> None:
        """A grid on which all these durations lie if there is one that isn't too fine."""
        total, known = 0.0, set()
        for duration in durations:
            total += duration
            known.add(duration)
        nearest = {value: Fraction(value).limit_denominator(DENOMINATOR) for value in known}
        self.per_unit: float = lcm(*(fraction.denominator for fraction in nearest.values()))
        """Steps of the grid in one unit of time."""
        self.exact = (
            all(abs(float(near) - value) <= SAME * value for value, near in nearest.items())
            and total * self.per_unit <= LARGEST_SUM
        )
        """Whether every duration lies on the grid."""
        if not self.exact:
            self.per_unit = FINEST / max(known)

    def steps(self, duration: float) -> int:
        """The duration on the grid: exactly or, where the grid isn't exact, rounded down."""
        if self.exact:
            return int(Fraction(duration).limit_denominator(DENOMINATOR) * int(self.per_unit))
        return floor(duration * self.per_unit)

    def at_least(self, time: float) -> int:
        """The first step of the grid that is not before this time, but for an error of floats."""
        return ceil(time * self.per_unit * (1 - SAME) - SAME)

    def time(self, steps: float) -> float:
        """Steps of the grid as time."""
        return steps / self.per_unit


def memory(limit: float, until_b: float, until_w: float, pieces: int) -> tuple[int, int, int]:
    """A limit in shares of a device, and what one of `pieces` pieces of it takes until I and until W, as integers.

    Sizes without a small denominator are rounded, and the limit then is a little wider: what is found needs a look.
    """
    sizes = [Fraction(size).limit_denominator(DENOMINATOR) for size in (until_b, until_w)]
    scale = lcm(*(size.denominator for size in sizes))
    exact = all(abs(float(near) - size) <= SAME * size for near, size in zip(sizes, (until_b, until_w)))  # noqa: B905
    room = floor(Fraction(limit * (1 + (SAME if exact else 1e-5))) * scale * pieces)
    return room, int(sizes[0] * scale), int(sizes[1] * scale)
