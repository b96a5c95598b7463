"""Orders for any placement and limit of memory, in the order of time: a start where no named schedule is a good one.

A free device takes what is there: gradients of the input and forwards by a rule, weights' gradients where it would
idle. A forward begins only if it leaves room for one piece of each later stage on its device, so that what has gone
further is never kept from getting to the end.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.optimal.grid import SAME
from labtui.theory.pipeline.optimal.placement import Placement
from labtui.theory.pipeline.order import Action, Order


@dataclass(frozen=True)
class Rule:
    """What a device does first of what is ready."""

    backward_first: bool
    weight_at_once: bool
    """A W follows its I, rather than fill a gap."""


RULES = tuple(Rule(backward, at_once) for backward in (True, False) for at_once in (False, True))


def greedy(
    place: Placement, costs: Costs, limit: float | None, until_b: float, until_w: float, split: bool, rule: Rule
) -> Order | None:
    """The order that the rule makes, None where the limit is too small for it; `split` says whether backwards are."""
    room = float("inf") if limit is None else limit * (1 + SAME)
    piece, rest = until_b / place.per_device, (until_w / place.per_device if split else 0.0)
    last, devices = place.stages - 1, place.devices
    rows: list[list[Action]] = [[] for _ in range(devices)]
    free, held = [0.0] * devices, [0.0] * devices
    ready: list[dict[str, list[tuple[int, Action]]]] = [{"F": [], "I": [], "W": []} for _ in range(devices)]
    events: list[tuple[float, int, str, int, int]] = []
    """(time, device, kind, micro-batch, stage) of what arrives; kind "" is a device that gets free."""
    needs = [
        [piece * sum(other[stage:].count(device) for other in place.routes) for stage, device in enumerate(way)]
        for way in place.routes
    ]
    """By way and stage, the room for one piece of it and of each later stage, of whatever way, on its device."""
    ways = place.route_of or (0,) * place.microbatches

    kinds = ("W" * rule.weight_at_once) + ("IF" if rule.backward_first else "FI")

    def choose(device: int) -> Action | None:
        queues = ready[device]
        forward = queues["F"][0][1] if queues["F"] else None
        if forward is not None and held[device] + needs[ways[forward.microbatch]][forward.stage] > room:
            forward = None
        for kind in kinds:
            if kind == "F" and forward is not None:
                return heapq.heappop(queues["F"])[1]
            if kind != "F" and queues[kind]:
                return heapq.heappop(queues[kind])[1]
        return heapq.heappop(queues["W"])[1] if queues["W"] else None

    def put(device: int, action: Action) -> None:
        # Forwards of later stages first, gradients of earlier ones: they are nearer to their end.
        heapq.heappush(ready[device][action.kind], (-action.stage if action.kind == "F" else action.stage, action))

    def send(kind: str, microbatch: int, stage: int, source: int, end: float) -> None:
        target = place.route(microbatch)[stage]
        heapq.heappush(events, (end + costs.comm * (target != source), target, kind, microbatch, stage))

    for microbatch in range(place.microbatches):
        send("F", microbatch, 0, place.route(microbatch)[0], 0.0)
    while events:
        now = events[0][0]
        woken = set()
        while events and events[0][0] <= now:
            _, device, kind, microbatch, stage = heapq.heappop(events)
            woken.add(device)
            if kind:
                put(device, Action(kind, microbatch, stage))
        for device in sorted(woken):
            if free[device] > now:
                continue  # woken again when it is free
            action = choose(device)
            if action is None:
                continue
            kind, microbatch, stage = action
            if kind == "I" and not split:
                action = Action("B", microbatch, stage)
            rows[device].append(action)
            end = free[device] = now + costs.of(*action)
            heapq.heappush(events, (end, device, "", 0, 0))
            if kind == "F":
                held[device] += piece
                if stage < last:
                    send("F", microbatch, stage + 1, device, end)
                else:
                    send("I", microbatch, stage, device, end)
            elif kind == "I":
                # Nothing begins on this device before the end, when it is free of this.
                held[device] += rest - piece
                if split:
                    send("W", microbatch, stage, device, end)
                if stage:
                    send("I", microbatch, stage - 1, device, end)
            else:
                held[device] -= rest
    if sum(map(len, rows)) < (3 if split else 2) * place.stages * place.microbatches:
        return None
    return place.order("greedy", tuple(map(tuple, rows)))
