"""The first steps of a training that is shared out: what they held and sent on each rank.

A training here is anything with `model`, `optimizer`, `shape`, `way` (a name of theory.sharded_step.WAYS), `steps`,
`batch()`, `step(parts)` (trains on them, returns their mean loss and leaves the length of the gradient in `norm`) and
`mesh`. All functions are collectives: every rank calls them. Reports nothing but progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from labtui.bench import counted, report, shards, tracker, wire
from labtui.bench.group import Group
from labtui.theory import models

MOMENTS = ("peak", "forward", "after")


class Course:
    """How far this rank is, in steps."""

    def __init__(self, settings: Any) -> None:
        self.done = 0
        self.total = (1 + settings.beside) * 3 + settings.rounds

    def advance(self) -> None:
        self.done += 1
        report.progress(self.done, self.total)


@dataclass
class Look:
    """What the first steps of a training showed. Lists grow with each further step."""

    memory: tracker.Tracked
    """By category, each of the rank where it is largest. DDP's buckets are a category of their own."""
    peaks: list[int]
    """The most bytes at once, rank by rank: of the GPU's allocator, on a CPU the tracker's."""
    totals: dict[str, counted.Total]
    """A step's collectives on this rank."""
    traffic: wire.Traffic
    share: float
    """Of all parameters, what the rank that has most keeps."""
    gradients: list[torch.Tensor]
    """The first step's, clipped and whole, in the host's memory; only on rank 0."""
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)


def look(me: Group, course: Course, training: Any) -> Look:
    """Takes three steps (four on a GPU) and returns what they held and sent."""
    before = _allocated(me)
    parts = training.batch()
    losses, norms = [mean(me, training.step(parts))], [training.norm]
    gradients = _gradients(me, training)
    course.advance()

    buckets = _Buckets()
    with buckets:
        losses.append(mean(me, training.step(training.batch())))
    norms.append(training.norm)
    course.advance()

    parts, seen = training.batch(), counted.Counted()
    found: list[Any] = []

    def counted_step() -> None:
        with seen:
            found.append(training.step(parts))

    def tracked_step() -> None:
        inputs = [tensor for part in parts for tensor in part]
        # ZeroRedundancyOptimizer wraps the optimizer that has the state.
        optimizer = getattr(training.optimizer, "optim", training.optimizer)
        found.append(tracker.track(counted_step, training.model, optimizer, [*inputs, *buckets.tensors]))

    traffic = wire.count(tracked_step, me.device)
    loss, memory = found
    losses.append(mean(me, loss))
    norms.append(training.norm)
    course.advance()

    most = memory.peak["total"]
    if me.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(me.device)
        losses.append(mean(me, training.step(training.batch())))
        norms.append(training.norm)
        torch.cuda.synchronize(me.device)
        most = int(torch.cuda.max_memory_allocated(me.device)) - before
    mine = sum(shards.local(weight).numel() for weight in training.model.parameters())
    return Look(
        memory=_largest(me, _with_buckets(memory, sum(tensor.nbytes for tensor in buckets.tensors))),
        peaks=[int(value) for value in _everyones(me, [most])[0]],
        totals=seen.totals(),
        traffic=traffic,
        share=me.largest(mine) / models.parameters(training.shape),
        gradients=gradients,
        losses=losses,
        norms=norms,
    )


class _Buckets(TorchDispatchMode):  # type: ignore[misc]
    """Finds the tensors that DDP sends gradients in. They live as long as DDP does, and no tracker knows of them."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name == "c10d::allreduce_" and torch._C._current_graph_task_id() != -1:  # in backward
            self.tensors += args[0]
        return func(*args, **(kwargs or {}))


def _with_buckets(memory: tracker.Tracked, size: int) -> tracker.Tracked:
    """Buckets were tracked as inputs; here they get a category of their own."""
    moments = []
    for moment in MOMENTS:
        found = dict(getattr(memory, moment))
        if size:
            found["inputs"] -= size
            found["buckets"] = size
        moments.append(found)
    return tracker.Tracked(*moments)


def _gradients(me: Group, training: Any) -> list[torch.Tensor]:
    found = []
    for weight in training.model.parameters():
        gradient = shards.whole(me.device, weight.grad)
        if me.rank == 0:
            found.append(gradient.to("cpu", torch.float32))
    return found


def _allocated(me: Group) -> int:
    return int(torch.cuda.memory_allocated(me.device)) if me.device.type == "cuda" else 0


def mean(me: Group, loss: torch.Tensor) -> float:
    """Of all ranks' losses. A collective."""
    loss = loss.clone()
    dist.all_reduce(loss)
    return float(loss) / me.world_size


def _everyones(me: Group, mine: Sequence[float]) -> list[list[float]]:
    """For each value, those of all ranks."""
    own = torch.tensor(mine, dtype=torch.float64, device=me.device)
    all_of_them = [torch.empty_like(own) for _ in range(me.world_size)]
    dist.all_gather(all_of_them, own)
    return torch.stack(all_of_them).T.tolist()  # type: ignore[no-any-return]


def _largest(me: Group, memory: tracker.Tracked) -> tracker.Tracked:
    moments = []
    for moment in MOMENTS:
        found = getattr(memory, moment)
        values = _everyones(me, list(found.values()))
        moments.append({name: int(max(each)) for name, each in zip(found, values)})  # noqa: B905 - Python 3.9
    return tracker.Tracked(*moments)
