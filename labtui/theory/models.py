"""The shapes of GPT models: how many parameters they have, and what training one takes on a rank.

Numbers in, numbers out; `bench.gpt` builds what is described here, and must have as many parameters as is said here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class GptShape:
    """A GPT as GPT-2 has made it usual: learnt positions, pre-norm blocks, an MLP four times as wide, biases."""

    layers: int
    heads: int
    width: int
    """Features of a token (n_embd, d_model, h)."""
    context: int
    """The longest sequence, in tokens."""
    vocabulary: int
    tied: bool = False
    """The output layer uses the token embedding's weights instead of its own."""

    def __post_init__(self) -> None:
        smallest = min(self.layers, self.heads, self.width, self.context, self.vocabulary)
        if smallest < 1 or self.width % self.heads:
            raise ValueError(
                f"a GPT needs sizes of at least 1 and a width that its heads divide, not {self.width} by {self.heads}"
            )


CHARACTERS = 72
"""The vocabulary of the text that comes with labtui."""

SIZES = {
    "tiny": GptShape(layers=4, heads=4, width=128, context=64, vocabulary=CHARACTERS),
    "baby": GptShape(layers=6, heads=6, width=384, context=256, vocabulary=CHARACTERS),
    "300m": GptShape(layers=24, heads=16, width=1024, context=1024, vocabulary=CHARACTERS),
    "1b": GptShape(layers=24, heads=16, width=2048, context=1024, vocabulary=CHARACTERS),
}
"""0.8, 10.8, 303 and 1,211 million parameters with that vocabulary."""


def size(name: str, vocabulary: int = CHARACTERS, *, tied: bool = False) -> GptShape:
    """The shape of that name. Raises ValueError for another."""
    if name not in SIZES:
        raise ValueError(f"{name!r} is no size of a GPT: {', '.join(SIZES)}")
    return replace(SIZES[name], vocabulary=vocabulary, tied=tied)


def layer_parameters(shape: GptShape) -> int:
    """Of one block: 12 h^2 + 13 h, of which attention has a third of the first term and the MLP two thirds."""
    h = shape.width
    norms = 2 * 2 * h  # each a weight and a bias
    attention = (3 * h * h + 3 * h) + (h * h + h)  # to queries, keys and values; back from the heads
    mlp = (4 * h * h + 4 * h) + (4 * h * h + h)
    return norms + attention + mlp


def parameters(shape: GptShape) -> int:
    """Of the whole model: L (12 h^2 + 13 h), embeddings (V + s) h, the last norm 2 h, and V h unless tied."""
    embeddings = (shape.vocabulary + shape.context) * shape.width
    output = 0 if shape.tied else shape.vocabulary * shape.width
    return embeddings + shape.layers * layer_parameters(shape) + 2 * shape.width + output


# ---- What a rank needs to train it, so that it can be said before anything is allocated.

ACTIVATIONS = 17
"""Tensors of one token's width that a block keeps for backward, with attention that keeps no score matrix.

The inputs of both norms and what comes out of them, 4; queries, keys, values, and what attention makes of them, once
by heads and once side by side, 5; in the MLP four widths before the GELU and four after it, 8.
"""


def activation_bytes(shape: GptShape, sequences: int, element: int = 4) -> int:
    """What forward keeps for backward: 17 tensors of the width per block, and logits with their log-softmax.

    An estimate for float32, and too much for mixed precision. `element` is the bytes of one number.
    """
    tokens = sequences * shape.context
    return element * tokens * (ACTIVATIONS * shape.layers * shape.width + 3 * shape.vocabulary)


def training_bytes(shape: GptShape, sequences: int, *, replicas: bool) -> int:
    """What training in float32 with Adam takes on a rank, `sequences` at a time.

    16 bytes a parameter: weight, gradient and Adam's two averages. `replicas`: and 4 more, where gradients are copied
    into buckets to travel.
    """
    return parameters(shape) * (20 if replicas else 16) + activation_bytes(shape, sequences)
