"""Text from ranks, users and files made safe for a terminal: no control character gets through. And numbers for JSON.

A program's output can move the cursor, rename the window, answer on the user's behalf or hide what it says. Only
colours (SGR sequences) may pass, and only where asked for; every other escape is dropped as a whole. Pure; knows no
terminal and no run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

RESET = "\x1b[0m"

# In order: sequences that carry a text of their own (OSC, DCS, SOS, PM, APC) up to their end, or to the end of the
# line where that is missing, so that a torn one hides nothing else; CSI sequences; two-character escapes; and single
# characters: C0 but for newline and tab, DEL, C1, marks that turn the direction of text, the unusual line ends.
# Patterns are compiled when first needed: commands that meet no control character start without.
_CONTROL = (
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)
_COLOUR = r"\x1b\[[0-9;:]{0,64}m"
_LINE_END = r"\r+\n?"
_SURROGATE = r"[\ud800-\udfff]"


def clean(text: str, *, colours: bool = False) -> str:
    """`text` without control characters, but for newlines, tabs and, with `colours`, SGR colours.

    A carriage return ends a line, so that each state of a progress bar is a line of its own. What is no text at all
    (a lone surrogate, from bytes that were no UTF-8) becomes U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    text = re.sub(_LINE_END, "\n", text)
    text = re.sub(_CONTROL, _kept_colour if colours else "", text)
    return re.sub(_SURROGATE, "\ufffd", text)


def clean_line(text: str) -> str:
    """`text` cleaned and on one line: every run of white space is one space. For names, notes, cells of a table."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(clean(text).split())


def _kept_colour(match: re.Match[str]) -> str:
    sequence = match.group()
    return sequence if re.fullmatch(_COLOUR, sequence) else ""


def strict(value: Any) -> Any:
    """The same data as every JSON reader takes it: a number that is none (NaN, infinity) is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value
