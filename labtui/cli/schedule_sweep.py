"""`labtui simulate --sweep`: how the bubble of schedules changes with one size or cost, as a chart and a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labtui.cli import schedule_report as report
from labtui.theory.pipeline import words
from labtui.theory.pipeline.order import OrderError

if TYPE_CHECKING:
    from labtui.theory.pipeline.timeline import Timeline

WHOLE = ("p", "m", "v")
NAMES = (*WHOLE, "comm", "memory-limit")
"""What can be swept: the options of these names."""
LABELS = {"p": "devices (p)", "m": "micro-batches (m)", "v": "stages per device (v)", "comm": "cost of a transfer",
          "memory-limit": "memory limit"}  # fmt: skip
POINTS = 61
"""At most so many values where no step is given."""
SHOWN = 8
"""Columns of the table."""
HEIGHT = 20


class SweepError(ValueError):
    """What was asked for can't be swept. The message is one sentence."""


def parse(text: str) -> tuple[str, list[float]]:
    """`m=4..64`, with a step `m=4..64:4`, or `m=4,8,16` -> the name and the values. Raises SweepError."""
    name, equals, rest = text.partition("=")
    if not equals or name not in NAMES:
        raise SweepError(f"--sweep {text} isn't understood: write as in m=4..64, with {', '.join(NAMES)} before the =")
    whole = name in WHOLE
    try:
        low, dots, high = rest.partition("..")
        if not dots:
            values = [_number(part, whole) for part in rest.split(",")]
        else:
            high, colon, step = high.partition(":")
            values = _range(_number(low, whole), _number(high, whole), _number(step, whole) if colon else None, whole)
    except ValueError:
        kind = "whole numbers" if whole else "numbers"
        raise SweepError(f"--sweep {text} isn't understood: {kind} as in {name}=4..64 or {name}=4,8,16") from None
    if not values:
        raise SweepError(f"--sweep {text} holds no value: the first is above the last")
    return name, values


def _number(text: str, whole: bool) -> float:
    value = int(text) if whole else float(text)
    if abs(value) > 1e9 or value != value:
        raise ValueError(text)
    return value


def _range(low: float, high: float, step: float | None, whole: bool) -> list[float]:
    if step is None:
        step = max(1, -(-(high - low) // (POINTS - 1))) if whole else _round_step((high - low) / 25)
    if step <= 0 or (high - low) / step > 10_000:
        raise ValueError(step)
    return [low + number * step for number in range(int((high - low) / step + 1e-9) + 1)] if low <= high else []


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, ... or tenths of them that is not below `least`, so that values are round."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * (1 - 1e-9))


@dataclass
class Line:
    """One schedule over the values."""

    name: str
    points: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    refused: list[tuple[float, str]] = field(default_factory=list)


def run(names: Sequence[str], values: Sequence[float], simulated: Callable[[str, float], Timeline]) -> list[Line]:
    """Each schedule at each value. Raises SweepError where a schedule can be made at none of them."""
    lines = []
    for name in names:
        line = Line(name)
        for value in values:
            try:
                timeline = simulated(name, value)
            except OrderError as error:
                line.refused.append((value, str(error)))
                continue
            line.points.append((value, _figures(timeline)))
        if not line.points:
            raise SweepError(f"{name} can't be made at any of these values: {line.refused[0][1]}")
        lines.append(line)
    return lines


def _figures(timeline: Timeline) -> dict[str, Any]:
    return {
        "total": timeline.total,
        "bubble": timeline.bubble,
        "bubble_over_ideal": timeline.bubble_over_ideal,
        "peak_in_flight": max(timeline.peak_in_flight),
        "peak_memory": max(timeline.peak_memory),
    }


def document(variable: str, values: Sequence[float], lines: Sequence[Line]) -> dict[str, Any]:
    """What --json prints; peaks are those of the device that holds most."""
    return {
        "sweep": variable,
        "values": list(values),
        "schedules": [
            {
                "schedule": line.name,
                "points": [{variable: value, **figures} for value, figures in line.points],
                "left_out": [{variable: value, "reason": reason} for value, reason in line.refused],
            }
            for line in lines
        ],
    }


def text(variable: str, values: Sequence[float], lines: Sequence[Line], *, ascii: bool) -> list[str]:
    """The chart of the bubble, a table of some of the values, and what was left out."""
    from labtui import charts

    series = [
        charts.Series(line.name, tuple((value, 100 * figures["bubble"]) for value, figures in line.points))
        for line in lines
    ]
    low = min(values)
    scale = charts.LOG2 if variable in WHOLE and low > 0 and max(values) / low >= 8 else charts.LINEAR
    drawn = charts.text(
        series, width=report.WIDTH, height=HEIGHT, x_label=LABELS[variable], y_label="bubble, % of the total",
        x_scale=scale, ascii=ascii,
    )  # fmt: skip
    shown = _some(values)
    header = [variable, *(words.number(value) for value in shown)]
    rows = []
    for line in lines:
        found = dict(line.points)
        rows.append([line.name, *(words.percent(found[value]["bubble"]) if value in found else "-" for value in shown)])
    told = [*drawn.splitlines(), "", *report.right_aligned(header, rows)]
    for line in lines:
        if line.refused:
            number, reason = words.number(line.refused[0][0]), line.refused[0][1].rstrip(".")
            told += report.wrapped(
                f"{line.name}: {len(line.refused)} of {len(values)} values left out ({variable}={number}: {reason})."
            )
    return told


def _some(values: Sequence[float]) -> list[float]:
    """At most SHOWN of them, evenly, the first and the last too."""
    if len(values) <= SHOWN:
        return list(values)
    return [values[round(place * (len(values) - 1) / (SHOWN - 1))] for place in range(SHOWN)]
