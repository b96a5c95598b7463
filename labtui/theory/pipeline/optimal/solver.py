"""CP-SAT at work on one placement: in a thread of its own, so that it can be watched and stopped.

The only module that knows OR-Tools, and it imports it when a search begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labtui.theory.pipeline.optimal.model import Model, Task
from labtui.theory.pipeline.order import Order

INSTALL = "the optimal schedule is found by OR-Tools, which isn't installed: pip install 'labtui[solver]', or ortools"
POLL = 0.05
"""Seconds between two looks at a running solver."""


class SolverMissing(ValueError):
    """OR-Tools is not installed. The message is one sentence that says how it is."""


def cp_sat() -> Any:
    """The solver's module; SolverMissing where it isn't installed."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise SolverMissing(INSTALL) from None
    return cp_model


@dataclass
class Outcome:
    """What a run of the solver came to."""

    orders: list[Order]
    """The orders it found, better and better."""
    bound: float
    """In units of time; no order without overlapped pairs goes below."""
    finished: bool
    """Whether it ended by itself: what it found can't be bettered."""


def run(
    task: Task,
    seconds: float,
    watch: Callable[[float | None, float], bool],
) -> Outcome:
    """Searches for at most `seconds`. `watch` is called now and then with the best total found (None before) and the
    bound, both in units of time; where it returns False the search ends. Raises SolverMissing."""
    cp = cp_sat()
    model = Model(task, cp)
    solver = cp.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.catch_sigint_signal = False
    orders: list[Order] = []
    totals: list[float] = []
    bounds = [task.least]
    done = threading.Event()
    ended: list[Any] = []

    class Found(cp.CpSolverSolutionCallback):  # type: ignore[misc, name-defined]
        def on_solution_callback(self) -> None:
            orders.append(model.order(self.value))
            totals.append(model.grid.time(self.objective_value))

    def bounded(bound: float) -> None:
        bounds.append(max(bounds[-1], model.grid.time(bound)))

    def search() -> None:
        try:
            ended.append(solver.solve(model.model, Found()))
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            ended.append(error)
        finally:
            done.set()

    solver.best_bound_callback = bounded
    thread = threading.Thread(target=search, name="cp-sat", daemon=True)
    thread.start()
    try:
        while not done.wait(POLL):
            if not watch(totals[-1] if totals else None, bounds[-1]):
                solver.stop_search()
    finally:
        while not done.wait(POLL):
            solver.stop_search()
        thread.join()
    status = ended[0]
    if isinstance(status, BaseException):
        raise status
    if status == cp.MODEL_INVALID:
        raise RuntimeError(f"CP-SAT refuses the model of {task.placement.kind}: {model.model.validate()}")
    if status in (cp.OPTIMAL, cp.FEASIBLE):
        bounded(solver.best_objective_bound)
    elif status == cp.INFEASIBLE:
        bounds.append(max(bounds[-1], task.most))
    return Outcome(orders, bounds[-1], status in (cp.OPTIMAL, cp.INFEASIBLE))
