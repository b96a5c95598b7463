"""Why a timeline is as long as it is: its critical path, and what each device waits for.

An action begins when the device's action before it has ended or when what it needs has come, whichever is later: that
*binds* it. A critical path goes back from the last end over what binds, to an action that began at 0. Of several that
one is taken which has the most hops, for they say how the total grows with `comm`: by hops times as much, as long as
the path stays the longest. It is found by making transfers longer by so little that nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from labtui.theory.pipeline.judge import needed
from labtui.theory.pipeline.order import Action, Step
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.pipeline.timeline import Op, Timeline

NUDGE = 1e-11
"""By how much longer, relative to the total: far more than sums of times are rounded by, far less than times differ."""


class PathStep(NamedTuple):
    """One action of a critical path, and how many transfers lie between the one before and this one."""

    device: int
    op: Op
    hops: int
    """0 where its own work came before, 1 after a transfer, more where that queued behind others on a busy link."""


class CriticalPath(NamedTuple):
    """From an action that began at 0 to one that ended last: its actions' times and hops x comm add up to the total."""

    steps: tuple[PathStep, ...]
    hops: int


class Wait(NamedTuple):
    """A device that had nothing to do from `start` to `end`, because `op` needed what `need` on `source` yields."""

    device: int
    op: Op
    need: Action
    source: int
    start: float
    sent: float
    """When `need` had ended: from then until `end` its result was on its way (or queued for the link)."""
    end: float


def critical_path(timeline: Timeline) -> CriticalPath:
    """The critical path with the most hops."""
    order, costs = timeline.order, timeline.costs
    longer = replace(costs, comm=costs.comm + NUDGE * timeline.total)
    nudged = _Places(simulate(order, longer, link_busy=timeline.link_busy))
    places = _Places(timeline)
    # Equality is exact in what follows, for a start is the largest of just these numbers.
    device = max(range(len(order.devices)), key=lambda number: max(nudged.timeline.ends[number], default=-1.0))
    node = (device, len(order.devices[device]) - 1)
    action = _members(order.devices[device][-1])[-1]
    steps = []
    while True:
        bound = nudged.binding(node)
        steps.append(PathStep(node[0], places.op(action), 0 if bound is None else bound[1]))
        if bound is None:
            break
        action = bound[0]
        node = places.node_of[action]
    return CriticalPath(tuple(reversed(steps)), sum(step.hops for step in steps))


def waits(timeline: Timeline, device: int) -> Iterator[Wait]:
    """All times before its last action in which the device had nothing to do, from first to last."""
    return _Places(timeline).waits(device)


def all_waits(timeline: Timeline) -> tuple[tuple[Wait, ...], ...]:
    """By device, all that `waits` tells."""
    places = _Places(timeline)
    return tuple(tuple(places.waits(device)) for device in range(len(timeline.order.devices)))


def first_waits(timeline: Timeline) -> tuple[Wait | None, ...]:
    """For each device, the first thing it waited for; None where it never did."""
    places = _Places(timeline)
    return tuple(next(places.waits(device), None) for device in range(len(timeline.order.devices)))


Node = tuple[int, int]
"""A device and the number of a step on it: a pair is one step."""


class _Transfer(NamedTuple):
    """How a result gets to another device over a busy link."""

    begins: float
    arrives: float
    behind: Action | None
    """Whose result goes over the link just before."""


def _members(step: Step) -> Sequence[Action]:
    return step if len(step) == 2 else (step,)


class _Places:
    """Where a timeline's actions stand, and from where each gets what it needs."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.order = timeline, timeline.order
        self.node_of: dict[Action, Node] = {}
        self.first: list[Sequence[int]] = []
        """By device, for each step where it is among the timeline's starts and ends."""
        for device, steps in enumerate(self.order.devices):
            self.first.append(list(accumulate((len(_members(step)) for step in steps), initial=0)))
            self.node_of.update(
                (action, (device, index)) for index, step in enumerate(steps) for action in _members(step)
            )
        self.transfers = self._busy_links() if timeline.link_busy else {}

    def _busy_links(self) -> dict[Action, _Transfer]:
        transfers: dict[Action, _Transfer] = {}
        latest: dict[tuple[int, int], Action] = {}
        for device, steps in enumerate(self.order.devices):
            for action in (action for step in steps for action in _members(step)):
                stage = action.stage + 1 if action.kind == "F" else action.stage - 1
                if action.kind == "W" or not 0 <= stage < self.order.stages:
                    continue
                target = self.order.device_of(action.microbatch, stage)
                if target != device:
                    behind = latest.get((device, target))
                    begins = max(self.end(action), transfers[behind].arrives if behind else 0.0)
                    transfers[action] = _Transfer(begins, begins + self.timeline.costs.comm, behind)
                    latest[device, target] = action
        return transfers

    def start(self, node: Node) -> float:
        return self.timeline.starts[node[0]][self.first[node[0]][node[1]]]

    def end(self, action: Action) -> float:
        device, index = self.node_of[action]
        return self.timeline.ends[device][self.first[device][index]]

    def op(self, action: Action) -> Op:
        node = self.node_of[action]
        return Op(*action, self.start(node), self.end(action), self.timeline.pair_number(*node))

    def needs(self, node: Node) -> list[tuple[Action, Action]]:
        """(an action of the step, what it needs)."""
        step = self.order.devices[node[0]][node[1]]
        last = self.order.stages - 1
        return [(action, need) for action in _members(step) for need in needed(action, last, self.node_of)]

    def arrival(self, need: Action, device: int) -> float:
        """When the result of `need` is there on `device`."""
        if self.node_of[need][0] == device:
            return self.end(need)
        if need in self.transfers:
            return self.transfers[need].arrives
        return self.end(need) + self.timeline.costs.comm

    def binding(self, node: Node) -> tuple[Action, int] | None:
        """The action whose end binds the begin of the step, and the transfers between; None for what begins at 0."""
        device, index = node
        start = self.start(node)
        for _, need in self.needs(node):
            if self.arrival(need, device) != start:
                continue
            if self.node_of[need][0] == device:
                return need, 0
            sender, hops = need, 1
            while sender in self.transfers and self.transfers[sender].begins != self.end(sender):
                behind = self.transfers[sender].behind
                assert behind is not None
                sender, hops = behind, hops + 1
            return sender, hops
        if not index:
            return None
        return _members(self.order.devices[device][index - 1])[-1], 0

    def waits(self, device: int) -> Iterator[Wait]:
        free = 0.0
        for index in range(len(self.order.devices[device])):
            start = self.start((device, index))
            if start > free:
                action, need = max(self.needs((device, index)), key=lambda both: self.arrival(both[1], device))
                source = self.node_of[need][0]
                yield Wait(device, self.op(action), need, source, free, self.end(need), start)
            free = self.timeline.ends[device][self.first[device][index]]
