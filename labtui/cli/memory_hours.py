"""What a training takes in FLOPs by 6ND and, where peak and MFU are given, in GPU-hours. Part of `labtui memory`."""

from __future__ import annotations

import argparse
from typing import Any

from labtui.cli.memory import Request, TrainingError, gpu_named


def document(arguments: argparse.Namespace, asked: Request) -> dict[str, Any]:
    """Tokens, FLOPs and, where peak and MFU are given, GPU-hours and days. Raises TrainingError."""
    from labtui.theory import flops, known_models

    if arguments.tokens is None:
        raise TrainingError("--mfu says how fast, so --tokens is needed too: how much")
    shape = asked.training.shape
    passed = asked.training.parameters
    if shape is not None and arguments.params is None:
        passed = known_models.parameters(shape, active=True)
    found: dict[str, Any] = {
        "tokens": arguments.tokens,
        "active_parameters": passed,
        "flops_6nd": flops.six_nd(passed, arguments.tokens),
        "gpus": asked.training.layout.gpus,
    }
    peak, source = _peak(arguments)
    if (peak is None) != (arguments.mfu is None):
        raise TrainingError("GPU-hours need both a peak (--gpu or --peak-tflops) and --mfu")
    if peak is not None and arguments.mfu is not None:
        hours = flops.gpu_hours(found["flops_6nd"], peak, arguments.mfu)
        found |= {
            "peak_tflops": peak,
            "peak_source": source,
            "mfu": arguments.mfu,
            "gpu_hours": hours,
            "days": hours / found["gpus"] / 24,
        }
    return found


def _peak(arguments: argparse.Namespace) -> tuple[float | None, str | None]:
    if arguments.gpu is None:
        return arguments.peak_tflops, None
    model = gpu_named(arguments.gpu)
    return model.bf16_tflops, f"{model.name}, dense bf16: {model.source}"


def lines(found: dict[str, Any]) -> list[str]:
    """The same for people."""
    text = [
        f"parameters   {found['active_parameters']:.4g}",
        f"tokens       {found['tokens']:.4g}",
        f"FLOPs        {found['flops_6nd']:.4g}   (6 N D: attention's scores are left out)",
    ]
    if "gpu_hours" in found:
        source = f"   ({found['peak_source']})" if found["peak_source"] else ""
        many = "1 GPU" if found["gpus"] == 1 else f"{found['gpus']:,} GPUs"
        text += [
            f"peak         {found['peak_tflops']:g} TFLOP/s{source}",
            f"GPU-hours    {found['gpu_hours']:,.4g}   (at an MFU of {found['mfu']:g})",
            f"time         {found['days']:,.4g} days on {many}",
        ]
    return text
