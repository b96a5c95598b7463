"""A log's lines as they are drawn: the rank's colours, what was looked for, whose line it is, wrapped or cut. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.ansi import AnsiDecoder
from rich.cells import cell_len, set_cell_size
from rich.style import Style

from labtui.runs.clean import clean, clean_line
from labtui.tui.lines import Line, Piece, cells, crop, fit
from labtui.tui.log_search import Pattern

TAB = 8
MERGED = "merged"
"""The name under which the ranks' logs are shown as one."""
FOUND, HIT = Style(reverse=True), Style(reverse=True, bold=True, underline=True)
"""What was looked for, and where the search stands. Attributes rather than colours: they show without any."""
MOST_ROWS = 40
"""A wrapped line takes no more."""


@lru_cache(maxsize=4096)
def pieces_of(text: str) -> Line:
    """A line of a log: colours that the rank chose are kept, everything else that a terminal would obey is dropped."""
    decoded = AnsiDecoder().decode_line(clean(text, colours=True).replace("\n", " "))
    decoded.expand_tabs(TAB)
    pieces: list[Piece] = []
    at = 0
    for span in decoded.spans:
        if span.start > at:
            pieces.append((decoded.plain[at : span.start], ""))
        pieces.append((decoded.plain[span.start : span.end], span.style))
        at = span.end
    if at < len(decoded.plain):
        pieces.append((decoded.plain[at:], ""))
    return tuple(pieces)


def log_line(text: str, width: int) -> Line:
    """A line of a log, cut to the width."""
    return cut(pieces_of(text), width)


def log_rows(
    text: str, width: int, *, prefix: Piece | None = None, wanted: Pattern | None = None, hit: bool = False,
    wrap: bool = False,
) -> list[Line]:  # fmt: skip
    """A line of a log on one row, or on as many as it needs, with what was looked for marked in it."""
    pieces = pieces_of(text)
    if wanted is not None:
        pieces = marked(pieces, wanted.spans("".join(piece for piece, _ in pieces)), HIT if hit else FOUND)
    before = (prefix,) if prefix is not None else ()
    room = max(width - cells(before), 1)
    if not wrap:
        return [(*before, *cut(pieces, room))]
    rows = wrapped(pieces, room)[:MOST_ROWS]
    margin: Line = ((" " * cells(before), ""),) if before else ()
    return [(*(before if n == 0 else margin), *row) for n, row in enumerate(rows)]


def prefix(source: str, digits: int) -> Piece:
    """`[0] ` before a line of rank 0, `[0!]` where it stood in stderr."""
    is_error = source.endswith(" stderr")
    name = fit(source.removesuffix(" stderr"), digits, right=True)
    return f"[{name}{'!' if is_error else ''}] "[: digits + 4].ljust(digits + 4), "warn" if is_error else "dim"


def cut(pieces: Sequence[Piece], width: int) -> Line:
    """The pieces as far as there is room for them."""
    line: list[Piece] = []
    room = width
    for piece, style in pieces:
        size = cell_len(piece)
        if size > room:
            line.append((set_cell_size(piece, room), style))
            break
        line.append((piece, style))
        room -= size
    return tuple(line)


def wrapped(pieces: Sequence[Piece], width: int) -> list[Line]:
    """The pieces on rows of at most `width` cells, broken wherever a row is full: nothing of a log is left out."""
    rows: list[Line] = []
    row: list[Piece] = []
    room = width
    for piece, style in pieces:
        while cell_len(piece) > room:
            end = _fitting(piece, room)
            if end == 0 and not row:
                end = 1  # a wide character in a single column
            row.append((set_cell_size(piece[:end], min(cell_len(piece[:end]), room)), style))
            rows.append(tuple(row))
            row, room, piece = [], width, piece[end:]
        if piece:
            row.append((piece, style))
            room -= cell_len(piece)
    return [*rows, tuple(row)] if row or not rows else rows


def _fitting(text: str, width: int) -> int:
    """How many characters fit."""
    if text.isascii():
        return width
    used = 0
    for place, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return place
    return len(text)


def marked(pieces: Sequence[Piece], spans: Sequence[tuple[int, int]], style: Style) -> Line:
    """The pieces with these characters in another style."""
    if not spans:
        return tuple(pieces)
    line: list[Piece] = []
    at = 0
    for text, own in pieces:
        here = at
        for start, end in spans:
            first, last = max(start - at, 0), min(end - at, len(text))
            if first >= last:
                continue
            if first > here - at:
                line.append((text[here - at : first], own))
            line.append((text[first:last], (own if isinstance(own, Style) else Style.null()) + style))
            here = at + last
        if here - at < len(text):
            line.append((text[here - at :], own))
        at += len(text)
    return tuple(line)


def tab_line(tabs: Sequence[str], current: str, stderr: bool, marked: set[str], width: int) -> Line:
    """The tabs, the current one in sight; `!` marks ranks that wrote to stderr."""
    pieces: list[list[Piece]] = []
    for tab in tabs:
        role = "cursor strong" if tab == current else "dim"
        name = clean_line(tab)
        text = f" {name} stderr " if tab == current and stderr else f" {name} "
        pieces.append([(text, role), ("!" if tab in marked else " ", "warn")])
    at = tabs.index(current) if current in tabs else 0
    first = 0
    while first < at and cells(piece for tab in pieces[first : at + 1] for piece in tab) > width - 2:
        first += 1
    shown = [piece for tab in pieces[first:] for piece in tab]
    return crop(([("…", "dim")] if first else []) + shown, width)
