"""Schedules with one stage per device and whole backwards: naive, GPipe, 1F1B."""

from __future__ import annotations

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order
from labtui.theory.pipeline.schedules.maker import Maker


def naive(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """One micro-batch at a time: its backward is through before the next one's forward begins on a device."""
    kinds = ("F", "B") * microbatches
    numbers = [number for number in range(microbatches) for _ in "FB"]
    return _one_each("naive", microbatches, tuple(_actions(kinds, numbers, stage) for stage in range(devices)))


def gpipe(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """All forwards, then all backwards, both in the order of the micro-batches (GPipe, AFAB; arXiv 1811.06965)."""
    kinds = ("F",) * microbatches + ("B",) * microbatches
    numbers = [*range(microbatches), *range(microbatches)]
    return _one_each("gpipe", microbatches, tuple(_actions(kinds, numbers, stage) for stage in range(devices)))


def one_f_one_b(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """p - 1 - stage forwards to warm up, then a forward and a backward in turns, then the backwards that are left.

    PipeDream-flush; Narayanan et al. 2021 (arXiv 2104.04473) section 2.2.1.
    """
    rows = []
    for stage in range(devices):
        warm_up = min(devices - 1 - stage, microbatches)
        steady = microbatches - warm_up
        kinds = ("F",) * warm_up + ("F", "B") * steady + ("B",) * warm_up
        numbers = [0] * (2 * microbatches)
        numbers[:warm_up] = range(warm_up)
        numbers[warm_up : warm_up + 2 * steady : 2] = range(warm_up, microbatches)
        numbers[warm_up + 1 : warm_up + 2 * steady : 2] = range(steady)
        numbers[warm_up + 2 * steady :] = range(steady, microbatches)
        rows.append(_actions(kinds, numbers, stage))
    return _one_each("1f1b", microbatches, tuple(rows))


def _actions(kinds: tuple[str, ...], numbers: list[int], stage: int) -> Actions:
    return tuple(map(Action._make, zip(kinds, numbers, (stage,) * len(kinds))))  # noqa: B905 - Python 3.9


def _one_each(name: str, microbatches: int, rows: tuple[Actions, ...]) -> Order:
    return Order(name, microbatches, (tuple(range(len(rows))),), rows)


MAKERS = {
    "naive": Maker(naive, "one micro-batch at a time"),
    "gpipe": Maker(gpipe, "all forwards, then all backwards"),
    "1f1b": Maker(one_f_one_b, "a forward and a backward in turns after a warm-up"),
}
