"""`labtui simulate optimal`: the solver's search from the command line, how it is followed and ended, what it found.

Ctrl-c ends a search and keeps the best order so far; a second one ends the command.
"""

from __future__ import annotations

import argparse
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from labtui.cli import schedule_report as report
from labtui.cli import schedule_request
from labtui.cli.schedule_request import SimulateError
from labtui.theory.pipeline.words import number, percent

if TYPE_CHECKING:
    from labtui.theory.pipeline.optimal.search import Optimum, Progress, Searched

INDENT = 15
"""Cells before the facts of a report."""


def find(arguments: argparse.Namespace, *, keep: bool = False) -> Optimum:
    """The search that was asked for. With `keep` ctrl-c ends it and what it has is returned; else it raises.

    Raises SimulateError, OrderError, SolverMissing.
    """
    from labtui.theory.pipeline.optimal.named import Problem
    from labtui.theory.pipeline.optimal.search import KINDS, TIME_LIMIT, solve

    p = schedule_request.size(arguments.p, schedule_request.DEVICES)
    m = schedule_request.size(arguments.m, schedule_request.MICROBATCHES)
    v = schedule_request.size(arguments.v, 1)
    until_b, until_w = schedule_request.activations(arguments.activations)
    problem = Problem(
        p, m, schedule_request.stage_costs(arguments, p * v, m, v), v, arguments.memory_limit, arguments.link_busy,
        until_b, until_w,
    )  # fmt: skip
    kinds = tuple(arguments.placement.split(",")) if arguments.placement is not None else KINDS
    for kind in kinds:
        if kind not in KINDS:
            raise SimulateError(f"--placement {kind!r} isn't one of {', '.join(KINDS)}")
    seconds = TIME_LIMIT if arguments.time_limit is None else arguments.time_limit
    if not seconds > 0:
        raise SimulateError(f"--time-limit is above 0 seconds, not {seconds:g}")
    with _interrupt(keep) as stop, _told() as progress:
        return solve(problem, kinds=kinds, time_limit_s=seconds, progress=progress, stop=stop)


@contextmanager
def _interrupt(keep: bool) -> Iterator[Callable[[], bool]]:
    """A function that says whether ctrl-c was pressed."""
    if not keep or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed = threading.Event()

    def press(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _told() -> Iterator[Callable[[Progress], None]]:
    """Shows how far a search is in one line of stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    shown = ""

    def show(progress: Progress) -> None:
        nonlocal shown
        line = f"labtui: {progress.seconds:.0f} s, {progress.doing}"
        if progress.bound:
            gap = percent(max(0.0, (progress.total - progress.bound) / progress.total))
            line += f": best {number(progress.total)}, none below {number(progress.bound)}, gap {gap}"
            line += " (ctrl-c keeps the best)"
        if line != shown:
            print(f"\r{line[: report.WIDTH]:<{len(shown)}}", end="", file=sys.stderr, flush=True)
            shown = line[: report.WIDTH]

    try:
        yield show
    finally:
        if shown:
            print(f"\r{'':<{len(shown)}}\r", end="", file=sys.stderr, flush=True)


# What it found ------------------------------------------------------------------------------------------------------


def lines(optimum: Optimum) -> list[str]:
    """How good the order is, where it came from, and what was searched."""
    facts = {
        "optimal": [_verdict(optimum)],
        "started from": [_start_words(optimum)],
        "placements": [_place_words(each, optimum) for each in optimum.searched],
    }
    per_device = optimum.timeline.order.routes[0].count(0)
    if per_device > 1:
        facts["costs"] = [
            f"a device's share is cut in {per_device} here, and a stage costs so much less: all placements do the same "
            f"work per device"
        ]
    told = []
    for what, texts in facts.items():
        found = [line for text in texts for line in textwrap.wrap(text, report.WIDTH - INDENT, break_on_hyphens=False)]
        told += [f"{what if place == 0 else '':<{INDENT}}{line}" for place, line in enumerate(found)]
    return told


def _verdict(optimum: Optimum) -> str:
    if optimum.proven:
        return "proven: no order of these placements has a smaller total"
    why = {
        "time": f"the search ended after {optimum.seconds:.0f} s; a longer --time-limit may close the gap",
        "asked": f"the search was ended after {optimum.seconds:.0f} s",
        "size": "a placement is too large for the solver",
        "": "the solver is through, but its model rounds costs, sends in any order, leaves out overlapped pairs",
    }[optimum.stopped]
    return f"gap {percent(optimum.gap)}: no order of these placements is below {number(optimum.bound)}; {why}"


def _start_words(optimum: Optimum) -> str:
    told = f"{optimum.started_from}, total {number(optimum.start_total)}"
    if optimum.named is None:
        return f"{told}; no named schedule keeps to the limit in these placements"
    name, total = optimum.named
    return f"{told}; the best named schedule" + (
        f" is {name}, total {number(total)}" if total > optimum.start_total else ""
    )


def _place_words(each: Searched, optimum: Optimum) -> str:
    from labtui.theory.pipeline.optimal.placement import WORDS

    best = f"best {number(each.total)}, " if not each.left_out or each.total == optimum.timeline.total else ""
    left_out = f" ({each.left_out})" if each.left_out and each.bound < optimum.timeline.total else ""
    return f"{each.placement.kind}, {WORDS[each.placement.kind]}: {best}none below {number(each.bound)}{left_out}"


def document(optimum: Optimum) -> dict[str, Any]:
    """What the JSON of `optimal` has besides that of other schedules. Times are in the unit of the costs."""
    return {
        "bound": optimum.bound,
        "gap": optimum.gap,
        "proven": optimum.proven,
        "stopped": optimum.stopped or None,
        "started_from": {"schedule": optimum.started_from, "total": optimum.start_total},
        "best_named": None if optimum.named is None else dict(zip(("schedule", "total"), optimum.named, strict=True)),
        "placements": [
            {
                "kind": each.placement.kind, "stages_per_device": each.placement.per_device, "started_from": each.start,
                "total": each.total, "bound": each.bound, "searched": not each.left_out,
            }
            for each in optimum.searched
        ],
        "search_seconds": optimum.seconds,
    }  # fmt: skip
