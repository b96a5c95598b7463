"""The schedules by name, and `build`, which checks sizes and makes one.

A module per family; each has MAKERS, a table of its own, and this one joins them. They know orders and costs, no times.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Order, OrderError
from labtui.theory.pipeline.peaks import peak_memory
from labtui.theory.pipeline.schedules import (
    dualpipe,
    interleaved,
    interleaved_zb,
    plain,
    v_shape,
    zb_search,
    zero_bubble,
)
from labtui.theory.pipeline.schedules.maker import Maker

SCHEDULES: dict[str, Maker] = {
    **plain.MAKERS,
    **interleaved.MAKERS,
    **zero_bubble.MAKERS,
    **v_shape.MAKERS,
    **zb_search.MAKERS,
    **interleaved_zb.MAKERS,
    **dualpipe.MAKERS,
}
"""All but `optimal`, which a solver finds."""

LARGEST = 5_000_000
"""Operations. More would take minutes and gigabytes; see benchmarks/pipeline.py for both per operation."""
BYTES_PER_OP, SECONDS_PER_OP = 160, 3e-6


def build(
    name: str,
    devices: int,
    microbatches: int,
    virtual: int | None = None,
    costs: Costs | None = None,
    memory_limit: float | None = None,
) -> Order:
    """The order of the schedule `name`; OrderError of one sentence where it can't be made.

    `memory_limit` is in units of one device's whole share of a micro-batch.
    """
    maker = SCHEDULES.get(name)
    if maker is None:
        raise OrderError(f"there is no schedule {name!r}; there are {', '.join(SCHEDULES)}")
    if devices < 1:
        raise OrderError(f"a pipeline has at least 1 device, not p={devices}")
    if microbatches < 1:
        raise OrderError(f"a pipeline needs at least 1 micro-batch, not m={microbatches}")
    if virtual is None:
        virtual = maker.virtual
    elif virtual < 1:
        raise OrderError(f"a device has at least 1 stage, not v={virtual}")
    elif virtual != maker.virtual and not maker.chooses_virtual:
        choosers = ", ".join(other for other, made in SCHEDULES.items() if made.chooses_virtual)
        stages = "1 stage" if maker.virtual == 1 else f"{maker.virtual} stages"
        raise OrderError(f"{name} has {stages} per device, so v={virtual} says nothing to it; {choosers} take a v")
    refuse_large(devices * virtual, microbatches, maker.pieces)
    if memory_limit is not None and not memory_limit > 0:
        raise OrderError(f"a memory limit is above 0 micro-batches, not {memory_limit:g}")
    with _no_collection():
        order = maker.make(devices, microbatches, virtual, costs or Costs(), memory_limit)
    if memory_limit is not None and not maker.limited:
        peaks = peak_memory(order)
        worst = max(peaks)
        if worst > memory_limit * (1 + 1e-12):
            raise OrderError(
                f"{name} holds {worst:g} micro-batches on device {peaks.index(worst)}, "
                f"above the memory limit of {memory_limit:g}"
            )
    return order


def refuse_large(stages: int, microbatches: int, pieces: int) -> None:
    """OrderError where an order has more than LARGEST operations; it says what they would take."""
    operations = stages * microbatches * pieces
    if operations > LARGEST:
        raise OrderError(
            f"{stages} stages and {microbatches} micro-batches are {operations:,} operations, more than {LARGEST:,}: "
            f"they would take about {operations * BYTES_PER_OP / 1e9:.3g} GB and {operations * SECONDS_PER_OP:.3g} s"
        )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's cyclic collector would walk over all actions again and again while they are made, two thirds of the time
    of 100,000; and none of them can be part of a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
