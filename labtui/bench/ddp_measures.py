"""What ddp_compare finds out about replicas in training: whether they are right, how fast they are, what they send.

A training here is anything with `step(number, communicate=True)` (trains on batch `number`, returns the mean loss over
this rank's share), `model`, `optimizer` and `shape`. All functions are collectives: every rank calls them, rank 0
reports.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from labtui.bench import expected, memory, peak, race, report, throughput, timeline, timing, wire
from labtui.bench.group import Group
from labtui.theory import collectives, flops

MIB = 2**20
WARM_UP = 2
"""Steps before anything is timed: DDP arranges its buckets anew after its first backward."""


class Course:
    """How far this rank is in all that is measured here, in steps."""

    def __init__(self, me: Group, settings: Any) -> None:
        self.done = 0
        scaling = len(_numbers_below(me.world_size)) * (WARM_UP + settings.rounds)
        self.total = 2 * settings.steps + settings.rounds + scaling

    def advance(self) -> None:
        self.done += 1
        report.progress(self.done, self.total)


def compare_losses(
    me: Group,
    settings: Any,
    course: Course,
    one_process: Callable[[int], Any],
    replica: Callable[[], Any],
    at_most: float,
) -> None:
    """Trains one process on the whole batches, then all replicas on their shares, and compares the losses.

    And the first step's gradients: the length of their difference over their own.
    """
    alone: list[float] = []
    training = one_process(me.world_size) if me.rank == 0 else None
    for number in range(settings.steps):
        if training is not None:
            alone.append(float(training.step(number)))
            if number == 0:
                right = _gradients(training.model)
        dist.barrier()  # at each step: together they may take longer than a collective waits
        course.advance()
    del training
    gc.collect()

    training = replica()
    together: list[float] = []
    for number in range(settings.steps):
        loss = training.step(number)
        if me.rank == 0 and number == 0:
            off = ((_gradients(training.model) - right).norm() / right.norm()).item()
            report.result("gradient_difference", off, "")
            del right
        dist.all_reduce(loss)
        together.append(float(loss) / me.world_size)
        course.advance()
    if me.rank != 0:
        return
    for step, losses in enumerate(zip(alone, together, strict=True), 1):
        report.metric("loss", losses[0], step, processes="1, the whole batch")
        report.metric("loss", losses[1], step, processes=str(me.world_size))
    difference = max(abs(one - many) / one for one, many in zip(alone, together, strict=True))
    report.check("loss curve equals one process's", difference, at_most=at_most)
    report.result("loss_difference", difference, "")
    report.result("loss", together[-1], "nats")


def _gradients(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def report_timeline(me: Group, title: str, training: Any) -> None:
    """Puts one step on the timeline, and tells the most memory that a step takes on each rank."""
    for number in range(WARM_UP):
        training.step(number)
    most = memory.peak_bytes(lambda: training.step(WARM_UP), training.model, training.optimizer, me.device)
    mine = torch.tensor([most], device=me.device)
    everyones = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(everyones, mine)
    dist.barrier()
    with timeline.recording(title, training.model, me.device) as recording:
        training.step(WARM_UP + 1)
    if me.rank != 0:
        return
    for rank, size in enumerate(everyones):
        report.result("peak_memory", size.item(), "B", rank=rank)
    if me.world_size > 1:
        report.result("hidden_share", timeline.hidden_share(recording.spans))


def report_speed(me: Group, settings: Any, course: Course, training: Any) -> float | None:
    """Times steps with and without communication and the all-reduces alone, in turn; returns tokens per second, on
    rank 0."""
    numbers = itertools.count()
    for _ in range(WARM_UP):
        training.step(next(numbers))
    element = 2 if settings.way == "bf16_hook" else 4
    buckets = _bucket_bytes(training.model, settings.bucket_mb, element)
    flat = [torch.zeros(size // element, dtype=torch.bfloat16 if element == 2 else torch.float32, device=me.device)
            for size in buckets]  # fmt: skip

    def all_reduces() -> None:
        for bucket in flat:
            dist.all_reduce(bucket)

    steps: dict[str, Callable[[], object]] = {"with": lambda: training.step(next(numbers))}
    traffic = wire.count(steps["with"], me.device)
    if me.world_size > 1:
        # Without communication the replicas drift apart. Nobody looks at their weights any more.
        steps |= {"without": lambda: training.step(next(numbers), communicate=False), "all_reduces": all_reduces}
        all_reduces()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for outcome in race.alternating(steps, settings.rounds, me.device):
        for name, (seconds, _) in outcome.items():
            times[name].append(seconds)
        course.advance()
    slowest = {name: timing.slowest(values, me.device) for name, values in times.items()}
    if me.rank != 0:
        return None
    _report_communication(me, settings, training, buckets, traffic, slowest)
    sequences = settings.micro_batch * settings.micro_batches
    most = peak.of(me.device, "bfloat16" if settings.autocast else "float32")
    return throughput.report_steps(training.shape, sequences, me.world_size, slowest["with"], most)


def _report_communication(
    me: Group, settings: Any, training: Any, buckets: Sequence[int], traffic: wire.Traffic, times: Any
) -> None:
    averages = settings.micro_batches if settings.way == "every_micro_batch" else 1  # of all gradients, in each step
    sent = averages * collectives.all_reduce_bytes(sum(buckets), me.world_size)
    report.result("bytes_on_wire", round(sent), "B")
    report.result("bytes_sent", traffic.sent, "B")
    report.result("communication_share", 0.0 if me.world_size == 1 else statistics.median(
        1 - without / step for step, without in zip(times["with"], times["without"], strict=True)
    ))  # fmt: skip
    if me.world_size == 1:
        return
    report.prediction("bytes sent per rank and step", round(sent), traffic.sent, "B", why=traffic.why)
    report.prediction("all-reduces per step", averages * len(buckets), traffic.collectives)

    link = expected.link(me.device.type)
    transfers = [collectives.cost("all_reduce", size, me.world_size, me.backend).seconds(link.link) for size in buckets]
    step, without, together = (statistics.median(times[name]) for name in ("with", "without", "all_reduces"))
    report.prediction("all-reduce of all gradients", sum(transfers) * 1e3, together * 1e3, "ms", why=link.words)
    # Backward is two thirds of a micro-batch's work. What of an average is not through when it ends, makes the step
    # longer.
    backward = without / settings.micro_batches * 2 / 3
    ready = [backward * share for share in _backward_done(training.model, settings.bucket_mb)]
    longer = timing.spread([step - alone for step, alone in zip(times["with"], times["without"], strict=True)])
    varies = (longer.p90 - longer.p10) / 2
    hidden: float | None = 1 - longer.median / (averages * together)
    why = f"{link.words}; backward of {backward * 1e3:.3g} ms; measured by how much longer communicating steps take"
    if varies > averages * together:
        hidden, why = None, f"steps vary by {varies * 1e3:.3g} ms, more than all-reduces take"
    report.prediction(
        "share of the all-reduce that backward can hide, at most", flops.hidden_share(ready, transfers), hidden, why=why
    )
    least = without + averages * flops.exposed_seconds(ready, transfers)
    report.prediction("step time, at least", least * 1e3, step * 1e3, "ms", why=link.words)


def report_scaling(
    me: Group, settings: Any, course: Course, replica: Callable[[Any], Any], tokens: int, tokens_per_s: float | None
) -> None:
    """Lets ever more ranks train, the others idle, and compares with so many times one rank.

    All numbers of ranks up to 8, beyond that powers of two. Each rank has `tokens` a step, however many there are.
    `tokens_per_s` is what all together reached before (rank 0 knows).
    """
    cores = len(os.sched_getaffinity(0))
    if me.rank == 0 and me.device.type == "cpu" and me.world_size > cores:
        report.note(
            f"beyond {cores} processes they share {cores} cores: their scaling is that of the cores, not of DDP"
        )
    found: dict[int, float] = {}
    for count in _numbers_below(me.world_size):
        processes = dist.new_group(list(range(count))) if count > 1 else None  # a collective, for those outside too
        training = replica(processes) if me.rank < count else None
        seconds = _step_seconds(me, settings, course, training)
        training = None  # before the next is made: it may be large
        gc.collect()
        found[count] = count * tokens / statistics.median(seconds)
    if me.rank != 0 or tokens_per_s is None:
        return
    found[me.world_size] = tokens_per_s
    for count, rate in found.items():
        efficiency = rate / (count * found[1])
        report.result("scaling_tokens_per_s", rate, "tokens/s", processes=count)
        report.result("scaling_efficiency", efficiency, "", processes=count)
    report.result("scaling_efficiency", efficiency, "")


def _step_seconds(me: Group, settings: Any, course: Course, training: Any) -> list[float]:
    """The slowest rank's time of each step; ranks without a training only keep them company."""
    seconds = []
    for number in range(WARM_UP + settings.rounds):
        step = partial(training.step, number) if training is not None else lambda: None
        seconds.append(timing.timed(step, me.device)[0])
        course.advance()
    return timing.slowest(seconds[WARM_UP:], me.device)


