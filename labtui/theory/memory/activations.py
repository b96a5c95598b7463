"""Bytes of activations: what forward keeps for backward, by the published formulas and by their method.

Numbers in, numbers out. s is the sequence in tokens, b the micro-batch in sequences, h the width, a the heads, t the
tensor-parallel ranks, e the bytes of a number (2 in mixed precision), L the layers, p the pipeline's stages.
"""

from __future__ import annotations

from dataclasses import dataclass

from labtui.theory.llama import LlamaShape, Shape
from labtui.theory.models import GptShape

RECOMPUTE = ("none", "selective", "full")
"""What backward computes a second time: nothing, attention's core (what grows with s^2), whole layers."""


@dataclass(frozen=True)
class LayerActivations:
    """Bytes that one layer keeps for one micro-batch, by what becomes of them under tensor parallelism."""

    replicated: float
    """Inputs of norms and of the matrices cut by columns, and dropout masks: on every tensor-parallel rank whole,
    unless the sequence is cut as well."""
    cut: float
    """Inside attention and the MLP: cut by heads and columns."""
    core: float
    """Attention's scores: cut by heads; gone with a fused kernel or selective recomputation."""
    entry: float
    """The layer's input: all that full recomputation keeps."""


def layer_activations(
    shape: Shape,
    sequence: int,
    micro_batch: int,
    *,
    element: int = 2,
    dropout: bool = True,
    kv_ranks: int = 1,
) -> LayerActivations:
    """What one layer keeps before it is cut.

    GPT-like, after Korthikanti et al., arXiv 2205.05198, section 4.1, with e for their 2 bytes and 1 for a mask:
    two norms 2e; attention's input e, queries, keys and values 3e, the projection's input e, mask 1; the MLP's input
    e, its middle before and after GELU 8e, mask 1. Together s b h (16 e + 2), their 34; core a s^2 b (2 e + 1), their
    5: softmax, its mask and what the mask leaves. Without `dropout` the masks go, and the core is the softmax alone.

    Llama-like, counted the same way (no formula is printed for it, so this one is derived): two norms 2e; attention's
    input e, queries e, keys and values 2e h_kv/h, the projection's input e; the MLP's input e; of the width f the
    gate before and after SiLU, the other branch and the product: 4e f/h. There is no dropout. Checked against the
    storages that torch's autograd saves for such a block with fused attention (torch 2.13, CPU); an RMS norm that is
    not fused keeps two fp32 tensors in place of its input.
    With fewer KV heads than tensor-parallel ranks, `kv_ranks` of those hold a copy of the same ones.
    Raises ValueError for sizes below 1, and for experts and latent attention, whose activations it doesn't know.
    """
    if min(sequence, micro_batch, element, kv_ranks) < 1:
        raise ValueError(f"activations need at least 1 token and 1 sequence, not {sequence} and {micro_batch}")
    tokens = float(sequence) * micro_batch
    h, e = shape.width, element
    scores = tokens * shape.heads * sequence
    if isinstance(shape, GptShape):
        masks = 2 if dropout else 0
        core = scores * (2 * e + 1 if dropout else e)
        return LayerActivations(tokens * h * (4 * e + masks), tokens * h * 12 * e, core, tokens * h * e)
    if shape.experts is not None or shape.latent is not None:
        raise ValueError("activations of experts and of latent attention are known with full recomputation only")
    inside = 2 * h + 2 * shape.kv_width * kv_ranks + 4 * shape.mlp
    return LayerActivations(tokens * h * 4 * e, tokens * inside * e, scores * e, tokens * h * e)


