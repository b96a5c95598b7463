"""What a step's time means: tokens a second, FLOP/s, and which share of the device's peak that is.

Call on rank 0 only. Names, labels and units are those by which runs of different experiments are compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from labtui.bench import report
from labtui.bench.gpt import Gpt
from labtui.bench.peak import Peak
from labtui.theory import flops, models
from labtui.theory.models import GptShape


def report_flops(model: Gpt, device: torch.device) -> None:
    """Holds the count of `theory.flops` against torch's own for one sequence, forward and backward.

    What torch should find differs from what the model needs: a fused attention computes its scores twice, and on the
    CPU torch doesn't see attention at all.
    """
    shape = model.shape
    tokens = torch.zeros(1, shape.context, dtype=torch.int64, device=device)
    with FlopCounterMode(display=False) as counter:
        model(tokens, tokens).backward()
    model.zero_grad()
    needed = flops.training(shape, 1)
    twice = shape.layers * flops.layer_forward(shape, 1).scores
    missed = flops.missed_by_torch_on_cpu(shape, 1) if device.type == "cpu" else 0.0
    why = f"torch misses {missed / (needed + twice):.1%} of the work, attention" if missed else ""
    report.prediction(
        "FLOPs of one sequence, as torch counts", needed + twice - missed, counter.get_total_flops(), why=why
    )
    report.result("flops", needed, "FLOP", count="exact")
    report.result("flops", flops.six_nd(models.parameters(shape), shape.context), "FLOP", count="6ND")


def report_steps(shape: GptShape, sequences: int, ranks: int, seconds: Sequence[float], peak: Peak) -> float:
    """Reports steps in which each of `ranks` ranks trains on `sequences` sequences; returns tokens per second.

    `seconds` are of the slowest rank of each step. Results: `step_time` (ms; `stat` median and p95), `tokens_per_s` of
    all ranks together, and of one rank `tflops` and `mfu` (null where no peak is known), by `count`: "exact" or "6ND".
    """
    median, tokens = statistics.median(seconds), sequences * shape.context
    report.result("step_time", median * 1e3, "ms", stat="median")
    report.result("step_time", percentile_95(seconds) * 1e3, "ms", stat="p95")
    report.result("tokens_per_s", ranks * tokens / median, "tokens/s")
    counts = {
        "exact": flops.training(shape, sequences),
        "6ND": flops.six_nd(models.parameters(shape), tokens),
    }
    for count, operations in counts.items():
        achieved = operations / median
        report.result("tflops", achieved / 1e12, "TFLOP/s", count=count)
        share = None if peak.tflops is None else flops.utilization(achieved, peak.tflops)
        report.result("mfu", share, "", count=count)
    report.note(f"mfu: of {peak.words}" if peak.tflops is not None else f"mfu is unknown: {peak.words}")
    return ranks * tokens / median


def percentile_95(values: Sequence[float]) -> float:
    """The value that 95 % of them don't exceed (nearest rank): with fewer than 20 values that is the largest."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]
