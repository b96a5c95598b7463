"""Published counts of parameters, against the shapes that belong to them. Facts only, each with its source."""

from __future__ import annotations

from functools import partial

from labtui.theory import known_models
from labtui.theory.llama import LlamaShape, Shape
from labtui.theory.published import Value
from labtui.theory.published.memory import gpt

# Layers, width, billions as printed, heads: of the ten models of table 1.
NARAYANAN = (
    (24, 2304, 1.7, 24), (30, 3072, 3.6, 32), (36, 4096, 7.5, 32), (40, 6144, 18.4, 48), (48, 8192, 39.1, 64),
    (60, 10240, 76.1, 80), (80, 12288, 145.6, 96), (96, 16384, 310.1, 128), (105, 20480, 529.6, 128),
    (128, 25600, 1008.0, 160),
)  # fmt: skip
# Billions as printed, layers, width, width of the MLP, whether embeddings are tied.
_HEAT_MAP = ((1.34, 16, 2048, 8192, True), (3.57, 28, 3072, 8192, True), (8.86, 32, 4096, 14336, False),
             (80.0, 80, 8192, 28672, False))  # fmt: skip
_KERAS = "keras-team/keras-hub, presets of"
_LLAMA = "Touvron et al., LLaMA, arXiv 2302.13971, table 2"
_COUNTED = (
    ("gpt2", 124_439_808, f"{_KERAS} gpt2 at 0e1444fd"),
    ("gpt2-medium", 354_823_168, f"{_KERAS} gpt2 at 0e1444fd"),
    ("gpt2-large", 774_030_080, f"{_KERAS} gpt2 at 0e1444fd"),
    ("gpt2-xl", 1_557_611_200, f"{_KERAS} gpt2 at 0e1444fd"),
    ("llama-7b", 6_738_415_616, f"{_KERAS} llama at 7eea6c81"),
    ("llama3-8b", 8_030_261_248, f"{_KERAS} llama3 at d7a5c31f"),
    ("mixtral-8x7b", 46_702_792_704, f"{_KERAS} mixtral at d11ecb3a"),
    ("llama-70b", 68_976_648_192, "togethercomputer/together-python, table of parameter counts"),
)
# Name, billions, tolerance, source.
_PRINTED = (
    ("llama-7b", 6.7, 0.05, _LLAMA),
    ("llama-13b", 13.0, 0.05, _LLAMA),
    ("llama-30b", 32.5, 0.05, _LLAMA),
    ("llama-65b", 65.2, 0.1, _LLAMA),
    ("gpt3-175b", 174.6, 0.05, "Narayanan et al., arXiv 2104.04473, table 2 (GPT-3, its vocabulary 51,200)"),
    ("llama3-405b", 405, 1.0, "the Llama 3 report, arXiv 2407.21783, table 3"),
    ("deepseek-v3", 671, 0.5, "the DeepSeek-V3 report, arXiv 2412.19437"),
)


def _billions(shape: Shape, active: bool = False) -> float:
    return known_models.parameters(shape, active=active) / 1e9


def _count(name: str) -> float:
    return known_models.parameters(known_models.known(name).shape)


def _heat_map(layers: int, width: int, mlp: int, tied: bool) -> float:
    """V h (1 or 2) + L (3 h f + 4 h^2), which leaves out the norms: 0.003 % at most."""
    shape = LlamaShape(layers, 32, width, mlp, 4096, 131072, tied=tied)
    return _billions(shape)


def _active_without_input() -> float:
    """Looking up the input embedding multiplies nothing: DeepSeek's weights' README leaves it out."""
    shape = known_models.known("deepseek-v3").shape
    return (known_models.parameters(shape, active=True) - shape.vocabulary * shape.width) / 1e9


def values() -> list[Value]:
    """All of this module."""
    half = "half a unit of the last printed digit"
    found = [
        Value(
            "parameters", f"{layers} layers of {width:,}", "Narayanan et al., arXiv 2104.04473, table 1", printed,
            "billion", 0.05, partial(_billions, gpt(layers, width, heads)), half,
        )
        for layers, width, printed, heads in NARAYANAN
    ]  # fmt: skip
    found += [
        Value(
            "parameters", f"{layers} layers of {width:,}", "huggingface/nanotron's scripts for the playbook's heat map",
            printed, "billion", 0.005 if printed < 50 else 0.05, partial(_heat_map, layers, width, mlp, tied), half,
        )
        for printed, layers, width, mlp, tied in _HEAT_MAP
    ]  # fmt: skip
    found += [
        Value("parameters", name, source, count, "", 0, partial(_count, name), "a count")
        for name, count, source in _COUNTED
    ]
    found += [
        Value("parameters", name, source, printed, "billion", tolerance, partial(_count_billions, name), half)
        for name, printed, tolerance, source in _PRINTED
    ]
    deepseek = known_models.known("deepseek-v3").shape
    found.append(
        Value(
            "parameters", "deepseek-v3, active", "the DeepSeek-V3 report, arXiv 2412.19437", 37, "billion", 0.6,
            partial(_billions, deepseek, True), "37 with the input embedding 37.55 and without it 36.62: both are used",
        )
    )  # fmt: skip
    found.append(
        Value(
            "parameters", "of those, all but the embedding's",
            "deepseek-ai/DeepSeek-V3, README_WEIGHTS", 36.6, "billion", 0.05, _active_without_input, half,
        )
    )  # fmt: skip
    return found


def _count_billions(name: str) -> float:
    return _count(name) / 1e9
