"""`labtui memory`: what a training takes. So far its arithmetic: FLOPs by 6ND, and GPU-hours."""

from __future__ import annotations

import argparse
from typing import Any

from labtui.cli import output
from labtui.theory import flops, hardware, models


class TrainingError(ValueError):
    """What was asked for can't be computed. The message is one sentence."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--params", type=float, metavar="N", help="parameters that a token passes through, as in 7e9")
    model.add_argument("--model", metavar="NAME", choices=tuple(models.SIZES), help=", ".join(models.SIZES))
    parser.add_argument("--tokens", type=float, metavar="D", required=True, help="tokens of the training, as in 2e12")
    peak = parser.add_mutually_exclusive_group()
    peak.add_argument("--gpu", metavar="NAME", help="a GPU whose peak is known, such as 'H100 SXM'")
    peak.add_argument("--peak-tflops", type=float, metavar="T", help="the peak of one GPU, in 1e12 FLOP/s")
    parser.add_argument("--mfu", type=float, metavar="X", help="the share of the peak that is used, such as 0.4")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="how many work at once (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def main(arguments: argparse.Namespace) -> int:
    document = training(arguments)
    if arguments.json:
        output.print_json(document)
    else:
        output.print_lines(_lines(document))
    return 0


def training(arguments: argparse.Namespace) -> dict[str, Any]:
    """Parameters, FLOPs and, where peak and MFU are given, GPU-hours and days. Raises TrainingError."""
    parameters = arguments.params
    if arguments.model is not None:
        parameters = float(models.parameters(models.size(arguments.model)))
    for name, value in (("--params", parameters), ("--tokens", arguments.tokens), ("--gpus", arguments.gpus)):
        if not 0 < value < float("inf"):
            raise TrainingError(f"{name} is {value:g}, a number above 0 expected")
    document: dict[str, Any] = {
        "parameters_count": parameters,
        "tokens": arguments.tokens,
        "flops_6nd": flops.six_nd(parameters, arguments.tokens),
        "gpus": arguments.gpus,
    }
    peak, source = _peak(arguments)
    if (peak is None) != (arguments.mfu is None):
        raise TrainingError("GPU-hours need both a peak (--gpu or --peak-tflops) and --mfu")
    if peak is not None and arguments.mfu is not None:
        try:
            hours = flops.gpu_hours(document["flops_6nd"], peak, arguments.mfu)
        except ValueError as error:
            raise TrainingError(str(error)) from None
        document |= {
            "peak_tflops": peak,
            "peak_source": source,
            "mfu": arguments.mfu,
            "gpu_hours": hours,
            "days": hours / arguments.gpus / 24,
        }
    return document


def _peak(arguments: argparse.Namespace) -> tuple[float | None, str | None]:
    if arguments.gpu is None:
        return arguments.peak_tflops, None
    model = hardware.gpu_model(arguments.gpu)
    if model is None:
        known = ", ".join(gpu.name for gpu in hardware.GPUS)
        raise TrainingError(f"no GPU {arguments.gpu!r} in the table: {known}; or give --peak-tflops")
    return model.bf16_tflops, f"{model.name}, dense bf16: {model.source}"


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [
        f"parameters   {document['parameters_count']:.4g}",
        f"tokens       {document['tokens']:.4g}",
        f"FLOPs        {document['flops_6nd']:.4g}   (6 N D: attention's scores are left out)",
    ]
    if "gpu_hours" in document:
        source = f"   ({document['peak_source']})" if document["peak_source"] else ""
        many = "1 GPU" if document["gpus"] == 1 else f"{document['gpus']:,} GPUs"
        lines += [
            f"peak         {document['peak_tflops']:g} TFLOP/s{source}",
            f"GPU-hours    {document['gpu_hours']:,.4g}   (at an MFU of {document['mfu']:g})",
            f"time         {document['days']:,.4g} days on {many}",
        ]
    return lines
