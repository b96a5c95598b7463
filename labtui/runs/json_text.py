"""JSON that others wrote: read in bounded memory, and refused where it is nested too deeply to be ours. Pure.

A folder that somebody sent may hold anything. Brackets cost most: `{},` takes 25 times its size in memory, so they are
counted before anything is made of them; and what is nested by the hundred would end whoever walks through it later.
"""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 64
"""Levels of lists and objects. No record of ours has ten."""
MOST_IN_LINE = 20_000
"""Lists and objects in one event or sample: those of a thousand ranks on a hundred GPUs are fewer."""
MOST_IN_FILE = 200_000
"""The same in a whole file."""


def parse(raw: bytes, most: int = MOST_IN_LINE) -> Any:
    """The value that the JSON text stands for. Raises ValueError, with a reason of a few words, where it is none, or
    holds more than `most` lists and objects, or more than DEEPEST levels of them."""
    brackets = raw.count(b"{") + raw.count(b"[")
    if brackets > most:
        raise ValueError(f"more than {most:,} lists and objects")
    try:
        value = json.loads(raw.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    # Fewer brackets than levels: nothing to look for, and that is so with nearly every event.
    if brackets > DEEPEST and _is_deep(value):
        raise ValueError("nested too deeply")
    return value


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in what should be a list of them; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list | tuple) else []


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return False
    return True
