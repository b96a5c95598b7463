"""Series to text: what is looked at rather than watched, for the command line, exports and comparisons.

Also the arithmetic of axes (scales, ticks, numbers as short labels), which live charts share. Pure functions: knows
no run, no file and no terminal. plotext draws; it is imported when the first chart is, and only ever sees finite
places between 0 and 1: everything else is left out here and counted.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LINEAR, LOG2, LOG10 = "linear", "log2", "log10"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""A series is told from the others by its letter, never by colour alone."""
TALL = 18
"""Lines of a chart that is printed."""
TOO_LARGE = 1e300
"""Numbers from here on are not drawn: differences between them overflow."""
TINY = 1e-290
"""Smaller numbers count as 0 on an axis, and closer ones as equal: steps between them underflow."""

_PLOTEXT = threading.Lock()  # plotext keeps one figure in module state.
_TO_ASCII = str.maketrans("┤├┼│─┬┴└┌┐┘…", "|++|-++++++.")


@dataclass(frozen=True)
class Series:
    """A named line of points (x, y), in the order in which it is drawn; None and NaN are gaps."""

    name: str
    points: tuple[tuple[Any, Any], ...]


def number(value: Any) -> float | None:
    """`value` as a float; None where it is no number, is not finite or is too large to draw."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        real = float(value)
    except OverflowError:
        return None
    return real if abs(real) < TOO_LARGE else None


def label(value: float, kind: str = LINEAR) -> str:
    """A number as a short label: 0.25, 12000, 1.5e9; powers of two on a log2 axis as 64, 1K, 32M."""
    if kind == LOG2 and 1024 <= value < 2**70:
        power = int(math.log2(value)) // 10
        return f"{value / 1024**power:.4g}{' KMGTPE'[power]}"
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e5:
        return f"{value:.5g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


@dataclass(frozen=True)
class Bar:
    """A number with a name: what a chart over something that is no number consists of."""

    name: str
    value: Any


@dataclass(frozen=True)
class Scale:
    """One axis: maps values to places between 0 and 1. `low` < `high`, in the axis' own measure (log or not)."""

    kind: str
    low: float
    high: float

    def place(self, value: Any) -> float | None:
        """Where on the axis a value lies; None where it can't be drawn."""
        measured = _measure(value, self.kind)
        return None if measured is None else (measured - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most `most` places on the axis with their labels, ascending."""
        if most < 2:
            return []
        span = self.high - self.low
        if self.kind == LOG10 and span < 2:
            values = _one_two_five(self.low, self.high)[:: max(1, math.ceil(6 * span / most))]
        else:
            step = _step(span, most - 1) if self.kind == LINEAR else max(1.0, math.ceil(span / (most - 1)))
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            values = [n * step for n in range(first, last + 1)]
        if len(values) < 2 and self.kind != LINEAR:
            inner = Scale(LINEAR, _value(self.low, self.kind), _value(self.high, self.kind))
            between = (inner.low + place * (inner.high - inner.low) for place, _ in inner.ticks(most))
            values = [measured for v in between if (measured := _measure(v, self.kind)) is not None]
        return [((v - self.low) / span, label(_value(v, self.kind), self.kind)) for v in values[:most]]


def fit(values: Iterable[Any], kind: str = LINEAR, *, round_out: bool = False) -> Scale | None:
    """The scale that holds all values that can be drawn; None if there are none.

    With `round_out` the ends of a linear scale lie on round numbers, so that a growing series seldom moves the axis.
    """
    measured = [m for value in values if (m := _measure(value, kind)) is not None]
    if not measured:
        return None
    low, high = min(measured), max(measured)
    if high - low <= max(max(abs(low), abs(high)) * 1e-12, TINY if kind == LINEAR else 1e-9):
        room = max(abs(low) * 0.5, 2 * TINY) if kind == LINEAR and low else 1.0
        low, high = low - room, high + room
    elif round_out and kind == LINEAR:
        step = _step(high - low, 6)
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return Scale(kind, low, high)


def from_results(results: Iterable[Mapping[str, Any]], *, x: str, y: str, series: str) -> tuple[Series, ...]:
    """Result events as series: those named `y`, over their label `x`, a series for each value of the label `series`.

    Points are sorted by x. Results without that x are left out; without that series they share one without a name.
    """
    groups: dict[str, list[tuple[Any, Any]]] = {}
    for result in results:
        labels = result.get("labels")
        if result.get("name") != y or not isinstance(labels, dict) or number(labels.get(x)) is None:
            continue
        name = str(labels[series]) if series and series in labels else ""
        groups.setdefault(name, []).append((labels[x], result.get("value")))
    return tuple(Series(name, tuple(sorted(points, key=lambda point: point[0]))) for name, points in groups.items())


def bars_from_results(results: Iterable[Mapping[str, Any]], *, x: str, y: str, series: str = "") -> tuple[Bar, ...]:
    """Result events as bars: those named `y`, a bar for each text that their label `x` has (and label `series`)."""
    bars: dict[str, Bar] = {}
    for result in results:
        labels = result.get("labels")
        if result.get("name") == y and isinstance(labels, dict) and isinstance(labels.get(x), str):
            name = " ".join(str(labels[key]) for key in (x, series) if key in labels)
            bars[name] = Bar(name, result.get("value"))
    return tuple(bars.values())


def bar_lengths(bars: Sequence[Bar], most: int) -> list[int | None]:
    """How long each bar is, in eighths of a character, the longest `most` characters; None where there is no number.

    Bars begin at 0, so that their lengths compare as their values do; a negative value has no length.
    """
    values = [number(bar.value) for bar in bars]
    highest = max((value for value in values if value is not None), default=0.0)
    if highest <= 0:
        return [None if value is None else 0 for value in values]
    return [None if value is None else round(max(value, 0.0) / highest * most * 8) for value in values]


def text(
    series: Sequence[Series], *, width: int, height: int, title: str = "", x_label: str = "", y_label: str = "",
    x_scale: str = LINEAR, y_scale: str = LINEAR, ascii: bool = False,
) -> str:  # fmt: skip
    """A chart as `height` lines of at most `width` characters, without colours.

    Several series are drawn with a letter each, which the legend explains; one alone as a line of dots. Points that
    can't be drawn (NaN, infinite, missing, not above 0 on a log axis) are gaps, and the last line says how many.
    """
    x_axis = fit((x for line in series for x, _ in line.points), x_scale)
    y_axis = fit((y for line in series for _, y in line.points), y_scale, round_out=True)
    segments, left_out = _segments(series, x_axis, y_axis)
    axes = " over ".join(part for part in (y_label, x_label) if part)
    above = [line for line in (f"{title}  ({axes})" if title and axes else title or axes,) if line]
    many = len(series) > 1
    if many:
        named = ((LETTERS[i % 52], line.name or "unnamed") for i, line in enumerate(series))
        above.append("   ".join(letter if name == letter else f"{letter} {name}" for letter, name in named))
    below = [f"{left_out} {'point' if left_out == 1 else 'points'} not drawn (no finite number)"] if left_out else []
    if left_out and LINEAR not in (x_scale, y_scale):
        below = [below[0][:-1] + ", or not above 0 on a logarithmic axis)"]
    room = height - len(above) - len(below)
    if not segments:
        drawn = ["no points"]
    elif room < 3 or width < 12:
        drawn = ["no room for a chart"]
    else:
        assert x_axis is not None and y_axis is not None
        drawn = _draw(segments, x_axis, y_axis, width, room, many, ascii)
    lines = [_cut(line, width) for line in (*above, *drawn, *below)]
    picture = "\n".join(lines[:height])
    return picture.translate(_TO_ASCII).encode("ascii", "replace").decode() if ascii else picture


Segment = tuple[int, list[tuple[float, float]]]
"""The number of a series, and places that follow one another without a gap."""


def _segments(series: Sequence[Series], x_axis: Scale | None, y_axis: Scale | None) -> tuple[list[Segment], int]:
    """The series as unbroken segments of places, and the number of points left out."""
    segments: list[Segment] = []
    left_out = 0
    for index, line in enumerate(series):
        segment: list[tuple[float, float]] = []
        for x, y in line.points:
            x_place = x_axis.place(x) if x_axis else None
            y_place = y_axis.place(y) if y_axis else None
            if x_place is None or y_place is None:
                left_out += 1
                if segment:
                    segments.append((index, segment))
                segment = []
            else:
                segment.append((x_place, y_place))
        if segment:
            segments.append((index, segment))
    return segments, left_out


def _draw(
    segments: Sequence[Segment], x_axis: Scale, y_axis: Scale, width: int, height: int, many: bool, ascii: bool
) -> list[str]:
    import plotext

    with _PLOTEXT:
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.limit_size(False, False)
        plotext.plotsize(width, height)
        for index, segment in segments:
            marker = LETTERS[index % 52] if many else "*" if ascii else "braille"
            xs, ys = zip(*thin(segment, 2 * width), strict=True)
            (plotext.plot if len(xs) > 1 else plotext.scatter)(xs, ys, marker=marker)
        plotext.xlim(0, 1)
        plotext.ylim(0, 1)
        plotext.xticks(*_columns(x_axis.ticks(max(2, width // 12))))
        plotext.yticks(*_columns(y_axis.ticks(max(2, height // 3))))
        plotext.xaxes(True, False)
        plotext.yaxes(True, False)
        built = plotext.uncolorize(plotext.build())
        plotext.clear_figure()
    return [line.rstrip() for line in built.splitlines()]


def thin(points: Sequence[tuple[float, float]], most: int) -> Sequence[tuple[float, float]]:
    """About `most` of the points, in order: of each stretch the first, lowest, highest and last, so spikes stay."""
    if len(points) <= most:
        return points
    stretch = math.ceil(4 * len(points) / most)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), stretch):
        piece = range(start, min(start + stretch, len(points)))
        low = min(piece, key=lambda i: points[i][1])
        high = max(piece, key=lambda i: points[i][1])
        kept += [points[i] for i in sorted({piece[0], low, high, piece[-1]})]
    return kept


def _columns(ticks: list[tuple[float, str]]) -> tuple[list[float], list[str]]:
    return [place for place, _ in ticks], [text for _, text in ticks]


def _measure(value: Any, kind: str) -> float | None:
    real = number(value)
    if real is None:
        return None
    real = 0.0 if abs(real) < TINY else real
    if kind == LINEAR:
        return real
    if real <= 0:
        return None
    return math.log2(real) if kind == LOG2 else math.log10(real)


def _value(measured: float, kind: str) -> float:
    if kind == LINEAR:
        return measured
    return float(2**measured if kind == LOG2 else 10**measured)


def _one_two_five(low: float, high: float) -> list[float]:
    """log10 of the numbers 1, 2 and 5 times a power of ten within the bounds."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    measures = (power + math.log10(digit) for power in powers for digit in (1, 2, 5))
    return [measured for measured in measures if low - 1e-9 <= measured <= high + 1e-9]


def _step(span: float, most: int) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten that divides `span` into at most `most` parts."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * digit for digit in (1, 2, 5, 10, 20) if power * digit * most >= span * (1 - 1e-9))


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…" * (width > 0)
