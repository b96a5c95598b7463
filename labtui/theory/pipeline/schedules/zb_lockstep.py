"""Building a zero-bubble order in rounds: in each, every stage does at most one forward and one gradient of an input.

The idea is that of Zero Bubble's own heuristic (arXiv 2401.10241 section 3.1; its switches as in
sail-sg/zero-bubble-pipeline-parallelism at 39f2c186): forwards until the first gradient comes back, then one of each in
turns, and W where a stage would wait. Good where the stages are alike; blind to a slow one.
"""

from __future__ import annotations

from labtui.theory.pipeline.schedules.zb_work import NOISE, Hopeless, Kinds, Work


def warm_up(work: Work, gap: float) -> tuple[int, ...]:
    """How many forwards each stage does before its first gradient, as many as the memory allows.

    `gap` is the wait that a stage accepts before that gradient, as a share of a forward: with 0 it rather does one
    forward more and lets the gradient wait, with 1 never. In between few stages are late and the others wait a little.
    """
    stages, microbatches = work.stages, work.microbatches
    at, arrives = 0.0, 0.0
    begun = []  # when each stage has done its first forward
    for stage in range(stages):
        at += work.forward[stage][0] + (work.comm if stage else 0.0)
        begun.append(at)
    counts = [1] * stages
    for stage in range(stages - 1, -1, -1):
        now, durations = begun[stage], work.forward[stage]
        if stage < stages - 1:
            arrives += work.comm
            while counts[stage] < microbatches and counts[stage] + 1 <= work.room:
                took = durations[counts[stage]]
                waits = arrives - now
                if waits <= took * NOISE or waits < gap * took * (1 - NOISE):
                    break
                now += took
                counts[stage] += 1
        arrives = max(now, arrives) + work.input[stage][0]
    for stage in range(1, stages):
        # A stage can't be ahead of the one before it; and only at the end level with it.
        while counts[stage] > 1 and counts[stage] >= counts[stage - 1] + (counts[stage] == microbatches):
            counts[stage] -= 1
    return tuple(counts)


def lockstep(work: Work, counts: tuple[int, ...], hold: bool, fill: bool, give_up: float) -> tuple[Kinds, float, float]:
    """The kinds by stage, the longest span and the total.

    counts   forwards of each stage before its first gradient, from `warm_up`
    hold     leave a forward out of a round where the next stage isn't waiting for it and it would delay a gradient
    fill     put a W into every wait that is too short for it; else only where the stage would come to wait the most
    give_up  raises Hopeless as soon as a span is longer than this
    """
    forward, inputs, weight, comm, until_w = work.forward, work.input, work.weight, work.comm, work.until_w
    stages, microbatches, room = work.stages, work.microbatches, work.room
    last = stages - 1
    forward_end: list[list[float]] = [[] for _ in range(stages)]
    input_end: list[list[float]] = [[] for _ in range(stages)]
    kinds: Kinds = [[] for _ in range(stages)]
    clock, waited, begun = [0.0] * stages, [0.0] * stages, [0.0] * stages
    # Forwards, gradients of inputs and of weights that are done.
    f, i, w = [0] * stages, [0] * stages, [0] * stages
    allowed = [give_up - busy for busy in work.busy]

    def wait(stage: int, until: float) -> None:
        if until > clock[stage]:
            waited[stage] += until - clock[stage]
            clock[stage] = until
            if waited[stage] > allowed[stage]:
                raise Hopeless

    def do_forward(stage: int) -> None:
        number = f[stage]
        arrives = forward_end[stage - 1][number] + comm if stage else 0.0
        if number:
            wait(stage, arrives)
        else:
            clock[stage] = begun[stage] = arrives
        clock[stage] += forward[stage][number]
        forward_end[stage].append(clock[stage])
        f[stage] = number + 1
        kinds[stage].append("F")

    def do_input(stage: int) -> None:
        number = i[stage]
        if stage < last:
            wait(stage, input_end[stage + 1][number] + comm)
        clock[stage] += inputs[stage][number]
        input_end[stage].append(clock[stage])
        i[stage] = number + 1
        kinds[stage].append("I")

    def do_weight(stage: int) -> None:
        clock[stage] += weight[stage][w[stage]]
        w[stage] += 1
        kinds[stage].append("W")

    def weights_until(stage: int, until: float) -> None:
        """Those that end before `until`, and maybe one that doesn't."""
        while w[stage] < i[stage] and clock[stage] + weight[stage][w[stage]] * (1 - NOISE) <= until:
            do_weight(stage)
        gap = until - clock[stage]
        if w[stage] < i[stage] and gap > 0 and (fill or gap > max(waited) - waited[stage]):
            do_weight(stage)

    def is_held(stage: int) -> bool:
        """Whether the stage's next forward had better be left out of this round."""
        after = stage + 1
        if f[stage] < f[after] + 2:
            return False
        gradient = clock[after] + forward[after][f[after]] + inputs[after][i[after]] + comm
        now = clock[stage]
        if now >= gradient:
            return True
        held = f[stage] - i[stage] + 1 + (i[stage] - w[stage]) * until_w
        number = w[stage]
        end = now + forward[stage][f[stage]]
        while held > room and number < i[stage]:
            end += weight[stage][number]
            held -= until_w
            number += 1
        return end > gradient and gradient - now <= max(waited) - waited[stage]

    for stage in range(stages):
        for _ in range(counts[stage]):
            do_forward(stage)
    for stage in range(last, -1, -1):
        do_input(stage)
    for number in range(1, microbatches):
        wanted = True
        chosen = []
        for stage in range(last, -1, -1):
            # A forward that is left out isn't needed by the stages before either.
            wanted = wanted and f[stage] < microbatches and not (hold and stage < last and is_held(stage))
            if wanted:
                chosen.append(stage)
        for stage in reversed(chosen):
            while w[stage] < i[stage] and f[stage] - i[stage] + 1 + (i[stage] - w[stage]) * until_w > room:
                do_weight(stage)
            if stage:
                weights_until(stage, forward_end[stage - 1][f[stage]] + comm)
            do_forward(stage)
        for stage in range(last, -1, -1):
            if stage < last:
                weights_until(stage, input_end[stage + 1][number] + comm)
            if not stage and f[0] == microbatches:
                while w[0] < i[0]:  # Nobody waits for stage 0.
                    do_weight(0)
            do_input(stage)
    for stage in range(stages):
        while w[stage] < microbatches:
            do_weight(stage)
    spans = [end - start for end, start in zip(clock, begun)]  # noqa: B905 - Python 3.9
    return kinds, max(spans), max(clock)
