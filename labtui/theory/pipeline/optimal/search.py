"""The best order that a solver finds for given costs and memory, started from the best named schedule."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from labtui.theory.pipeline.optimal import solver
from labtui.theory.pipeline.optimal.bounds import least_total
from labtui.theory.pipeline.optimal.model import Task
from labtui.theory.pipeline.optimal.named import Problem, made_up, starts
from labtui.theory.pipeline.optimal.placement import (
    BOTH_WAYS,
    LOOPED,
    STRAIGHT,
    V_SHAPE,
    Placement,
    placement,
)
from labtui.theory.pipeline.order import Order, OrderError
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.schedules.merit import merit
from labtui.theory.pipeline.timeline import Timeline

LARGEST = 20_000
"""Actions of the largest placement that is given to the solver: more take it minutes to read."""
SAME = 1e-9
"""Relative difference of two totals that is taken for an error of adding floats up."""
SHORTEST = 0.05
"""Seconds below which a run of the solver isn't worth its beginning."""
TIME_LIMIT = 10.0
"""Seconds, unless another limit is asked for."""


@dataclass(frozen=True)
class Progress:
    """How far a search is. Times are in the unit of the costs."""

    seconds: float
    total: float
    """Of the best order so far."""
    bound: float
    """What no order of the searched placements can go below, as far as it is known."""
    doing: str
    """The named schedule that is being made, then the kind of placement that the solver is at."""


@dataclass(frozen=True)
class Searched:
    """What is known of one placement."""

    placement: Placement
    start: str
    """Where the search in it began: a named schedule, "greedy" or "one at a time"."""
    total: float
    """Of the best order known in it."""
    bound: float
    """None of its orders has a smaller total."""
    left_out: str
    """Why the solver didn't search it; "" where it did."""


@dataclass(frozen=True)
class Optimum:
    """The best order found, re-run by the simulator, and how good any could be."""

    order: Order
    timeline: Timeline
    bound: float
    """No order of the searched placements has a smaller total."""
    started_from: str
    """The best order before the search: a named schedule, "greedy" or "one at a time"."""
    start_total: float
    """Its total."""
    named: tuple[str, float] | None
    """The best named schedule under the same limit, and its total with the same work per device; None without one."""
    searched: tuple[Searched, ...]
    """By placement, in the order of the search."""
    stopped: str
    """Why the search ended before it was through: "time", "asked", or "size" where a placement has too many actions for
    the solver. "" where it was through; a gap left then comes from what its model rounds or leaves out (`model`)."""
    seconds: float
    """What the search took."""

    @property
    def gap(self) -> float:
        """(total - bound) / total: how much shorter another order could be at most."""
        total = self.timeline.total
        return max(0.0, (total - self.bound) / total) if total and not self.proven else 0.0

    @property
    def proven(self) -> bool:
        """Whether no order of the searched placements is shorter."""
        return self.timeline.total <= self.bound * (1 + SAME)


KINDS = (STRAIGHT, V_SHAPE, BOTH_WAYS, LOOPED)
"""Placements that are searched; LOOPED where several stages per device are asked for, or the best start is in it."""


@dataclass
class _Open:
    """A placement under search."""

    placement: Placement
    start: str
    best: Timeline
    bound: float
    left_out: str = "there was no time left"
    through: bool = False
    """Whether the solver has ended by itself: it finds nothing better."""


@dataclass
class _Search:
    """The state of one search: the placements, the best order of all, the clock."""

    problem: Problem
    progress: Callable[[Progress], None]
    stop: Callable[[], bool]
    until: float
    begun: float = field(default_factory=time.monotonic)
    places: list[_Open] = field(default_factory=list)

    @property
    def best(self) -> Timeline:
        return min((each.best for each in self.places), key=lambda timeline: timeline.total)

    def unresolved(self) -> list[_Open]:
        """Placements in which there may be a better order than the best of all."""
        best = self.best.total * (1 - SAME)
        return [each for each in self.places if each.bound < best and not each.through]

    def promising(self) -> list[_Open]:
        """Those of them that the solver can take."""
        return [each for each in self.unresolved() if _actions(each.placement) <= LARGEST]

    def run(self, place: _Open, seconds: float) -> None:
        """The solver on one placement, for so long."""
        problem, best = self.problem, self.best.total
        others = [each.bound for each in self.places if each is not place]

        def watch(total: float | None, bound: float) -> bool:
            found = best if total is None else min(best, total)
            least = min([max(place.bound, bound), found, *others])
            self.progress(Progress(time.monotonic() - self.begun, found, least, place.placement.kind))
            return not self.stop() and max(place.bound, bound) < best * (1 - SAME)

        task = Task(
            place.placement, problem.costs_in(place.placement.per_device), problem.memory_limit, place.best,
            place.bound, min(best, place.best.total), problem.link_busy, problem.until_b, problem.until_w,
        )  # fmt: skip
        outcome = solver.run(task, seconds, watch)
        place.left_out, place.through = "", outcome.finished
        if problem.costs.pair >= (problem.costs.forward + problem.costs.backward) * (1 - SAME):
            place.bound = max(place.bound, outcome.bound)  # else pairs, which the solver leaves out, could go below
        for order in reversed(outcome.orders):
            try:
                timeline = problem.run(order)
            except OrderError:
                continue  # actions that take no time may stand in an order that can't run
            if problem.fits(timeline):
                if timeline.total < place.best.total:
                    place.best = timeline
                return


