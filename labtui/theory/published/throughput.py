"""Published speeds: FLOP/s, MFU, days, GPU-hours, against our FLOP counts. Facts only, each with its source.

Percentages and days are recomputed from the printed times or FLOP/s: this checks the count of FLOPs, not a forecast.
"""

from __future__ import annotations

from functools import partial

from labtui.theory import flops, hardware, known_models
from labtui.theory.models import GptShape
from labtui.theory.published import Value
from labtui.theory.published.memory import gpt
from labtui.theory.published.parameters import NARAYANAN

_TOPIC = "throughput"
A100, H100 = 312.0, 989.0
"""Peaks in 1e12 FLOP/s, dense bf16."""

# ---- Narayanan et al.

_NARAYANAN = "Narayanan et al., arXiv 2104.04473"
# GPUs, TFLOP/s of each, percent of peak, PFLOP/s of all: table 1, in the order of `NARAYANAN`.
_TABLE_1 = (
    (32, 137, 44, 4.4), (64, 138, 44, 8.8), (128, 142, 46, 18.2), (256, 135, 43, 34.6), (512, 138, 44, 70.8),
    (1024, 140, 45, 143.8), (1536, 148, 47, 227.1), (1920, 155, 50, 297.4), (2520, 163, 52, 410.2),
    (3072, 163, 52, 502.0),
)  # fmt: skip
# Model, scheme, GPUs, TFLOP/s of each, days for 300e9 tokens: table 2.
_TABLE_2 = (
    ("175B", "ZeRO-3", 384, 144, 90), ("175B", "ZeRO-3", 768, 88, 74), ("175B", "ZeRO-3", 1536, 44, 74),
    ("530B", "ZeRO-3", 640, 138, 169), ("530B", "ZeRO-3", 1120, 98, 137), ("530B", "ZeRO-3", 2240, 48, 140),
    ("175B", "PTD", 384, 153, 84), ("175B", "PTD", 768, 149, 43), ("175B", "PTD", 1536, 141, 23),
    ("530B", "PTD", 560, 171, 156), ("530B", "PTD", 1120, 167, 80), ("530B", "PTD", 2240, 159, 42),
)  # fmt: skip
_SHAPES = {"175B": gpt(96, 12288, 96), "530B": gpt(105, 20480, 128)}


def _percent(tflops: float, peak: float) -> float:
    return 100 * flops.utilization(tflops * 1e12, peak)


def _petaflops(gpus: int, tflops: float) -> float:
    return gpus * tflops / 1000


def _days(parameters: float, tokens: float, gpus: int, tflops: float) -> float:
    """8 T P/(n X): four thirds of 6ND, since everything is recomputed."""
    return flops.gpu_hours(flops.six_nd(parameters, tokens) * 4 / 3, tflops, 1.0) / gpus / 24


def _exact_days(name: str, tokens: float, gpus: int, tflops: float) -> float:
    shape = _SHAPES[name]
    each = flops.training(shape, 1, recompute="full") / shape.context
    return flops.gpu_hours(each * tokens, tflops, 1.0) / gpus / 24


