"""How much arithmetic training takes: by the rule of thumb 6ND, and counted product by product.

Numbers in, numbers out. A FLOP is one addition or multiplication of floating-point numbers, so a product of matrices
[m, k] and [k, n] takes 2 m k n. Only those products are counted, as everybody does: norms, GELU, softmax and the
optimizer are a small rest. Attention is counted whole, as is usual, although a causal mask makes half of it
unnecessary and some kernels leave that half out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labtui.theory.models import GptShape

FORWARD_AND_BACKWARD = 3
"""Backward takes twice what forward does: a gradient of the product's input, and one of its weights."""

ATTENTION_FORWARD = 2
"""Products of forward attention: scores from queries and keys, values weighted by scores."""
ATTENTION_BACKWARD_KERNEL = 5
"""Products of a fused kernel's backward: each of those two has two gradients, and the scores, which it never stored,
are computed again."""


# ---- The rule of thumb.


def six_nd(parameters: float, tokens: float) -> float:
    """6 FLOPs per parameter and token: 2 in forward, 4 in backward. Leaves attention's scores out.

    `parameters` are those that a token passes through: of a mixture of experts, the active ones.
    """
    return 6 * parameters * tokens


# ---- Product by product.


@dataclass(frozen=True)
class LayerFlops:
    """FLOPs of one block's forward pass over a batch."""

    queries_keys_values: float
    scores: float
    values: float
    """Values, weighted by the scores."""
    projection: float
    """From all heads' results back into one width."""
    mlp: float

    @property
    def attention_core(self) -> float:
        """What has no weights, and grows with the square of the sequence."""
        return self.scores + self.values

    @property
    def total(self) -> float:
        return self.queries_keys_values + self.attention_core + self.projection + self.mlp


def layer_forward(shape: GptShape, sequences: int, length: int | None = None) -> LayerFlops:
    """Of `sequences` sequences of `length` tokens (default: the model's context)."""
    s, h = shape.context if length is None else length, shape.width
    tokens = sequences * s
    return LayerFlops(
        queries_keys_values=2 * tokens * h * 3 * h,
        scores=2 * tokens * s * h,  # over all heads together, whose widths add up to h
        values=2 * tokens * s * h,
        projection=2 * tokens * h * h,
        mlp=2 * tokens * h * 4 * h * 2,
    )


def forward(shape: GptShape, sequences: int, length: int | None = None) -> float:
    """FLOPs of one forward pass: all blocks and the output layer. Looking up an embedding multiplies nothing."""
    tokens = sequences * (shape.context if length is None else length)
    output = 2 * tokens * shape.width * shape.vocabulary
    return shape.layers * layer_forward(shape, sequences, length).total + output


def training(shape: GptShape, sequences: int, length: int | None = None, recompute: str = "none") -> float:
    """FLOPs of forward and backward.

    `recompute` says what backward computes a second time instead of keeping it: "none", "selective" (attention's core)
    or "full" (all blocks). What is computed twice keeps the hardware busy but is no progress: MFU takes "none", HFU
    what was really done. Raises ValueError for another word.
    """
    layer = layer_forward(shape, sequences, length)
    again = {"none": 0.0, "selective": layer.attention_core, "full": layer.total}
    if recompute not in again:
        raise ValueError(f"recompute is {recompute!r}, {', '.join(again)} expected")
    return FORWARD_AND_BACKWARD * forward(shape, sequences, length) + shape.layers * again[recompute]


def missed_by_torch_on_cpu(shape: GptShape, sequences: int, length: int | None = None) -> float:
    """FLOPs of forward and backward that torch's FlopCounterMode doesn't see on the CPU (torch 2.13).

    Its table has no entry for the CPU's fused attention, so all of that is left out: 2 products of scores' size in
    forward and 5 in backward. On GPUs it counts all 7. (Of these, one is computed a second time: `training` has 6.)
    """
    one_product = layer_forward(shape, sequences, length).scores
    return shape.layers * one_product * (ATTENTION_FORWARD + ATTENTION_BACKWARD_KERNEL)


