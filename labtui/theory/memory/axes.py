"""The four axes of parallelism: what each cuts, what it sends, how often, how many bytes. Numbers in, numbers out.

Bytes are those that the busiest GPU sends in one step (all its micro-batches, one optimizer step), by rings.
"""

from __future__ import annotations

from dataclasses import dataclass

from labtui.theory.collectives import all_reduce_bytes
from labtui.theory.llama import LlamaShape
from labtui.theory.memory.layout import rank_parameters, stage_layers
from labtui.theory.memory.rank import Training


@dataclass(frozen=True)
class Axis:
    """One axis of parallelism in one training."""

    name: str
    ranks: int
    cuts: str
    sends: str
    collective: str
    when: str
    times: int
    """How often a GPU takes part in that within a step."""
    bytes_per_step: float
    """That the busiest GPU sends."""

    @property
    def bytes_each(self) -> float:
        """Of one time, on average."""
        return self.bytes_per_step / self.times if self.times else 0.0


def axes(training: Training, zero: str) -> tuple[Axis, ...]:
    """Data, tensor, pipeline and expert parallelism, each with what it costs in this layout (0 where it is 1).

    Raises ValueError without a shape, a sequence and a micro-batch.
    """
    if training.shape is None or training.sequence is None or training.micro_batch is None:
        raise ValueError("the axes need the model's shape, a sequence length and a micro-batch")
    return (_data(training, zero), _tensor(training), _pipeline(training), _expert(training))


def _data(training: Training, zero: str) -> Axis:
    """All-reduce of the gradients, 2 (N-1)/N of them; ZeRO-1 and 2: reduce-scatter them and all-gather the weights.

    ZeRO-3 gathers the weights twice for each micro-batch and reduce-scatters the gradients (once for each as well, as
    FSDP does unless told otherwise). Experts are shared by data / expert ranks only.
    """
    assert training.shape is not None
    layout, recipe = training.layout, training.recipe
    sent, most = 0.0, 0.0
    for stage in range(layout.pipeline):
        held = rank_parameters(training.shape, layout, stage)
        shares = ((held.dense, layout.data), (held.experts, layout.data // layout.expert))
        if training.adapters and zero != "zero3":
            shares = ((training.adapters / (layout.tensor * layout.pipeline), layout.data), (0.0, 1))
        sent = 0.0
        for count, ranks in shares:
            half = all_reduce_bytes(count, ranks) / 2  # numbers of one reduce-scatter or all-gather
            gradients, weights = half * recipe.gradients, half * recipe.parameters
            if zero == "ddp":
                sent += 2 * gradients
            elif zero == "zero3":
                sent += (2 * weights + (0 if training.adapters else gradients)) * layout.steps_micro_batches
            else:
                sent += gradients + weights
        most = max(most, sent)
    if zero == "zero3":
        times = 3 * len(stage_layers(training.shape, layout, 0)) * layout.steps_micro_batches
        what, how = "weights, gradients", "all-gather twice, reduce-scatter once"
        when = "a layer and micro-batch"
    else:
        times, what = 1, "gradients"
        how, when = ("all-reduce", "once a step") if zero == "ddp" else ("reduce-scatter, all-gather", "once a step")
    alone = layout.data == 1
    return Axis("data", layout.data, "the batch", what, how, when, 0 if alone else times, most)


def _tensor(training: Training) -> Axis:
    """Twice forward and twice backward in each layer, 2 (t-1)/t s b h numbers each: 8 b s h (t-1)/t a layer
    (Narayanan et al., arXiv 2104.04473, section 3.2). Full recomputation repeats the two of forward.

    With sequence parallelism each is an all-gather and a reduce-scatter of together the same bytes. (Megatron gathers
    two inputs once more in backward, behind the products of weight gradients: not counted.)
    """
    t = training.layout.tensor
    each = all_reduce_bytes(_boundary(training), t)
    times = _layer_passes(training) * 2 if t > 1 else 0
    how = "all-gather, reduce-scatter" if training.layout.sequence_parallel else "all-reduce"
    return Axis("tensor", t, "matrices, heads", "activations", how, "twice a layer each way", times, each * times)


def _pipeline(training: Training) -> Axis:
    """s b h numbers over each boundary, forward and their gradient back, for each micro-batch and chunk.

    With sequence parallelism each tensor-parallel rank sends its part, 1/t (Megatron's scatter/gather does the same
    without). The busiest stage lies in the middle; of two stages each has one side only.
    """
    layout = training.layout
    if layout.pipeline == 1:
        crossings = 0
    elif layout.pipeline == 2:
        crossings = 2 * layout.interleave - 1
    else:
        crossings = 2 * layout.interleave
    each = _boundary(training) / (layout.tensor if layout.sequence_parallel else 1)
    times = crossings * layout.steps_micro_batches
    return Axis(
        "pipeline", layout.pipeline, "layers", "activations", "send/recv", "each micro-batch", times, each * times
    )


def _expert(training: Training) -> Axis:
    """Tokens to their experts and back, forward, and the same two for gradients: four all-to-alls a layer.

    Each sends s b k h numbers, of which (E-1)/E leave the GPU when all experts are equally busy.
    """
    shape, groups = training.shape, training.layout.expert
    assert shape is not None
    experts = shape.experts if isinstance(shape, LlamaShape) else None
    if experts is None:
        return Axis("expert", groups, "experts", "tokens", "all-to-all", "the model has none", 0, 0.0)
    share = shape.expert_layers / shape.layers if isinstance(shape, LlamaShape) else 0.0
    times = round(_layer_passes(training) * share) * 2 if groups > 1 else 0
    each = _boundary(training) * experts.active * (groups - 1) / groups
    return Axis("expert", groups, "experts", "tokens", "all-to-all", "twice a layer each way", times, each * times)


def _boundary(training: Training) -> float:
    """Bytes of what one micro-batch carries from layer to layer: s b h numbers."""
    assert training.shape is not None and training.sequence is not None and training.micro_batch is not None
    return float(training.sequence) * training.micro_batch * training.shape.width * training.element


def _layer_passes(training: Training) -> int:
    """Forward and backward passes through a stage's layers in one step; a full recomputation is a third one."""
    assert training.shape is not None
    layers = training.shape.layers // training.layout.pipeline
    return layers * training.layout.steps_micro_batches * (3 if training.recompute == "full" else 2)
