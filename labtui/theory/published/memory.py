"""Published figures of memory: states, activations, adapters. Facts only, each with its source."""

from __future__ import annotations

from functools import partial

from labtui.theory import known_models, memory
from labtui.theory.llama import Shape
from labtui.theory.memory.adapters import lora_parameters
from labtui.theory.models import GptShape
from labtui.theory.published import Value

GIB = 2.0**30

# ---- ZeRO.

_ZERO = "Rajbhandari et al., ZeRO, arXiv 1910.02054, table 1"
ZERO_RANKS = (1, 4, 16, 64, 256, 1024)
# GB (1e9 bytes) as printed, by stage, over those ranks; with Psi parameters, mixed-precision Adam.
ZERO_TABLE = {
    ("7.5B", 7.5e9): {
        "zero1": ("120", "52.5", "35.6", "31.4", "30.4", "30.1"),
        "zero2": ("120", "41.3", "21.6", "16.6", "15.4", "15.1"),
        "zero3": ("120", "30", "7.5", "1.88", "0.47", "0.12"),
    },
    ("128B", 128e9): {
        "zero1": ("2048", "896", "608", "536", "518", "513"),
        "zero2": ("2048", "704", "368", "284", "263", "257"),
        "zero3": ("2048", "512", "128", "32", "8", "2"),
    },
    ("1T", 1e12): {
        "zero1": ("16000", "7000", "4750", "4187", "4046", "4011"),
        "zero2": ("16000", "5500", "2875", "2218", "2054", "2013"),
        "zero3": ("16000", "4000", "1000", "250", "62.5", "15.6"),
    },
}
_FIGURE_1 = (("ddp", 120, 0.5), ("zero1", 31.4, 0.05), ("zero2", 16.6, 0.05), ("zero3", 1.9, 0.05))


def _gb(parameters: float, ranks: int, stage: str) -> float:
    return memory.state_bytes(parameters, ranks, stage).total / 1e9


def _zero() -> list[Value]:
    found = [
        Value(
            "memory", f"{name}, N={ranks}, {stage}", _ZERO, float(text), "GB", last_digit(text),
            partial(_gb, psi, ranks, stage), "one unit of the last digit: six are truncated",
        )
        for (name, psi), stages in ZERO_TABLE.items()
        for stage, texts in stages.items()
        for ranks, text in zip(ZERO_RANKS, texts)  # noqa: B905 - Python 3.9 has no strict=
    ]  # fmt: skip
    return [
        *found,
        *(
            Value(
                "memory", f"7.5B, N=64, {stage}", "the same, figure 1", gb, "GB", unit, partial(_gb, 7.5e9, 64, stage)
            )
            for stage, gb, unit in _FIGURE_1
        ),
    ]


def last_digit(text: str) -> float:
    """One unit of the last digit of a printed number: 0.1 for "31.4", 1 for "2048"."""
    return float(10.0 ** -len(text.partition(".")[2]))


# ---- Activations.

_KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198"
# Name, tensor and pipeline ranks, micro-batch, chunks of a stage; GiB in figure 1: parameters with optimizer,
# activations without recomputation, with sequence parallelism and selective recomputation; figure 7 in percent of
# the second: sequence parallelism, selective, both, full.
_MEGATRON = (
    ("megatron-22b", 8, 1, 4, 1, (45.5625, 59.25, 9.5625), (66.84, 49.42, 16.18, 7.64)),
    ("megatron-175b", 8, 8, 1, 3, (45.5625, 66.84375, 12.3515625), (62.04, 56.53, 18.49, 8.71)),
    ("megatron-530b", 8, 35, 1, 3, (31.640625, 114.0234375, 23.076171875), (58.31, 62.04, 20.27, 9.42)),
    ("megatron-1t", 8, 64, 1, 1, (32.958984375, 131.25, 26.5625), (58.31, 62.04, 20.27, 9.42)),
)


