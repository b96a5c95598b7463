"""What `labtui simulate` was asked for, as timelines: named schedules, a file's order, the learner's own.

Knows the command's options; prints nothing but reasons for what `all` leaves out.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cli import output

if TYPE_CHECKING:
    from labtui.theory.pipeline.costs import Costs
    from labtui.theory.pipeline.optimal.search import Optimum
    from labtui.theory.pipeline.order import Order
    from labtui.theory.pipeline.timeline import Timeline

OPTIMAL = "optimal"
"""The schedule that a solver finds."""
DEVICES, MICROBATCHES = 4, 8
"""The lesson's p and m."""
LARGEST_FILE = 64 << 20
"""Bytes of a CSV: more than the largest order that is simulated takes."""
KNOWN = ("gpipe", "1f1b")
"""What the learner's own schedule is drawn beside where nothing else is asked for."""


class SimulateError(ValueError):
    """What was asked for can't be simulated. The message is one sentence."""


@dataclass(frozen=True)
class Simulated:
    """One schedule's timeline, and the name it is shown under."""

    name: str
    timeline: Timeline
    optimum: Optimum | None = None
    """How good it is, where a solver found it."""


# What to simulate ---------------------------------------------------------------------------------------------------


def names() -> list[str]:
    """The schedules that can be asked for."""
    return [*known_names(), OPTIMAL]


def known_names() -> list[str]:
    """Those that need no solver; what `all` means."""
    from labtui.theory.pipeline.schedules import SCHEDULES

    return list(SCHEDULES)


def requested(arguments: argparse.Namespace) -> list[Simulated]:
    """All that was asked for, in that order. Raises SimulateError, OrderError, OSError."""
    found: list[Simulated] = []
    asked = list(arguments.schedules)
    if arguments.source is not None:
        found.append(_own(arguments))
        is_shown = not arguments.json and arguments.to_csv is None and arguments.perfetto is None
        if Path(arguments.source).suffix == ".py" and not asked and is_shown:
            asked = list(KNOWN)
    if asked == ["all"]:
        return [*found, *_all(arguments)]
    if not asked and not found:
        raise SimulateError(f"simulate needs a schedule, one of {', '.join(names())}, or --from FILE")
    return found + [_named(arguments, name) for name in asked]


def _named(arguments: argparse.Namespace, name: str) -> Simulated:
    if name != OPTIMAL:
        return Simulated(name, at(arguments, name))
    from labtui.cli import schedule_optimal  # which knows this module

    optimum = schedule_optimal.find(arguments, keep=True)
    return Simulated(name, optimum.timeline, optimum)


def verdict(own: Simulated) -> str:
    """A sentence on an order that came from a file: that it can run, and whose order it is if it is a known one."""
    from labtui.theory.pipeline.order import OrderError
    from labtui.theory.pipeline.schedules import SCHEDULES, build

    order = own.timeline.order
    p, m, same = len(order.devices), order.microbatches, []
    for name, maker in SCHEDULES.items():
        v = order.stages // p if maker.chooses_virtual else None
        if maker.limited or v == 1:
            continue  # with one stage per device, what takes more is another schedule's twin
        try:
            if build(name, p, m, v).devices == order.devices:
                same.append(name)
        except OrderError:
            pass  # not with these sizes
    known = f"; it is the order of {' and '.join(same)}" if same else ""
    return f"{own.name} can run: every operation is there once, and none waits for ever{known}."


def _all(arguments: argparse.Namespace) -> list[Simulated]:
    """Every schedule that these sizes allow; the reason of each other one goes to stderr."""
    from labtui.theory.pipeline.order import OrderError

    found, reasons = [], []
    for name in known_names():
        try:
            found.append(Simulated(name, at(arguments, name)))
        except OrderError as error:
            reasons.append(str(error))
    if not found:
        raise SimulateError(reasons[0])
    for reason in reasons:
        output.say(reason)
    return found


def at(arguments: argparse.Namespace, name: str) -> Timeline:
    """One named schedule in time. Raises SimulateError, OrderError."""
    from labtui.theory.pipeline.schedules import SCHEDULES, build

    if name == OPTIMAL:
        from labtui.cli import schedule_optimal

        return schedule_optimal.find(arguments).timeline
    maker = SCHEDULES.get(name)
    if maker is None:
        from labtui.cli.main import closest

        near = closest(name, names())
        raise SimulateError(
            f"there is no schedule {name!r}, " + (f"the closest is {near}" if near else f"only {', '.join(names())}")
        )
    p, m, v = size(arguments.p, DEVICES), size(arguments.m, MICROBATCHES), size(arguments.v, maker.virtual)
    if arguments.schedules != [name] and not maker.chooses_virtual:
        v = maker.virtual  # among several, -v speaks to those that take one
    costs = stage_costs(arguments, p * v, m, v)
    return _run(arguments, build(name, p, m, v, costs, arguments.memory_limit), costs)


