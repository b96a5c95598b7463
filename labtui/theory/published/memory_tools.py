"""What DeepSpeed's and Accelerate's estimators print. Facts only, each with its source."""

from __future__ import annotations

from functools import partial

from labtui.theory.memory import deepspeed
from labtui.theory.published import Value
from labtui.theory.published.memory import last_digit

GIB, MIB = 2.0**30, 2.0**20

# ---- DeepSpeed's estimators, which print GiB and call it GB.

_DEEPSPEED = "DeepSpeed's documentation, Memory Requirements (2851M on 8 GPUs)"


def _zero2_gib(parameters: float, gpus: int, offload: bool, part: str) -> float:
    return float(getattr(deepspeed.zero2(parameters, gpus, offload=offload), part)) / GIB


def _zero3_gib(parameters: float, largest: float, gpus: int, offload: str, zero_init: bool, part: str) -> float:
    found = deepspeed.zero3(parameters, largest, gpus, offload=offload, zero_init=zero_init)
    return float(getattr(found, part)) / GIB


def _zero3_mib(parameters: float, largest: float, gpus: int, offload: str) -> float:
    return _zero3_gib(parameters, largest, gpus, offload, True, "gpu") * 1024


# bigscience/T0_3B without its output layer, which the page rounds to 2783M; its largest layer is the embedding.
_T0_3B, _T0_3B_LARGEST = 2_783_959_040.0, 32128 * 2048.0


def _deepspeed() -> list[Value]:
    millions = "parameters are printed in whole millions; half a unit of the last digit"
    rows: list[Value] = []

    def add(what: str, printed: float, unit: str, tolerance: float, ours: partial[float]) -> None:
        rows.append(Value("memory", what, _DEEPSPEED, printed, unit, tolerance, ours, millions))

    for offload, printed in ((True, 5.31), (False, 15.93)):
        what = f"2851M, ZeRO-2, {'offloaded' if offload else 'no offload'}"
        add(f"{what}, GPU", printed, "GiB", 0.006, partial(_zero2_gib, 2851e6, 8, offload, "gpu"))
        add(f"{what}, host", 127.45, "GiB", 0.03, partial(_zero2_gib, 2851e6, 8, offload, "host"))
    gpu = (("all", 0.12), ("optimizer", 0.78), ("none", 6.09))
    host = (("all", 71.69, 127.45), ("optimizer", 63.72, 127.45), ("none", 1.43, 127.45))
    for offload_to, printed in gpu:
        ours = partial(_zero3_gib, 2851e6, 32e6, 8, offload_to, True, "gpu")
        add(f"2851M, ZeRO-3, {offload_to}, GPU", printed, "GiB", 0.006, ours)
    for offload_to, *both in host:
        for zero_init, printed in zip((True, False), both):  # noqa: B905 - Python 3.9 has no strict=
            what = f"2851M, ZeRO-3, {offload_to}, host{'' if zero_init else ' cold'}"
            add(what, printed, "GiB", 0.03, partial(_zero3_gib, 2851e6, 32e6, 8, offload_to, zero_init, "host"))
    for offload_to, printed in (("all", 125.0), ("optimizer", 477.0), ("none", 3291.0)):
        ours = partial(_zero3_mib, 737.67e6, 32.9e6, 4, offload_to)
        add(f"t5-large on 4, ZeRO-3, {offload_to}", printed, "MiB", 1, ours)
    for offload_to, printed in (("all", 0.25), ("optimizer", 5.43), ("none", 46.91)):
        ours = partial(_zero3_gib, _T0_3B, _T0_3B_LARGEST, 1, offload_to, True, "gpu")
        add(f"T0_3B on 1, ZeRO-3, {offload_to}, GPU", printed, "GiB", 0.006, ours)
    for offload_to, printed in (("all", 70.0), ("optimizer", 62.23), ("none", 0.37)):
        ours = partial(_zero3_gib, _T0_3B, _T0_3B_LARGEST, 1, offload_to, True, "host")
        add(f"T0_3B on 1, ZeRO-3, {offload_to}, host", printed, "GiB", 0.006, ours)
    ours = partial(_zero3_gib, _T0_3B, _T0_3B_LARGEST, 1, "none", False, "host")
    add("T0_3B on 1, ZeRO-3, none, host, cold", 15.56, "GiB", 0.006, ours)
    return rows