def _shape(name: str) -> Shape:
    return known_models.known(name).shape


def _weights_gib(name: str, tensor: int, pipeline: int) -> float:
    """12 L h^2 parameters, as that figure counts, of 18 bytes (fp32 gradients)."""
    shape = _shape(name)
    recipe = memory.recipe("mixed-fp32-grads")
    return memory.state_bytes(12 * shape.layers * shape.width**2 / (tensor * pipeline), 1, "ddp", recipe).total / GIB


def _activations_gib(
    name: str, tensor: int, pipeline: int, micro_batch: int, interleave: int, sequence_parallel: bool, recompute: str
) -> float:
    shape = _shape(name)
    layer = memory.activation_bytes_per_layer(
        shape, 2048, micro_batch, tp=tensor, sequence_parallel=sequence_parallel, recompute=recompute
    )
    return memory.layers_in_flight(shape.layers, pipeline, interleave=interleave) * layer / GIB


def _share(name: str, tensor: int, sequence_parallel: bool, recompute: str) -> float:
    shape = _shape(name)
    plain = memory.activation_bytes_per_layer(shape, 2048, 1, tp=tensor)
    less = memory.activation_bytes_per_layer(
        shape, 2048, 1, tp=tensor, sequence_parallel=sequence_parallel, recompute=recompute
    )
    return 100 * less / plain


def _saved_by_selective(name: str) -> float:
    shape = _shape(name)
    layer = partial(memory.activation_bytes_per_layer, shape, 2048, 1)
    return 100 * (1 - layer(recompute="selective") / layer())


def _freed_outputs_gib() -> float:
    """The first stage of 530B: an output s b h of 2 bytes for each of p micro-batches in flight."""
    shape = _shape("megatron-530b")
    return 2.0 * 2048 * shape.width * 35 / GIB


def _korthikanti() -> list[Value]:
    exactly = "exactly: the figure's values as calculon-ai/calculon carries them at caa4b11f"
    read_off = "read off the figure by the authors of calculon-ai/calculon"
    figure_1, figure_7, other = [], [], f"{_KORTHIKANTI}, sections 4 and 5"
    for name, t, p, b, v, gib, percent in _MEGATRON:
        parts = (
            ("weights, optimizer", partial(_weights_gib, name, t, p)),
            ("activations", partial(_activations_gib, name, t, p, b, v, False, "none")),
            ("sp, selective", partial(_activations_gib, name, t, p, b, v, True, "selective")),
        )
        for (what, ours), printed in zip(parts, gib):  # noqa: B905 - Python 3.9 has no strict=
            source = f"{_KORTHIKANTI}, figure 1"
            figure_1.append(Value("memory", f"{name}, {what}", source, printed, "GiB", 0, ours, exactly))
        ways = ((True, "none"), (False, "selective"), (True, "selective"), (False, "full"))
        for (cut, recompute), printed in zip(ways, percent):  # noqa: B905 - Python 3.9 has no strict=
            what = f"{name}, {'sp, ' if cut else ''}{recompute}"
            source, share = f"{_KORTHIKANTI}, figure 7", partial(_share, name, t, cut, recompute)
            figure_7.append(Value("memory", what, source, printed, "%", 0.15, share, read_off))
    return [
        *figure_1,
        *figure_7,
        Value("memory", "GPT-3, saved by selective", other, 70, "%", 0.5, partial(_saved_by_selective, "gpt3-175b")),
        Value("memory", "530B, saved by selective", other, 65, "%", 0.5, partial(_saved_by_selective, "megatron-530b")),
        Value("memory", "530B, freed outputs", f"{_KORTHIKANTI}, appendix B", 2.73, "GiB", 0.005, _freed_outputs_gib),
    ]


# ---- Bytes of a parameter.

