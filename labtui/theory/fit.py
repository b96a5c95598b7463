"""Two numbers for a curve of times over sizes, latency and bandwidth, and where the curve is not of that kind.

Measured values come in as arguments; nothing here measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

MOST_POINTS = 300
"""The fit tries a line through each pair of points: more points than this would take minutes."""

STEEP = 0.7
"""A bandwidth below this share of what a smaller size reached is worth a word."""


@dataclass(frozen=True)
class AlphaBeta:
    """t = latency + bus bytes / bandwidth, fitted to measured times."""

    latency_s: float
    bytes_per_s: float
    """Bus bandwidth of endlessly large messages: the plateau."""
    half_size: float
    """The size (bytes, before the bus factor) at which half the plateau is reached: there latency takes half the
    time."""
    mean_error: float
    """Mean of |fitted - measured| / measured."""
    largest_error: float


def fit(sizes: Sequence[float], seconds: Sequence[float], factor: float) -> AlphaBeta:
    """Latency and bandwidth with the least mean relative error over all sizes.

    Absolute, not squared deviations, so that one size at which the machine hiccuped does not bend the line; the best
    such line passes through two of the points (or the origin and one), so it is found by trying them.

    `sizes` are bytes, `factor` is the collective's bus factor: a bus byte is factor * size. Raises ValueError for fewer
    than 2 different sizes, times or sizes that aren't above 0, a factor of 0, more than MOST_POINTS points, or times
    that don't grow with size.
    """
    if len(set(sizes)) < 2 or len(sizes) != len(seconds):
        raise ValueError("a fit needs at least 2 different sizes, and a time for each")
    if len(sizes) > MOST_POINTS:
        raise ValueError(f"a fit takes at most {MOST_POINTS} points, not {len(sizes)}")
    if not (factor > 0 and min(sizes) > 0 and min(seconds) > 0):
        raise ValueError("a fit needs sizes, times and a bus factor above 0")
    points = list(zip([factor * size for size in sizes], seconds, strict=True))
    lines = [(0.0, time / moved) for moved, time in points]
    for (x, t), (other_x, other_t) in combinations(points, 2):
        if x != other_x:
            slope = (other_t - t) / (other_x - x)
            lines.append((t - slope * x, slope))
    possible = [(alpha, slope) for alpha, slope in lines if alpha >= 0 and slope > 0]
    alpha, slope = min(possible, key=lambda line: sum(_errors(line, points)))
    errors = _errors((alpha, slope), points)
    return AlphaBeta(
        latency_s=alpha,
        bytes_per_s=1 / slope,
        half_size=alpha / slope / factor,
        mean_error=sum(errors) / len(errors),
        largest_error=max(errors),
    )


def _errors(line: tuple[float, float], points: Sequence[tuple[float, float]]) -> list[float]:
    alpha, slope = line
    return [abs(alpha + slope * moved - time) / time for moved, time in points]


@dataclass(frozen=True)
class Drop:
    """Where larger messages travel slower than smaller ones, which latency and bandwidth alone can't explain."""

    size: float
    """The first size that is slow."""
    before: float
    """The best bandwidth up to there, in the unit that came in."""
    after: float
    """The bandwidth at `size`."""
    lasting: bool
    """True: a fall, no larger size comes back. False: a kink."""


def drops(sizes: Sequence[float], bandwidths: Sequence[float], steep: float = STEEP) -> list[Drop]:
    """Each place where bandwidth drops below `steep` of the best that a smaller size had, in the order of sizes.

    In a healthy network bandwidth grows with size and then stays; small dips are where a library changes its
    protocol. Raises ValueError for sizes that don't grow, or not a bandwidth for each.
    """
    if len(sizes) != len(bandwidths) or any(b <= a for a, b in pairwise(sizes)):
        raise ValueError("drops are looked for over growing sizes, with at least a bandwidth for each")
    found: list[Drop] = []
    best, low = 0.0, False
    for index, (size, bandwidth) in enumerate(zip(sizes, bandwidths, strict=True)):
        if bandwidth >= steep * best:
            low = False
        elif not low:
            low = True
            lasting = all(later < steep * best for later in bandwidths[index:])
            found.append(Drop(size, best, bandwidth, lasting))
        best = max(best, bandwidth)
    return found
