"""LoRA: how many parameters are trained while the rest stays frozen. Numbers in, numbers out."""

from __future__ import annotations

from labtui.theory.llama import LlamaShape, Shape

TARGETS = ("q", "k", "v", "o", "mlp")
"""Matrices of a layer that can have an adapter: for queries, keys, values, attention's output, those of the MLP."""
EMA_BYTES = 4
"""A moving average of the weights is one fp32 number for each trained parameter."""


def lora_parameters(shape: Shape, rank: int, targets: tuple[str, ...] = ("q", "v")) -> int:
    """Parameters of the adapters: r (in + out) for each matrix that has one, over all layers.

    Hu et al., LoRA, arXiv 2106.09685, section 4.1: a matrix [out, in] gets B A with A [r, in] and B [out, r].
    The paper adapts queries and values. Raises ValueError for a rank below 1, no or other targets, and for models
    with experts or latent attention.
    """
    if rank < 1:
        raise ValueError(f"an adapter's rank is at least 1, not {rank}")
    if not targets or set(targets) - set(TARGETS):
        raise ValueError(f"adapters go on {', '.join(TARGETS)}, not on {', '.join(targets) or 'nothing'}")
    h = shape.width
    if isinstance(shape, LlamaShape):
        if shape.experts is not None or shape.latent is not None:
            raise ValueError("adapters of models with experts or latent attention are not known here")
        keys, mlp = shape.kv_width, 3 * (h + shape.mlp)
    else:
        keys, mlp = h, 2 * (h + 4 * h)
    sides = {"q": h + h, "k": h + keys, "v": h + keys, "o": h + h, "mlp": mlp}
    return shape.layers * rank * sum(sides[target] for target in set(targets))
