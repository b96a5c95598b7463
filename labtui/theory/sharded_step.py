"""One training step of a GPT under data parallelism, by the way it is shared out: what a rank holds, what it sends.

Numbers in, numbers out; knows no torch, no links and no clocks. The ways are those of experiment fsdp_compare: DDP,
torch's ZeroRedundancyOptimizer (ZeRO-1) and FSDP2's fully_shard by block, as they are in torch 2.13. The optimizer is
Adam, many tensors at a time (foreach). Sizes are bytes, N is the number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labtui.theory import fsdp, models
from labtui.theory.collectives import all_reduce_bytes, bus_factor
from labtui.theory.memory import FP32_ADAM, Recipe, activation_bytes_per_layer, recipe, state_bytes
from labtui.theory.models import GptShape


@dataclass(frozen=True)
class Way:
    """How training is shared out among ranks."""

    stage: str
    """What ranks share, in ZeRO's terms: "ddp", "zero1" or "zero3"."""
    kept: Recipe = FP32_ADAM
    """Bytes of a parameter, its gradient and its state as a rank keeps them."""
    weight: int = 4
    """Bytes of a weight as it is gathered and computed with, and of an activation."""
    gradient: int = 4
    """Bytes of a gradient as it travels."""
    reshard: bool = True
    """FSDP2 drops a block's gathered weights after its forward, and gathers them again in backward."""
    recompute: bool = False
    """Of a block only its input is kept: backward computes the rest again."""


_BF16 = recipe("bf16", "adam")
WAYS = {
    "alone": Way("ddp"),
    "ddp": Way("ddp"),
    "zero1": Way("zero1"),
    "reshard": Way("zero3"),
    "no_reshard": Way("zero3", reshard=False),
    "reshard_to": Way("zero3"),
    "mixed": Way("zero3", weight=2),
    "bf16": Way("zero3", kept=_BF16, weight=2, gradient=2),
    "recompute": Way("zero3", recompute=True),
    "offload": Way("zero3"),
}
""""alone" is one process without anybody to talk to."""


# ---- Memory.


@dataclass(frozen=True)
class Memory:
    """Bytes on the device of one rank."""

    parameters: float
    gradients: float
    optimizer: float
    buckets: float
    """Copies of gradients from which DDP sends them."""
    gathered: float
    """Weights that are whole for a moment, or for the whole step."""
    activations: float
    """What forward leaves for backward, and what backward computes again of one block."""
    working: float
    """Whole gradients that wait to be reduced, and the buffer that they are reduced from."""
    peak: float
    """All that is there at the fullest moment. Less than the sum: gradients come as activations go."""

    @property
    def kept(self) -> float:
        """What stays between steps."""
        return self.parameters + self.gradients + self.optimizer + self.buckets

    def parts(self) -> dict[str, float]:
        """By name, without the peak, and without what isn't there."""
        names = ("parameters", "gradients", "optimizer", "buckets", "gathered", "activations", "working")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def memory(
    name: str, shape: GptShape, sequences: int, ranks: int, *, reshard_to: int = 1, offloaded: bool = False
) -> Memory:
    """A step of `sequences` sequences on each of `ranks` ranks, for a way of `WAYS`.

    `reshard_to`: the ranks among which "reshard_to" leaves a block's weights cut between forward and backward.
    `offloaded`: state lives on the host (offload on a GPU). State by ZeRO's formulas, activations by those of
    arXiv 2205.05198; the rest is when FSDP2 gathers and frees (theory.fsdp). An estimate: what a single operation takes
    meanwhile is left out. Raises ValueError for a way that isn't there.
    """
    way, total = _way(name), models.parameters(shape)
    state = state_bytes(total, ranks, way.stage, way.kept)
    unit = models.layer_parameters(shape)
    root, late = total - shape.layers * unit, shape.vocabulary * shape.width
    element, tokens = way.weight, sequences * shape.context

    whole = activation_bytes_per_layer(
        shape, shape.context, sequences, fused_attention=True, dropout=False, element=element
    )
    entry = element * tokens * shape.width
    outside = element * tokens * 2 * shape.width + 4 * tokens * shape.vocabulary  # the last norm, and float32 scores
    each = entry if way.recompute else whole
    activations = shape.layers * each + outside + (whole if way.recompute else 0)

    gathered = working = reduced = buckets = 0.0
    if way.stage == "zero3":
        blocks = min(2, shape.layers) if way.reshard else shape.layers
        gathered = element * (root + blocks * unit)
        if name == "reshard_to" and 1 < reshard_to < ranks:
            gathered += element * (shape.layers - blocks) * unit / reshard_to
        reduced = way.gradient * unit  # in a buffer of its own, in which activations were before
        working = element * (late + unit) + reduced
    elif name != "alone":
        buckets = 4.0 * total
    kept = state.parameters + state.optimizer
    forward = kept + buckets + gathered + activations + working - min(each, reduced)
    # At backward's end gradients are there and activations gone; while AdamW runs, another copy of what it updates.
    last = state.total + buckets + element * (root + unit) * (way.stage == "zero3") + working + whole
    update = state.total + buckets + way.kept.parameters * total / (1 if way.stage == "ddp" else ranks)
    if offloaded:
        state = state_bytes(0, ranks, way.stage, way.kept)
        # Gradients go to the host as they come, and AdamW runs there. Their length is found on the GPU.
        forward, last, update = forward - kept, gathered + working + whole, way.kept.gradients * total / ranks
    return Memory(
        state.parameters, state.gradients, state.optimizer, buckets, gathered, activations, working,
        peak=max(forward, last, update),
    )  # fmt: skip


