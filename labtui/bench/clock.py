"""How long operations take: one run again and again without a pause, as nccl-tests does it, or several in turn.

On a GPU the clock is its own: CUDA events between the runs, so that queueing by Python is seen only where it is what
holds things up. On the CPU it is the monotonic clock. Ranks begin together, and a collective keeps them together.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist

from labtui.bench import race, timing
from labtui.bench.group import Group

FEWEST, MOST = 3, 1000
"""Runs that are timed, whatever the budget."""
WARM_UP = 2


@dataclass(frozen=True)
class Times:
    """Times of one operation, in seconds. An operation is over when its slowest rank is through."""

    median: float
    """The slowest rank's, as are the next two."""
    least: float
    p95: float
    slowest_rank: int
    """Whose median is largest."""
    fastest: float
    """The smallest of all ranks' medians."""
    runs: int


def measure(group: Group, operation: Callable[[], object], budget_s: float) -> Times:
    """Times as many runs as the budget allows, after a warm-up; returns the same on every rank. A collective."""
    took = [timing.timed(operation, group.device)[0] for _ in range(WARM_UP)]
    once = group.largest(took[-1])
    runs = min(MOST, max(FEWEST, math.ceil(budget_s / once) if once > 0 else MOST))
    dist.barrier()
    seconds = _on_the_gpu(operation, runs) if group.device.type == "cuda" else _on_the_cpu(operation, runs)
    twentieths = statistics.quantiles(seconds, n=20, method="inclusive")
    mine = torch.tensor(
        [statistics.median(seconds), min(seconds), twentieths[-1]], dtype=torch.float64, device=group.device
    )
    gathered = [torch.empty_like(mine) for _ in range(group.world_size)]
    dist.all_gather(gathered, mine)
    everyones = [tensor.tolist() for tensor in gathered]
    medians = [median for median, _, _ in everyones]
    slowest = max(range(group.world_size), key=lambda rank: medians[rank])
    median, least, p95 = everyones[slowest]
    return Times(median, least, p95, slowest, min(medians), runs)


def alternate(
    group: Group, steps: Mapping[str, Callable[[], object]], budget_s: float, most: int = 100
) -> dict[str, list[float]]:
    """Times several ways in turn, so that what disturbs the machine meets all of them; seconds by way and round.

    At least 5 rounds, and as many as the budget allows. Each step begins on all ranks together and is over when all
    are through, so its time is the slowest rank's. A collective; the same on every rank.
    """
    for _ in range(2):  # the first finds cold memory
        (once,) = race.alternating(steps, 1, group.device)
    took = group.largest(sum(seconds for seconds, _ in once.values()))
    rounds = min(most, max(5, round(budget_s / took) if took > 0 else most))
    outcomes = list(race.alternating(steps, rounds, group.device))
    return {way: timing.slowest([outcome[way][0] for outcome in outcomes], group.device) for way in steps}


def _on_the_cpu(operation: Callable[[], object], runs: int) -> list[float]:
    marks = [time.perf_counter()]
    for _ in range(runs):
        operation()
        marks.append(time.perf_counter())
    return [end - start for start, end in pairwise(marks)]


def _on_the_gpu(operation: Callable[[], object], runs: int) -> list[float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        operation()
        mark.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in pairwise(marks)]