def activation_bytes_per_layer(
    shape: Shape,
    sequence: int,
    micro_batch: int,
    *,
    tp: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
    fused_attention: bool = False,
    dropout: bool = True,
    element: int = 2,
) -> float:
    """Bytes that one layer keeps on one tensor-parallel rank for one micro-batch of `micro_batch` sequences.

    For a GPT-like shape with e = 2, table 2 of arXiv 2205.05198: none s b h (10 + 24/t + 5 a s/(h t)); with
    sequence parallelism s b h (34/t + 5 a s/(h t)); selective the same without the last term; full 2 s b h. A fused
    attention kernel (FlashAttention) never stores the scores: it drops the same term and recomputes nothing else.
    Full recomputation under sequence parallelism keeps 1/t of the layer's input (section 5 there).
    Raises ValueError for heads that t doesn't divide, another word for `recompute`, and as `layer_activations`.
    """
    check_tensor_parallel(shape, tp)
    if recompute not in RECOMPUTE:
        raise ValueError(f"recompute is {recompute!r}, {', '.join(RECOMPUTE)} expected")
    everywhere = tp if sequence_parallel else 1
    if recompute == "full":
        if min(sequence, micro_batch) < 1:
            raise ValueError(f"activations need at least 1 token and 1 sequence, not {sequence} and {micro_batch}")
        return float(sequence) * micro_batch * shape.width * element / everywhere
    copies = max(1, tp // shape.kv_heads) if isinstance(shape, LlamaShape) else 1
    kept = layer_activations(shape, sequence, micro_batch, element=element, dropout=dropout, kv_ranks=copies)
    core = 0.0 if fused_attention or recompute == "selective" else kept.core
    return kept.replicated / everywhere + (kept.cut + core) / tp


def check_tensor_parallel(shape: Shape, tp: int) -> None:
    """Raises ValueError where `tp` ranks can't cut the shape's heads, KV heads or MLP evenly."""
    if tp < 1:
        raise ValueError(f"tensor parallelism needs at least 1 rank, not {tp}")
    if shape.heads % tp:
        raise ValueError(f"{shape.heads} heads can't be cut among {tp} tensor-parallel ranks: {tp} must divide them")
    if isinstance(shape, LlamaShape):
        if shape.kv_heads % tp and tp % shape.kv_heads:
            raise ValueError(f"{shape.kv_heads} KV heads can neither be cut among nor copied to {tp} ranks evenly")
        width = shape.mlp if shape.experts is None else shape.experts.width
        if width % tp:
            raise ValueError(f"an MLP of width {width} can't be cut among {tp} tensor-parallel ranks evenly")


def layers_in_flight(
    layers: int,
    stages: int,
    stage: int = 0,
    *,
    micro_batches: int | None = None,
    interleave: int = 1,
    gpipe: bool = False,
) -> float:
    """How many layers' activations a stage of a pipeline holds at its fullest, counted over micro-batches.

    1F1B: stage i (from 0) has at most p - i micro-batches of its L/p layers in flight, so the first has L layers'
    worth. Interleaved with v chunks a rank: 2 (p - i - 1) + (v - 1) p + 1 chunks of L/(p v), for the first
    L (1 + (p - 1)/(p v)) (arXiv 2205.05198, section 4.2.3). GPipe keeps all micro-batches. `micro_batches`, where
    given, is the most there can be. Raises ValueError where p v doesn't divide L, or stage isn't in the pipeline.
    """
    if stages < 1 or interleave < 1 or layers < 1:
        raise ValueError(f"a pipeline needs at least 1 layer, stage and chunk, not {layers}, {stages}, {interleave}")
    if not 0 <= stage < stages:
        raise ValueError(f"a pipeline of {stages} has no stage {stage}")
    if layers % (stages * interleave):
        chunks = f"{stages} stages" if interleave == 1 else f"{stages} stages of {interleave} chunks"
        raise ValueError(f"{layers} layers can't be cut into {chunks} evenly")
    if micro_batches is not None and micro_batches < 1:
        raise ValueError(f"a step has at least 1 micro-batch, not {micro_batches}")
    chunk = layers // (stages * interleave)
    if gpipe:
        if micro_batches is None:
            raise ValueError("GPipe keeps all micro-batches of a step: their number is needed")
        return float(micro_batches * interleave * chunk)
    if interleave == 1:
        held = stages - stage
    elif stages == 1:
        held = interleave
    else:
        held = 2 * (stages - stage - 1) + (interleave - 1) * stages + 1
    if micro_batches is not None:
        held = min(held, micro_batches * interleave)
    return float(held * chunk)


def outside_layers(
    shape: Shape,
    sequence: int,
    micro_batch: int,
    *,
    tp: int = 1,
    first: bool = True,
    last: bool = True,
    in_flight: float = 1,
    dropout: bool = True,
) -> float:
    """Bytes that embedding and output keep: s b h in_flight/t for the embedding's dropout mask on the first stage;
    on the last the norm's and the output layer's inputs and fp32 logits, 4 s b h/t (1 + V/h).

    Section 4.3 of arXiv 2205.05198, which cuts all of it by t (sequence parallelism). Llama-like models have no mask.
    """
    tokens = float(sequence) * micro_batch
    mask = tokens * shape.width * in_flight if first and dropout and isinstance(shape, GptShape) else 0.0
    logits = 4 * tokens * (shape.width + shape.vocabulary) if last else 0.0
    return (mask + logits) / tp
