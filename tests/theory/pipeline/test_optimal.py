"""The optimal schedule: its bounds, its starts, and what the solver makes of them (where OR-Tools is installed)."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.optimal import solver
from labtui.theory.pipeline.optimal.bounds import least_total
from labtui.theory.pipeline.optimal.greedy import RULES, greedy
from labtui.theory.pipeline.optimal.grid import Grid, memory
from labtui.theory.pipeline.optimal.named import Problem, starts
from labtui.theory.pipeline.optimal.placement import (
    BOTH_WAYS,
    LOOPED,
    STRAIGHT,
    V_SHAPE,
    Placement,
    of_order,
    placement,
)
from labtui.theory.pipeline.optimal.search import Optimum, Progress, solve
from labtui.theory.pipeline.order import Action, Order, OrderError
from labtui.theory.pipeline.peaks import peak_memory
from labtui.theory.pipeline.simulate import simulate

UNIT = Costs(1, 1, 1)
KINDS = (STRAIGHT, V_SHAPE, BOTH_WAYS, LOOPED)
times = st.sampled_from((0.25, 0.5, 1, 1.3, 2, 3))


def named(problem: Problem, kinds: Sequence[str]) -> list[float]:
    """The totals of the named schedules with stages placed in these ways."""
    found = starts(problem, lambda name: True)
    return [start.timeline.total for start in found if start.placement.kind in kinds]


@pytest.fixture
def needs_solver() -> None:
    pytest.importorskip("ortools")


# Before the solver --------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    p=st.integers(1, 4), m=st.integers(1, 6), v=st.integers(1, 3), f=times, i=times, w=times, b=times, pair=times,
    comm=st.sampled_from((0, 0.25, 2)), until_w=st.sampled_from((0.4, 1, 1.5)),
)  # fmt: skip
def test_no_schedule_is_below_the_bound(
    p: int, m: int, v: int, f: float, i: float, w: float, b: float, pair: float, comm: float, until_w: float
) -> None:
    costs = Costs(f, i, w, b, pair, comm)
    for start in starts(Problem(p, m, costs, v, until_w=until_w), lambda name: True):
        timeline = start.timeline
        limit = max(timeline.peak_memory)
        least = least_total(start.placement, timeline.costs, limit, 1.0, until_w)
        assert least <= timeline.total * (1 + 1e-9), start.name
        assert least_total(start.placement, timeline.costs, None) <= timeline.total * (1 + 1e-9)


def test_bounds_that_schedules_reach() -> None:
    def least(kind: str, limit: float | None, costs: Costs = UNIT) -> float:
        return least_total(placement(kind, 4, 8) or pytest.fail(), costs, limit)

    assert least(STRAIGHT, None) == 27 == simulate(build_of("zb-h1", 4, 8), UNIT).total
    half = Costs(0.5, 0.5, 0.5)
    assert least(V_SHAPE, None, half) == 25.5 == simulate(build_of("zb-v", 4, 8), half).total
    # One at a time: a way there and back and a W, 8 times.
    assert least(STRAIGHT, 1) == 8 * 9 and least(STRAIGHT, 2.9) == 36
    assert least(STRAIGHT, None, Costs(1, 1, 1, comm=0.5)) == 28.5


def build_of(name: str, p: int, m: int) -> Order:
    from labtui.theory.pipeline.schedules import build

    return build(name, p, m)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS), p=st.integers(1, 5), m=st.integers(1, 7), limit=st.sampled_from((None, 1, 1.5, 2, 3)),
    until_w=st.sampled_from((0.4, 1)), split=st.booleans(), rule=st.sampled_from(RULES), comm=st.sampled_from((0, 0.7)),
)  # fmt: skip
def test_greedy_orders_run_and_keep_to_the_limit(
    kind: str, p: int, m: int, limit: float | None, until_w: float, split: bool, rule: Any, comm: float
) -> None:
    place = placement(kind, p, m)
    if place is None:
        return
    order = greedy(place, Costs(1, 1.2, 0.7, comm=comm), limit, 1.0, until_w, split, rule)
    if order is None:
        assert kind == BOTH_WAYS and limit is not None and limit < 2  # room for one of each way
        return
    timeline = simulate(order, until_w=until_w)
    assert limit is None or max(timeline.peak_memory) <= limit * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_one_at_a_time_needs_the_memory_of_one(kind: str) -> None:
    place = placement(kind, 4, 5, 3)
    assert place is not None
    order = place.one_at_a_time()
    assert max(peak_memory(order)) == pytest.approx(1) and of_order(order) == place
    assert kind == BOTH_WAYS or simulate(order).total == 5 * 3 * place.stages


def test_named_schedules_are_compared_with_the_same_work() -> None:
    ideals = {start.name: start.timeline.ideal for start in starts(Problem(4, 8, Costs()), lambda name: True)}
    assert len(ideals) == 16 and set(ideals.values()) == {24}
    twice = {start.name: start.timeline.ideal for start in starts(Problem(4, 8, Costs(), 2), lambda name: True)}
    assert set(twice.values()) == {48}
    # Factors by stage are for one number of stages: only what has so many can be compared.
    slow = Problem(4, 8, Costs(stages=(1, 2, 1, 1)))
    assert {start.placement.stages for start in starts(slow, lambda name: True)} == {4}


def test_times_are_whole_steps_of_the_grid_where_they_can_be() -> None:
    grid = Grid([0.5, 1.1 * 3, 1 / 3])
    assert grid.exact and [grid.steps(value) for value in (0.5, 1.1 * 3, 1 / 3)] == [15, 99, 10]
    assert grid.at_least(2 * 1.1 * 3) == 198 and grid.time(198) == pytest.approx(6.6)
    rough = Grid([math.pi, math.e * 1e-9])
    assert not rough.exact and rough.time(rough.steps(math.pi)) <= math.pi
    assert rough.time(rough.steps(math.pi)) == pytest.approx(math.pi, rel=1e-5)
    assert Grid([0.0, 0.0]).steps(0.0) == 0


def test_memory_in_whole_numbers() -> None:
    assert memory(2.5, 1, 1, 2) == (5, 1, 1)
    assert memory(4, 1, 32 / 74, 1) == (4 * 37, 37, 16)
    assert memory(1 / 3 + 1 / 3, 1, 1, 3) == (2, 1, 1)


# Without it ---------------------------------------------------------------------------------------------------------


def test_without_ortools_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(solver.SolverMissing, match=r"pip install 'labtui\[solver\]', or ortools$"):
        solve(Problem(2, 2, UNIT))


def test_the_solver_is_imported_by_a_search_only() -> None:
    code = (
        "import sys, labtui.theory.pipeline.optimal.search as search; "
        "sys.exit(any(name in sys.modules for name in ('ortools', 'numpy', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The solver ---------------------------------------------------------------------------------------------------------


def checked(problem: Problem, **options: Any) -> Optimum:
    """Solved, and all that must hold of any solution."""
    found = solve(problem, **options)
    again = problem.run(found.order)
    assert again.total == found.timeline.total and found.order.name == found.timeline.order.name
    assert problem.memory_limit is None or max(again.peak_memory) <= problem.memory_limit * (1 + 1e-9)
    assert found.bound <= again.total * (1 + 1e-9) and 0 <= found.gap < 1
    assert found.proven == (found.gap == 0)
    assert found.timeline.total <= min(found.start_total, *named(problem, options.get("kinds", KINDS))) * (1 + 1e-9)
    return found


@pytest.mark.usefixtures("needs_solver")
@pytest.mark.parametrize(("p", "m"), [(2, 3), (3, 4), (4, 6)])
def test_zero_bubble_where_memory_allows(p: int, m: int) -> None:
    found = checked(Problem(p, m, UNIT), kinds=[STRAIGHT])
    # Nothing but the way of the first micro-batch to the last device.
    assert found.proven and found.timeline.total == found.bound == 3 * m + p - 1


@pytest.mark.usefixtures("needs_solver")
@pytest.mark.parametrize(("limit", "total"), [(1, 72), (2, 41), (3, 31), (4, 27)])
def test_less_memory_takes_longer(limit: float, total: float) -> None:
    found = checked(Problem(4, 8, UNIT, memory_limit=limit), kinds=[STRAIGHT])
    assert found.proven and found.timeline.total == total
    if limit == 3:  # where the solver betters every named schedule
        assert found.named == ("zb-1p", 33) and found.searched[0].left_out == ""


def rows(device: int, wholes: tuple[bool, ...]) -> Iterator[tuple[Action, ...]]:
    """All orders of one device with a stage of its own."""
    actions = [
        Action(kind, number, device) for number, whole in enumerate(wholes) for kind in (("F", "B") if whole else "FIW")
    ]
    for row in itertools.permutations(actions):
        places = {action: place for place, action in enumerate(row)}
        if all(
            places[one] < places[other]
            for one, other in itertools.pairwise(actions)
            if one.microbatch == other.microbatch
        ):
            yield row


@pytest.mark.usefixtures("needs_solver")
@pytest.mark.parametrize(
    "problem",
    [
        Problem(2, 2, Costs(1, 1.5, 0.7, comm=0.3), memory_limit=1.5, until_w=0.5),
        Problem(2, 2, Costs(1.3, 0.9, 2.2, backward=2.4)),
        Problem(2, 2, Costs(1, 1.2, 1.1, backward=1.9, comm=0.4), memory_limit=2, until_w=1.4),
        Problem(2, 2, Costs(1, 2, 0.5, backward=3, batches=(1, 3)), memory_limit=1),
        Problem(2, 2, Costs(1, 2, 0, stages=(1, 2.5))),
        Problem(2, 2, Costs(math.pi / 3, math.e / 3, 0.5)),
    ],
)
def test_as_good_as_the_best_of_all_orders(problem: Problem) -> None:
    every = [
        list(itertools.chain.from_iterable(rows(d, wholes) for wholes in itertools.product((True, False), repeat=2)))
        for d in range(2)
    ]
    best = math.inf
    for pair in itertools.product(*every):
        try:
            timeline = problem.run(Order("", 2, ((0, 1),), pair))
        except OrderError:
            continue
        if problem.fits(timeline):
            best = min(best, timeline.total)
    found = solve(problem, kinds=[STRAIGHT])
    assert found.timeline.total == pytest.approx(best, rel=1e-6)
    assert found.bound == pytest.approx(best, rel=1e-5) and found.bound <= best * (1 + 1e-9)


@pytest.mark.usefixtures("needs_solver")
@pytest.mark.parametrize(
    "problem",
    [
        Problem(3, 4, Costs(comm=0.5), memory_limit=2),
        Problem(2, 4, Costs(1, 1, 1, pair=2.2)),
        Problem(2, 3, UNIT, 2, memory_limit=1.5),
        Problem(4, 3, Costs(stages=(1, 2, 1, 1), batches=(1, 2, 1)), memory_limit=2),
        Problem(2, 4, Costs(comm=1), link_busy=True, memory_limit=2),
        Problem(1, 3, UNIT),
        Problem(3, 4, UNIT, memory_limit=1.5, until_b=0.5, until_w=0.25),
    ],
)
def test_no_named_schedule_is_better_under_the_same_limit(problem: Problem) -> None:
    checked(problem, time_limit_s=0.3)


@pytest.mark.usefixtures("needs_solver")
def test_overlapped_pairs_keep_the_bound_from_being_the_solvers() -> None:
    found = checked(Problem(4, 8, Costs(1, 1, 1, pair=1.5)), time_limit_s=0.2)
    assert found.named is not None and found.named[0] in ("dualpipe", "dualpipev")
    assert found.bound < found.timeline.total


@pytest.mark.usefixtures("needs_solver")
def test_a_search_that_is_stopped_keeps_the_best_so_far() -> None:
    seen: list[Progress] = []
    found = solve(
        Problem(8, 16, UNIT, memory_limit=5), kinds=[V_SHAPE], time_limit_s=100,
        progress=seen.append, stop=lambda: any(each.doing == V_SHAPE for each in seen),
    )  # fmt: skip
    assert found.stopped == "asked" and not found.proven and found.seconds < 60
    assert found.timeline.total <= found.start_total and seen[-1].total >= seen[-1].bound > 0


@pytest.mark.usefixtures("needs_solver")
def test_a_placement_too_large_for_the_solver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labtui.theory.pipeline.optimal.search.LARGEST", 200)
    found = solve(Problem(4, 20, Costs(comm=1), memory_limit=2), kinds=[STRAIGHT])
    assert found.stopped == "size" and "240 actions are more than the 200" in found.searched[0].left_out
    assert found.named is not None and found.timeline.total == found.named[1] > found.bound


@pytest.mark.usefixtures("needs_solver")
@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (Problem(4, 8, UNIT, memory_limit=0.9), {}, "at least 1 micro-batch, above the limit of 0.9"),
        (Problem(4, 8, UNIT, memory_limit=0.9, until_b=2), {}, "at least 2 micro-batches"),
        (Problem(4, 8, UNIT, memory_limit=math.nan), {}, "above 0 micro-batches, not nan"),
        (Problem(0, 8, UNIT), {}, "at least 1 device"),
        (Problem(2, 0, UNIT), {}, "at least 1 micro-batch"),
        (Problem(10**4, 10**4, UNIT), {}, "operations"),
        (Problem(3, 4, UNIT), {"kinds": [BOTH_WAYS]}, "placed as asked: both-ways"),
        (Problem(3, 4, UNIT), {"time_limit_s": 0}, "above 0 seconds"),
    ],
)
def test_what_cant_be_searched(problem: Problem, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        solve(problem, **options)


def test_a_placement_knows_its_own_orders() -> None:
    for name, kind in (("1f1b", STRAIGHT), ("zb-v", V_SHAPE), ("dualpipe", BOTH_WAYS), ("looped-bfs", LOOPED)):
        assert of_order(build_of(name, 4, 8)).kind == kind
    assert of_order(build_of("dualpipe", 4, 8)) == placement(BOTH_WAYS, 4, 8)
    assert of_order(build_of("looped-bfs", 4, 8)) == placement(LOOPED, 4, 8, 2)
    assert isinstance(placement(V_SHAPE, 1, 3), (Placement, type(None)))
