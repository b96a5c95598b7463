"""Gantts of simulated schedules as lines: a hue for each micro-batch, or for each direction where there are two. Pure.

A forward is written in its hue, a backward on it, a weight gradient on grey; its sign tells the same without colour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rich.style import Style

from labtui.theory.pipeline import gantt
from labtui.theory.pipeline.gantt import Row
from labtui.theory.pipeline.timeline import Op
from labtui.theory.pipeline.words import both_ends, has_several, number, percent
from labtui.tui import theme
from labtui.tui.lines import RULE, Line, Piece, cells, crop, spread
from labtui.tui.schedule_settings import Settings
from labtui.tui.schedule_study import Picture, Refused, Strip, Study

NARROW, WIDE = 60, 100
"""Columns of the terminal from which there is room for whole labels, and for more figures beside each row."""
_HUES = (theme.BLUE, theme.AMBER, theme.GREEN, theme.ROSE, theme.TEAL, theme.ORANGE)
_DARK, _BRIGHT = "#101318", "#c9ced8"
CURSOR = Style(color=_DARK, bgcolor=_BRIGHT)
"""The column of the moment that is looked at."""
_IDLE = Style(color=theme.RULE)
_MARK = "↓"


@dataclass(frozen=True)
class Frame:
    """How the width is shared: a label, the signs between two bars, figures."""

    label: int
    signs: int
    narrow: bool
    figures: tuple[tuple[str, int], ...]
    """Header and width of what stands at the right of each row."""

    @property
    def left(self) -> int:
        """Cells before the first sign."""
        return self.label + 2


def frame(width: int, settings: Settings, *, by_stage: bool, stages: int = 0) -> Frame:
    """The frame for these settings; `stages` where another schedule has more than the named ones."""
    narrow = width < NARROW
    label = (0 if narrow else len("GPU")) + len(str(settings.devices - 1))
    if by_stage:
        names = [name for name in (settings.schedule, settings.against) if name]
        most = max(stages, *(settings.devices * settings.virtual_of(name) for name in names))
        label += len(" s") + len(str(most - 1))
    figures: tuple[tuple[str, int], ...] = ()
    if not narrow:
        figures = (("held", 5),)
    if width >= WIDE:
        figures = (("held", 6), ("memory", 8), ("idle", 9))
    # A margin, the label and two bars; a margin at the right, too, where there is room.
    signs = width - 1 - label - 2 - sum(size for _, size in figures) - (not narrow)
    return Frame(label, max(signs, 1), narrow, figures)


@dataclass(frozen=True)
class View:
    """What of a picture is looked at."""

    frame: Frame
    t: float = 0.0
    device: int = 0
    left: int = 0
    """The first column that is shown."""
    top: int = 0
    """The first row."""


# Around the rows ----------------------------------------------------------------------------------------------------


def heading(study: Study | Refused, summary: str, width: int, note: str = "") -> Line:
    """The name in a rule, with total and bubble at its right end; the summary only where there is room for it."""
    left: list[Piece] = [(f"{RULE} ", "rule"), (study.name, "title"), (" ", "")]
    facts: list[Piece] = []
    if isinstance(study, Study):
        timeline = study.timeline
        named = width - cells(left) >= 32
        facts = [
            ("total " if named else "", "dim"), (number(timeline.total), "strong"), (" · ", "dim"),
            ("bubble " if named else "", "dim"), (percent(timeline.bubble), "strong"),
        ]  # fmt: skip
    if note and cells(left) + cells(facts) + len(note) + 7 <= width:
        facts = [(note, "warn"), *([(" · ", "dim")] if facts else []), *facts]
    right: list[Piece] = [(" ", ""), *facts, (f" {RULE}", "rule")] if facts else []
    if summary and cells(left) + len(summary) + 2 <= width - cells(right):
        left.append((f" {summary} ", "dim"))
    return spread(left, right, width, fill=RULE, role="rule")


def ruler(picture: Picture, view: View, width: int) -> Line:
    """The times over the rows, and where the moment is that is looked at."""
    area, place = _area(picture, view), _column(picture, view.t) - view.left
    whole = gantt.ruler(picture.scale, view.left + area)
    line = whole[view.left :].ljust(area)
    if view.left and whole[view.left - 1 : view.left].strip():
        line = _without_number(line[::-1])[::-1]
    pieces: list[Piece] = [(" " * view.frame.left, "")]
    if 0 <= place < area:
        mark = f"{_MARK}{number(view.t)}"
        if place + len(mark) > area:
            mark = f"{number(view.t)}{_MARK}"
            place = max(place + 1 - len(mark), 0)
        # What the mark covers a part of, goes.
        before, after = line[:place], line[place + len(mark) :]
        if line[max(place - 1, 0)] != " ":
            before = _without_number(before)
        if after[:1].strip():
            after = _without_number(after[::-1])[::-1]
        pieces += [(before, "dim"), (mark, "accent"), (after, "dim")]
    else:
        pieces.append((line, "dim"))
    pieces.append((" ", ""))
    pieces += [(name.rjust(size), "dim") for name, size in view.frame.figures]
    return crop(pieces, width)


def _without_number(text: str) -> str:
    """The text with blanks for the number at its end."""
    return text.rstrip("0123456789.e+").ljust(len(text))


def legend(picture: Picture, width: int) -> Line:
    """What the signs mean, and how much time a column is."""
    shown = picture.shown
    if not shown:
        return crop((), width)
    kinds = frozenset(kind for each in shown for kind in each.signs.kinds)
    signs = gantt.Signs(kinds, max(each.timeline.order.microbatches for each in shown))
    told = [
        picture.scale.words.replace(", times rounded to columns", ", rounded"),
        *(f"{sign} {meaning}" for sign, meaning in signs.legend()),
    ]
    two_ways = next((each.timeline.order for each in shown if len(each.timeline.order.routes) > 1), None)
    if two_ways is not None:
        told.append(both_ends(two_ways).rstrip("."))
    if any(has_several(each.timeline.order) for each in shown) and not picture.wanted.by_stage:
        told.append("r: a row for each stage")
    kept = " " + told[0]
    for part in told[1:]:
        if len(kept) + 3 + len(part) <= width:
            kept += f"   {part}"
    return crop([(kept, "dim")], width)


# Rows ---------------------------------------------------------------------------------------------------------------


def row(study: Study, strips: Sequence[Strip], index: int, picture: Picture, view: View, width: int) -> Line:
    """One row: label, signs, figures."""
    strip, frame = strips[index], view.frame
    device = strip.row.device
    chosen = device == view.device
    first = not index or strips[index - 1].row.device != device or index == view.top
    pieces: list[Piece] = [
        ("›" if chosen and first else " ", "accent"),
        (_label(strip.row, frame, first=first), "strong" if chosen else "dim"),
        ("│", "rule"),
    ]
    doing = study.doing(device, view.t).ops if chosen else ()
    area = _area(picture, view)
    pieces += signs(strip, view.left, area + 1, _column(picture, view.t), hues(study), doing)
    if first:
        timeline = study.timeline
        values = (
            str(timeline.peak_in_flight[device]), f"{timeline.peak_memory[device]:.4g}",
            percent(timeline.idle[device] / timeline.total if timeline.total else 0.0),
        )  # fmt: skip
        for value, (_, size) in zip(values, frame.figures, strict=False):
            pieces.append((value.rjust(size), "strong" if chosen else ""))
    return crop(pieces, width)


def _label(row: Row, frame: Frame, *, first: bool) -> str:
    name = str(row.device) if frame.narrow else f"GPU{row.device}"
    if row.stage is None:
        return name.ljust(frame.label)
    stage = f" s{row.stage}"
    return (name if first else "").ljust(frame.label - len(stage)) + stage


def signs(
    strip: Strip, left: int, width: int, cursor: int, hue_of: Callable[[int], int], chosen: Sequence[Op] = ()
) -> list[Piece]:
    """The signs from the column `left` on and the bar behind them, or a pointer to what is further right.

    Exactly `width` cells. The column `cursor` and the operations `chosen` stand out.
    """
    pieces: list[Piece] = []
    begins, parts = strip.begins, strip.row.pieces
    behind = left + width - 1
    for place in range(max(bisect_right(begins, left) - 1, 0), len(parts)):
        begin, end = max(begins[place], left), min(begins[place + 1], behind)
        if begin >= behind:
            break
        text, op = parts[place]
        sign = text[0]
        style = (
            (_IDLE if sign == gantt.IDLE else "")
            if op is None
            else _style(op.kind, hue_of(op.microbatch) % len(_HUES), op in chosen)
        )
        if begin <= cursor < end:
            for size, part in ((cursor - begin, style), (1, CURSOR), (end - cursor - 1, style)):
                if size:
                    pieces.append((sign * size, part))
        elif end > begin:
            pieces.append((sign * (end - begin), style))
    done = max(begins[-1] - left, 0)
    if done >= width:
        pieces.append(("›", "accent"))
    else:
        pieces += [("│", "rule"), (" " * (width - 1 - done), "")]
    return [piece for piece in pieces if piece[0]]


def hues(study: Study) -> Callable[[int], int]:
    """micro-batch -> the number of its hue."""
    order = study.timeline.order
    if len(order.routes) > 1:
        return order.route_of.__getitem__
    return lambda microbatch: microbatch


@lru_cache(maxsize=128)
def _style(kind: str, hue: int, chosen: bool) -> Style:
    color = _HUES[hue]
    base = {
        "F": Style(color=color), "W": Style(color=color, bgcolor=theme.CURSOR),
    }.get(kind, Style(color=_DARK, bgcolor=color))  # fmt: skip
    return base + Style(bold=True, underline=True) if chosen else base


def _area(picture: Picture, view: View) -> int:
    """Columns that are shown."""
    return min(view.frame.signs, max(picture.columns - view.left, 0)) or 1


def _column(picture: Picture, t: float) -> int:
    """Where a moment is; the end is the last column."""
    return min(picture.scale.column(t), max(picture.columns - 1, 0))
