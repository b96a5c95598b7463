"""Squeezing: from a V-shaped building block, repeated every six units of time, to an order without needless waits.

The block gives every device a slot for each of a micro-batch's four passes (forward and gradient of the input, in its
early and its late stage); W takes the first slots that stay free. Repeated as it is, that keeps to a small peak of
memory but waits a lot while it fills and drains (arXiv 2405.15362). So each device takes, whenever it is free, one of
the passes that could begin now, by a rule, and ahead of its slot if need be, as long as the peak of the repeated block
is kept. That can't get stuck: a forward goes ahead only where what it skips can still be done within the peak.

Several rules are tried, with the block's own unit times and with the given costs; the order of the best merit wins.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import NamedTuple

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Actions, Order
from labtui.theory.pipeline.schedules.factors import factors
from labtui.theory.pipeline.schedules.merit import Merit, merit
from labtui.theory.pipeline.simulate import simulate

PERIOD = 6
"""Units of time from one micro-batch's slots to the next one's: three kinds of work in two stages."""
EARLY_F, LATE_F, LATE_I, EARLY_I, LATE_W, EARLY_W = range(6)
"""The passes of a micro-batch on a device."""
KINDS = "FFIIWW"
HELD = (1, 1, 0, 0, -1, -1)
"""What a pass adds to the (micro-batch, stage) pieces that the device holds; a piece goes with its W."""
PLACEMENTS = 300_000
"""Passes placed in all tries together, about 1 s; the first MUST_TRY rules are tried even if it takes more."""


class Block(NamedTuple):
    """A device's slots of micro-batch 0, in the order of the passes; micro-batch j has them PERIOD * j later."""

    early_forward: int
    late_forward: int
    late_input: int
    early_input: int


class Rule(NamedTuple):
    """How a device chooses among the passes that could begin now."""

    later: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Units by which F early, F late, I late and I early count as later than their slots; the earliest is taken."""
    weights: str = "last"
    """When a W goes before a pass with a later slot: "last" never, "full" when the memory is full, "turn" always."""
    steady: str = "free"
    """Whether passes may leave their slots' order in the steady state (from the first micro-batch's end to the last
    one's begin on device 0): "free" they may, "ordered" not then, "fenced" nor into it from before."""


ALWAYS = 1 << 40
"""More than any slot: makes priorities of `later`."""
RULES = (
    Rule(steady="fenced"),
    Rule(later=(0, 0, 0, 8), weights="full"),
    Rule(),
    Rule(later=(ALWAYS, 0, 3 * ALWAYS, 2 * ALWAYS), weights="full"),
    Rule(weights="turn"),
    Rule(later=(ALWAYS, 0, 3 * ALWAYS, 2 * ALWAYS)),
    Rule(later=(ALWAYS, ALWAYS, 0, 0)),
    Rule(weights="full", steady="ordered"),
)
MUST_TRY = 2


class Durations(NamedTuple):
    """How long passes take: by device and pass, a factor by micro-batch, and what a transfer takes."""

    passes: tuple[tuple[float, ...], ...]
    batches: tuple[float, ...]
    comm: float


def squeezed(
    name: str, microbatches: int, routes: tuple[tuple[int, ...], ...], blocks: list[Block], costs: Costs
) -> Order:
    """The best order found for the blocks of devices 0 to p - 1."""
    slots = [Slots(block, microbatches) for block in blocks]
    ways = dict.fromkeys(_durations(len(blocks), microbatches, each) for each in (Costs(1, 1, 1), costs))
    size = len(KINDS) * len(blocks) * microbatches
    best: tuple[Merit, Order] | None = None
    for number, rule in enumerate(RULES):
        if number >= MUST_TRY and (number + 1) * len(ways) * size > PLACEMENTS:
            break
        for durations in ways:
            order = Order(name, microbatches, routes, _place(slots, rule, durations))
            timeline = simulate(order, costs)
            found = merit(max(timeline.spans), timeline.total)
            if best is None or found < best[0]:
                best = found, order
    assert best is not None
    return best[1]


def _durations(devices: int, microbatches: int, costs: Costs) -> Durations:
    by_stage, batches = factors(costs, 2 * devices, microbatches)
    bases = (costs.forward, costs.forward, costs.input, costs.input, costs.weight, costs.weight)
    late = (False, True, True, False, True, False)
    passes = tuple(
        tuple(base * by_stage[2 * devices - 1 - device if is_late else device] for base, is_late in zip(bases, late))  # noqa: B905
        for device in range(devices)
    )
    return Durations(passes, batches, costs.comm)


