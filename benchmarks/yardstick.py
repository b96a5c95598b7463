"""The yardstick: a fixed loop of pure Python, timed on this machine at this moment.

Machines differ, and a shared one differs from minute to minute. So every benchmark prints its figures beside this
one, taken in the same run, and figures are compared as multiples of it:

    from yardstick import measure
    before = measure()
    ...
    print(before.beside(measure()))

    python benchmarks/yardstick.py
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass

LOOPS = 50_000
"""Never to be changed: figures of different times are compared by it."""


@dataclass(frozen=True)
class Yardstick:
    """Seconds that the loop took."""

    median: float
    fastest: float
    slowest: float
    rounds: int

    def __str__(self) -> str:
        return (
            f"yardstick {self.median * 1e3:.2f} ms (median of {self.rounds}, "
            f"{self.fastest * 1e3:.2f} to {self.slowest * 1e3:.2f}), Python {sys.version.partition(' ')[0]}"
        )

    def times(self, seconds: float) -> float:
        """So many yardsticks long."""
        return seconds / self.median

    def beside(self, later: Yardstick) -> str:
        """Both, and how much the machine's speed moved between them: figures finer than that mean nothing."""
        moved = 100 * (later.median / self.median - 1)
        became = f"{abs(moved):.0f} % {'slower' if moved > 0 else 'faster'}"
        return f"before: {self}\nafter:  {later}\nthe machine became {became}"


def loop() -> int:
    """Integers, calls, a list and a dictionary: what most of Python's time goes to."""
    seen: dict[int, int] = {}
    recent = [0] * 64
    value = 1
    for step in range(LOOPS):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF
        recent[step & 63] = value
        seen[value & 255] = seen.get(value & 255, 0) + 1
    return sum(seen.values()) + sum(recent)


def measure(rounds: int = 9) -> Yardstick:
    """Times the loop `rounds` times, after one that is not counted."""
    loop()
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        loop()
        seconds.append(time.perf_counter() - begun)
    return Yardstick(statistics.median(seconds), min(seconds), max(seconds), rounds)


if __name__ == "__main__":
    print(measure())
