"""Runs side by side: their table, and their charts over each other or next to each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from labtui.charts import LETTERS
from labtui.runs import overlay
from labtui.runs.plots import Plot, plots
from labtui.tui import compare_lines
from labtui.tui.compare_lines import SideBySide
from labtui.tui.lines import Line, Piece, crop, fit
from labtui.tui.widgets.pane import Pane


class ComparedTable(Pane):
    """What differs, results, checks and predictions."""

    title = "Compare"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.compared: SideBySide | None = None
        self.empty = ""

    def facts(self) -> Sequence[Piece]:
        compared = self.compared
        if compared is None:
            return ()
        return [(f"{len(compared.runs)} runs · baseline {LETTERS[compared.baseline]}", "dim")]

    def body(self, width: int) -> Sequence[Line]:
        if self.compared is None:
            return [((text, "dim"),) for text in self.empty.split("\n")]
        return compare_lines.lines(self.compared, width)


class ComparedCharts(Pane):
    """One chart at a time, drawn by plotext: this is looked at rather than watched."""

    def __init__(self, *, id: str | None = None, joint: str = "─", ascii: bool = False) -> None:
        super().__init__(id=id, joint=joint)
        self._ascii = ascii
        self._compared: SideBySide | None = None
        self._over: tuple[Plot, ...] = ()
        self._each: tuple[tuple[Plot, ...], ...] = ()
        self._shown = 0
        self.apart = False
        """Whether each run has a chart of its own, beside the others'."""

    def show(self, compared: SideBySide | None) -> None:
        """Shows these runs' charts; the chosen one stays chosen while it is there."""
        self._compared = compared
        snapshots = compared.snapshots if compared is not None else ()
        specified = compared.charts if compared is not None else ()
        self._over = (*overlay.overlaid(snapshots, specified), *overlay.telemetry(snapshots))
        self._each = tuple(plots(snapshot, specified) for snapshot in snapshots)
        self.redraw()

    @property
    def plot(self) -> Plot | None:
        return self._over[min(self._shown, len(self._over) - 1)] if self._over else None

    @property
    def title(self) -> str:  # type: ignore[override]
        plot = self.plot
        return "Charts" if plot is None else fit(plot.title, 40).rstrip()

    def facts(self) -> Sequence[Piece]:
        if not self._over:
            return ()
        return [(f"{min(self._shown, len(self._over) - 1) + 1} of {len(self._over)}", "dim")]

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        if self._over:
            self._shown = (min(self._shown, len(self._over) - 1) + by) % len(self._over)
            self.redraw()

    def action_apart(self) -> None:
        self.apart = not self.apart
        self.redraw()

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        plot = self.plot
        if plot is None:
            return [(("nothing to draw: none of them has curves, results with a chart or telemetry", "dim"),)]
        if not self.apart:
            return [_coloured(text, len(plot.lines)) for text in _drawn(plot, width, height, self._ascii)]
        return self._side_by_side(plot, width, height)

    def _side_by_side(self, plot: Plot, width: int, height: int) -> Sequence[Line]:
        """Each run's own chart of that title, in columns; its part of the common one where it has no other."""
        own = [next((one for one in its if one.title == plot.title), None) for its in self._each]
        columns = max(1, min(len(own), width // 24))
        rows = -(-len(own) // columns)
        each_width, each_height = width // columns - 1, max(height // rows, 4)
        found: list[Line] = []
        for first in range(0, len(own), columns):
            pictures = []
            for place in range(first, min(first + columns, len(own))):
                one = own[place] or _part(plot, LETTERS[place])
                drawn = _drawn(one, each_width, each_height - 1, self._ascii) if one else ("nothing to draw",)
                pictures.append([LETTERS[place], *drawn])
            for line in range(each_height):
                pieces: list[Piece] = []
                for picture in pictures:
                    text = picture[line] if line < len(picture) else ""
                    # Not `fit`, which takes the spaces of the picture for white space.
                    pieces += [*crop(((text, "strong" if line == 0 else ""),), each_width), (" ", "")]
                found.append(tuple(pieces))
        return found[:height]


def _coloured(text: str, series: int) -> Line:
    """A line of a chart in which each curve's letter has the curve's colour; axes and titles stay plain."""
    axis = re.search(r"[│┤|+]", text)
    if series < 2 or axis is None:
        return ((text, ""),)
    pieces: list[Piece] = [(text[: axis.end()], "dim")]
    for run in re.finditer(r"([a-zA-Z])\1*|[^a-zA-Z]+", text[axis.end() :]):
        place = LETTERS.find(run[0][0])
        pieces.append((run[0], f"series{place}" if 0 <= place < min(series, 6) else ""))
    return tuple(pieces)


def _part(plot: Plot, letter: str) -> Plot | None:
    """The series of one run in a common chart."""
    series = tuple(line for line in plot.lines if line.name.partition(" ")[0] == letter)
    return replace(plot, series=series, curves=()) if series else None


@lru_cache(maxsize=32)
def _cached(plot: Plot, width: int, height: int, ascii: bool) -> tuple[str, ...]:
    return tuple(plot.text(width, height, ascii=ascii).split("\n"))


def _drawn(plot: Plot, width: int, height: int, ascii: bool) -> tuple[str, ...]:
    """plotext takes tens of milliseconds; scrolling and switching back should not."""
    try:
        return _cached(plot, width, height, ascii)
    except TypeError:  # a series that holds what can't be hashed
        return tuple(plot.text(width, height, ascii=ascii).split("\n"))