def _narayanan() -> list[Value]:
    found = []
    for (_, _, billions, _), (gpus, tflops, percent, petaflops) in zip(NARAYANAN, _TABLE_1):  # noqa: B905
        name, source = f"{billions:g}B on {gpus}", f"{_NARAYANAN}, table 1"
        ours, why = partial(_percent, tflops, A100), "half a percent, and the rounding of the printed TFLOP/s"
        found.append(Value(_TOPIC, f"{name}, of the peak", source, percent, "%", 0.5 + 50 / A100, ours, why))
        found.append(
            Value(_TOPIC, f"{name}, all GPUs", source, petaflops, "PFLOP/s", 0.05 + gpus / 2000,
                  partial(_petaflops, gpus, tflops), "the printed TFLOP/s of one GPU are whole numbers")
        )  # fmt: skip
    for parameters, tokens, gpus, tflops, days in ((175e9, 300e9, 1024, 140, 34), (1008e9, 450e9, 3072, 163, 84)):
        ours = partial(_days, parameters, tokens, gpus, tflops)
        what = f"{parameters / 1e9:g}B on {gpus}, training"
        found.append(Value(_TOPIC, what, f"{_NARAYANAN}, section 5.1", days, "days", 0.5, ours, "half a day"))
    for name, scheme, gpus, tflops, days in _TABLE_2:
        ours = partial(_exact_days, name, 300e9, gpus, tflops)
        why = "half a day, and the rounding of the printed TFLOP/s"
        tolerance = 0.5 + days * 0.5 / tflops
        source = f"{_NARAYANAN}, table 2"
        found.append(Value(_TOPIC, f"{name}, {scheme} on {gpus}", source, days, "days", tolerance, ours, why))
    return found


# ---- Korthikanti et al.

_KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198"
# Layers, heads, width, batch, GPUs, seconds, MFU and HFU in percent.
_TABLE_5 = (
    ("22B", 48, 64, 6144, 4, 8, 1.10, 41.5, 43.7),
    ("175B", 96, 96, 12288, 64, 64, 13.75, 51.4, 52.8),
    ("530B", 105, 128, 20480, 280, 280, 37.83, 56.0, 57.0),
    ("1T", 128, 160, 25600, 512, 512, 71.49, 56.3, 57.0),
)


def _mfu(shape: GptShape, batch: int, gpus: int, seconds: float) -> float:
    return 100 * flops.utilization(flops.training(shape, batch) / seconds / gpus, A100)


def _hardware(shape: GptShape, batch: int) -> float:
    """FLOPs really done, as they count: attention's core three times more, s/(3h) in place of s/(6h)."""
    core = shape.layers * flops.layer_forward(shape, batch).attention_core
    return flops.training(shape, batch) + flops.FORWARD_AND_BACKWARD * core


def _hfu(shape: GptShape, batch: int, gpus: int, seconds: float) -> float:
    return 100 * flops.utilization(_hardware(shape, batch) / seconds / gpus, A100)


def _selective(shape: GptShape) -> float:
    return 100 * (_hardware(shape, 1) / flops.training(shape, 1) - 1)


def _korthikanti() -> list[Value]:
    found = []
    for name, layers, heads, width, batch, gpus, seconds, mfu, hfu in _TABLE_5:
        shape = gpt(layers, width, heads)
        tolerance = 0.05 + mfu * 0.005 / seconds
        why = "half of the last digit, and the rounding of the printed seconds"
        for what, printed, ours in (("MFU", mfu, _mfu), ("HFU", hfu, _hfu)):
            found.append(
                Value(_TOPIC, f"{name} on {gpus}, {what}", f"{_KORTHIKANTI}, table 5", printed, "%", tolerance,
                      partial(ours, shape, batch, gpus, seconds), why)
            )  # fmt: skip
    eight, why = partial(_mfu, gpt(105, 20480, 128), 2240, 2240, 39.15), "half of the last digit, and rounding"
    found.append(Value(_TOPIC, "530B on 2240, MFU", f"{_KORTHIKANTI}, table 5", 54.2, "%", 0.06, eight, why))
    text = f"{_KORTHIKANTI}, sections 5 and 6"
    for name, shape, printed in (("GPT-3", gpt(96, 12288, 96), 2.7), ("MT-NLG", gpt(105, 20480, 128), 1.6)):
        what, ours = f"{name}, FLOPs of selective recompute", partial(_selective, shape)
        found.append(Value(_TOPIC, what, text, printed, "%", 0.05, ours, "half of the last digit"))
    return found


# ---- MegaScale.

