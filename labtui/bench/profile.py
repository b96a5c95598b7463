"""What was measured on this machine before: its profile, as the launcher hands it to a run ($LABTUI_PROFILE).

It comes from the newest run of link_vs_compute on the same host and devices. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.bench import device


@dataclass(frozen=True)
class Profile:
    """Figures of this machine. What that run could not measure is None or missing."""

    alpha: float | None = None
    """Seconds that a message takes however small it is; known if and only if beta is."""
    beta: float | None = None
    """Bus bandwidth of large messages, GB/s."""
    tflops: Mapping[str, float] = field(default_factory=dict)
    """Best matrix product of one rank by dtype, 1e12 FLOP/s."""
    date: str | None = None
    """Day of the measurement."""

    @property
    def measured(self) -> str:
        """ ", measured 2026-11-29", for the end of a sentence; "" where the day is unknown."""
        return f", measured {self.date}" if self.date else ""


def current() -> Profile | None:
    """This machine's profile; None where there is none. Refuses the run where the variable can't be read."""
    text = os.environ.get("LABTUI_PROFILE") or "null"
    try:
        document = json.loads(text)
    except ValueError:
        document = text
    if document is None:
        return None
    tflops = document.get("tflops", {}) if isinstance(document, dict) else None
    if not isinstance(tflops, dict):
        device.refuse(f"LABTUI_PROFILE is {text!r}, a JSON object expected")
    link = [document.get("alpha"), document.get("beta")]
    if link != [None, None]:
        link = [_number("alpha", link[0], zero=True), _number("beta", link[1])]
    date = document.get("date")
    return Profile(
        link[0],
        link[1],
        {str(dtype): _number(f"tflops of {dtype}", value) for dtype, value in tflops.items()},
        date if isinstance(date, str) else None,
    )


def _number(name: str, value: Any, zero: bool = False) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
    if not number or (value == 0 and not zero):
        device.refuse(f"LABTUI_PROFILE has {name} = {value!r}, a number above 0 expected")
    return float(value)
