"""Building a zero-bubble order as time goes on: whenever a stage is free it takes the best of what it could begin.

Gradients of inputs go first, for other stages wait for them; then forwards, as far as the memory and the stage's cap on
micro-batches in flight allow; then W, unless something better arrives soon. Better than rounds where stages differ,
where memory is short and for few micro-batches.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import NamedTuple

from labtui.theory.pipeline.schedules.zb_work import NOISE, Hopeless, Kinds, Work


class Policy(NamedTuple):
    """What a stage does when nothing is obvious."""

    cap: str
    """Micro-batches in flight (past their F, before their I) on the stages; see `caps`."""
    late_input: float
    """How long a W may hold up a gradient that is about to arrive, as a share of the W."""
    late_forward: float
    """The same for a forward."""

    @property
    def spoken(self) -> str:
        """For `Found.way`."""
        return f"in the order of time: cap {self.cap}, late I {self.late_input:g}, late F {self.late_forward:g}"


def caps(work: Work, cap: str) -> list[int]:
    """By stage, how many micro-batches may be in flight. With p stages and a limit of x micro-batches, stage s has

    distance   p - s, as in 1F1B
    share      x (p - s) / p, rounded up
    odd        x (p - s) / p - (x / p - 1), rounded down: ZB-H2's where x = 2p
    loose      (x / p + 1/2) (p - s), rounded down
    memory     as many as the memory holds
    """
    p = work.stages
    times = work.limit / p
    caps = []
    for stage in range(p):
        left = p - stage
        caps.append(
            {
                "distance": left,
                "share": -int(-(times * left) // 1),
                "odd": int(times * left - (times - 1)),
                "loose": int((times + 0.5) * left),
                "memory": work.microbatches,
            }[cap]
        )
    return [max(1, min(each, work.microbatches)) for each in caps]


def chronological(work: Work, policy: Policy, give_up: float) -> tuple[Kinds, float, float]:
    """The kinds by stage, the longest span and the total; Hopeless as soon as a span is longer than `give_up`."""
    forward, inputs, weight, comm, until_w = work.forward, work.input, work.weight, work.comm, work.until_w
    stages, microbatches, room = work.stages, work.microbatches, work.room
    last = stages - 1
    cap = caps(work, policy.cap)
    free, waited, begun = [0.0] * stages, [0.0] * stages, [0.0] * stages
    allowed = [give_up - busy for busy in work.busy]
    f, i, w = [0] * stages, [0] * stages, [0] * stages
    # When forwards and gradients arrive at a stage, by micro-batch, as far as that is known yet.
    forward_at: list[list[float]] = [[0.0] * microbatches if not stage else [] for stage in range(stages)]
    input_at: list[list[float]] = [[] for _ in range(stages)]
    kinds: Kinds = [[] for _ in range(stages)]
    looks = [(0.0, last - stage) for stage in range(stages)]  # Of stages that are free at once the last one goes first.
    heapq.heapify(looks)
    next_look = [0.0] * stages

    while looks:
        now, behind = heapq.heappop(looks)
        stage = last - behind
        if now != next_look[stage]:
            continue  # A later decision has moved it.
        done_f, done_i, done_w = f[stage], i[stage], w[stage]
        arrives_i = input_at[stage][done_i] if done_i < len(input_at[stage]) else inf
        arrives_f = forward_at[stage][done_f] if done_f < len(forward_at[stage]) else inf
        if done_f - done_i >= cap[stage]:
            arrives_f = inf
        pending = done_i - done_w
        held = done_f - done_i + 1 + pending * until_w  # with one forward more
        fits = held <= room
        kind, look = "", inf
        if arrives_i <= now:
            kind = "I"
        elif arrives_f <= now and fits:
            kind = "F"
        else:
            took = weight[stage][done_w] if pending else 0.0
            if pending and arrives_f <= now and held - pending * until_w <= room:
                # A forward is there and W's would make room for it.
                patience = arrives_i + policy.late_input * took
            else:
                patience = arrives_i + policy.late_input * took
                if fits:
                    patience = min(patience, arrives_f + policy.late_forward * took)
            if pending and patience >= now + took * (1 - NOISE):
                kind = "W"
            else:
                look = min(arrives_i, arrives_f) if fits else arrives_i
        if not kind:
            next_look[stage] = look
            if look < inf:  # Else a neighbour's result will make it look again.
                heapq.heappush(looks, (look, behind))
            continue

        if done_f:
            waited[stage] += now - free[stage]
            if waited[stage] > allowed[stage]:
                raise Hopeless
        else:
            begun[stage] = now
        neighbour = -1
        if kind == "F":
            end = now + forward[stage][done_f]
            f[stage] += 1
            if stage < last:
                neighbour = stage + 1
                forward_at[neighbour].append(end + comm)
            else:
                input_at[stage].append(end)
        elif kind == "I":
            end = now + inputs[stage][done_i]
            i[stage] += 1
            if stage:
                neighbour = stage - 1
                input_at[neighbour].append(end + comm)
        else:
            end = now + weight[stage][done_w]
            w[stage] += 1
        kinds[stage].append(kind)
        free[stage] = next_look[stage] = end
        heapq.heappush(looks, (end, behind))
        if neighbour >= 0:
            # It may be waiting for this, or with a W in hand: it decides anew, knowing when this arrives.
            look = max(free[neighbour], now)
            if look < next_look[neighbour]:
                next_look[neighbour] = look
                heapq.heappush(looks, (look, last - neighbour))
    spans = [end - start for end, start in zip(free, begun)]  # noqa: B905 - Python 3.9
    return kinds, max(spans), max(free)
