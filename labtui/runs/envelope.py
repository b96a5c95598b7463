"""A growing curve in bounded memory, for as long as a run may take. Pure; knows no run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf

BUCKETS = 1024
"""Points of a curve that are kept apart; beyond, neighbours are merged. No terminal has so many columns of dots."""

Point = tuple[float, float | None]
"""A step, and the value there; None where it was no finite number."""
Bucket = tuple[float, float | None, float | None, float | None]
"""x of its first point; lowest, highest and last value, None where none was finite (the last: where it wasn't)."""


@dataclass(frozen=True)
class Bounds:
    """Within these a curve lies."""

    left: float
    right: float
    low: float
    high: float


class Course:
    """An envelope as it was at one moment. Taking one costs nothing; its points are made when somebody wants them.

    It stays as it is while its envelope grows, in another thread too: an envelope replaces its last bucket, appends
    to its list, or goes on with another list, but never touches the buckets before.
    """

    def __init__(self, buckets: list[Bucket], bounds: Bounds | None) -> None:
        self.source = buckets
        """The same list for a later course: then that only has more buckets, and its `settled` ones are the same."""
        self.settled = max(len(buckets) - 1, 0)
        """Buckets that will never change: all but the last."""
        self.last = buckets[-1] if buckets else None
        """The newest bucket."""
        self.bounds = bounds
        """None where no value was finite."""

    def __len__(self) -> int:
        return self.settled + (self.last is not None)

    def __iter__(self) -> Iterator[Bucket]:
        return self.since(0)

    def since(self, place: int) -> Iterator[Bucket]:
        """The buckets from that one on, in their order."""
        yield from islice(self.source, place, self.settled)
        if self.last is not None:
            yield self.last

    @property
    def points(self) -> tuple[Point, ...]:
        """The curve as points: of a merged bucket its lowest, highest and last value."""
        points: list[Point] = []
        for x, low, high, last in self:
            if low is not None and low != last:
                points.append((x, low))
            if high is not None and high != last:
                points.append((x, high))
            points.append((x, last))
        return tuple(points)


class Envelope:
    """A growing curve in bounded memory: its lowest, highest and last value in each bucket of successive points.

    When the buckets are full, pairs of them are merged and each further one takes twice as many points. So a spike is
    never smoothed away; values that are no finite number are counted, and are gaps while their bucket ends with one.
    """

    def __init__(self, most: int = BUCKETS) -> None:
        self._most = most
        self._per_bucket = 1
        self._in_last = 0
        self._buckets: list[Bucket] = []
        self._left, self._right, self._low, self._high = inf, -inf, inf, -inf
        self._points: tuple[Point, ...] | None = ()
        self.count = 0
        """Points added."""
        self.gaps = 0
        """Of these, values that were no finite number."""

    def add(self, x: float, y: float | None) -> None:
        """Appends a point; y is None where there was no finite value."""
        self._points = None
        self.count += 1
        if y is None:
            self.gaps += 1
        else:
            if x < self._left:
                self._left = x
            if x > self._right:
                self._right = x
            if y < self._low:
                self._low = y
            if y > self._high:
                self._high = y
        if self._buckets and self._in_last < self._per_bucket:
            self._buckets[-1] = _merged(self._buckets[-1], (x, y, y, y))
            self._in_last += 1
            return
        if len(self._buckets) >= self._most:
            old = self._buckets
            self._buckets = [_merged(*old[i : i + 2]) if i + 1 < len(old) else old[i] for i in range(0, len(old), 2)]
            self._per_bucket *= 2
        self._buckets.append((x, y, y, y))
        self._in_last = 1

    @property
    def points(self) -> tuple[Point, ...]:
        """The curve as points: of a merged bucket its lowest, highest and last value."""
        if self._points is None:
            self._points = self.course.points
        return self._points

    @property
    def course(self) -> Course:
        """The curve as it is now."""
        bounds = Bounds(self._left, self._right, self._low, self._high) if self.count > self.gaps else None
        return Course(self._buckets, bounds)


def _merged(a: Bucket, b: Bucket) -> Bucket:
    low, high = a[1], a[2]
    if low is None or (b[1] is not None and b[1] < low):
        low = b[1]
    if high is None or (b[2] is not None and b[2] > high):
        high = b[2]
    return a[0], low, high, b[3]
