"""`labtui simulate --table2` and `--overlap`: DeepSeek's two tables, computed and checked rather than quoted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from labtui.cli import output, schedule_request
from labtui.cli import schedule_report as report
from labtui.cli.schedule_document import costs_document
from labtui.cli.schedule_request import SimulateError

OVERLAP_NOTE = (
    "One layer of an overlapped pair (the next one's slots follow): the forward of micro-batch B beside the backward "
    "of micro-batch A. Checked: each piece ends before the next one of its pass begins. Source: DeepSeek-V3 "
    "(arXiv 2412.19437) section 3.2.1."
)


def table2(arguments: argparse.Namespace) -> int:
    """DeepSeek-V3's table 2 for any p and costs, with the simulation beside each formula. Raises OrderError."""
    from labtui.theory.pipeline import table2

    _refuse_schedules(arguments, "--table2")
    p = schedule_request.size(arguments.p, schedule_request.DEVICES)
    m = schedule_request.size(arguments.m, max(schedule_request.MICROBATCHES, 2 * p))
    costs = schedule_request.stage_costs(arguments, p, m)
    rows = [table2.simulated(row, m, costs) for row in table2.table2(p, costs)]
    if arguments.json:
        document: dict[str, Any] = {"table2": [asdict(row) for row in rows], "stages": p, "microbatches": m}
        output.print_json(document | {"costs": costs_document(costs)})
        return 0
    told = f"F {costs.forward:g}  B {costs.backward:g}  W {costs.weight:g}  F&B {costs.pair:g}  comm {costs.comm:g}"
    lines = [f"PP {p}   {told}   simulated with {output.plural(m, 'micro-batch', 'micro-batches')}", ""]
    note = (
        "Bubble: idle time of a device; activations: micro-batches of one stage held at most. B is the whole backward. "
        "Source: DeepSeek-V3 (arXiv 2412.19437) table 2; DualPipeV: DualPipe README."
    )
    print("\n".join([*lines, *_narrow(table2.lines(rows)), "", *report.wrapped(note)]))
    return 0


def overlap(arguments: argparse.Namespace) -> int:
    """DualPipe's four slots, drawn once their dependencies are checked. Raises OverlapError where they don't hold."""
    from labtui.theory.pipeline import overlap

    _refuse_schedules(arguments, "--overlap")
    overlap.check()
    if arguments.json:
        slots = [{"computes": slot.computes._asdict(), "travels": slot.travels._asdict()} for slot in overlap.TABLE]
        output.print_json({"overlap": slots, "slots_of_pieces": overlap.hops()})
    else:
        print("\n".join([*_narrow(overlap.lines()), "", *report.wrapped(OVERLAP_NOTE)]))
    return 0


def _narrow(lines: Sequence[str]) -> list[str]:
    """The lines, those that are sentences too long for a terminal of 80 wrapped."""
    return [part for line in lines for part in (report.wrapped(line) if len(line) > report.WIDTH else [line])]


def _refuse_schedules(arguments: argparse.Namespace, option: str) -> None:
    if arguments.schedules or arguments.source is not None:
        raise SimulateError(f"{option} is a table of its own and takes no schedule")
