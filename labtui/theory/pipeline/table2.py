"""DeepSeek-V3's comparison of schedules (arXiv 2412.19437 table 2), for any number of stages and any costs.

Its PP is the number of pipeline stages, its B the whole backward, its F&B an overlapped pair; activations are in
micro-batches of one stage. The row of DualPipeV is of the DualPipe README (deepseek-ai/DualPipe at 3da1bbea): the same
PP stages on half of the devices. Beside each formula the simulation can stand, since a formula holds for costs and
sizes for which its schedule was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.formulas import compare
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate


@dataclass(frozen=True)
class Row:
    """One schedule of the table."""

    schedule: str
    """As printed."""
    name: str
    """labtui's schedule that stands for it: ZB1P's bubble is that of Zero Bubble's hand-made ZB-H1."""
    devices: int
    formula: str
    bubble: float | None
    """Idle time of a device by the formula, in the unit of the costs; None where there is none (DualPipe, odd PP)."""
    parameters: int
    """Copies of a stage's parameters that a device holds."""
    activations: int | None
    simulated: float | None = None
    """Idle time of the device that idles most, simulated; None where it was not, or can't be."""
    held: int | None = None
    """Activations that a device holds at most, simulated."""
    why: str = ""
    """Why there is no simulation, or why it differs from the formula; empty where it doesn't."""


def table2(stages: int, costs: Costs) -> tuple[Row, ...]:
    """The rows 1F1B, ZB1P, DualPipe and DualPipeV for PP = `stages`. OrderError where there is no such pipeline."""
    p, c = stages, costs
    if p < 1:
        raise OrderError(f"a pipeline has at least 1 stage, not {p}")
    even = p % 2 == 0
    both_ways = (p / 2 - 1) * (c.pair + c.backward - 3 * c.weight) if even else None
    held = p + 1 if even else None
    bidirectional = "(PP/2-1)(F&B+B-3W)"
    rows = (
        Row("1F1B", "1f1b", p, "(PP-1)(F+B)", (p - 1) * (c.forward + c.backward), 1, p),
        Row("ZB1P", "zb-h1", p, "(PP-1)(F+B-2W)", (p - 1) * (c.forward + c.backward - 2 * c.weight), 1, p),
        Row("DualPipe", "dualpipe", p, bidirectional, both_ways, 2, held),
        Row("DualPipeV", "dualpipev", p // 2, bidirectional, both_ways, 2, held),
    )
    uneven = f"PP is even for it, not {p}"
    return rows if even else (*rows[:2], *(replace(row, why=uneven) for row in rows[2:]))


def simulated(row: Row, microbatches: int, costs: Costs) -> Row:
    """The row with the simulation beside its formula; `why` where there is none or they differ.

    Costs are those of one stage, of which DualPipeV has two on a device.
    """
    if row.bubble is None:
        return row
    try:
        order = build(row.name, row.devices, microbatches, costs=costs)
    except OrderError as error:
        return replace(row, why=str(error))
    timeline = simulate(order, costs)
    idle, held = max(timeline.idle), max(timeline.peak_in_flight)
    found = replace(row, simulated=idle, held=held)
    if abs(idle - row.bubble) <= 1e-9 * max(1.0, timeline.total) and held == row.activations:
        return found
    beside = compare(row.name, timeline, order.stages // row.devices)
    reasons = list(beside.why) if beside else []
    if held != row.activations:
        reasons.append(f"with {microbatches} micro-batches a device holds {held} at most, not {row.activations}")
    return replace(found, why="; ".join(reasons))


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("schedule", lambda row: row.schedule),
    ("devices", lambda row: str(row.devices)),
    ("bubble's formula", lambda row: row.formula),
    ("bubble", lambda row: _number(row.bubble)),
    ("simulated", lambda row: _number(row.simulated)),
    ("weights", lambda row: f"{row.parameters}x"),
    ("activations", lambda row: _number(row.activations)),
)
"""Heads and cells."""


def lines(rows: Sequence[Row]) -> list[str]:
    """The table as text, ASCII, at most 80 columns for usual numbers; a line below for each row that has a `why`."""
    cells = [[head for head, _ in COLUMNS]] + [[cell(row) for _, cell in COLUMNS] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
    text = []
    for row in cells:
        put = [
            cell.ljust(width) if column in (0, 2) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))  # noqa: B905 - Python 3.9
        ]
        text.append("  ".join(put).rstrip())
    return text + [f"{row.schedule}: {row.why}" for row in rows if row.why]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