class Slots:
    """A device's slots in the repeated block, in the order of their times."""

    def __init__(self, block: Block, microbatches: int) -> None:
        taken = sorted((slot + PERIOD * j, which, j) for which, slot in enumerate(block) for j in range(microbatches))
        rows: list[tuple[int, int, int]] = []
        waiting: list[tuple[int, int]] = []
        done = time = 0
        for slot, which, number in taken:
            while time < slot and done < len(waiting):
                rows.append((time, *waiting[done]))
                done, time = done + 1, time + 1
            rows.append((slot, which, number))
            time = slot + 1
            if which >= LATE_I:
                waiting.append((which + 2, number))
        rows += [(time + left, *each) for left, each in enumerate(waiting[done:])]
        self.times, self.passes, self.numbers = (list(column) for column in zip(*rows))  # noqa: B905
        held = self.peak = 0
        for which in self.passes:
            held += HELD[which]
            self.peak = max(self.peak, held)
        self.steady = block.early_input, block.early_forward + PERIOD * (microbatches - 1)
        """On device 0: from the first micro-batch's end to the last one's begin."""


def _place(slots: list[Slots], rule: Rule, durations: Durations) -> tuple[Actions, ...]:
    """Each device's passes in the order in which the rule takes them when they last as given."""
    devices, microbatches = len(slots), len(durations.batches)
    peak = max(each.peak for each in slots)
    steady_begins, steady_ends = slots[0].steady
    ordered, fenced = rule.steady != "free", rule.steady == "fenced"
    weights_first = {"last": inf, "full": peak, "turn": 0}[rule.weights]
    later = rule.later
    # ready[pass][device][micro-batch]: when it could begin; inf until that is known.
    ready = [[[inf] * microbatches for _ in slots] for _ in KINDS]
    ready[EARLY_F][0] = [0.0] * microbatches
    gone = [bytearray(len(each.times)) for each in slots]
    head, held, free = [0] * devices, [0] * devices, [0.0] * devices
    rows: list[list[Action]] = [[] for _ in slots]
    looks = [(0.0, device) for device in range(devices)]

    while looks:
        now, device = heapq.heappop(looks)
        if now < free[device]:
            continue
        own, done, first = slots[device], gone[device], head[device]
        times, passes, numbers = own.times, own.passes, own.numbers
        size = len(times)
        while first < size and done[first]:
            first += 1
        head[device] = first
        if first == size:
            continue
        in_steady = ordered and steady_begins <= times[first] < steady_ends
        before_steady = fenced and times[first] < steady_begins

        # The next of each pass, if it could begin now: what the device would hold in between decides for forwards.
        seen, chosen, chosen_key, weight = 0, -1, inf, -1
        would_hold = most = held[device]
        for place in range(first, size):
            if done[place]:
                continue
            which = passes[place]
            if place != first and (in_steady or (before_steady and steady_begins <= times[place] < steady_ends)):
                break
            if not seen >> which & 1:
                seen |= 1 << which
                if ready[which][device][numbers[place]] <= now:
                    if which >= LATE_W:
                        if weight < 0:
                            weight = place
                    elif which >= LATE_I or most < peak:
                        key = times[place] + later[which]
                        if key < chosen_key:
                            chosen, chosen_key = place, key
                if seen == 0b111111:
                    break
            would_hold += HELD[which]
            if would_hold > most:
                most = would_hold
        if weight >= 0 and (chosen < 0 or (weight < chosen and held[device] >= weights_first)):
            chosen = weight
        if chosen < 0:
            continue  # A neighbour's result will make it look again.

        done[chosen] = 1
        which, number = passes[chosen], numbers[chosen]
        end = now + durations.passes[device][which] * durations.batches[number]
        free[device] = end
        held[device] += HELD[which]
        early = which in (EARLY_F, EARLY_I, EARLY_W)
        rows[device].append(Action(KINDS[which], number, device if early else 2 * devices - 1 - device))
        heapq.heappush(looks, (end, device))
        if LATE_I <= which <= EARLY_I:
            ready[which + 2][device][number] = end
        if which <= EARLY_I:
            down = which in (EARLY_F, LATE_I)
            target = device + 1 if down else device - 1
            if 0 <= target < devices:
                ready[which][target][number] = end + durations.comm
                heapq.heappush(looks, (max(free[target], end + durations.comm), target))
            elif which < EARLY_I:
                ready[which + 1][device][number] = end
    return tuple(map(tuple, rows))
