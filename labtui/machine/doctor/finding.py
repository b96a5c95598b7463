"""One thing that the doctor looked at, and the words that its modules share. Pure; knows no machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from labtui.machine.host import GB

Level = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    level: Level
    """ok; note: worth knowing; warn: slow or risky; fail: runs will break."""
    found: str
    why: str = ""
    """Why it matters."""
    advice: str = ""
    """What to do, where something is to be done."""


def counted(number: int, one: str, many: str = "") -> str:
    """`1 GPU`, `8 GPUs`; `many` where it is not just an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def size(number: float) -> str:
    """Bytes as `1.2 GB` (1e9 bytes) or `64.0 MB`."""
    return f"{number / GB:.1f} GB" if number >= 0.1 * GB else f"{number / 1e6:.1f} MB"


def listed(words: Iterable[str], most: int = 8) -> str:
    """`a, b and c`; of more than `most` the first ones, and how many more there are."""
    words = list(words)
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def gpus(indices: Iterable[int]) -> str:
    """`GPU 0`, `GPU 0 and 2`, `GPU 0 to 7`, in NVML's numbers."""
    numbers = sorted(set(indices))
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"GPU {numbers[0]} to {numbers[-1]}"
    return f"GPU {listed(map(str, numbers), 16)}"


def version(text: str | None) -> tuple[int, ...] | None:
    """The numbers that a version begins with: (2, 27, 5) for `2.27.5+cuda12.9`; None where it begins with none."""
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(number) for number in found[0].split(".")) if found is not None else None


def dotted(numbers: Iterable[int]) -> str:
    """`12.8` for (12, 8)."""
    return ".".join(map(str, numbers))
