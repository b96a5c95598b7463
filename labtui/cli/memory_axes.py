"""What each axis of parallelism cuts and sends, with figures. Part of `labtui memory`."""

from __future__ import annotations

from typing import Any

from labtui.cli.memory import GB, Request, TrainingError
from labtui.cli.memory_table import NAMES, chosen
from labtui.theory.memory.axes import axes


def answer(asked: Request) -> tuple[dict[str, Any], list[str]]:
    """The document, and its lines for people. Raises TrainingError, ValueError."""
    training = asked.training
    if training.shape is None or training.sequence is None or training.micro_batch is None:
        raise TrainingError("--axes needs a model with a shape (--model, or --layers, ...), --seq and --micro-batch")
    zero, layout = chosen(asked), training.layout
    found = axes(training, zero)
    document = {
        "parameters_count": training.parameters,
        "model": asked.model,
        "zero": zero,
        "sequence": training.sequence,
        "micro_batch": training.micro_batch,
        "micro_batches": layout.steps_micro_batches,
        "axes": [
            {
                "axis": axis.name,
                "ranks": axis.ranks,
                "cuts": axis.cuts,
                "sends": axis.sends,
                "collective": axis.collective,
                "when": axis.when,
                "times_per_step": axis.times,
                "bytes_each": axis.bytes_each,
                "bytes_per_step": axis.bytes_per_step,
            }
            for axis in found
        ],
    }
    rows = [("axis", "ranks", "cuts", "sends", "times", "GB/step")]
    for axis in found:
        figures = (f"{axis.times:,}", _gb(axis.bytes_per_step))
        rows.append((axis.name, f"{axis.ranks:,}", axis.cuts, axis.sends, *figures))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    right = (1, 4, 5)
    table = [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    name = f"{asked.model}, " if asked.model else ""
    batches = layout.steps_micro_batches
    lines = [
        f"{name}{NAMES[zero]}; a step of {batches} micro-batch{'' if batches == 1 else 'es'}"
        f" of {training.micro_batch} x {training.sequence:,} tokens",
        "what the busiest GPU sends in one step (GB is 1e9 bytes):",
        "",
        *table,
        "",
    ]
    lines += [f"{axis.name:<8}  {axis.collective}: {axis.when}" for axis in found]
    return document, lines


def _gb(size: float) -> str:
    gb = size / GB
    return f"{gb:,.0f}" if gb >= 100 else f"{gb:.3g}"