def solve(
    problem: Problem,
    *,
    kinds: Iterable[str] = KINDS,
    time_limit_s: float = TIME_LIMIT,
    progress: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> Optimum:
    """The best order found in at most about `time_limit_s` seconds, never worse than a named one of these placements.

    Named schedules that keep to the limit are run first, each with the same work per device (`placement`), and are what
    the solver starts from. Then CP-SAT searches one placement after the other, those with the lowest bound first. Each
    order that it finds is run by `simulate`; the totals are the simulator's. `progress` and `stop` are called about 20
    times a second from the caller's thread; once `stop` returns True, the best so far is returned.

    Raises OrderError for sizes that can't be and for a limit below the minimum, ValueError for a time limit of 0 or
    less, SolverMissing without OR-Tools.
    """
    if not time_limit_s > 0:
        raise ValueError(f"a time limit is above 0 seconds, not {time_limit_s:g}")
    solver.cp_sat()
    limit = problem.memory_limit
    build("naive", problem.devices, problem.microbatches, memory_limit=None)  # refuses sizes that can't be
    if limit is not None and not limit > 0:
        raise OrderError(f"a memory limit is above 0 micro-batches, not {limit:g}")
    if limit == math.inf:
        problem = replace(problem, memory_limit=None)
    elif limit is not None and not limit * (1 + SAME) >= problem.until_b:
        raise OrderError(
            f"every device needs memory for at least {problem.until_b:g} micro-batch{'es' * (problem.until_b != 1)}, "
            f"above the limit of {limit:g}"
        )
    search = _Search(problem, progress, stop, time.monotonic() + time_limit_s)
    named = _begin(search, tuple(kinds))
    first = min(search.places, key=lambda each: each.best.total)
    started_from, start_total = first.start, first.best.total
    _rounds(search)
    best = search.best
    return Optimum(
        order=best.order,
        timeline=best,
        bound=min([best.total, *(each.bound for each in search.places)]),
        started_from=started_from,
        start_total=start_total,
        named=named,
        searched=tuple(_told(search, each) for each in search.places),
        stopped=_stopped(search),
        seconds=time.monotonic() - search.begun,
    )


def _begin(search: _Search, kinds: tuple[str, ...]) -> tuple[str, float] | None:
    """Fills the placements with the best order known in each; the best named schedule of all and its total."""
    problem = search.problem
    known: dict[Placement, tuple[str, Timeline]] = {}

    def tell(name: str) -> bool:
        if known:
            total = min(timeline.total for _, timeline in known.values())
            search.progress(Progress(time.monotonic() - search.begun, total, 0.0, name))
        return not search.stop()

    for start in starts(problem, tell):
        before = known.get(start.placement)
        if start.placement.kind in kinds and (before is None or start.timeline.total < before[1].total):
            known[start.placement] = start.name, start.timeline
    wanted = []
    for kind in kinds:
        if kind != LOOPED or problem.virtual > 1:
            made = placement(kind, problem.devices, problem.microbatches, problem.virtual)
            wanted += [made] if made is not None and problem.allows(made.stages) else []
    # Of equals the one that is searched anyway.
    leader = min(known, key=lambda each: (merit(known[each][1].total), each not in wanted)) if known else None
    if leader is not None and leader not in wanted:
        wanted.append(leader)
    if not wanted:
        raise OrderError(f"with these sizes no schedule has its stages placed as asked: {' or '.join(kinds)}")
    for each in wanted:
        costs = problem.costs_in(each.per_device)
        least = least_total(each, costs, problem.memory_limit, problem.until_b, problem.until_w)
        others = made_up(problem, each) if _actions(each) <= LARGEST else []
        if each in known:
            others.insert(0, known[each])
        elif not others:
            others = [("one at a time", problem.run(each.one_at_a_time()))]
        name, timeline = min(others, key=lambda other: other[1].total)
        search.places.append(_Open(each, name, timeline, least))
    search.places.sort(key=lambda each: each.bound)
    return (known[leader][0], known[leader][1].total) if leader is not None else None


def _rounds(search: _Search) -> None:
    """Half of the time for a first look into every placement, the rest for those that are still open."""
    share = 0.5
    while left := search.promising():
        while left and not search.stop():
            # One alone takes it all: the solver begins anew each time.
            seconds = (search.until - time.monotonic()) * (share if len(search.promising()) > 1 else 1.0) / len(left)
            if seconds < SHORTEST:
                return
            search.run(left[0], seconds)
            left = [each for each in search.promising() if each in left[1:]]
        if search.stop():
            return
        share = 1.0


def _stopped(search: _Search) -> str:
    if not search.unresolved():
        return ""
    if search.stop():
        return "asked"
    return "time" if search.promising() else "size"


def _actions(place: Placement) -> int:
    return 3 * place.stages * place.microbatches


def _told(search: _Search, place: _Open) -> Searched:
    left_out = place.left_out
    if left_out:
        if place.bound >= search.best.total * (1 - SAME):
            left_out = "none of its orders can be better"
        elif _actions(place.placement) > LARGEST:
            left_out = f"its {_actions(place.placement):,} actions are more than the {LARGEST:,} given to the solver"
    return Searched(place.placement, place.start, place.best.total, place.bound, left_out)
