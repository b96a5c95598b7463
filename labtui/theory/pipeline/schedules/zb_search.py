"""ZB-1p and ZB-2p: the best zero-bubble order that a search finds under a limit of memory, for the costs at hand.

Qi et al. 2023 (arXiv 2401.10241), section 3. Besides ZB-H1 and ZB-H2, orders are built in rounds (`zb_lockstep`, which
holds the choices of the paper's heuristic) and in the order of time (`zb_chronological`), by several rules each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Order, OrderError
from labtui.theory.pipeline.schedules.maker import Maker
from labtui.theory.pipeline.schedules.merit import Merit, merit
from labtui.theory.pipeline.schedules.zb_chronological import Policy, chronological
from labtui.theory.pipeline.schedules.zb_lockstep import lockstep, warm_up
from labtui.theory.pipeline.schedules.zb_work import NOISE, Hopeless, Kinds, Work, work_of
from labtui.theory.pipeline.schedules.zero_bubble import from_kinds, h1_kinds, h2_kinds
from labtui.theory.pipeline.simulate import simulate

UNTIL_W = 32 / 74
"""Zero Bubble's M_W in units of its M_B: 32 sbh of (34 + 5as/h) sbh (table 1), for heads of size 128 and sequences of
1024 as in three of its four models; the fourth has less."""
PLACEMENTS = 1_200_000
"""Operations placed in all tries together, about 2 s at most; MUST_TRY ways are tried even if it takes more."""
MUST_TRY = 4

POLICIES = (
    Policy("distance", 0.5, 0),
    Policy("share", 1, 0),
    Policy("memory", 1, 1),
    Policy("loose", 1, 0),
    Policy("distance", 0, 0),
    Policy("memory", 0.5, 0),
    Policy("odd", 0, 0),
    Policy("odd", 0.5, 1),
)
GAPS = (1, 0, 0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875, 0.1875, 0.4375, 0.9375)


Build = Callable[[float], tuple[Kinds, float, float]]
"""Called with the span beyond which it may give up: the kinds by stage, their longest span and total."""


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    order: Order
    span: float
    """The longest span of a device, from its first action to the end of its last."""
    total: float
    least: float
    """No order with the micro-batches in a row has a shorter longest span, see `Work.least`."""
    way: str
    """How it was built."""
    tries: int


def zb_1p(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """The best found with the memory of 1F1B: p micro-batches, or the limit given. See `search` for how they count."""
    return _limited("zb-1p", devices, microbatches, costs, memory_limit, devices)


def zb_2p(devices: int, microbatches: int, virtual: int, costs: Costs, memory_limit: float | None) -> Order:
    """The best found with twice the memory of 1F1B: 2p micro-batches, or the limit given."""
    return _limited("zb-2p", devices, microbatches, costs, memory_limit, 2 * devices)


def _limited(name: str, devices: int, microbatches: int, costs: Costs, given: float | None, default: float) -> Order:
    """The schedule's own limit counts as in the paper; one that is given, as `peak_memory` by default: 1 until W."""
    if given is None:
        return search(name, devices, microbatches, costs, default, UNTIL_W).order
    return search(name, devices, microbatches, costs, given, 1.0).order


def search(name: str, devices: int, microbatches: int, costs: Costs, limit: float, until_w: float = UNTIL_W) -> Found:
    """The order with the shortest longest span that was found.

    `limit` is what a device may hold at most, in micro-batches: each counts 1 from its F to its I and `until_w` from
    there to its W (0 to 1). Raises OrderError where the limit is below 1: that is needed for one micro-batch at a time.
    """
    if limit < 1:
        raise OrderError(f"{name} needs a memory limit of at least 1 micro-batch on each device, not {limit:g}.")
    if not 0 <= until_w <= 1:
        raise ValueError(f"what stays of a micro-batch until W is a share from 0 to 1 of it, not {until_w:g}.")
    limit = min(limit, devices * microbatches)  # No device ever holds more, and rules take shares of it.
    work = work_of(devices, microbatches, costs, limit, until_w)
    size = 3 * devices * microbatches
    best: tuple[Merit, Kinds, str] | None = None
    tries = 0
    for way, build in _ways(work, costs):
        tries += 1
        try:
            kinds, span, total = build(best[0][0] * (1 + NOISE) if best else inf)
        except Hopeless:
            pass
        else:
            found = merit(span, total)
            if best is None or found < best[0]:
                best = found, kinds, way
        if best and best[0][0] <= work.least * (1 + NOISE):
            break
        if tries >= MUST_TRY and (tries + 1) * size > PLACEMENTS:
            break
    assert best is not None
    (span, total), kinds, way = best
    return Found(from_kinds(name, kinds), span, total, work.least, way, tries)


def _ways(work: Work, costs: Costs) -> Iterator[tuple[str, Build]]:
    """Ways to build an order, the more promising ones first."""
    for by_hand, kinds in (("zb-h1", h1_kinds), ("zb-h2", h2_kinds)):
        row = kinds(work.stages, work.microbatches)
        if work.fits(row):
            yield by_hand, partial(_timed, row, costs)
    # Rounds are for stages that are alike and memory for a micro-batch per stage: elsewhere they come second.
    first = 1 if costs.equal and work.limit >= work.stages else 4
    for policy in POLICIES[:first]:
        yield policy.spoken, partial(chronological, work, policy)
    seen = set()
    for gap in GAPS:
        counts = warm_up(work, gap)
        if counts in seen:
            continue
        seen.add(counts)
        for hold in (False, True):
            for fill in (False, True):
                yield f"in rounds: gap {gap:g}, hold {hold}, fill {fill}", partial(lockstep, work, counts, hold, fill)
    for policy in POLICIES[first:]:
        yield policy.spoken, partial(chronological, work, policy)


def _timed(kinds: Kinds, costs: Costs, give_up: float) -> tuple[Kinds, float, float]:
    timeline = simulate(from_kinds("", kinds), costs)
    return kinds, max(timeline.spans), timeline.total


MAKERS = {
    "zb-1p": Maker(
        zb_1p, "searched for these costs with the memory of 1F1B, or --memory-limit", pieces=3, limited=True
    ),
    "zb-2p": Maker(zb_2p, "searched for these costs with twice that memory, or --memory-limit", pieces=3, limited=True),
}
