"""Bytes of parameters, gradients and optimizer state on one rank: plain data parallelism and the ZeRO stages.

Numbers in, numbers out. Bytes are bytes; GB is 1e9 of them, GiB 2**30. Knows no shapes and no activations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

STAGES = ("ddp", "zero1", "zero2", "zero3")
"""What the data-parallel ranks share out: nothing, optimizer state, gradients too, parameters too."""


@dataclass(frozen=True)
class Recipe:
    """Bytes that training keeps for one parameter."""

    name: str
    parameters: float
    """The weights that forward and backward use."""
    gradients: float
    optimizer: float
    """Everything that only the optimizer's step uses, an fp32 copy of the weights included."""
    source: str

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer


@dataclass(frozen=True)
class Precision:
    """How numbers are kept, before the optimizer adds its own. Bytes for one parameter."""

    weights: float
    gradients: float
    copies: float
    """fp32 copies that only the optimizer's step uses: of the weights (4), and of the gradients (4) in some."""
    source: str


PRECISIONS = {
    "mixed": Precision(2, 2, 4, "Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3.1: 2 + 2 + 12 with Adam"),
    "mixed-fp32-grads": Precision(
        2,
        4,
        4,
        "NVIDIA/Megatron-LM at d98e8a64, distributed optimizer, bf16 parameters and fp32 gradients: 18 with Adam",
    ),
    "mixed-both-grads": Precision(
        2, 2, 8, "NVIDIA/Megatron-LM at d98e8a64, fp16 and fp16, and the Ultra-Scale Playbook, part 1: 20 with Adam"
    ),
    "fp32": Precision(4, 4, 0, "NVIDIA/Megatron-LM at d98e8a64, fp32 and fp32: 16 with Adam"),
    "bf16": Precision(2, 2, 0, "everything in 2 bytes, no fp32 copy: torch's own modules after .bfloat16()"),
}
"""By the name that --precision takes."""

OPTIMIZERS = {
    "adam": (8.0, "two averages in fp32: Kingma and Ba, arXiv 1412.6980"),
    "adam-bf16": (4.0, "two averages in bf16: DeepSeek-V3, arXiv 2412.19437, section 3.3.3"),
    "adam-8bit": (
        2 * (1 + 4 / 2048),
        "two averages of 1 byte and an fp32 scale for each 2048: Dettmers et al., arXiv 2110.02861, section 2",
    ),
    "momentum": (4.0, "SGD with one fp32 average"),
    "sgd": (0.0, "plain SGD keeps nothing"),
}
"""By the name that --optimizer takes: bytes of its averages for one parameter, and the source."""


def recipe(precision: str = "mixed", optimizer: str = "adam") -> Recipe:
    """Bytes for one parameter under these two. Raises ValueError for a name that isn't in the tables.

    With precision "bf16", torch's Adam and SGD keep their averages in bf16 as well: half of the fp32 figure.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"{precision!r} is no precision: {', '.join(PRECISIONS)}")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"{optimizer!r} is no optimizer: {', '.join(OPTIMIZERS)}")
    kept = PRECISIONS[precision]
    averages, source = OPTIMIZERS[optimizer]
    if precision == "bf16" and optimizer in ("adam", "momentum"):
        averages /= 2
    return Recipe(
        f"{precision}, {optimizer}", kept.weights, kept.gradients, kept.copies + averages, f"{kept.source}; {source}"
    )


MIXED_ADAM = recipe()
"""2 + 2 + 12: the ZeRO paper's."""
FP32_ADAM = recipe("fp32")
"""4 + 4 + 8: what torch does when nobody asks for anything else."""


@dataclass(frozen=True)
class State:
    """Bytes on one rank."""

    parameters: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer


def state_bytes(parameters: float, ranks: int, stage: str, recipe: Recipe = MIXED_ADAM) -> State:
    """Bytes of `parameters` parameters on each of `ranks` data-parallel ranks.

    "ddp" keeps everything on each; "zero1" 1/N of the optimizer state, "zero2" of the gradients too, "zero3" of the
    parameters too (Rajbhandari et al., arXiv 1910.02054, figure 1). With the default recipe that is 16 Psi,
    4 Psi + 12 Psi/N, 2 Psi + 14 Psi/N, 16 Psi/N. What is gathered for a moment is not in it: see `rank.Beyond`.
    Raises ValueError for no ranks, a number of parameters that is none, another stage.
    """
    if stage not in STAGES:
        raise ValueError(f"{stage!r} is no stage: {', '.join(STAGES)}")
    if ranks < 1:
        raise ValueError(f"data parallelism needs at least 1 rank, not {ranks}")
    if not (math.isfinite(parameters) and parameters >= 0):
        raise ValueError(f"a model has at least 0 parameters, not {parameters:g}")
    shared = STAGES.index(stage)
    return State(
        parameters=parameters * recipe.parameters / (ranks if shared >= 3 else 1),
        gradients=parameters * recipe.gradients / (ranks if shared >= 2 else 1),
        optimizer=parameters * recipe.optimizer / (ranks if shared >= 1 else 1),
    )