def _numbers_below(ranks: int) -> list[int]:
    if ranks <= 8:
        return list(range(1, ranks))
    return [2**power for power in range(ranks.bit_length()) if 2**power < ranks]


def _bucket_bytes(model: nn.Module, bucket_mb: float, element: int) -> list[int]:
    """What travels together, in bytes on the wire. DDP fills buckets by what gradients are in memory: float32."""
    sizes = [parameter.numel() for parameter in model.parameters()][::-1]
    filled = collectives.fill_buckets([4 * size for size in sizes], max(1, int(bucket_mb * MIB)))
    return [element * sum(sizes[index] for index in bucket) for bucket in filled]


def _backward_done(model: nn.Module, bucket_mb: float) -> list[float]:
    """Which share of backward is over when each bucket is full, by the matrices that it has gone through."""
    backwards = list(model.named_parameters())[::-1]
    filled = collectives.fill_buckets([p.nbytes for _, p in backwards], max(1, int(bucket_mb * MIB)))
    # Looking up an embedding multiplies nothing, and a norm or a bias next to nothing.
    work = [p.numel() if p.dim() > 1 and not name.startswith("embed.") else 0 for name, p in backwards]
    done = list(itertools.accumulate(sum(work[index] for index in bucket) for bucket in filled))
    return [each / done[-1] for each in done]
