"""A schedule simulated and ready to be looked at: what each device does at a moment, and what the Gantt consists of.

Pure. Everything that takes time grows with the schedule is done once, in `picture`, so that moving a cursor costs
nothing; for a large schedule that may be called in a thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from labtui.theory.pipeline import gantt, words
from labtui.theory.pipeline.critical import CriticalPath, Wait, all_waits, critical_path
from labtui.theory.pipeline.formulas import Comparison
from labtui.theory.pipeline.gantt import Row, Scale, Signs
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.schedules import LARGEST, build
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.pipeline.timeline import Op, Timeline
from labtui.tui.schedule_settings import Settings

OPTIMAL = "optimal"
UNIT = Scale(1.0)
MOST = 300_000
"""Operations that are drawn here: more would take a second for every change, and about 1 kB of memory each."""


class Doing(NamedTuple):
    """What a device does at a moment: works on `ops` (two that overlap, or one), waits, or neither, being done."""

    ops: tuple[Op, ...]
    wait: Wait | None
    held: int
    """Activations it holds, in (micro-batch, stage) pieces."""


@dataclass(frozen=True)
class Study:
    """One schedule in time."""

    name: str
    timeline: Timeline
    note: str = ""
    """What else there is to say of it, in a sentence."""

    @cached_property
    def path(self) -> CriticalPath:
        """Why it takes so long."""
        return critical_path(self.timeline)

    @cached_property
    def waits(self) -> tuple[tuple[Wait, ...], ...]:
        """By device, what it waits for."""
        return all_waits(self.timeline)

    @cached_property
    def said(self) -> Comparison | None:
        """What the published formula says."""
        return words.compared(self.name, self.timeline)

    @cached_property
    def ops(self) -> tuple[tuple[Op, ...], ...]:
        """By device, what it does."""
        return tuple(tuple(self.timeline.ops(device)) for device in range(self.devices))

    @cached_property
    def moments(self) -> tuple[float, ...]:
        """The times at which something begins or ends, and 0."""
        both = (*self.timeline.starts, *self.timeline.ends)
        return tuple(sorted({0.0}.union(*map(set, both))))

    @cached_property
    def _kept(self) -> tuple[tuple[list[float], list[float]], ...]:
        """By device, when activations come and when they go, each from first to last."""
        return tuple(
            ([op.start for op in ops if op.kind == "F"], sorted(op.end for op in ops if op.kind in "BW"))
            for ops in self.ops
        )

    @cached_property
    def _forwards(self) -> dict[tuple[int, int], tuple[int, float]]:
        """(micro-batch, stage) -> the device of its forward, and when that has ended."""
        return {
            (op.microbatch, op.stage): (device, op.end)
            for device, ops in enumerate(self.ops)
            for op in ops
            if op.kind == "F"
        }

    @cached_property
    def signs(self) -> Signs:
        """What its signs mean."""
        return gantt.signs(self.timeline.order)

    @cached_property
    def has_pairs(self) -> bool:
        """Whether a forward and a backward overlap anywhere."""
        return any(len(step) == 2 for steps in self.timeline.order.devices for step in steps)

    @property
    def devices(self) -> int:
        """How many there are."""
        return len(self.timeline.order.devices)

    def doing(self, device: int, t: float) -> Doing:
        """What the device does at time `t`."""
        comes, goes = self._kept[device]
        held = bisect_right(comes, t) - bisect_right(goes, t)
        starts, ends = self.timeline.starts[device], self.timeline.ends[device]
        at = bisect_right(starts, t) - 1
        if at >= 0 and ends[at] > t:
            op = self.ops[device][at]
            first = at - 1 if op.pair is not None else at
            return Doing(self.ops[device][first : at + 1], None, held)
        waits = self.waits[device]
        place = bisect_right(waits, t, key=lambda wait: wait.start) - 1
        return Doing((), waits[place] if place >= 0 and waits[place].end > t else None, held)

    def put_off(self, device: int, t: float) -> Op | None:
        """A forward that the waiting device could begin at `t`, but that its order has later; None if there is none."""
        order, costs = self.timeline.order, self.timeline.costs
        ops = self.ops[device]
        for op in ops[bisect_left(self.timeline.starts[device], t) :]:
            if op.kind != "F":
                continue
            if op.stage == 0:
                return op
            sender, end = self._forwards[op.microbatch, op.stage - 1]
            if self.timeline.link_busy and sender != device:
                continue  # when it came is not known here
            if end + costs.comm * (sender != device) <= t:
                return op
            if len(order.routes) == 1 and order.stages == len(order.devices):
                return None  # with one stage per device forwards come in their order
        return None

    def next_moment(self, t: float, by: int) -> float | None:
        """The next time at which something begins or ends, after or before `t`."""
        place = bisect_right(self.moments, t) if by > 0 else bisect_left(self.moments, t) - 1
        return self.moments[place] if 0 <= place < len(self.moments) else None

    def next_start(self, device: int, t: float, by: int) -> float | None:
        """When the device begins what it does next, or what it did before."""
        starts = self.timeline.starts[device]
        place = bisect_right(starts, t) if by > 0 else bisect_left(starts, t) - 1
        return starts[place] if 0 <= place < len(starts) else None


@dataclass(frozen=True)
class Refused:
    """A schedule that these settings don't allow."""

    name: str
    sentence: str