# ---- What is sent.


@dataclass(frozen=True)
class Sent:
    """What a rank sends in a step. Bytes of a collective are those of the whole, as bench.counted has them."""

    calls: Mapping[str, int] = field(default_factory=dict)
    """By collective; those that aren't named follow other rules (DDP's all-reduces: one for each bucket)."""
    bytes: Mapping[str, int] = field(default_factory=dict)
    ideal: float = 0.0
    """By the algorithm that sends least."""
    gloo: float = 0.0
    """As gloo sends it: its reduce-scatter is an all-reduce, twice the least."""


def sent(name: str, block: int, layers: int, root: int, tensors: int, ranks: int, *, reshard_to: int = 1) -> Sent:
    """A step of one micro-batch that clips gradients by their norm, for a way of `WAYS`.

    `block` and `root` are numbers of a block and of what no block has, for FSDP2 with its padding
    (`fsdp.padded_unit`); `tensors` are the parameters, whose norms are added up by one small all-reduce. A rank of
    "zero1" broadcasts what it has updated: N - 1 times 1/N of all, on average.
    """
    way = _way(name)
    if ranks == 1 or name == "alone":
        return Sent()
    if way.stage != "zero3":
        size = 4 * (layers * block + root)
        least = all_reduce_bytes(size, ranks)
        if way.stage == "ddp":
            return Sent({}, {"all_reduce": size}, least, least)
        least += bus_factor("all_gather", ranks) * size
        return Sent({"broadcast": tensors}, {"all_reduce": size, "broadcast": size}, least, least)
    step = fsdp.traffic([block] * layers, root, ranks, weight=way.weight, gradient=way.gradient, reshard=way.reshard)
    norms = int(way.kept.gradients) * tensors
    least = step.sent + all_reduce_bytes(norms, ranks)
    if name == "reshard_to" and reshard_to < ranks:
        # In backward a block is gathered from fewer ranks. The one that backward begins with as well.
        saved = bus_factor("all_gather", ranks) - bus_factor("all_gather", reshard_to)
        least -= saved * way.weight * layers * block
    return Sent(
        {"all_gather": step.all_gathers, "reduce_scatter": step.reduce_scatters, "all_reduce": 1},
        {"all_gather": step.all_gather_bytes, "reduce_scatter": step.reduce_scatter_bytes, "all_reduce": norms},
        least,
        least + bus_factor("reduce_scatter", ranks) * step.reduce_scatter_bytes,
    )


def _way(name: str) -> Way:
    if name not in WAYS:
        raise ValueError(f"{name!r} is no way to share out training: {', '.join(WAYS)}")
    return WAYS[name]
