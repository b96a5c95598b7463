"""What no order of a placement can go below: each device's work and what it has to wait for, and the memory it has.

Stated for any order: with whole or split backwards, overlapped pairs, micro-batches in any sequence.
"""

from __future__ import annotations

from math import floor, inf

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.optimal.grid import SAME
from labtui.theory.pipeline.optimal.placement import Placement


def least_total(
    place: Placement, costs: Costs, limit: float | None, until_b: float = 1.0, until_w: float = 1.0
) -> float:
    """No order of the placement ends before this. The limit is in units of a device's whole share of a micro-batch.

    The largest, over the devices, of three: when its first forward can begin and all its work; that, all its forwards
    and gradients of the input, and the way back to the first stage with the weights' gradient there; that, and the
    time for which its memory has to hold all micro-batches.
    """
    apart = costs.forward + costs.backward
    shorter = min(1.0, costs.pair / apart) if apart else 1.0  # what a block of a pair may save
    forward, whole = costs.forward * shorter, costs.backward * shorter
    inputs = min(costs.input, costs.backward) * shorter
    ending = min(costs.input * shorter + costs.weight, whole)  # of a backward from its start to its end
    piece = min(forward + costs.input * shorter + costs.weight, forward + whole)
    devices = place.devices
    head, tail = [inf] * devices, [inf] * devices
    work, chain, held = [0.0] * devices, [0.0] * devices, [0.0] * devices
    by_stage = costs.stages or (1.0,) * place.stages
    for microbatch in range(place.microbatches):
        way = place.route(microbatch)
        batch = costs.batches[microbatch] if costs.batches else 1.0
        hops = [costs.comm * (way[stage] != way[stage + 1]) for stage in range(len(way) - 1)]
        reached, back = 0.0, 0.0
        away = [0.0] * len(way)  # from the end of a stage's own forward until its gradient arrives
        for stage in range(len(way) - 2, -1, -1):
            below = by_stage[stage + 1] * batch * (forward + inputs)
            away[stage] = away[stage + 1] + below + 2 * hops[stage]
        for stage, device in enumerate(way):
            factor = by_stage[stage] * batch
            head[device] = min(head[device], reached)
            tail[device] = min(tail[device], back)
            work[device] += piece * factor
            chain[device] += (forward + inputs) * factor
            held[device] += (
                until_b * (forward * factor + away[stage])
                + min(until_w * ending, until_b * whole) * factor
            ) / place.per_device  # fmt: skip
            if stage + 1 < len(way):
                reached += forward * factor + hops[stage]
                # Of the first stage its whole backward comes after, of others only the gradient of the input.
                back += (inputs if stage else ending) * factor + hops[stage]
    room = _room(limit, until_b, until_w, place.per_device)
    return max(
        max(
            head[device] + work[device],
            head[device] + chain[device] + tail[device],
            head[device] + held[device] / room,
        )
        for device in range(devices)
    )


def _room(limit: float | None, until_b: float, until_w: float, pieces: int) -> float:
    """The limit, or what of it can be filled with pieces of one size."""
    if limit is None:
        return inf
    if until_b == until_w and until_b > 0:
        return floor(limit * pieces / until_b * (1 + SAME)) * until_b / pieces
    return limit
