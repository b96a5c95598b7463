"""The shapes of Llama-like models: RMS norms, rotary positions, gated MLPs, no biases; grouped queries, experts.

Numbers in, numbers out; nothing here builds a model. Widths count features, all counts are numbers, not bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from labtui.theory.models import GptShape


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of the MLP. Each expert is a gated MLP of its own."""

    count: int
    """Routed experts of a layer."""
    active: int
    """Of those, how many a token passes through (top-k)."""
    width: int
    """Of an expert's inner layer."""
    shared: int = 0
    """Experts, as wide, that every token passes through."""
    dense_layers: int = 0
    """How many of the first layers have the plain MLP instead."""
    router_bias: bool = False
    """A number for each expert that steers the load (DeepSeek-V3's `e_score_correction_bias`)."""

    def __post_init__(self) -> None:
        if min(self.count, self.active, self.width) < 1 or min(self.shared, self.dense_layers) < 0:
            raise ValueError(f"experts need sizes of at least 1, not {self.count}, {self.active}, {self.width}")
        if self.active > self.count:
            raise ValueError(f"a token can't pass through {self.active} of {self.count} experts")


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2 and V3): queries, keys and values by way of narrow vectors."""

    query_rank: int
    key_value_rank: int
    head: int
    """Features of a head's queries and keys that carry no position."""
    rotary: int
    """Features of a head's queries, and of the one key that all heads share, that carry the position."""
    value: int
    """Features of a head's values."""


@dataclass(frozen=True)
class LlamaShape:
    """A Llama-like model."""

    layers: int
    heads: int
    width: int
    """Features of a token (hidden_size, h)."""
    mlp: int
    """Features inside the gated MLP (intermediate_size)."""
    context: int
    """The longest sequence it was trained for, in tokens."""
    vocabulary: int
    kv_heads: int = 0
    """Heads of keys and values; 0: as many as `heads`. Fewer: grouped-query attention."""
    tied: bool = False
    """The output layer uses the token embedding's weights."""
    experts: Experts | None = None
    latent: Latent | None = None

    def __post_init__(self) -> None:
        if self.kv_heads == 0:
            object.__setattr__(self, "kv_heads", self.heads)
        smallest = min(self.layers, self.heads, self.width, self.mlp, self.context, self.vocabulary, self.kv_heads)
        if smallest < 1 or self.width % self.heads or self.heads % self.kv_heads:
            raise ValueError(
                "a Llama-like model needs sizes of at least 1, a width that its heads divide and heads that its KV"
                f" heads divide, not {self.width} by {self.heads} by {self.kv_heads}"
            )

    @property
    def kv_width(self) -> int:
        """Features of all keys (or values) of a token."""
        return self.width // self.heads * self.kv_heads

    @property
    def expert_layers(self) -> int:
        """Layers with experts; 0 for a dense model."""
        return 0 if self.experts is None else max(0, self.layers - self.experts.dense_layers)


Shape = Union[GptShape, LlamaShape]  # noqa: UP007 - Python 3.9 runs this line
"""Of either kind."""


def attention_parameters(shape: LlamaShape) -> int:
    """Of one layer: 2 h^2 for queries and output, 2 h h_kv for keys and values.

    With latent attention: what goes down to the narrow vectors (with a norm each) and up from them.
    """
    h = shape.width
    if shape.latent is None:
        return 2 * h * h + 2 * h * shape.kv_width
    narrow, a = shape.latent, shape.heads
    queries = h * narrow.query_rank + narrow.query_rank + narrow.query_rank * a * (narrow.head + narrow.rotary)
    down = h * (narrow.key_value_rank + narrow.rotary) + narrow.key_value_rank
    up = narrow.key_value_rank * a * (narrow.head + narrow.value)
    return queries + down + up + a * narrow.value * h


def layer_parameters(shape: LlamaShape, layer: int = -1, *, active: bool = False) -> int:
    """Of layer number `layer` (default: the last): attention, MLP or experts and router, two norms of h each.

    A gated MLP has three matrices: 3 h f. `active`: only those that a token passes through.
    """
    h = shape.width
    number = layer if layer >= 0 else shape.layers + layer
    experts = shape.experts
    if experts is None or number < experts.dense_layers:
        mlp = 3 * h * shape.mlp
    else:
        passed = (experts.active if active else experts.count) + experts.shared
        router = experts.count * h + (experts.count if experts.router_bias else 0)
        mlp = passed * 3 * h * experts.width + router
    return attention_parameters(shape) + mlp + 2 * h


def parameters(shape: LlamaShape, *, active: bool = False) -> int:
    """Of the whole model: V h (twice unless tied), the layers, and a last norm of h.

    `active`: only those that a token passes through (for a dense model, all of them).
    """
    layers = sum(layer_parameters(shape, number, active=active) for number in range(shape.layers))
    return layers + shape.width * shape.vocabulary * (1 if shape.tied else 2) + shape.width
