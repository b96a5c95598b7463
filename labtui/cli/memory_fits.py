"""Which models fit on a machine's GPUs under which ZeRO stage. Part of `labtui memory`."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from typing import Any

from labtui.cli import output
from labtui.cli.memory import GB, GIB, TrainingError, gpu_memory_of, layout
from labtui.cli.memory_table import NAMES
from labtui.runs.clean import clean_line

ROWS = ("gpt2-xl", "llama-7b", "llama-13b", "llama-30b", "llama-70b", "gpt3-175b", "llama3-405b", "deepseek-v3")
"""From 1.6 to 671 billion parameters."""


@dataclass(frozen=True)
class Machine:
    """GPUs as far as this table needs them."""

    gpus: int
    memory: float
    """Bytes of the smallest one."""
    words: str


def answer(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """The document, and its lines for people. Raises TrainingError where no GPU is there or named."""
    from labtui.theory import known_models, memory
    from labtui.theory.memory.fits import gpus_needed
    from labtui.theory.memory.rank import Training, on_rank

    machine = _machine(arguments)
    names = ROWS if arguments.model is None else (arguments.model,)
    if (arguments.seq is None) != (arguments.micro_batch is None):
        raise TrainingError("activations need both --seq and --micro-batch")
    spread = layout(argparse.Namespace(**{**vars(arguments), "gpus": machine.gpus}))
    recipe = memory.recipe(arguments.precision, arguments.optimizer)
    rows = []
    for name in names:
        shape = known_models.known(name).shape
        parameters = known_models.parameters(shape)
        training = Training(
            parameters,
            replace(spread),
            recipe,
            shape,
            arguments.seq,
            arguments.micro_batch,
            arguments.recompute,
            arguments.fused_attention,
            not arguments.no_dropout,
        )
        needed = {zero: on_rank(training, zero).needed for zero in memory.STAGES}
        rows.append(
            {
                "model": name,
                "parameters_count": parameters,
                "needed": needed,
                "fits": {zero: size <= machine.memory for zero, size in needed.items()},
                "gpus_with_zero3": gpus_needed(training, machine.memory),
            }
        )
    document = {"gpus": machine.gpus, "gpu_memory": machine.memory, "machine": machine.words, "rows": rows}
    return document, _lines(arguments, machine, rows)


def _machine(arguments: argparse.Namespace) -> Machine:
    memory, source = gpu_memory_of(arguments)
    if memory is not None:
        gpus = arguments.gpus or (arguments.dp or 1) * (arguments.tp or 1) * (arguments.pp or 1)
        return Machine(gpus, memory, (source or "").partition(":")[0])
    from labtui.machine.gpus import Gpus

    gpus = Gpus.open(os.environ)
    try:
        found = [gpu for gpu in gpus.gpus() if gpu.memory]
        why = gpus.why
    finally:
        gpus.close()
    if not found:
        raise TrainingError(
            f"no GPU is here ({why or 'none tells its memory'}): say what it would be, as in --gpus 8 --gpu-memory 80GB"
        )
    smallest = min(found, key=lambda gpu: gpu.memory or 0)
    kinds = {gpu.name for gpu in found}
    words = clean_line(smallest.name or "a GPU without a name") + (", the smallest here" if len(kinds) > 1 else "")
    return Machine(arguments.gpus or len(found), float(smallest.memory or 0), words)


def _lines(arguments: argparse.Namespace, machine: Machine, rows: list[dict[str, Any]]) -> list[str]:
    header = ["model", "billions", *NAMES.values(), "GPUs by ZeRO-3"]
    table = [header]
    for row in rows:
        cells = [f"{_amount(row['needed'][zero] / GB)}{'*' if row['fits'][zero] else ' '}" for zero in row["needed"]]
        enough = f"{row['gpus_with_zero3']:,}" if row["gpus_with_zero3"] else "-"
        table.append([row["model"], f"{row['parameters_count'] / 1e9:.1f}", *cells, enough])
    widths = [max(len(row[place]) for row in table) for place in range(len(header))]
    many = output.plural(machine.gpus, "GPU")
    what = "with activations" if arguments.seq else "without activations"
    return [
        f"{many} of {machine.memory / GB:.4g} GB = {machine.memory / GIB:.4g} GiB ({machine.words})",
        f"GB (1e9 bytes) on each GPU, {what}; * fits",
        "",
        *(
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ),
    ]


def _amount(gb: float) -> str:
    return f"{gb:,.0f}" if gb >= 100 else f"{gb:.1f}"