_PLAYBOOK = "Hugging Face, Ultra-Scale Playbook, part 1"
_PLAYBOOK_ROWS = ((1e9, 16, 20), (7e9, 112, 140), (70e9, 1120, 1400), (405e9, 6480, 8100))
_MEGATRON_DOC = "NVIDIA/Megatron-LM at d98e8a64, distributed optimizer"
_TEXT = "the lesson on distributed training"


def _recipe_total(precision: str) -> float:
    return memory.recipe(precision).total


def _recipe_gb(parameters: float, precision: str) -> float:
    return parameters * memory.recipe(precision).total / 1e9


def _toy() -> float:
    """Eight residual MLP blocks of width 256: norm 2d, d to 4d and back with biases."""
    d = 256
    return 8 * (2 * d + (4 * d * d + 4 * d) + (4 * d * d + d))


def _toy_on_2() -> float:
    return memory.state_bytes(_toy(), 2, "zero3").parameters / memory.MIXED_ADAM.parameters


def _recipes() -> list[Value]:
    found = []
    for parameters, plain, both in _PLAYBOOK_ROWS:
        name = f"{parameters / 1e9:g}B"
        found += [
            Value("memory", f"{name}, mixed", _PLAYBOOK, plain, "GB", 0, partial(_recipe_gb, parameters, "mixed")),
            Value(
                "memory", f"{name}, with fp32 gradients", _PLAYBOOK, both, "GB", 0,
                partial(_recipe_gb, parameters, "mixed-both-grads"),
            ),
        ]  # fmt: skip
    for what, printed, precision in (
        ("fp16, fp16 gradients", 20, "mixed-both-grads"),
        ("bf16, fp32 gradients", 18, "mixed-fp32-grads"),
        ("fp32, fp32 gradients", 16, "fp32"),
    ):
        ours = partial(_recipe_total, precision)
        found.append(Value("memory", f"{what}, each", _MEGATRON_DOC, printed, "bytes", 0, ours))
    return [
        *found,
        Value("memory", "7B, 16 bytes each", _TEXT, 112, "GB", 0, partial(_gb, 7e9, 1, "ddp")),
        Value("memory", "the same over 4 devices", _TEXT, 28, "GB", 0, partial(_gb, 7e9, 4, "zero3")),
        Value("memory", "FSDP's toy, parameters", _TEXT, 4208640, "", 0, _toy),
        Value("memory", "of them on each of 2 ranks", _TEXT, 2104320, "", 0, _toy_on_2),
    ]


# ---- Adapters.


def _lora(name: str, rank: int) -> float:
    return lora_parameters(_shape(name), rank)


def _lora_share(name: str, rank: int) -> float:
    shape = _shape(name)
    adapters = lora_parameters(shape, rank)
    return 100 * adapters / (known_models.parameters(shape) + adapters)


def _adapters() -> list[Value]:
    paper, run = "Hu et al., LoRA, arXiv 2106.09685, table 4", "Alpaca-LoRA's log on LLaMA-7B (rank 8 on q and v)"
    return [
        Value("memory", "GPT-3, rank 1 on q and v", paper, 4.7e6, "", 5e4, partial(_lora, "gpt3-175b", 1)),
        Value("memory", "GPT-3, rank 8 on q and v", paper, 37.7e6, "", 5e4, partial(_lora, "gpt3-175b", 8)),
        Value("memory", "trainable parameters", run, 4194304, "", 0, partial(_lora, "llama-7b", 8)),
        Value("memory", "their share", run, 0.06220594176090199, "%", 1e-15, partial(_lora_share, "llama-7b", 8)),
    ]


def gpt(layers: int, width: int, heads: int = 1) -> GptShape:
    """A shape of the Megatron papers: vocabulary 51,200, sequences of 2,048, tied embeddings."""
    return GptShape(layers, heads, width, context=2048, vocabulary=51200, tied=True)


def values() -> list[Value]:
    """All of this module."""
    return [*_zero(), *_korthikanti(), *_recipes(), *_adapters()]
