"""Several ways to train the same model, timed beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import torch
import torch.distributed as dist

from labtui.bench import report, timing
from labtui.bench.group import Group

T = TypeVar("T")


def race(group: Group, steps: Mapping[str, Callable[[], torch.Tensor]], rounds: int, against: str) -> None:
    """Times every way's step once a round and reports, from rank 0, how they compare. A collective.

    A step trains and returns this rank's mean loss, a tensor of one number. Reported by way: the curves `loss` (mean
    over ranks) and `own_step_time` (ms, rank 0's own), then the results `step_time` (ms, slowest rank of each step)
    and its ratio to the way `against`, taken round by round.
    """
    times: dict[str, list[float]] = {way: [] for way in steps}
    for number, outcome in enumerate(alternating(steps, rounds, group.device), 1):
        for way, (seconds, loss) in outcome.items():
            times[way].append(seconds)
            dist.all_reduce(loss)
            if group.rank == 0:
                report.metric("loss", loss / group.world_size, number, way=way)
                report.metric("own_step_time", seconds * 1e3, number, "ms", way=way)
        report.progress(number, rounds)
    slowest = {way: timing.slowest(values, group.device) for way, values in times.items()}
    if group.rank != 0:
        return
    for way, values in slowest.items():
        timing.report_spread("step_time", [value * 1e3 for value in values], "ms", way=way)
        if way != against:
            ratios = [value / other for value, other in zip(values, slowest[against], strict=True)]
            timing.report_spread(f"step_time_over_{against}", ratios, "", way=way)


def alternating(
    steps: Mapping[str, Callable[[], T]], rounds: int, device: torch.device
) -> Iterator[dict[str, tuple[float, T]]]:
    """Each round takes every step once, another one first each time; yields (seconds, returned value) by name.

    What disturbs the machine for a moment then meets all of them, and they can be compared round by round.
    """
    names = list(steps)
    for number in range(rounds):
        turn = number % len(names)
        yield {name: timing.timed(steps[name], device) for name in names[turn:] + names[:turn]}
