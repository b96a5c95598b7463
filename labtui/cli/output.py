"""What the command line prints: data to stdout, talk to stderr, one JSON document or text for people.

Text from ranks, users and files is cleaned before it reaches a terminal. Knows no command and no arguments.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from labtui.runs.clean import clean_line, strict

if TYPE_CHECKING:
    from labtui.runs.folder import RunFolder
    from labtui.runs.records import Status

GAP = "  "
UNLIMITED = 1 << 30
"""Cells of a line that nobody cuts: stdout is no terminal."""


def say(text: str) -> None:
    """A sentence to the person at the terminal: stderr, so that stdout stays data."""
    print(f"labtui: {clean_line(text)}", file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    """One JSON document, in ASCII: whatever it holds, no terminal obeys it and every locale can print it."""
    import json

    print(json.dumps(strict(document), indent=2))


def print_lines(lines: Iterable[str]) -> None:
    """Lines of text, each cut to fit the terminal; whole where stdout is none."""
    width = line_width()
    print("\n".join(cut(line, width) for line in lines))


# A run ----------------------------------------------------------------------------------------------


def run_report(folder: RunFolder, status: Status | None = None) -> str:
    """The same for people, in lines that fit the terminal. Raises RecordError."""
    from labtui.cli import report
    from labtui.runs.document import run_document

    width = line_width()
    return "\n".join(cut(line, width) for line in report.whole(run_document(folder, status)))


# Values as text -----------------------------------------------------------------------------------------------------


def number(value: Any) -> str:
    """A value as people read it: six digits, thousands apart; "-" where there is none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**18 else f"{float_or_inf(value):.6g}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean_line(str(value))


def float_or_inf(value: int) -> float:
    """Whole numbers in a file have no bound; floats have."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def with_unit(value: Any, unit: Any) -> str:
    """A number and its unit; "-" where there is no number."""
    text = number(value)
    return f"{text} {clean_line(str(unit))}" if unit and value is not None else text


def moment(t: Any) -> str:
    """A point in time, on this machine's clock; "-" where there is none, "?" where it is no time."""
    if t is None:
        return "-"
    if isinstance(t, bool) or not isinstance(t, int | float):
        return "?"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t))
    except (OverflowError, ValueError, OSError):
        return "?"


def duration(seconds: float | None) -> str:
    """How long: `9.6 s`, `12 min 5 s`, `3 h 12 min`; "-" where it isn't known."""
    if seconds is None:
        return "-"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def plural(count: int, one: str, many: str = "") -> str:
    """`1 run`, `12 runs`; `many` where it is not just an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


# Tables -------------------------------------------------------------------------------------------------------------


def line_width() -> int:
    """Cells of a line on stdout; UNLIMITED where it is no terminal."""
    try:
        if not sys.stdout.isatty():
            return UNLIMITED
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return UNLIMITED


def cells(text: str) -> int:
    """How many cells of a terminal line the text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) or unicodedata.category(c) == "Cf"
        else 2 if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )  # fmt: skip


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells; what is missing is marked by three dots."""
    if cells(text) <= width:
        return text
    dots = "..."[: max(width, 0)]
    kept, taken = "", len(dots)
    for character in text:
        taken += cells(character)
        if taken > width:
            break
        kept += character
    return kept + dots


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], width: int, drop: Sequence[str] = (), least: int = 16
) -> list[str]:
    """Lines of a table in at most `width` cells.

    Where it is too wide, the last column shrinks to `least` cells, then the columns in `drop` go, first ones first,
    and at last lines are cut.
    """
    columns = list(zip(header, *rows, strict=True))
    for leaving in ("", *drop):
        columns = [column for column in columns if column[0] != leaving]
        widths = [max(map(cells, column)) for column in columns]
        room = width - sum(widths[:-1]) - len(GAP) * (len(columns) - 1)
        if room >= min(widths[-1], least):
            widths[-1] = min(widths[-1], room)
            break
    lines = []
    for row in zip(*columns, strict=True):
        padded = [cut(text, size) for text, size in zip(row, widths, strict=True)]
        padded = [text + " " * (size - cells(text)) for text, size in zip(padded, widths, strict=True)]
        lines.append(cut(GAP.join(padded).rstrip(), width))
    return lines
