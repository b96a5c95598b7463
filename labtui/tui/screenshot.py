"""A picture of the screen as SVG, into the current folder. Knows files, and no app."""

from __future__ import annotations

import re
import time
from pathlib import Path

_FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}\s*")
"""Rich has pictures load a font from somebody's server; whoever opens one should not have to ask there."""


def write(svg: str, mode: str) -> Path:
    """Writes it as labtui-MODE-TIME.svg; returns the path. Replaces no file. Raises OSError."""
    folder = Path.cwd()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    svg = _FONT_FACE.sub("", svg)
    for number in range(1, 100):
        path = folder / f"labtui-{mode}-{stamp}{f'-{number}' if number > 1 else ''}.svg"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(svg)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{folder} holds a hundred pictures of this second already")
