"""What fits into a GPU's memory, and what to cut where it doesn't. Numbers in, numbers and a few words out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from labtui.theory.memory.rank import Training, on_rank
from labtui.theory.memory.state import STAGES

MOST_GPUS = 1 << 16
"""More data-parallel ranks are not looked at."""
_ZERO = {
    "zero1": "ZeRO-1: optimizer state cut by data-parallel ranks, no more traffic than DDP",
    "zero2": "ZeRO-2: gradients cut too, no more traffic than DDP",
    "zero3": "ZeRO-3 (FSDP): parameters cut too, 1.5 times DDP's traffic",
}


@dataclass(frozen=True)
class Cut:
    """Something that makes a GPU need less."""

    words: str
    training: Training
    zero: str


@dataclass(frozen=True)
class Remedy:
    """Cuts that together make a training fit."""

    cuts: tuple[str, ...]
    training: Training
    zero: str
    needed: float
    """Bytes on the fullest GPU afterwards."""


def largest_micro_batch(training: Training, zero: str, memory: float, *, beyond: bool = True) -> int:
    """The most sequences at a time with which `memory` bytes suffice; 0 where not even one does.

    `beyond`: what the published tables leave out (logits, gathered layers, a layer computed again) counts as well.
    Raises ValueError without shape or sequence.
    """
    if training.shape is None or training.sequence is None:
        raise ValueError("the largest micro-batch needs the model's shape and a sequence length")

    def bytes_with(sequences: int) -> float:
        found = on_rank(replace(training, micro_batch=sequences), zero)
        return found.needed if beyond else found.total

    one, two = bytes_with(1), bytes_with(2)
    if one > memory:
        return 0
    # It grows at least as fast as from one to two: the fullest of several stages, the larger of two parts. So the
    # answer lies between.
    low, high = 1, 1 + math.floor((memory - one) / max(two - one, 1))
    while low < high:
        middle = (low + high + 1) // 2
        if bytes_with(middle) <= memory:
            low = middle
        else:
            high = middle - 1
    return low


def cuts(training: Training, zero: str, memory: float) -> Iterator[Cut]:
    """Single changes, the cheap ones first. Those that this training can't make are left out."""
    layout, shape = training.layout, training.shape
    batch = training.micro_batch
    if batch is not None and not training.fused_attention and training.recompute == "none":
        yield Cut("a fused attention kernel", replace(training, fused_attention=True), zero)
    if layout.data > 1:
        for stage in ("zero1", "zero2"):
            if STAGES.index(stage) > STAGES.index(zero):
                yield Cut(_ZERO[stage], training, stage)
    if batch is not None and layout.tensor > 1 and not layout.sequence_parallel:
        words = "sequence parallelism beside tensor parallelism: the same traffic"
        yield Cut(words, replace(training, layout=replace(layout, sequence_parallel=True)), zero)
    if layout.data > 1 and zero != "zero3":
        yield Cut(_ZERO["zero3"], training, "zero3")
    if batch is not None and training.recompute != "full":
        yield Cut("full recomputation: a third more FLOPs", replace(training, recompute="full"), zero)
    if batch is not None and batch > 1 and shape is not None:
        fewer = largest_micro_batch(training, zero, memory) or 1
        if fewer < batch:
            yield Cut(
                f"micro-batches of {fewer}: more steps of smaller products", replace(training, micro_batch=fewer), zero
            )
    yield from _more_tensor(training, zero)
    if training.offload == "none":
        words = "optimizer state, gradients on the host: PCIe and the CPU set the pace"
        yield Cut(words, replace(training, offload="optimizer"), zero)
    if training.offload != "all" and zero == "zero3":
        yield Cut("parameters on the host too: all of them cross PCIe", replace(training, offload="all"), zero)


def remedy(training: Training, zero: str, memory: float) -> Remedy | None:
    """The cheapest single cut that makes the training fit, else several together; None where none of that helps.

    Several are taken in the order of `cuts`, each that frees something, until it fits.
    """
    for cut in cuts(training, zero, memory):
        needed = on_rank(cut.training, cut.zero).needed
        if needed <= memory:
            return Remedy((cut.words,), cut.training, cut.zero, needed)
    words: list[str] = []
    now, stage, needed = training, zero, on_rank(training, zero).needed
    while needed > memory:
        for cut in cuts(now, stage, memory):
            after = on_rank(cut.training, cut.zero).needed
            if after < needed:
                # A later ZeRO stage holds the earlier ones.
                words = [word for word in words if not (cut.words.startswith("ZeRO") and word.startswith("ZeRO"))]
                words.append(cut.words)
                now, stage, needed = cut.training, cut.zero, after
                break
        else:
            return None
    return Remedy(tuple(words), now, stage, needed)


def gpus_needed(training: Training, memory: float) -> int | None:
    """How many GPUs it takes with ZeRO-3, doubling the data-parallel ranks; None if `MOST_GPUS` don't suffice.

    More ranks share the state; each still has its own activations.
    """
    data = training.layout.data
    while data * training.layout.tensor * training.layout.pipeline <= MOST_GPUS:
        more = replace(training, layout=replace(training.layout, data=data))
        if on_rank(more, "zero3").needed <= memory:
            return more.layout.gpus
        data *= 2
    return None


def _more_tensor(training: Training, zero: str) -> Iterator[Cut]:
    """Twice as many tensor-parallel ranks on the same GPUs, up to the 8 of one node."""
    layout = training.layout
    if training.shape is None or layout.data % 2 or layout.tensor >= 8:
        return
    wider = replace(layout, data=layout.data // 2, tensor=2 * layout.tensor)
    try:
        cut = replace(training, layout=wider)
    except ValueError:
        return  # experts or heads that can't be cut so
    words = f"tensor parallelism over {wider.tensor}: activations travel in every layer, so within a node"
    yield Cut(words, cut, zero)