# ---- What it takes and how well a machine is used.


def utilization(flops_per_s: float, peak_tflops: float) -> float:
    """Which share of the peak (1e12 FLOP/s) is used: MFU, if the FLOPs are the model's. Raises ValueError for 0."""
    if not peak_tflops > 0:
        raise ValueError(f"a peak is above 0, not {peak_tflops} TFLOP/s")
    return flops_per_s / (peak_tflops * 1e12)


def gpu_hours(flops: float, peak_tflops: float, mfu: float) -> float:
    """Hours that one GPU needs for so many FLOPs when it uses the share `mfu` of its peak (1e12 FLOP/s).

    N GPUs together need the same GPU-hours, so 1/N of the time. Raises ValueError unless 0 < mfu <= 1 and a peak.
    """
    if not (0 < mfu <= 1 and peak_tflops > 0):
        raise ValueError(f"an MFU lies above 0 and up to 1, and a peak above 0, not {mfu} and {peak_tflops} TFLOP/s")
    return flops / (mfu * peak_tflops * 1e12) / 3600


# ---- Computing against communicating.


@dataclass(frozen=True)
class Balance:
    """A machine's arithmetic over its link."""

    machine: str
    tflops: float
    """1e12 FLOP/s."""
    gb_per_s: float
    """Of the link, 1e9 bytes per second."""
    source: str

    @property
    def flops_per_byte(self) -> float:
        return flops_per_byte(self.tflops, self.gb_per_s)


_LESSON = "the lesson's figures: peak over an effective bandwidth; the DeepSeek-V3 report has those of the H800"

PUBLISHED_BALANCES = (
    Balance("RTX 4080 box over 10 GB/s", 97, 10, _LESSON),
    Balance("H800 inside a node", 989, 160, _LESSON),
    Balance("H800 between nodes", 989, 50, _LESSON),
)


def flops_per_byte(tflops: float, gb_per_s: float) -> float:
    """How many FLOPs are done in the time that one byte takes. Raises ValueError for a link that carries nothing."""
    if not gb_per_s > 0:
        raise ValueError(f"a link carries more than 0 GB/s, not {gb_per_s}")
    return tflops * 1e12 / (gb_per_s * 1e9)


def tokens_to_hide(flops_per_byte: float, ranks: int, element: int) -> float:
    """How many tokens a rank must process per step for backward to last as long as the gradients' all-reduce.

    Backward takes 4 FLOPs a parameter and token, the ring moves 2 (N-1)/N times `element` bytes a parameter: the
    model's size drops out. Raises ValueError for no ranks.
    """
    if ranks < 1:
        raise ValueError(f"an all-reduce needs at least 1 rank, not {ranks}")
    return flops_per_byte * element * (ranks - 1) / ranks / 2


def exposed_seconds(ready: Sequence[float], transfers: Sequence[float]) -> float:
    """How much later than backward the last of several transfers ends, if they go one after the other.

    `ready`: when each bucket is full, in seconds from the beginning of backward; the last is when backward ends.
    `transfers`: the seconds each takes. Raises ValueError if there aren't equally many of both.
    """
    if len(ready) != len(transfers):
        raise ValueError(f"{len(ready)} buckets and {len(transfers)} transfers: one each expected")
    end = 0.0
    for full, seconds in zip(ready, transfers):  # noqa: B905 - Python 3.9 has no strict=
        end = max(end, full) + seconds
    return end - ready[-1] if ready else 0.0


def hidden_share(ready: Sequence[float], transfers: Sequence[float]) -> float:
    """The largest share of the transfers' time that can pass while backward computes; 0 where nothing is sent.

    Never 1: the last bucket is full only when backward ends. Raises as `exposed_seconds`.
    """
    total = sum(transfers)
    share = 1 - exposed_seconds(ready, transfers) / total if total > 0 else 0.0
    return share if share > 1e-9 else 0.0  # the end of backward was added and taken away again: that rounds
