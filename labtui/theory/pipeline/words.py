"""What is said of a simulated schedule, in words: pieces of sentences that the command line and the terminal UI share.

Knows no terminal and no widths.
"""

from __future__ import annotations

from labtui.theory.pipeline import formulas, gantt
from labtui.theory.pipeline.critical import CriticalPath, Wait
from labtui.theory.pipeline.order import Order
from labtui.theory.pipeline.timeline import Timeline

HELD = (
    "in flight: most activations held, in (micro-batch, stage) pieces; memory: the same in units of a device's whole "
    "share of one micro-batch."
)


def number(value: float) -> str:
    """A time or a size as a person reads it: six digits, no more zeros than needed."""
    return f"{round(value, 9) + 0.0:.6g}"


def percent(share: float) -> str:
    """`27.3 %`."""
    return f"{100 * share:.1f} %"


def counted(count: int, one: str) -> str:
    """`1 operation`, `22 operations`."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def has_several(order: Order) -> bool:
    """Whether a device has more than one stage."""
    return any(len(gantt.stages_of(order, device)) > 1 for device in range(len(order.devices)))


def both_ends(order: Order) -> str:
    """A sentence on which micro-batches enter where; for orders with two ways through the model."""
    ways, last = order.route_of, len(order.devices) - 1
    numbers = [number for number, way in enumerate(ways) if way == 0]
    if numbers != list(range(len(numbers))) or len(numbers) == len(ways):
        return "Micro-batches enter at both ends."
    half = len(numbers)
    return f"Micro-batches 0-{half - 1} enter at GPU0, {half}-{len(ways) - 1} at GPU{last}."


# The formula beside the simulation ----------------------------------------------------------------------------------


def compared(name: str, timeline: Timeline) -> formulas.Comparison | None:
    """The published formula of the schedule beside the simulation; None where there is none."""
    one_way = len(timeline.order.routes) == 1
    return formulas.compare(name, timeline, len(gantt.stages_of(timeline.order, 0)) if one_way else 1)


def formula(said: formulas.Comparison) -> list[str]:
    """What the formula says of idle time and of memory, whether the simulation agrees or why it doesn't, its source."""
    what = "longest span" if said.formula.by_span else "total"
    idle = f"idle {said.formula.bubble}, {what} {number(said.expected)}"
    if said.why:
        idle += f", but simulated {number(said.simulated)}: {'; '.join(said.why)}"
    else:
        idle += _beside(said.expected, said.simulated)
    memory = f"memory {said.formula.memory}, here {number(said.expected_peak)}"
    return [idle, memory + _beside(said.expected_peak, said.simulated_peak), f"({said.formula.source})"]


def _beside(expected: float, simulated: float) -> str:
    same = abs(expected - simulated) <= 1e-9 * max(abs(simulated), 1.0)
    return ": as simulated" if same else f"; simulated {number(simulated)}"


# Waiting ------------------------------------------------------------------------------------------------------------


def path(found: CriticalPath, devices: int) -> str:
    """`22 operations, 16 transfers between devices (hops)`."""
    steps = counted(len(found.steps), "operation")
    if devices == 1:
        return f"{steps}, all on one device"
    return f"{steps}, {counted(found.hops, 'transfer')} between devices (hops)"


def wait(found: Wait | None, end: float, total: float) -> str:
    """The first thing that a device waited for; `end` is that of its last action."""
    if found is None:
        return "never" + (f", and is done at {number(end)}" if end < total else "")
    sender = "" if found.source == found.device else f" from GPU{found.source}"
    return f"{number(found.start)} to {number(found.end)} for {found.need.kind}{found.need.microbatch}{sender}"
