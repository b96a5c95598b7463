"""When a rank computed and when it communicated, as spans on two lanes.

`span` and `follow` cost next to nothing until a `recording` is on, so a script is timed without them in the way.

On a GPU a launch returns long before the work is done, so marks are CUDA events and a span is what the device did. On
the CPU a mark is the clock. A collective that was started asynchronously is followed to its end by a callback. Its span
begins when it was handed over, so it includes any wait behind an earlier one; on the CPU the callback is Python, and
may come late by as long as another thread holds the interpreter.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from labtui.bench import report

COMPUTE, COMMUNICATION = "compute", "communication"


@dataclass(frozen=True)
class Span:
    """`start` and `end` are seconds since the epoch."""

    lane: str
    name: str
    start: float
    end: float


class Recording:
    """Spans while they are recorded, and afterwards."""

    def __init__(self, title: str, device: torch.device) -> None:
        self.title = title
        self.spans: list[Span] = []
        self._cuda = device.type == "cuda"
        self._raw: list[tuple[str, str, Any, list[Any]]] = []
        self._ends: list[torch.futures.Future[None]] = []
        if self._cuda:
            torch.cuda.synchronize()
        self._zero = self.mark()
        if self._cuda:
            torch.cuda.synchronize()
        self._zero_on_the_wall = time.time()
        self.computed = self._zero
        """The end of what was last computed: where the next layer's backward begins."""

    def mark(self) -> Any:
        """This moment: of the current CUDA stream, or of the clock."""
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, lane: str, name: str, start: Any, end: Any) -> None:
        self._raw.append((lane, name, start, [end]))

    def follow(self, work: dist.Work, name: str, since: Any) -> None:
        end: list[Any] = []
        self._raw.append((COMMUNICATION, name, since, end))
        # For NCCL the callback runs at once, on a stream that waits for the collective; an event there marks its end.
        self._ends.append(work.get_future().then(lambda _: end.append(self.mark())))

    def finish(self) -> None:
        """Waits for all ends and reports the spans, in the order in which they began."""
        for future in self._ends:
            future.wait()
        if self._cuda:
            torch.cuda.synchronize()
        found = (
            Span(lane, f"{self.title}: {name}", self._wall(start), self._wall(end[0]))
            for lane, name, start, end in self._raw
        )
        self.spans = sorted(found, key=lambda span: span.start)
        for span in self.spans:
            report.add_span(span.lane, span.name, span.start, span.end)

    def _wall(self, mark: Any) -> float:
        since = self._zero.elapsed_time(mark) / 1e3 if self._cuda else mark - self._zero
        return self._zero_on_the_wall + float(since)


_recording: Recording | None = None


@contextmanager
def recording(title: str, model: nn.Module, device: torch.device) -> Iterator[Recording]:
    """Records what happens inside and reports it as spans whose names begin with `title`.

    The backward pass through `model` appears layer by layer: a layer's span ends when the last of its gradients is
    there.
    """
    global _recording
    active = Recording(title, device)
    hooks = [
        parameter.register_post_accumulate_grad_hook(hook)
        for layer, parameters in _by_layer(model).items()
        for hook in [_layer_hook(active, layer, len(parameters))]
        for parameter in parameters
    ]
    _recording = active
    try:
        yield active
    finally:
        _recording = None
        for handle in hooks:
            handle.remove()
    active.finish()


@contextmanager
def span(lane: str, name: str) -> Iterator[None]:
    """Records its block, if a recording is on. On a GPU: the device's work that was queued inside."""
    active = _recording
    if active is None:
        yield
        return
    start = active.mark()
    yield
    end = active.mark()
    active.add(lane, name, start, end)
    if lane == COMPUTE:
        active.computed = end


def mark() -> Any:
    """This moment, for `follow`; None if no recording is on."""
    return None if _recording is None else _recording.mark()


def follow(work: dist.Work, name: str, since: Any) -> None:
    """Records an asynchronous collective from the mark `since`, taken before it was started, to its end.

    Taken afterwards it may come too late: a small collective can be over before its starter gets to run again.
    """
    if _recording is not None and since is not None:
        _recording.follow(work, name, since)


def watch(ddp: nn.parallel.DistributedDataParallel) -> None:
    """Makes DDP's own all-reduces seen: a hook does with each bucket what DDP does without one, and follows it."""

    # No annotations here: DDP looks at them, and takes those that this module defers for wrong ones.
    def all_reduce(_, bucket):  # type: ignore[no-untyped-def]
        average = bucket.buffer().div_(dist.get_world_size())
        start = mark()
        work = dist.all_reduce(average, async_op=True)
        follow(work, f"bucket {bucket.index()}", start)
        return work.get_future().then(lambda future: future.value()[0])

    ddp.register_comm_hook(None, all_reduce)


def hidden_share(spans: Sequence[Span]) -> float | None:
    """Which share of the time with communication under way was also spent computing; None without communication."""
    communicating = _union([(s.start, s.end) for s in spans if s.lane == COMMUNICATION])
    computing = _union([(s.start, s.end) for s in spans if s.lane == COMPUTE])
    total = sum(end - start for start, end in communicating)
    if total <= 0:
        return None
    both = sum(max(0.0, min(e, f) - max(s, b)) for s, e in communicating for b, f in computing)
    return both / total


def _union(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same time as intervals that don't overlap."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _by_layer(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    layers: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        layers.setdefault(name.rpartition(".")[0] or name, []).append(parameter)
    return layers


def _layer_hook(active: Recording, layer: str, parameters: int) -> Any:
    missing = parameters

    def ready(_: nn.Parameter) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            end = active.mark()
            active.add(COMPUTE, f"backward {layer}", active.computed, end)
            active.computed = end
            missing = parameters  # for a second backward in the same recording

    return ready
