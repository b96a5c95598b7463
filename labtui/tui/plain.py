"""For terminals whose encoding isn't UTF-8: everything that is drawn, stock widgets included, becomes ASCII."""

from __future__ import annotations

import sys

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_LIKE = {
    "-": "─━╌╍–—‐‑", "|": "│┃▏▎▍▌▐▕", "+": "├┤┬┴┼└┘┌┐╭╮╰╯", "#": "█▉▊▋▓▒", ".": "·…░", "*": "•●◦", ">": "›▸▶→",
    "<": "‹◂◀←", "_": "▁▂▃▄", "=": "▅▆▇", "^": "▔▀↑", "'": "‘’", '"': "“”", "x": "×✗", "v": "✓↓", "u": "µ",
}  # fmt: skip
_TABLE = str.maketrans({character: plain for plain, characters in _LIKE.items() for character in characters})


def needs_ascii() -> bool:
    """Whether the terminal's encoding can't show what we draw."""
    encoding = (getattr(sys.__stdout__, "encoding", None) or "ascii").lower().replace("-", "").replace("_", "")
    return encoding != "utf8"


def to_ascii(text: str) -> str:
    """The text in ASCII, as wide as it was: what has no likeness becomes `?`."""
    if text.isascii():
        return text
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in text.translate(_TABLE))


class AsciiFilter(LineFilter):
    """Applied to every line before it is sent."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]
