"""What cutting the matrices of a transformer block over ranks saves, what it sends, and which link it takes to pay.

Numbers in, numbers out. The cut is Megatron-LM's (Shoeybi et al. 2019, arXiv 1909.08053): heads and the MLP's inner
features are shared out, so a block needs two all-reduces of its tokens in forward and two in backward. With sequence
parallelism (Korthikanti et al. 2022, arXiv 2205.05198) each becomes a reduce-scatter and an all-gather.

Shapes: b sequences, s tokens, h = width, a heads, t ranks; a "tensor" is b x s x h numbers. Sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Block:
    """A pre-norm block (attention, then an MLP four times as wide) and what passes through it at once."""

    sequences: int
    tokens: int
    """Of each sequence."""
    width: int
    heads: int
    kv_heads: int
    """Heads of keys and values. Fewer than `heads` is grouped-query attention: each serves heads / kv_heads queries."""

    def __post_init__(self) -> None:
        if min(self.sequences, self.tokens, self.width, self.heads, self.kv_heads) < 1:
            raise ValueError("a block has at least one sequence, token, feature and head")
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} can't be shared equally by {self.heads} heads")
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads can't share {self.kv_heads} heads of keys and values equally")

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def parameters(self) -> int:
        """Weights and biases of the whole block: 12 h^2 + 12 h with as many kv_heads as heads (keys have no bias)."""
        h, kv = self.width, self.kv_heads * self.head_width
        attention = (h * h + h) + h * kv + (h * kv + kv) + (h * h + h)
        mlp = (4 * h * h + 4 * h) + (4 * h * h + h)
        return attention + mlp + 4 * h  # and two norms

    @property
    def forward_flops(self) -> float:
        """Of the matrix products in one forward pass; attention's scores are counted whole, causal or not."""
        tokens, h, kv = self.sequences * self.tokens, self.width, self.kv_heads * self.head_width
        return 2.0 * tokens * (h * (h + 2 * kv + h) + 2 * h * 4 * h + 2 * self.tokens * h)


@dataclass(frozen=True)
class Share:
    """What each rank has of a block's heads."""

    heads: int
    kv_heads: int
    copies: int
    """Ranks that hold the same heads of keys and values; above 1 where there are fewer of them than ranks."""


def share(block: Block, ranks: int) -> Share:
    """Shares the heads out. Raises ValueError, one sentence, where they can't be shared equally."""
    if ranks < 1:
        raise ValueError(f"a block is shared by at least 1 rank, not {ranks}")
    if block.heads % ranks:
        raise ValueError(f"{block.heads} heads can't be shared equally by {ranks} ranks: one head can't be cut")
    if block.kv_heads % ranks and ranks % block.kv_heads:
        raise ValueError(
            f"{block.kv_heads} heads of keys and values fit {ranks} ranks only if one number divides the other"
        )
    return Share(block.heads // ranks, max(1, block.kv_heads // ranks), max(1, ranks // block.kv_heads))


# ---- What it saves: memory for backward.

ALL_REDUCES = "all_reduces"
SEQUENCE_PARALLEL = "sequence_parallel"
SEQUENCE_PARALLEL_LEAN = "sequence_parallel_lean"
LAYOUTS = (ALL_REDUCES, SEQUENCE_PARALLEL, SEQUENCE_PARALLEL_LEAN)
"""Between the cut matrices every rank has all tokens; or its share of them, which it gathers for the matrices and
keeps gathered; or gathers a second time in backward instead of keeping it, as Megatron-LM does."""


def kept(block: Block, ranks: int, element: int, layout: str = ALL_REDUCES) -> dict[str, float]:
    """Bytes that a block keeps for backward on each rank, by what they are; `element` is the bytes of one number.

    The rules are those of Korthikanti et al., section 4, without dropout and with attention that keeps no scores:

        inputs of both norms             2 tensors   on all ranks, or / t where tokens are cut
        inputs of both first matrices    2 tensors   on all ranks, or / t where they are gathered again
        queries, keys, values, result    4 tensors   / t (keys and values less with fewer heads of them)
        before and after the GELU        8 tensors   / t

    so 16 tensors, or 4 + 12/t, 2 + 14/t, 16/t. With 2 bytes a number and their two dropout masks of 1 byte these are
    the paper's 34 sbh, (10 + 24/t) sbh and 34 sbh/t. And two small things that the paper leaves out: mean and deviation
    of each normed token, and of each head and token the logarithm of softmax's denominator, which takes the place of
    the scores; both in float32 or better. The output is the next block's input and counts there.

    Raises ValueError for another layout, and as `share`.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"{layout!r} is no layout: {', '.join(LAYOUTS)}")
    own = share(block, ranks)
    tokens = block.sequences * block.tokens
    tensor = element * tokens * block.width
    small = max(4, element)
    per_norm = 1 if layout == ALL_REDUCES else ranks
    per_input = ranks if layout == SEQUENCE_PARALLEL_LEAN else 1
    keys_values = element * tokens * 2 * own.kv_heads * block.head_width
    return {
        "inputs of the norms": 2 * tensor / per_norm,
        "means and deviations": 2 * 2 * small * tokens / per_norm,
        "inputs of the first matrices": 2 * tensor / per_input,
        "queries, keys, values, result": 2 * tensor / ranks + keys_values,
        "softmax's denominators": float(small * tokens * own.heads),
        "around the GELU": 8 * tensor / ranks,
    }


# ---- What it sends, and whether that pays.


def exchanged(block: Block, element: int) -> int:
    """Bytes of one exchange: all tokens of all sequences, [b, s, h]. A block has two in forward and two in backward."""
    return element * block.sequences * block.tokens * block.width


def waiting_over_computing(flops_per_byte: float, ranks: int, width: int, element: int) -> float:
    """How many times as long as it computes a block waits for its exchanges, at best and with nothing overlapped.

    Forward and backward alike: 24 b s h^2 / t operations (attention's scores left out) against two ring all-reduces,
    2 x 2 (t-1)/t x element x b s h bytes. So element (t-1) / (6 h) times the operations that pass in the time of one
    byte. Tokens drop out: a longer batch doesn't help, only a wider model does. Raises ValueError for no ranks or
    width.
    """
    if ranks < 1 or width < 1:
        raise ValueError(f"a block has at least 1 rank and a width of 1, not {ranks} and {width}")
    return element * (ranks - 1) / (6 * width) * flops_per_byte


def paying_rate(sent: float, alone_s: float, shared_s: float) -> Optional[float]:  # noqa: UP045 - Python 3.9
    """Bytes per second from which on sharing a block is faster than one rank that does all of it.

    `alone_s`: what one rank takes for the whole block; `shared_s`: for its share, without any exchange; `sent`: bytes
    that each rank sends. None where the share takes no less than the whole: then no link makes it pay.
    """
    return sent / (alone_s - shared_s) if shared_s < alone_s else None
