"""Lines made of pieces: what our widgets draw, as plain data that a pure function builds and a test compares.

A piece is a text with roles ("dim", "bad", "cursor good", ...: see theme.ROLES), or with a Rich style where a rank set
its colours. Text from outside goes through `fit`, which takes control characters out; widths are terminal cells.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.style import Style

from labtui.runs.clean import clean_line

Piece = tuple[str, "str | Style"]
Line = tuple[Piece, ...]

ELLIPSIS = "…"
RULE, UPRIGHT = "─", "│"


def fit(text: str, width: int, *, right: bool = False) -> str:
    """`text`, harmless, in exactly `width` cells: cut with an ellipsis or padded (on the left with `right`)."""
    if width <= 0:
        return ""
    text = clean_line(text)
    size = cell_len(text)
    if size > width:
        # A wide character that is cut in half leaves a space.
        return set_cell_size(text, width - 1) + ELLIPSIS
    padding = " " * (width - size)
    return padding + text if right else text + padding


def fit_middle(text: str, width: int) -> str:
    """As `fit`, but cut in the middle: names often differ at their ends."""
    text = clean_line(text)
    if cell_len(text) <= width or width < 12:
        return fit(text, width)
    end = text[-(width // 2) :]
    while cell_len(end) > width // 2:
        end = end[1:]
    return fit(set_cell_size(text, width - cell_len(end) - 1) + ELLIPSIS + end, width)


def cells(line: Iterable[Piece]) -> int:
    """The width of pieces in cells."""
    return sum(cell_len(text) for text, _ in line)


def spread(left: Sequence[Piece], right: Sequence[Piece], width: int, *, fill: str = " ", role: str = "") -> Line:
    """Pieces at both ends of a line of exactly `width` cells, `fill` between; where room is short, the left is cut."""
    room = width - cells(right)
    if room < min(cells(left), 8) and right:
        return crop(left, width, fill, role)
    return (*crop(left, room, fill, role), *right)


def crop(line: Iterable[Piece], width: int, fill: str = " ", role: str = "") -> Line:
    """Pieces cut or filled up to exactly `width` cells."""
    kept: list[Piece] = []
    room = width
    for text, style in line:
        size = cell_len(text)
        if size > room:
            if room > 0:
                kept.append((set_cell_size(text, room - 1) + ELLIPSIS, style))
            room = 0
            break
        if text:
            kept.append((text, style))
        room -= size
    if room > 0:
        kept.append((fill * room, role))
    return tuple(kept)


def heading(
    title: str, width: int, *, facts: Sequence[Piece] = (), focused: bool = False, joint: str = RULE, behind: str = ""
) -> Line:
    """A pane's first line: its title in a rule, what stands `behind` it, and facts at its right end."""
    left = [(f"{joint} ", "rule"), (title, "title" if focused else "strong"), (" ", "")]
    right = [(" ", ""), *facts, (f" {RULE}", "rule")] if facts else []
    if behind and cells(left) + cells(right) + len(behind) + 5 <= width:
        left += [(f"{RULE} ", "rule"), (behind, "dim"), (" ", "")]
    return spread(left, right, width, fill=RULE, role="rule")


def with_role(line: Iterable[Piece], role: str) -> Line:
    """The line with one more role on each piece."""
    return tuple((text, f"{role} {style}".strip() if isinstance(style, str) else style) for text, style in line)


def struck(line: Iterable[Piece], column: int, character: str = "") -> Line:
    """The line with the cursor's colour behind one cell, or with another character there."""
    pieces: list[Piece] = []
    at = 0
    for text, role in line:
        size = cell_len(text)
        if at <= column < at + size and size == len(text) and isinstance(role, str):
            k = column - at
            mark: Piece = (character, "live") if character else (text[k], f"{role} cursor".strip())
            pieces += [(text[:k], role), mark, (text[k + 1 :], role)]
        else:
            pieces.append((text, role))
        at += size
    return tuple(piece for piece in pieces if piece[0])


def wrap(text: str, width: int) -> list[str]:
    """A sentence, harmless, on as many lines of at most `width` cells as it needs."""
    width, text = max(width, 8), clean_line(text)
    if text.isascii():
        return textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            # textwrap counts characters, of which some take two cells.
            parts = chop_cells(word, width) if cell_len(word) > width else [word]
            lines[-1:] = [*([lines[-1]] if lines[-1] else []), *parts]
    return lines


def changed_span(old: Line, new: Line) -> tuple[int, int] | None:
    """The cells [start, end) in which two lines of the same width differ; None where they are equal."""
    if old == new:
        return None
    start = _common(old, new)
    end = _common(old[::-1], new[::-1])
    width = cells(new)
    return min(start, width - 1), max(width - end, start + 1)


def _common(a: Sequence[Piece], b: Sequence[Piece]) -> int:
    """Cells of the pieces with which both begin."""
    same = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        same += cell_len(one[0])
    return same
