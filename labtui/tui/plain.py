"""For terminals that can do less: filters over everything that is drawn, stock widgets included.

Without UTF-8 it becomes ASCII. With 16 colours ours are exchanged for the palette's own, since the nearest of those to
a muted blue, green or amber is one and the same grey.
"""

from __future__ import annotations

import sys
from functools import lru_cache

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from labtui.tui import theme

_LIKE = {
    "-": "─━╌╍–—‐‑", "|": "│┃▏▎▍▌▐▕", "+": "├┤┬┴┼└┘┌┐╭╮╰╯", "#": "█▉▊▋▓▒", ".": "·…░", "*": "•●◦", ">": "›▸▶→",
    "<": "‹◂◀←", "_": "▁▂▃▄", "=": "▅▆▇", "^": "▔▀↑", "'": "‘’", '"': "“”", "x": "×✗", "v": "✓↓", "u": "µ", " ": "°",
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


_SIXTEEN = {
    RichColor.parse(ours).triplet: RichColor.parse(theirs)
    for ours, theirs in {
        theme.DIM: "#aaaaaa", theme.RULE: "#555555", theme.CURSOR: "#0000aa", theme.BLUE: "#55ffff",
        theme.AMBER: "#ffff55", theme.GREEN: "#55ff55", theme.ROSE: "#ff55ff", theme.TEAL: "#00aaaa",
        theme.ORANGE: "#aa5500", theme.RED: "#ff5555", theme.SLATE: "#00aaaa", theme.MOSS: "#00aa00",
    }.items()
}  # fmt: skip
"""Our colours -> those of a 16-colour palette, in the values by which Rich knows them."""


@lru_cache(maxsize=1024)
def _in_sixteen(style: Style) -> Style:
    color = _SIXTEEN.get(style.color.triplet) if style.color else None
    background = _SIXTEEN.get(style.bgcolor.triplet) if style.bgcolor else None
    return style + Style(color=color, bgcolor=background) if color or background else style


class SixteenFilter(LineFilter):
    """Applied to every line where the terminal has 16 colours."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, style and _in_sixteen(style), control) for text, style, control in segments]
