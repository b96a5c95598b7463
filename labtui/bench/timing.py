"""Wall time of steps, and how it spreads. Many short measurements and their median, never one long one."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist

from labtui.bench import report

T = TypeVar("T")


@dataclass(frozen=True)
class Spread:
    """Many measurements of one thing, in the unit they came in."""

    median: float
    p10: float
    p90: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Median, and the range that holds the middle 80 %. Raises ValueError without values."""
    if not values:
        raise ValueError("a spread needs at least one measurement")
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return Spread(statistics.median(values), tenths[0], tenths[-1], len(values))


def timed(step: Callable[[], T], device: torch.device) -> tuple[float, T]:
    """Seconds that `step` takes on this rank, begun together with all others, and what it returns. A collective."""
    dist.barrier()
    _synchronize(device)
    start = time.perf_counter()
    value = step()
    _synchronize(device)  # a GPU's work is only queued when Python goes on
    return time.perf_counter() - start, value


def slowest(values: Sequence[float], device: torch.device) -> list[float]:
    """Each measurement as the slowest rank saw it: a step is over when all are. A collective."""
    mine = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    return [float(value) for value in mine.tolist()]


def report_spread(name: str, values: Sequence[float], unit: str, **labels: object) -> Spread:
    """Reports median, p10 and p90 as results with the label `stat`; returns them."""
    found = spread(values)
    for stat in ("median", "p10", "p90"):
        report.result(name, getattr(found, stat), unit, stat=stat, **labels)
    return found


_noted: set[str] = set()


@contextmanager
def pace(seconds: float) -> Iterator[None]:
    """Paced compute: makes the block take `seconds`, for its real work and then asleep.

    Asleep it needs no core. So on a few cores many ranks keep time as if each had one of its own, and what is measured
    shows the schedule and the communication rather than a fight for cores. Numbers won so must be called paced: the
    first use says so in a note, and another note tells if a block's real work took longer than its pace. CPU only: a
    GPU has the block's work still before it.
    """
    _note_once("paced", "compute is paced: each block takes a nominal time, mostly asleep", rank="0")
    start = time.perf_counter()
    yield
    left = seconds - (time.perf_counter() - start)
    if left > 0:
        time.sleep(left)
    else:
        sentence = (
            f"a block paced at {seconds * 1e3:g} ms took {(seconds - left) * 1e3:.3g} ms: its real work is slower"
        )
        _note_once("too slow", sentence)


def _note_once(what: str, sentence: str, rank: str | None = None) -> None:
    if what not in _noted and rank in (None, os.environ.get("RANK", "0")):
        _noted.add(what)
        report.note(sentence)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
