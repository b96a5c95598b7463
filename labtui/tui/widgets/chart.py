"""The live chart: braille dots (letters in ASCII), a letter at the end of each curve, axes with round numbers.

Pure Python, a few milliseconds for thousands of points: a chart library costs fifteen times more per frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from labtui import charts
from labtui.charts import Scale, Series
from labtui.runs.plots import Plot
from labtui.tui import actions, words
from labtui.tui.lines import Line, Piece, cells, crop, fit
from labtui.tui.widgets.pane import Pane

SLOWLY_S = 1.5

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character, by row and column of its dots."""
_BLANK = 0x2800


class ChartPane(Pane):
    """One of a run's plots at a time."""

    places = (actions.PANE, actions.LIST)

    def __init__(self, *, id: str | None = None, joint: str = "─", ascii: bool = False) -> None:
        super().__init__(id=id, joint=joint)
        self._ascii = ascii
        self._plots: Sequence[Plot] = ()
        self._shown = 0
        self._drawn_at = 0.0

    def show(self, plots: Sequence[Plot], now: float) -> None:
        """Shows how the plots are at that moment; the chosen one stays chosen. A long one is drawn every other time."""
        before, self._plots = self.plot, plots
        plot = self.plot
        is_fresh = plot is not None and before is not None and plot.title == before.title and plot.growing
        if is_fresh and plot is not None and plot.is_long and 0 <= now - self._drawn_at < SLOWLY_S:
            return
        self._drawn_at = now
        self.redraw()

    def clear(self) -> None:
        """Forgets which plot was chosen, for another run."""
        self._shown = 0
        self.show((), 0.0)

    @property
    def plot(self) -> Plot | None:
        return self._plots[min(self._shown, len(self._plots) - 1)] if self._plots else None

    @property
    def title(self) -> str:  # type: ignore[override]
        plot = self.plot
        if plot is None:
            return "Chart"
        return fit(f"{plot.title}, {plot.unit}" if plot.unit else plot.title, 30).rstrip()

    def facts(self) -> Sequence[Piece]:
        if len(self._plots) < 2:
            return ()
        return [(f"{min(self._shown, len(self._plots) - 1) + 1} of {len(self._plots)}", "dim")]

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        if self._plots:
            self._shown = (min(self._shown, len(self._plots) - 1) + by) % len(self._plots)
            self.redraw()

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        if self.plot is None:
            return [(("nothing to draw yet", "dim"),)]
        return draw(self.plot, width, height, ascii=self._ascii)


