"""A growing curve in bounded memory, for as long as a run may take. Pure; knows no run."""

from __future__ import annotations

BUCKETS = 2048
"""Points of a curve that are kept apart; beyond, neighbours are merged."""

Point = tuple[float, float | None]
"""A step, and the value there; None where it was no finite number."""
Bucket = tuple[float, float | None, float | None, float | None]
"""x of its first point; lowest, highest and last value, None where none was finite (the last: where it wasn't)."""


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
        self._points: tuple[Point, ...] | None = ()
        self.count = 0
        """Points added."""
        self.gaps = 0
        """Of these, values that were no finite number."""

    def add(self, x: float, y: float | None) -> None:
        """Appends a point; y is None where there was no finite value."""
        self._points = None
        self.count += 1
        self.gaps += y is None
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
            points: list[Point] = []
            for x, low, high, last in self._buckets:
                if low is not None and low != last:
                    points.append((x, low))
                if high is not None and high != last:
                    points.append((x, high))
                points.append((x, last))
            self._points = tuple(points)
        return self._points


def _merged(a: Bucket, b: Bucket) -> Bucket:
    lows = [low for low in (a[1], b[1]) if low is not None]
    highs = [high for high in (a[2], b[2]) if high is not None]
    return a[0], min(lows, default=None), max(highs, default=None), b[3]
