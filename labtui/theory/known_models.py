"""Models by name: their shapes as published, each with its source. Knows no weights and downloads nothing."""

from __future__ import annotations

from dataclasses import dataclass

from labtui.theory import llama, models
from labtui.theory.llama import Experts, Latent, LlamaShape, Shape
from labtui.theory.models import GptShape


@dataclass(frozen=True)
class Known:
    """A published model."""

    shape: Shape
    source: str


_GPT2 = "openai/gpt-2, its hparams; Radford et al. 2019, table 2"
_GPT3 = "Brown et al., GPT-3, arXiv 2005.14165, table 2.1"
_MEGATRON = "Korthikanti et al., arXiv 2205.05198, table 3"
_LLAMA = "Touvron et al., LLaMA, arXiv 2302.13971, table 2; MLP widths from the models' params.json"
_LLAMA2 = "Touvron et al., Llama 2, arXiv 2307.09288; the models' config.json"
_LLAMA3 = "the Llama 3 report, arXiv 2407.21783, table 3"
_MISTRAL = "Jiang et al., Mistral 7B, arXiv 2310.06825, table 1"
_MIXTRAL = "Jiang et al., Mixtral of experts, arXiv 2401.04088, table 1"
_DEEPSEEK = "the DeepSeek-V3 report, arXiv 2412.19437, section 4.2; vocabulary and dense width from its config.json"


def _gpt2(layers: int, heads: int, width: int) -> Known:
    return Known(GptShape(layers, heads, width, context=1024, vocabulary=50257, tied=True), _GPT2)


def _gpt3(layers: int, heads: int, width: int) -> Known:
    return Known(GptShape(layers, heads, width, context=2048, vocabulary=50257, tied=True), _GPT3)


def _megatron(layers: int, heads: int, width: int) -> Known:
    return Known(GptShape(layers, heads, width, context=2048, vocabulary=51200, tied=True), _MEGATRON)


def _llama(layers: int, heads: int, width: int, mlp: int, kv_heads: int = 0) -> Known:
    context, source = (4096, _LLAMA2) if kv_heads else (2048, _LLAMA)
    return Known(LlamaShape(layers, heads, width, mlp, context, 32000, kv_heads), source)


def _llama3(layers: int, heads: int, width: int, mlp: int) -> Known:
    return Known(LlamaShape(layers, heads, width, mlp, 8192, 128256, kv_heads=8), _LLAMA3)


MODELS = {
    **{name: Known(shape, "labtui's own sizes") for name, shape in models.SIZES.items()},
    "gpt2": _gpt2(12, 12, 768),
    "gpt2-medium": _gpt2(24, 16, 1024),
    "gpt2-large": _gpt2(36, 20, 1280),
    "gpt2-xl": _gpt2(48, 25, 1600),
    "gpt3-13b": _gpt3(40, 40, 5120),
    "gpt3-175b": _gpt3(96, 96, 12288),
    "megatron-22b": _megatron(48, 64, 6144),
    "megatron-175b": _megatron(96, 96, 12288),
    "megatron-530b": _megatron(105, 128, 20480),
    "megatron-1t": _megatron(128, 160, 25600),
    "llama-7b": _llama(32, 32, 4096, 11008),
    "llama-13b": _llama(40, 40, 5120, 13824),
    "llama-30b": _llama(60, 52, 6656, 17920),
    "llama-65b": _llama(80, 64, 8192, 22016),
    "llama-70b": _llama(80, 64, 8192, 28672, kv_heads=8),
    "llama2-7b": Known(LlamaShape(32, 32, 4096, 11008, 4096, 32000), _LLAMA2),
    "llama2-13b": Known(LlamaShape(40, 40, 5120, 13824, 4096, 32000), _LLAMA2),
    "llama2-70b": _llama(80, 64, 8192, 28672, kv_heads=8),
    "llama3-8b": _llama3(32, 32, 4096, 14336),
    "llama3-70b": _llama3(80, 64, 8192, 28672),
    "llama3-405b": _llama3(126, 128, 16384, 53248),
    "mistral-7b": Known(LlamaShape(32, 32, 4096, 14336, 32768, 32000, kv_heads=8), _MISTRAL),
    "mixtral-8x7b": Known(
        LlamaShape(32, 32, 4096, 14336, 32768, 32000, kv_heads=8, experts=Experts(8, 2, 14336)), _MIXTRAL
    ),
    "deepseek-v3": Known(
        LlamaShape(
            layers=61,
            heads=128,
            width=7168,
            mlp=18432,
            context=4096,
            vocabulary=129280,
            experts=Experts(256, 8, 2048, shared=1, dense_layers=3, router_bias=True),
            latent=Latent(query_rank=1536, key_value_rank=512, head=128, rotary=64, value=128),
        ),
        f"{_DEEPSEEK}; without its extra module for a second token",
    ),
}
"""By the name that --model takes."""


def known(name: str) -> Known:
    """The model of that name. Raises ValueError for another."""
    if name not in MODELS:
        raise ValueError(f"{name!r} is no model that is known here: {', '.join(MODELS)}")
    return MODELS[name]


def parameters(shape: Shape, *, active: bool = False) -> int:
    """How many parameters a model of this shape has; `active`: only those that a token passes through."""
    if isinstance(shape, GptShape):
        return models.parameters(shape)
    return llama.parameters(shape, active=active)