_MEGASCALE = "Jiang et al., MegaScale, arXiv 2402.15627, table 2"
# System, batch, GPUs, seconds as printed, MFU in percent.
_TABLE_MEGASCALE = (
    ("Megatron-LM", 768, 256, "40.0", 53.0), ("Megatron-LM", 768, 512, "21.2", 49.9),
    ("Megatron-LM", 768, 768, "15.2", 46.7), ("Megatron-LM", 768, 1024, "11.9", 44.7),
    ("MegaScale", 768, 256, "32.0", 65.3), ("MegaScale", 768, 512, "16.5", 63.5),
    ("MegaScale", 768, 768, "11.5", 61.3), ("MegaScale", 768, 1024, "8.9", 59.0),
    ("Megatron-LM", 6144, 3072, "29.02", 48.7), ("Megatron-LM", 6144, 6144, "14.78", 47.8),
    ("Megatron-LM", 6144, 8192, "12.24", 43.3), ("Megatron-LM", 6144, 12288, "8.57", 41.2),
    ("MegaScale", 6144, 3072, "23.66", 59.1), ("MegaScale", 6144, 6144, "12.21", 57.3),
    ("MegaScale", 6144, 8192, "9.56", 54.9), ("MegaScale", 6144, 12288, "6.34", 55.2),
)  # fmt: skip


def _megascale() -> list[Value]:
    """175B with GPT-3's shape and a vocabulary of 64,000."""
    shape = GptShape(96, 128, 12288, context=2048, vocabulary=64000, tied=True)
    found = []
    for system, batch, gpus, text, mfu in _TABLE_MEGASCALE:
        seconds = float(text)
        tolerance = 0.05 + mfu * 0.5 * 10 ** -len(text.partition(".")[2]) / seconds
        why = "the rounding of what is printed"
        if system == "MegaScale":
            # Ours lie 1.0 to 1.5 % above its own rows, and on Megatron-LM's. Its attention slides over a window.
            core = shape.layers * flops.layer_forward(shape, 1).attention_core * flops.FORWARD_AND_BACKWARD
            tolerance += mfu * core / flops.training(shape, 1)
            why += "; its attention sees a window only, of a size not printed, and we count the whole: 2.7 % at most"
        ours = partial(_mfu, shape, batch, gpus, seconds)
        what = f"{system}, 175B on {gpus}, MFU"
        found.append(Value(_TOPIC, what, _MEGASCALE, mfu, "%", tolerance, ours, why))
    return found


# ---- PaLM, Llama 3, DeepSeek-V3, torchtitan.

_PALM = "Chowdhery et al., PaLM, arXiv 2204.02311, table 3 and section 4"
_LESSON = "the lesson on distributed training"
_DEEPSEEK = "the DeepSeek-V3 report, arXiv 2412.19437, table 1"


def _tokens_mfu(each: float, tokens_per_s: float, chips: int, peak: float) -> float:
    """MFU in percent from FLOPs of a token."""
    return 100 * flops.utilization(each * tokens_per_s / chips, peak)


def _mt_nlg() -> float:
    shape = gpt(105, 20480, 128)
    return _tokens_mfu(flops.training(shape, 1) / shape.context, 65430, 2240, A100)


def _palm() -> float:
    """6N and attention's 12 L heads head_width s (its 48 heads are 256 wide: less than the model's width)."""
    return _tokens_mfu(flops.six_nd(540e9, 1) + 12 * 118 * 48 * 256 * 2048, 238_300, 6144, 275)


def _deepseek_tflops() -> float:
    return flops.six_nd(37e9, 14.8e12) / (2.664e6 * 3600) / 1e12


def _hours_of_a_trillion() -> float:
    return 2664 / 14.8


def _days_of_a_trillion() -> float:
    return 2664e3 / 14.8 / 2048 / 24


