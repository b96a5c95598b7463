"""What `labtui simulate --json` prints of a schedule. Its names are a contract; times are in the unit of the costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labtui.theory.pipeline import gantt
from labtui.theory.pipeline.critical import critical_path, first_waits
from labtui.theory.pipeline.words import compared

if TYPE_CHECKING:
    from labtui.theory.pipeline.costs import Costs
    from labtui.theory.pipeline.formulas import Comparison
    from labtui.theory.pipeline.timeline import Op, Timeline


def document(name: str, timeline: Timeline) -> dict[str, Any]:
    """One schedule: sizes, costs, figures, each device's operations in order, the Gantt at its natural scale.

    Lists are by device. `peak_memory` is in units of a device's whole share of one micro-batch.
    """
    order = timeline.order
    path = critical_path(timeline)
    scale = gantt.fit([timeline])
    return {
        "schedule": name,
        "microbatches": order.microbatches,
        "virtual_stages": order.stages,
        "costs": {**costs_document(timeline.costs), "link_busy": timeline.link_busy},
        "total": timeline.total,
        "ideal": timeline.ideal,
        "bubble": timeline.bubble,
        "bubble_over_ideal": timeline.bubble_over_ideal,
        "bubble_of_span": timeline.bubble_of_span,
        "busy": list(timeline.busy),
        "idle": list(timeline.idle),
        "peak_in_flight": list(timeline.peak_in_flight),
        "peak_memory": list(timeline.peak_memory),
        "critical_path": {"operations": len(path.steps), "hops": path.hops},
        "first_waits": [
            None if wait is None else {
                "start": wait.start, "end": wait.end, "from_device": wait.source,
                "for": {"kind": wait.need.kind, "microbatch": wait.need.microbatch, "stage": wait.need.stage},
            }
            for wait in first_waits(timeline)
        ],
        "formula": _formula(compared(name, timeline)),
        "devices": [[_op(op) for op in timeline.ops(device)] for device in range(len(order.devices))],
        "gantt": [row.text for row in gantt.drawn(timeline, scale)],
        "gantt_columns_per_unit": scale.per_unit,
        "gantt_exact": scale.exact,
    }  # fmt: skip


def costs_document(costs: Costs) -> dict[str, Any]:
    """Times of one virtual stage by PyTorch's letters, and the factors of stages and micro-batches ([] are ones)."""
    return {
        "F": costs.forward, "I": costs.input, "W": costs.weight, "B": costs.backward, "FB": costs.pair,
        "comm": costs.comm, "stages": list(costs.stages), "microbatches": list(costs.batches),
    }  # fmt: skip


def _formula(said: Comparison | None) -> dict[str, Any] | None:
    if said is None:
        return None
    return {
        "bubble": said.formula.bubble,
        "of": "longest span" if said.formula.by_span else "total",
        "expected": said.expected,
        "simulated": said.simulated,
        "why": list(said.why),
        "memory": said.formula.memory,
        "expected_memory": said.expected_peak,
        "source": said.formula.source,
    }


def _op(op: Op) -> dict[str, Any]:
    fields = op._asdict()
    if op.pair is None:
        del fields["pair"]
    return fields
