"""How a model is spread over GPUs, and which share of its parameters one of them holds.

Numbers in, numbers out: counts of parameters, not bytes. A rank's place is its pipeline stage, from 0; ranks of one
stage hold equally many.
"""

from __future__ import annotations

from dataclasses import dataclass

from labtui.theory import llama
from labtui.theory.llama import LlamaShape, Shape
from labtui.theory.memory.activations import check_tensor_parallel
from labtui.theory.models import GptShape


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism. GPUs = data x tensor x pipeline; experts are spread within data."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    """Groups that experts are cut into; each is a part of the data-parallel ranks, so it must divide `data`."""
    sequence_parallel: bool = False
    """What tensor parallelism leaves whole is cut along the sequence."""
    interleave: int = 1
    """Chunks of layers on each pipeline stage (virtual stages)."""
    micro_batches: int | None = None
    """Of a step, on each data-parallel rank; None: enough to fill the pipeline; see `steps_micro_batches`."""
    gpipe: bool = False
    """All forwards first: every micro-batch's activations are kept."""

    def __post_init__(self) -> None:
        degrees = {"data": self.data, "tensor": self.tensor, "pipeline": self.pipeline, "expert": self.expert}
        for name, degree in {**degrees, "interleave": self.interleave}.items():
            if degree < 1:
                raise ValueError(f"{name} is {degree}, at least 1 expected")
        if self.micro_batches is not None and self.micro_batches < 1:
            raise ValueError(f"a step has at least 1 micro-batch, not {self.micro_batches}")
        if self.data % self.expert:
            raise ValueError(f"experts in {self.expert} groups need data parallelism that {self.expert} divides")
        if self.sequence_parallel and self.tensor == 1:
            raise ValueError("sequence parallelism goes with tensor parallelism, and that is 1")
        if self.interleave > 1 and self.pipeline == 1:
            raise ValueError("chunks of layers need a pipeline of more than 1 stage")

    @property
    def gpus(self) -> int:
        return self.data * self.tensor * self.pipeline

    @property
    def steps_micro_batches(self) -> int:
        """Micro-batches of a step; unless told, as many as there are stages, which fills the pipeline once."""
        return self.pipeline if self.micro_batches is None else self.micro_batches


@dataclass(frozen=True)
class Held:
    """How many parameters one rank holds before data-parallel ranks share anything out."""

    dense: float
    """Shared out among all data-parallel ranks."""
    experts: float
    """Shared out among those data-parallel ranks that have the same experts: data / expert."""

    @property
    def total(self) -> float:
        return self.dense + self.experts


def check(shape: Shape, layout: Layout) -> None:
    """Raises ValueError where heads, MLP, layers or experts can't be cut evenly among so many."""
    check_tensor_parallel(shape, layout.tensor)
    chunks = layout.pipeline * layout.interleave
    if shape.layers % chunks:
        what = f"{chunks} chunks" if layout.interleave > 1 else f"{chunks} pipeline stages"
        raise ValueError(f"{shape.layers} layers can't be cut into {what} evenly: {chunks} must divide them")
    if layout.expert > 1:
        count = shape.experts.count if isinstance(shape, LlamaShape) and shape.experts else 0
        if count % layout.expert or not count:
            raise ValueError(f"{count} experts can't be cut into {layout.expert} groups evenly")


def stage_layers(shape: Shape, layout: Layout, stage: int) -> list[int]:
    """Numbers of the layers on a stage: with chunks, chunk c begins at layer (c p + stage) L/(p v)."""
    chunk = shape.layers // (layout.pipeline * layout.interleave)
    starts = [(c * layout.pipeline + stage) * chunk for c in range(layout.interleave)]
    return [layer for start in starts for layer in range(start, start + chunk)]


def rank_parameters(shape: Shape, layout: Layout, stage: int = 0) -> Held:
    """What one rank of pipeline stage `stage` holds.

    As Megatron-LM cuts it: matrices, the biases of those cut by columns and embeddings by t; norms, the biases of
    those cut by rows, routers and learnt positions are on every tensor-parallel rank. Where fewer KV heads than
    tensor-parallel ranks exist, they are copied. The first stage has the embedding, the last the last norm and the
    output layer, or with tied weights, in a pipeline, a copy of the embedding. The vocabulary is not padded.
    Raises ValueError as `check`.
    """
    check(shape, layout)
    t, h = layout.tensor, shape.width
    first, last = stage == 0, stage == layout.pipeline - 1
    vocabulary = shape.vocabulary * h / t
    dense = vocabulary if first else 0.0
    if last and (not shape.tied or layout.pipeline > 1):
        dense += vocabulary
    experts = 0.0
    layers = stage_layers(shape, layout, stage)
    if isinstance(shape, GptShape):
        # Of 12 h^2 + 13 h: two norms (4 h) and the biases of projection and of the MLP's second matrix stay whole.
        dense += len(layers) * ((12 * h * h + 7 * h) / t + 6 * h)
        dense += (shape.context * h if first else 0) + (2 * h if last else 0)
        return Held(dense, 0.0)
    for layer in layers:
        one = _llama_layer(shape, layer, layout)
        dense, experts = dense + one.dense, experts + one.experts
    return Held(dense + (h if last else 0), experts)


def layer_parameters(shape: Shape, layout: Layout) -> float:
    """Of one layer (the last), on one rank: what ZeRO-3 gathers at a time."""
    h, t = shape.width, layout.tensor
    if isinstance(shape, GptShape):
        return (12 * h * h + 7 * h) / t + 6 * h
    return _llama_layer(shape, shape.layers - 1, layout).total


def _llama_layer(shape: LlamaShape, layer: int, layout: Layout) -> Held:
    t, h = layout.tensor, shape.width
    if shape.latent is None:
        copies = max(1, t // shape.kv_heads)
        attention = (2 * h * h + 2 * h * shape.kv_width * copies) / t
    else:
        narrow = shape.latent
        whole = h * (narrow.query_rank + narrow.key_value_rank + narrow.rotary)
        whole += narrow.query_rank + narrow.key_value_rank  # their norms
        attention = (llama.attention_parameters(shape) - whole) / t + whole
    kept = shape.experts
    if kept is None or layer < kept.dense_layers:
        return Held(attention + 3 * h * shape.mlp / t + 2 * h, 0.0)
    router = kept.count * h + (kept.count if kept.router_bias else 0)
    one = 3 * h * kept.width / t
    return Held(attention + kept.shared * one + router + 2 * h, kept.count / layout.expert * one)