def draw(plot: Plot, width: int, height: int, *, ascii: bool = False) -> list[Line]:
    """The plot as `height` lines of `width` cells: legend, curves in their axes, ticks of x."""
    if plot.bars:
        return _bars(plot, width, height)
    axes = plot.axes()
    if axes is None:
        return [((fit("no finite numbers yet", width), "dim"),)]
    x_axis, y_axis = axes
    legend = _legend(plot, width)[: max(1, height // 6)]
    rows = height - len(legend) - 2
    if rows < 2 or width < 16:
        return [*legend, *_too_small(plot, width)][:height]
    y_ticks = {round((1 - place) * (rows - 1)): text for place, text in y_axis.ticks(max(2, min(rows // 2 + 1, 6)))}
    margin = min(max((len(text) for text in y_ticks.values()), default=0), 10)
    columns = width - margin - 1
    canvas = _Canvas(columns, rows, ascii)
    for number, series in enumerate(plot.lines):
        canvas.add(number, series, x_axis, y_axis, lettered=bool(legend))
    lines: list[Line] = []
    for y in range(rows):
        tick = y_ticks.get(y)
        left: list[Piece] = [(fit(tick or "", margin, right=True), "dim"), ("┤" if tick is not None else "│", "rule")]
        lines.append((*left, *canvas.line(y)))
    lines += _x_axis(x_axis, margin, columns, plot.x_label)
    return [*legend, *lines]


def _legend(plot: Plot, width: int) -> list[Line]:
    """The letters of the curves, on as many lines as they need; nothing for a single one without a name."""
    entries: list[list[Piece]] = []
    if len(plot.lines) > 1 or (plot.lines and plot.lines[0].name):
        for number, series in enumerate(plot.lines):
            name = series.name or "unnamed"
            letter: Piece = (charts.LETTERS[number], f"series{number} strong")
            entries.append([letter, (f" {fit(name, min(cell_len(name), 24))}", "dim")])
    for count, what in ((plot.left_out, "more not shown"), (plot.gaps, "not finite")):
        if count:
            entries.append([(f"{count} {what}", "warn")])
    lines: list[list[Piece]] = []
    for entry in entries:
        if lines and cells(lines[-1]) + 3 + cells(entry) <= width:
            lines[-1] += [("   ", ""), *entry]
        else:
            lines.append(entry)
    return [crop(line, width) for line in lines]


def _bars(plot: Plot, width: int, height: int) -> list[Line]:
    """A bar for each value, from 0, with its name before and its number after it."""
    names = min(max(cell_len(bar.name) for bar in plot.bars), max(width // 3, 6))
    numbers = [words.quantity(bar.value, plot.unit) for bar in plot.bars]
    after = max(map(cell_len, numbers))
    room = max(width - names - after - 3, 0)
    lines: list[Line] = [()] if height > len(plot.bars) else []
    for bar, length, shown in zip(plot.bars, charts.bar_lengths(plot.bars, room), numbers, strict=True):
        lines.append(
            ((fit(bar.name, names), "dim"), ("│", "rule"), (blocks(length or 0), "series0"), (f" {shown}", "strong"))
        )
    if len(lines) > height > 0:
        lines = [*lines[: height - 1], ((f"{len(lines) - height + 1} more", "dim"),)]
    return lines


def blocks(eighths: int) -> str:
    """A bar of that many eighths of a character."""
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def _too_small(plot: Plot, width: int) -> list[Line]:
    """Where there is no room for curves: the latest value of each."""
    lines: list[Line] = []
    for series in plot.lines:
        latest = charts.number(series.points[-1][1]) if series.points else None
        text = f"{series.name or plot.title}  {'n/a' if latest is None else charts.label(latest)}"
        lines.append(((fit(text, width), ""),))
    return lines


def _x_axis(axis: Scale, margin: int, columns: int, name: str) -> list[Line]:
    """The line below the curves, and the labels of its ticks."""
    ticks = axis.ticks(max(3, columns // 10))
    line = ["─"] * columns
    labels = [" "] * columns
    free = 0
    for place, text in ticks:
        at = round(place * (columns - 1))
        start = max(0, min(at - len(text) // 2, columns - len(text)))
        if start < free:
            continue
        line[at] = "┬"
        labels[start : start + len(text)] = text
        free = start + len(text) + 2
    if name and free + len(name) <= columns:
        labels[columns - len(name) :] = name
    return [
        ((" " * margin, ""), ("└", "rule"), ("".join(line), "rule")),
        ((" " * (margin + 1), ""), ("".join(labels), "dim")),
    ]


class _Canvas:
    """Curves as dots (2 x 4 to a cell), each in the colour of its series."""

    def __init__(self, columns: int, rows: int, ascii: bool) -> None:
        self._columns, self._rows, self._ascii = columns, rows, ascii
        self._wide, self._high = (columns, rows) if ascii else (2 * columns, 4 * rows)
        self._bits = [bytearray(columns) for _ in range(rows)]
        self._owners = [bytearray(columns) for _ in range(rows)]
        """1 + the number of the series that drew there last."""
        self._letters: dict[tuple[int, int], int] = {}

    def add(self, number: int, series: Series, x_axis: Scale, y_axis: Scale, *, lettered: bool) -> None:
        """Draws a curve, with its letter at its end; points without a place are gaps."""
        wide, high = self._wide - 1, self._high - 1
        lows, highs = [self._high] * self._wide, [-1] * self._wide
        before: tuple[int, int] | None = None
        last: tuple[int, int] | None = None
        columns = _dots([x for x, _ in series.points], x_axis, wide)
        rows = _dots([y for _, y in series.points], y_axis, high)
        for column, height in zip(columns, rows, strict=True):
            if column is None or height is None:
                before = None
                continue
            here = column, high - height
            if before is None or here[0] == before[0]:
                _stretch(lows, highs, here[0], here[1], here[1] if before is None else before[1])
            else:
                _connect(lows, highs, before, here)
            before = last = here
        for column, (low, top) in enumerate(zip(lows, highs, strict=True)):
            for row in range(low, top + 1):
                self._dot(column, row, number)
        if last is not None and lettered:
            cell = (last[0], last[1]) if self._ascii else (last[0] // 2, last[1] // 4)
            self._letters[cell] = number

    def _dot(self, column: int, row: int, number: int) -> None:
        if self._ascii:
            self._bits[row][column] = 1
            self._owners[row][column] = number + 1
        else:
            self._bits[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
            self._owners[row // 4][column // 2] = number + 1

    def line(self, y: int) -> list[Piece]:
        """One line of cells, neighbours of one colour joined."""
        pieces: list[Piece] = []
        text, owner = "", 0
        for x, (bits, its) in enumerate(zip(self._bits[y], self._owners[y], strict=True)):
            letter = self._letters.get((x, y))
            if letter is not None:
                its, character = letter + 1, charts.LETTERS[letter]
            elif not bits:
                its, character = owner, " "
            else:
                character = charts.LETTERS[its - 1] if self._ascii else chr(_BLANK + bits)
            if its != owner and text:
                pieces.append((text, f"series{owner - 1}" if owner else ""))
                text = ""
            owner = its
            text += character
        pieces.append((text, f"series{owner - 1}" if owner else ""))
        return pieces


def _dots(values: Sequence[Any], axis: Scale, most: int) -> list[int | None]:
    """Where on an axis of `most` + 1 dots the values lie; None where they can't be drawn."""
    dots: list[int | None] = []
    low, span = axis.low, axis.high - axis.low
    is_linear = axis.kind == charts.LINEAR
    for value in values:
        # Thousands of plain numbers on a linear axis are what a live chart mostly draws.
        if is_linear and type(value) is float and -charts.TOO_LARGE < value < charts.TOO_LARGE:
            dots.append(round((value - low) / span * most))
        else:
            place = axis.place(value)
            dots.append(None if place is None else round(place * most))
    return dots


def _stretch(lows: list[int], highs: list[int], column: int, a: int, b: int) -> None:
    lows[column] = min(lows[column], a, b)
    highs[column] = max(highs[column], a, b)


def _connect(lows: list[int], highs: list[int], start: tuple[int, int], end: tuple[int, int]) -> None:
    """A straight line from dot to dot, as the stretch of rows that it covers in each column."""
    (x0, y0), (x1, y1) = sorted((start, end))
    slope = (y1 - y0) / (x1 - x0)
    for column in range(x0, x1 + 1):
        a = y0 + slope * (max(column - 0.5, x0) - x0)
        b = y0 + slope * (min(column + 0.5, x1) - x0)
        # Rounded towards each other, so that neighbouring columns touch rather than overlap.
        low, high = sorted((a, b))
        _stretch(lows, highs, column, math.floor(low + 0.5), max(math.ceil(high - 0.5), math.floor(low + 0.5)))
