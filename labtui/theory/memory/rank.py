"""What one GPU keeps while it trains: state, activations, and what is there for a moment; with offload, LoRA, EMA.

Numbers in, numbers out: bytes. Reported is the fullest pipeline stage, since the run ends where the first GPU is full.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from labtui.theory.llama import Shape
from labtui.theory.memory import activations as kept
from labtui.theory.memory.adapters import EMA_BYTES
from labtui.theory.memory.layout import Layout, check, layer_parameters, rank_parameters
from labtui.theory.memory.state import MIXED_ADAM, Recipe, State, state_bytes

OFFLOAD = ("none", "optimizer", "all")
"""What lives on the host: nothing; optimizer state and gradients (ZeRO-Offload); parameters too (ZeRO-Infinity)."""
EMA = ("none", "gpu", "cpu")
HOST_GRADIENT_BYTES = 4
"""The host's optimizer works in fp32. DeepSpeed's 16 and 18 bytes a parameter have it so."""


@dataclass(frozen=True)
class Training:
    """One training, as far as memory goes."""

    parameters: float
    """Of the whole model."""
    layout: Layout = field(default_factory=Layout)
    recipe: Recipe = MIXED_ADAM
    shape: Shape | None = None
    """None: only the number of parameters is known; then there are no activations, and cuts are even."""
    sequence: int | None = None
    micro_batch: int | None = None
    recompute: str = "none"
    fused_attention: bool = False
    dropout: bool = True
    adapters: float = 0.0
    """Parameters of LoRA adapters; above 0 the model itself is frozen."""
    offload: str = "none"
    ema: str = "none"

    def __post_init__(self) -> None:
        for name, value, words in (
            ("recompute", self.recompute, kept.RECOMPUTE),
            ("offload", self.offload, OFFLOAD),
            ("ema", self.ema, EMA),
        ):
            if value not in words:
                raise ValueError(f"{name} is {value!r}, {', '.join(words)} expected")
        if self.shape is not None:
            check(self.shape, self.layout)

    @property
    def element(self) -> int:
        """Bytes of an activation: those of the weights it meets."""
        return int(self.recipe.parameters)


@dataclass(frozen=True)
class Host:
    """Bytes in the host's memory for one GPU."""

    parameters: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    ema: float = 0.0

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer + self.ema


@dataclass(frozen=True)
class Beyond:
    """Bytes that the published tables leave out and a GPU needs all the same."""

    logits: float = 0.0
    """Inputs of the last norm and the output layer, fp32 logits; the embedding's dropout mask."""
    gathered: float = 0.0
    """ZeRO-3: two layers' parameters (one is used while the next arrives) and one layer's gradients."""
    recomputed: float = 0.0
    """What backward computes again of one layer; 0 where that isn't known (experts, latent attention)."""

    @property
    def total(self) -> float:
        """The logits are gone when backward computes the last layer again: the larger of the two counts."""
        return self.gathered + max(self.logits, self.recomputed)


@dataclass(frozen=True)
class RankMemory:
    """Bytes on one GPU of the fullest stage."""

    stage: int
    state: State
    activations: float | None
    """Of the layers; None where no sequence and micro-batch are given."""
    ema: float
    beyond: Beyond
    host: Host

    @property
    def total(self) -> float:
        """State, activations where known, a moving average on the GPU. Without what is `beyond`."""
        return self.state.total + (self.activations or 0.0) + self.ema

    @property
    def needed(self) -> float:
        """`total` and what is beyond it: what must fit."""
        return self.total + self.beyond.total


def on_rank(training: Training, zero: str) -> RankMemory:
    """The fullest GPU under "ddp", "zero1", "zero2" or "zero3". Raises ValueError for another stage."""
    stages = range(training.layout.pipeline) if training.shape is not None else (0,)
    return max((_stage(training, zero, stage) for stage in stages), key=lambda memory: memory.needed)


def _stage(training: Training, zero: str, stage: int) -> RankMemory:
    state, averaged = _state(training, zero, stage)
    host = Host(ema=averaged if training.ema == "cpu" else 0.0)
    if training.offload != "none":
        state, host = _offloaded(training, zero, state, host)
    return RankMemory(
        stage=stage,
        state=state,
        activations=_activations(training, stage),
        ema=averaged if training.ema == "gpu" else 0.0,
        beyond=_beyond(training, zero, stage),
        host=host,
    )