# ---- Accelerate's estimator, whose units are 1024-based.

_ACCELERATE = "Hugging Face Accelerate's documentation, estimate-memory"
_DTYPES = (("float32", 4.0), ("float16", 2.0), ("int8", 1.0), ("int4", 0.5))


def bert_base_cased() -> int:
    """Embeddings of 28,996 tokens, 512 places and 2 kinds with a norm; 12 layers of 768; a pooler.

    And two buffers of 512 numbers of 8 bytes (places and kinds), each counted as two of 4, as that tool does.
    """
    h = 768
    layers = 12 * (12 * h * h + 13 * h)
    return (28996 + 512 + 2) * h + 2 * h + layers + (h * h + h) + 2 * 2 * 512


def _llama_65b_layer() -> float:
    """idefics-80b is built on it, and its decoder layers are the largest."""
    h, mlp = 8192, 22016
    return 4 * h * h + 3 * h * mlp + 2 * h


def _sized(parameters: float, each: float, unit: float, times: float = 1.0) -> float:
    return parameters * each * times / unit


def _accelerate() -> list[Value]:
    half = "half a unit of the last printed digit"
    rows: list[Value] = []

    def add(what: str, text: str, unit: str, ours: partial[float], why: str = half, slack: float = 0.5) -> None:
        tolerance = slack * last_digit(text)
        rows.append(Value("memory", what, _ACCELERATE, float(text), unit, tolerance, ours, why))

    # Largest layer, whole model, training with Adam (four times the model).
    bert = {
        "float32": (("84.95", "MiB"), ("413.18", "MiB"), ("1.61", "GiB")),
        "float16": (("42.47", "MiB"), ("206.59", "MiB"), ("826.36", "MiB")),
        "int8": (("21.24", "MiB"), ("103.29", "MiB"), ("413.18", "MiB")),
        "int4": (("10.62", "MiB"), ("51.65", "MiB"), ("206.59", "MiB")),
    }
    parts = (("largest", 28996 * 768, 1.0), ("model", bert_base_cased(), 1.0), ("Adam", bert_base_cased(), 4.0))
    for dtype, each in _DTYPES:
        for (part, parameters, times), (text, unit) in zip(parts, bert[dtype]):  # noqa: B905 - Python 3.9
            ours = partial(_sized, parameters, each, GIB if unit == "GiB" else MIB, times)
            add(f"bert-base-cased, {dtype}, {part}", text, unit, ours, half, 0.6)
    taken = "ours starts from the printed float32 size: a half, or four times of it"
    idefics = 297.12 * GIB / 4
    for dtype, each, layer, model in (("float32", 4.0, "3.02", None), ("float16", 2.0, "1.51", "148.56")):
        add(f"idefics-80b, {dtype}, largest layer", layer, "GiB", partial(_sized, _llama_65b_layer(), each, GIB))
        if model is not None:
            add(f"idefics-80b, {dtype}, model", model, "GiB", partial(_sized, idefics, each, GIB), taken)
    add("idefics-80b, float32, Adam", "1.16", "TiB", partial(_sized, idefics, 4.0, GIB * 1024, 4.0), taken)
    add("idefics-80b, float16, Adam", "594.24", "GiB", partial(_sized, idefics, 2.0, GIB, 4.0), taken)
    add("resnet50, float32, largest layer", "9.0", "MiB", partial(_sized, 512 * 512 * 3 * 3, 4.0, MIB))
    # 25,557,032 parameters and 53,120 running averages of its norms; 53 counters of 8 bytes.
    resnet = 25_557_032 + 53_120 + 2 * 53
    add("resnet50, float32, model", "97.7", "MiB", partial(_sized, resnet, 4.0, MIB))
    add("resnet50, float32, Adam", "390.78", "MiB", partial(_sized, resnet, 4.0, MIB, 4.0))
    return rows


def values() -> list[Value]:
    """All of this module."""
    return [*_deepspeed(), *_accelerate()]
