"""Pipeline schedules on paper: what each device does when, what it waits for, what it holds, what slow links cost it.

A schedule is nothing but an order: for each device, which forwards and which backwards come one after the other. Time
follows from it, since a device begins its next piece of work as soon as it is free and what the piece needs has come.
So a schedule can be tried without a GPU. Here labtui's simulator does that, and everything it says is held against
something else: a second simulator of a few lines, the rules of any pipeline, and the formulas that papers print.

Run it with `labtui run pipeline_schedules`, or bare: `python experiments/pipeline_schedules/main.py schedules=zb-h1`.
"""

import heapq
from itertools import pairwise
from math import inf

import exercise  # these two are beside this file
import figures

from labtui.bench import parameters, report
from labtui.bench.device import refuse
from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.schedules import SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate

# ---- The rules. A piece of work is (kind, micro-batch, stage): F forward, B backward, or I and W, its two halves.


def needs(kind, i, stage, last):
    """What a piece of work must wait for. All else about a schedule is choice."""
    if kind == "F":
        return [("F", i, stage - 1)] if stage > 0 else []  # the activations of the stage before
    if kind == "W":
        return [("I", i, stage)]  # I is the gradient of the input, W that of the weights
    return [("F", i, stage)] + ([("I", i, stage + 1)] if stage < last else [])  # the gradient of the stage behind


def arrival(need, device, ended, order, costs):  # a transfer takes time, but neither device's
    return ended.get(need, inf) + (costs.comm if order.device_of(*need[1:]) != device else 0.0)


def sent(kind):  # of a whole backward, others wait for the gradient of the input
    return "I" if kind == "B" else kind


# ---- The simulator's witness: the same question, answered in the plainest way.


def by_the_clock(order, costs):
    """When each piece begins, {piece: time}. Pieces that wait for ever are missing."""
    begun, ended = {}, {}
    places, free = [0] * len(order.devices), [0.0] * len(order.devices)
    moments = [0.0]  # at which something ends or arrives
    while moments:
        now = heapq.heappop(moments)
        for device, steps in enumerate(order.devices):
            while free[device] <= now and places[device] < len(steps):
                step = steps[places[device]]
                pair = len(step) == 2  # DualPipe's: a forward and a backward in one block, both done at its end
                pieces = step if pair else (step,)
                all_needs = [need for piece in pieces for need in needs(*piece, order.stages - 1)]
                if any(arrival(need, device, ended, order, costs) > now for need in all_needs):
                    break
                places[device] += 1
                free[device] = now + (costs.of_pair(*step) if pair else costs.of(*step))
                for kind, i, stage in pieces:
                    begun[kind, i, stage] = now
                    ended[sent(kind), i, stage] = free[device]
                heapq.heappush(moments, free[device])
                heapq.heappush(moments, free[device] + costs.comm)
    return begun


def work(timeline):
    """(device, operation with its times) for all that is done."""
    return [(device, op) for device in range(len(timeline.order.devices)) for op in timeline.ops(device)]


def faults(timeline):
    """How often a timeline breaks a rule: work missing or twice, two pieces at once, one begun before it could."""
    order, ops, found = timeline.order, work(timeline), 0
    kinds, ended = {}, {}
    for _, op in ops:
        kinds[op.microbatch, op.stage] = kinds.get((op.microbatch, op.stage), "") + op.kind
        ended[sent(op.kind), op.microbatch, op.stage] = op.end
    for i in range(order.microbatches):
        found += sum(kinds.get((i, stage)) not in ("FB", "FIW") for stage in range(order.stages))
    for (device, before), (same, op) in pairwise(ops):
        one_block = op.pair is not None and op.pair == before.pair
        found += device == same and op.start < before.end and not one_block
    for device, op in ops:
        for need in needs(op.kind, op.microbatch, op.stage, order.stages - 1):
            found += op.start < arrival(need, device, ended, order, timeline.costs)
    return found


def prove(name, timeline):
    """The simulator against its witness and against the rules."""
    seen = by_the_clock(timeline.order, timeline.costs)
    off = max(abs(op.start - seen.get((op.kind, op.microbatch, op.stage), inf)) for _, op in work(timeline))
    report.check(f"starts as a second simulation finds them ({name})", off, at_most=1e-9)
    report.check(f"all work once, in turn, after what it needs ({name})", faults(timeline), equal=0)


# ---- The experiment: some schedules of one model, then the same for more micro-batches and for slower links.


def in_time(settings, name, m, comm):
    """The schedule `name`, simulated. What a device has to do is given: with v stages, each is a v-th of that."""
    maker = SCHEDULES.get(name)
    v = 1 if maker is None else settings.v if maker.chooses_virtual else maker.virtual
    forward, input, weight = (cost / v for cost in (settings.forward, settings.input, settings.weight))
    together = (forward + input + weight) * (1 - settings.overlap)
    costs = Costs(forward=forward, input=input, weight=weight, pair=together, comm=comm)
    if name == exercise.NAME:
        return simulate(exercise.order(settings.own, settings.p, m), costs)
    return simulate(build(name, settings.p, m, v, costs), costs)


def sweep(settings, names):
    for name in names:
        for m in sorted({settings.m, *(settings.p * times for times in (1, 2, 4, 8))}):
            try:
                report.result("bubble_at_m", in_time(settings, name, m, settings.comm).bubble, schedule=name, m=m)
            except OrderError as error:
                report.note(f"not in the chart over m: {error}")
        for comm in sorted({settings.comm, 0.0, 0.25, 0.5, 1.0, 2.0}):
            timeline = in_time(settings, name, settings.m, comm)
            report.result("total_at_comm", timeline.total, "units", schedule=name, comm=comm)


def main():
    settings = parameters.read(__file__)
    report.note("nothing here is measured on hardware: times are simulated, and so is what stands beside a prediction")
    names = [name.strip() for name in settings.schedules.split(",")]
    if settings.own and exercise.test(settings.own, settings.p, settings.m):
        names.append(exercise.NAME)
    try:
        timelines = {name: in_time(settings, name, settings.m, settings.comm) for name in names}
    except ValueError as error:
        refuse(str(error))
    for name, timeline in timelines.items():
        prove(name, timeline)
        figures.tell(name, timeline, settings)
    figures.draw(timelines)
    sweep(settings, timelines)


if __name__ == "__main__":
    main()