def _state(training: Training, zero: str, stage: int) -> tuple[State, float]:
    """State on the GPU and bytes of a moving average, which is shared out like the optimizer's averages."""
    layout, recipe = training.layout, training.recipe
    if training.shape is None:
        shares = [(training.parameters / (layout.tensor * layout.pipeline), layout.data)]
    else:
        held = rank_parameters(training.shape, layout, stage)
        shares = [(held.dense, layout.data), (held.experts, layout.data // layout.expert)]
    trained = shares
    states = []
    if training.adapters:
        # The base is there to be multiplied with, and for nothing else.
        frozen = Recipe("frozen", recipe.parameters, 0, 0, "no gradients, no optimizer state")
        states += [state_bytes(count, ranks, zero, frozen) for count, ranks in shares]
        trained = [(training.adapters / (layout.tensor * layout.pipeline), layout.data)]
    states += [state_bytes(count, ranks, zero, recipe) for count, ranks in trained]
    averages = [state_bytes(count, ranks, zero, Recipe("ema", 0, 0, EMA_BYTES, "")) for count, ranks in trained]
    total = State(
        sum(state.parameters for state in states),
        sum(state.gradients for state in states),
        sum(state.optimizer for state in states),
    )
    return total, sum(state.optimizer for state in averages)


def _offloaded(training: Training, zero: str, state: State, host: Host) -> tuple[State, Host]:
    whole = training.offload == "all" and zero == "zero3"
    gradients = state.gradients / training.recipe.gradients * HOST_GRADIENT_BYTES
    moved = Host(state.parameters if whole else 0.0, gradients, state.optimizer, host.ema)
    return State(0.0 if whole else state.parameters, 0.0, 0.0), moved


def _activations(training: Training, stage: int) -> float | None:
    if training.sequence is None or training.micro_batch is None:
        return None
    if training.shape is None:
        raise ValueError("activations need the model's shape, not only its number of parameters")
    return _in_flight(training, stage) * _layer(training, training.recompute)


def _in_flight(training: Training, stage: int) -> float:
    assert training.shape is not None
    layout = training.layout
    return kept.layers_in_flight(
        training.shape.layers,
        layout.pipeline,
        stage,
        micro_batches=layout.steps_micro_batches if layout.gpipe else layout.micro_batches,
        interleave=layout.interleave,
        gpipe=layout.gpipe,
    )


def _layer(training: Training, recompute: str) -> float:
    assert training.shape is not None and training.sequence is not None and training.micro_batch is not None
    return kept.activation_bytes_per_layer(
        training.shape,
        training.sequence,
        training.micro_batch,
        tp=training.layout.tensor,
        sequence_parallel=training.layout.sequence_parallel,
        recompute=recompute,
        fused_attention=training.fused_attention,
        dropout=training.dropout,
        element=training.element,
    )


def _beyond(training: Training, zero: str, stage: int) -> Beyond:
    shape, layout, recipe = training.shape, training.layout, training.recipe
    if shape is None:
        return Beyond()
    gathered = 0.0
    if zero == "zero3" and (layout.data > 1 or training.offload == "all"):
        gradients = 0 if training.adapters else recipe.gradients
        gathered = layer_parameters(shape, layout) * (2 * recipe.parameters + gradients)
    if training.sequence is None or training.micro_batch is None:
        return Beyond(gathered=gathered)
    logits = kept.outside_layers(
        shape,
        training.sequence,
        training.micro_batch,
        tp=layout.tensor,
        first=stage == 0,
        last=stage == layout.pipeline - 1,
        in_flight=_in_flight(training, stage) / (shape.layers // layout.pipeline),
        dropout=training.dropout,
    )
    again = 0.0
    if training.recompute == "full" and _known(shape):
        again = _layer(training, "none")
    elif training.recompute == "selective":
        again = _layer(training, "none") - _layer(training, "selective")
    return Beyond(logits, gathered, again)


def _known(shape: Shape) -> bool:
    """Whether a layer's activations are known. Those of experts and of latent attention are not."""
    return getattr(shape, "experts", None) is None and getattr(shape, "latent", None) is None