def study(settings: Settings, name: str) -> Study | Refused:
    """The schedule of that name with these settings."""
    virtual = settings.virtual_of(name)
    operations = settings.operations(name)
    if MOST < operations <= LARGEST:
        return Refused(name, f"{operations:,} operations are too many for this screen; `labtui simulate` takes them")
    try:
        costs = settings.costs(virtual, settings.devices * virtual)
        order = build(name, settings.devices, settings.microbatches, virtual, costs, settings.limit)
        if order.stages != settings.devices * virtual:
            costs = settings.costs(virtual, order.stages)
        return Study(name, simulate(order, costs, link_busy=settings.link_busy))
    except (OrderError, ValueError) as error:
        return Refused(name, str(error))


# The picture --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """What should be on the screen."""

    settings: Settings
    columns: int
    """For the signs of a row."""
    zoomed: bool = False
    by_stage: bool = False
    found: Study | None = None
    """What a solver found for these settings: it stands above, and the named schedule below."""

    @property
    def names(self) -> tuple[str, ...]:
        """The named schedules to be simulated."""
        return (self.settings.schedule, *filter(None, [self.settings.against if self.found is None else ""]))

    @property
    def operations(self) -> int:
        """How many there are to simulate."""
        return sum(self.settings.operations(name) for name in self.names)


@dataclass(frozen=True)
class Strip:
    """One row of a Gantt, with the columns at which its pieces begin."""

    row: Row
    begins: tuple[int, ...]


@dataclass(frozen=True)
class Picture:
    """Schedules in time and their Gantts on one scale."""

    wanted: Wanted
    studies: tuple[Study | Refused, ...]
    scale: Scale = UNIT
    columns: int = 0
    """Of the longest Gantt."""
    strips: tuple[tuple[Strip, ...], ...] = ()
    """By schedule; none for a refused one."""

    @property
    def shown(self) -> tuple[Study, ...]:
        """Those that could be simulated."""
        return tuple(each for each in self.studies if isinstance(each, Study))

    @property
    def total(self) -> float:
        """Of the longest."""
        return max((each.timeline.total for each in self.shown), default=0.0)


def picture(wanted: Wanted, before: Picture | None = None) -> Picture:
    """Simulates and draws what is wanted. What of `before` is still good is taken from there."""
    known = {}
    if before is not None and _sizes(before.wanted.settings) == _sizes(wanted.settings):
        known = {each.name: each for each in before.studies}
    studies: list[Study | Refused] = [wanted.found] if wanted.found is not None else []
    studies += [known.get(name) or study(wanted.settings, name) for name in wanted.names]
    shown = [each for each in studies if isinstance(each, Study)]
    if not shown:
        return Picture(wanted, tuple(studies))
    for each in shown:
        # Here and not when the cursor first asks for it: this may be a thread, and that is the screen's loop.
        _ = each.path, each.waits, each.moments, each.signs, each._kept, each._forwards, each.said
    scale = _scale([each.timeline for each in shown], max(wanted.columns, 1), wanted.zoomed)
    strips = tuple(
        tuple(_strips(gantt.drawn(each.timeline, scale, by_stage=wanted.by_stage))) if isinstance(each, Study) else ()
        for each in studies
    )
    return Picture(wanted, tuple(studies), scale, scale.column(max(each.timeline.total for each in shown)), strips)


def _sizes(settings: Settings) -> Settings:
    return replace(settings, schedule="", against="")


def _scale(timelines: Sequence[Timeline], columns: int, zoomed: bool) -> Scale:
    """All of it in the columns; zoomed either as large as fits, or where it is shrunk as large as it takes."""
    fitting = gantt.fit(timelines, columns)
    if not zoomed:
        return fitting
    natural = gantt.fit(timelines)
    if natural.per_unit > fitting.per_unit:
        return natural
    times = int(columns // max(fitting.column(max(each.total for each in timelines)), 1))
    return Scale(fitting.per_unit * max(times, 1), fitting.exact)


def _strips(rows: Iterable[Row]) -> list[Strip]:
    return [Strip(row, tuple(accumulate((len(text) for text, _ in row.pieces), initial=0))) for row in rows]
