"""How states, times, sizes and numbers are written on the screen. Pure; unknown is `n/a`, never 0."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from labtui.charts import label, number
from labtui.runs import records
from labtui.runs.rows import Row

UNKNOWN = "n/a"

NEVER_RUN = ("· ", "dim")
_MARKS = {
    records.QUEUED: ("Q ", "warn"),
    records.STARTING: ("R ", "live"),
    records.RUNNING: ("R ", "live"),
    records.SUCCEEDED: ("ok", "good"),
    records.FAILED: ("!!", "bad"),
    records.TIMED_OUT: ("!!", "bad"),
    records.STOPPED: ("--", "warn"),
    records.LOST: ("??", "bad"),
}


def mark(state: str | None) -> tuple[str, str]:
    """A state as two letters and a role: a letter and a colour, since colour alone tells nobody enough."""
    return _MARKS.get(state or "", ("??", "bad")) if state else NEVER_RUN


def state_name(state: str) -> str:
    """`timed_out` as people write it."""
    return state.replace("_", " ")


def clock(seconds: float | None) -> str:
    """A duration: 00:41, 1:02:03, 3 d 04 h; n/a where it is unknown."""
    if seconds is None:
        return UNKNOWN
    whole = int(seconds)
    if whole >= 86400:
        return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 60:02d}:{whole % 60:02d}"


def when(t: float | None, now: float) -> str:
    """A moment in local time: 12:03 today, 29 Nov 12:03 this year, 29 Nov 2025 before."""
    if t is None:
        return UNKNOWN
    try:
        then, today = time.localtime(t), time.localtime(now)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    month = time.strftime("%b", then)
    if then[0] == today[0]:
        return f"{then[2]} {month} {then[3]:02d}:{then[4]:02d}"
    return f"{then[2]} {month} {then[0]}"


def time_of_day(t: float | None) -> str:
    """A moment of today in local time, to the second: 12:01:44."""
    if t is None:
        return UNKNOWN
    try:
        return time.strftime("%H:%M:%S", time.localtime(t))
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def axis_time(seconds: float) -> str:
    """A time on the axis of a run: 0:40, 12:00, 1:30:00."""
    whole = round(seconds)
    minutes = f"{whole // 60}" if whole < 3600 else f"{whole // 3600}:{whole % 3600 // 60:02d}"
    return f"{minutes}:{whole % 60:02d}"


def size(value: Any) -> str:
    """Bytes in decimal units: 812 MB, 1.94 GB; n/a for what is no number."""
    real = number(value)
    if real is None:
        return UNKNOWN
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(real) < 999.5 or unit == "TB":
            return f"{real:.0f} {unit}" if unit == "B" or abs(real) >= 100 else f"{real:.3g} {unit}"
        real /= 1000
    raise AssertionError("unreachable")


def percent(value: Any) -> str:
    """A percentage without its sign: 101; n/a for what is no number."""
    real = number(value)
    return UNKNOWN if real is None else f"{real:.0f}"


def quantity(value: Any, unit: str = "") -> str:
    """A reported value with its unit. Texts and truth values as they are; bytes in decimal units."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    real = number(value)
    if real is None:
        return UNKNOWN
    if unit == "B":
        return size(real)
    text = label(real) if abs(real) < 1e5 and real == int(real) else f"{label(float(f'{real:.4g}'))}"
    return f"{text} {unit}".rstrip()


def count(number: int, noun: str, plural: str | None = None) -> str:
    """1 run, 3 runs, 1,200 runs."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def alive(live: Sequence[Row]) -> str:
    """Which runs are alive, as the object of a sentence."""
    if len(live) == 1:
        return f"{live[0].experiment} ({live[0].variant or 'default'}), {state_name(live[0].state)}"
    return f"the newest of {len(live)} runs that go on"


def goodbye(live: Sequence[Row], now: float) -> list[str]:
    """What is printed after leaving while runs go on: which, and how to come back."""
    if not live:
        return []
    lines = [f"{row.id}  {state_name(row.state)}, {clock(row.seconds(now))}" for row in live]
    ending = "goes on without the screen" if len(live) == 1 else "go on without the screen"
    return [
        *lines,
        f"{'It' if len(live) == 1 else 'They'} {ending}: `labtui` shows it again, `labtui stop RUN` ends it.",
    ]