def _own(arguments: argparse.Namespace) -> Simulated:
    """The order in the file that --from names, in time. Raises SimulateError, OrderError, OSError."""
    path = Path(arguments.source)
    if path.suffix not in (".csv", ".py"):
        raise SimulateError(f"--from takes a .csv or a .py, and {path.name} is neither")
    if arguments.v is not None and not arguments.schedules:
        raise SimulateError("-v says nothing to a file, which knows its own stages")
    order = _read_csv(arguments, path) if path.suffix == ".csv" else _ask_learner(arguments, path)
    share = max(way.count(device) for way in order.routes for device in set(way))
    costs = stage_costs(arguments, order.stages, order.microbatches, share)
    timeline = _run(arguments, order, costs)
    if arguments.memory_limit is not None and max(timeline.peak_memory) > arguments.memory_limit * (1 + 1e-12):
        raise SimulateError(
            f"{path.name} holds {max(timeline.peak_memory):g} micro-batches, above the memory limit of "
            f"{arguments.memory_limit:g}"
        )
    return Simulated(path.name, timeline)


def _read_csv(arguments: argparse.Namespace, path: Path) -> Order:
    from labtui.theory.pipeline import pytorch_csv

    with path.open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise SimulateError(
            f"{path.name} has more than {LARGEST_FILE >> 20} MiB, beyond any order that can be simulated"
        )
    order = pytorch_csv.read(data.decode("utf-8", errors="replace"), path.stem)
    for option, asked, there in (("-p", arguments.p, len(order.devices)), ("-m", arguments.m, order.microbatches)):
        if asked is not None and asked != there:
            raise SimulateError(f"{option} is {asked}, but {path.name} has {there}: it can be left out")
    arguments.p, arguments.m = len(order.devices), order.microbatches
    return order


def _ask_learner(arguments: argparse.Namespace, path: Path) -> Order:
    from labtui.runs import learner

    return learner.order(path, size(arguments.p, DEVICES), size(arguments.m, MICROBATCHES))


def size(given: int | None, otherwise: int) -> int:
    """A size that was given, or its default."""
    return otherwise if given is None else given


def _run(arguments: argparse.Namespace, order: Order, costs: Costs) -> Timeline:
    from labtui.theory.pipeline.simulate import simulate

    until_b, until_w = activations(arguments.activations)
    return simulate(order, costs, link_busy=arguments.link_busy, until_b=until_b, until_w=until_w)


# Costs --------------------------------------------------------------------------------------------------------------


def stage_costs(arguments: argparse.Namespace, stages: int, microbatches: int, virtual: int = 1) -> Costs:
    """The costs of one virtual stage, of which a micro-batch passes `virtual` on each device. Raises SimulateError."""
    from labtui.theory.pipeline.costs import Costs, parse

    by_stage = _factors("--stage-cost", arguments.stage_cost, stages, "stages")
    by_batch = _factors("--microbatch-cost", arguments.microbatch_cost, microbatches, "micro-batches")
    share = 1 / virtual if arguments.cost_of == "device" and virtual > 1 else 1.0
    try:
        base = parse(arguments.cost, arguments.comm)
        return Costs(
            forward=base.forward * share, input=base.input * share, weight=base.weight * share,
            backward=base.backward * share, pair=base.pair * share, comm=base.comm, stages=by_stage, batches=by_batch,
        )  # fmt: skip
    except ValueError as error:
        raise SimulateError(str(error)) from None


def _factors(option: str, text: str, count: int, what: str) -> tuple[float, ...]:
    """`0=2,3=1.5` -> a factor for each of `count`; () where none is given. Raises SimulateError."""
    from labtui.theory.pipeline.schedules import LARGEST

    if not text or count > LARGEST:
        return ()  # what is too large is refused with a better sentence
    factors = [1.0] * max(count, 0)
    for part in text.split(","):
        place, _, number = part.partition("=")
        try:
            index, factor = int(place), float(number)
        except ValueError:
            raise SimulateError(f"{option} {part!r} isn't understood: a number and its factor, as in 3=1.5") from None
        if not 0 <= index < len(factors):
            raise SimulateError(f"{option} names {index}, but the {what} are 0 to {len(factors) - 1}")
        factors[index] = factor
    return tuple(factors)


def activations(text: str) -> tuple[float, float]:
    """`B=1,W=0.5` -> the sizes until I or B, and from there until W. Raises SimulateError."""
    sizes = {"B": 1.0, "W": 1.0}
    for part in text.split(",") if text else ():
        name, _, number = part.partition("=")
        try:
            size = float(number)
        except ValueError:
            size = -1.0
        if name not in sizes or not 0 <= size < float("inf"):
            raise SimulateError(f"--activations {part!r} isn't understood: sizes of at least 0, as in B=1,W=0.5")
        sizes[name] = size
    return sizes["B"], sizes["W"]