def _llama_mfu(name: str, tokens_per_s: float) -> float:
    """Of one H100: 6 FLOPs for each parameter but the input embedding's, and attention's 12 L h s."""
    shape = known_models.known(name).shape
    passed = known_models.parameters(shape) - shape.vocabulary * shape.width
    return _tokens_mfu(6 * passed + 12 * shape.layers * shape.width * 8192, tokens_per_s, 1, H100)


def _others() -> list[Value]:
    found = [
        Value(_TOPIC, "MT-NLG 530B, MFU without attention", _PALM, 29.7, "%", 0.1,
              partial(_tokens_mfu, flops.six_nd(529.6e9, 1), 65430, 2240, A100), "its rate is printed with 4 digits"),
        Value(_TOPIC, "MT-NLG 530B, MFU", _PALM, 30.2, "%", 0.1, _mt_nlg, "its rate is printed with 4 digits"),
        Value(_TOPIC, "PaLM 540B, MFU", _PALM, 46.2, "%", 0.1, _palm, "540 billion has three digits"),
        Value(_TOPIC, "hours for 1e12 tokens", _DEEPSEEK, 180, "thousand", 0.5, _hours_of_a_trillion),
        Value(_TOPIC, "days for 1e12 tokens on 2048", _DEEPSEEK, 3.7, "days", 0.05, _days_of_a_trillion),
        Value(_TOPIC, "each H800, by 6ND", _LESSON, 340, "TFLOP/s", 5, _deepseek_tflops, "printed as about 340"),
    ]  # fmt: skip
    llama = "the Llama 3 report, arXiv 2407.21783, table 4"
    for gpus, tflops, percent in ((8192, 430, 43), (16384, 400, 41), (16384, 380, 38)):
        why = "printed TFLOP/s end in 0, so they may be off by 5, and half a percent"
        found.append(
            Value(_TOPIC, f"405B on {gpus:,} at {tflops}, MFU", llama, percent, "%", 0.5 + 500 / H100,
                  partial(_percent, tflops, H100), why)
        )  # fmt: skip
    titan = "pytorch/torchtitan at b5bcd76c, llama3_h100_202412: a footnote says 33 to 39 %"
    for what, rate, percent in (("8B on 8, eager", 5762, 33), ("8B on 8, compiled", 6667, 39)):
        ours = partial(_llama_mfu, "llama3-8b", rate)
        found.append(
            Value(_TOPIC, f"{what}, MFU", titan, percent, "%", 1.0, ours, "it gives a range in whole percents")
        )
    return found


# ---- Balances of a machine.


def _best(tflops: float, name: str) -> float:
    model = hardware.gpu_model(name)
    assert model is not None
    return 100 * tflops / model.bf16_tflops


def _balances() -> list[Value]:
    source = "stas00/ml-engineering, compute/accelerator, 744d01e1: best measured matmuls"
    found = [
        Value(_TOPIC, f"{name}, of its peak", source, percent, "%", 0.06, partial(_best, tflops, name))
        for name, tflops, percent in (
            ("A100 SXM 80GB", 271.2, 86.9), ("H100 SXM", 794.5, 80.3), ("B200", 1745, 77.6),
        )
    ]  # fmt: skip
    what = "MI300X, of 1300 TFLOP/s"  # its table of peaks has 1307
    found.append(Value(_TOPIC, what, source, 51.4, "%", 0.06, partial(_percent, 668.4, 1300)))
    for what, tflops, gb, printed, tolerance in (
        ("RTX 4080 over 10 GB/s", 97.0, 10.0, 10_000, 500.0),
        ("H800 inside a node", H100, 160.0, 6_181, 0.5),
        ("H800 between nodes", H100, 50.0, 19_780, 0.5),
    ):
        ours = partial(flops.flops_per_byte, tflops, gb)
        found.append(Value(_TOPIC, what, _LESSON, printed, "FLOP/byte", tolerance, ours))
    return found


def values() -> list[Value]:
    """All of this module."""
    return [*_narayanan(), *_korthikanti(), *_megascale(), *_others(), *_balances()]
