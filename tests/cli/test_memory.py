"""labtui memory: bytes of each GPU, what fits, what to cut, what is sent, FLOPs and GPU-hours."""

from __future__ import annotations

from typing import Any

import pytest
from fake_nvml import fixture

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml

LLAMA = ("--model", "llama-7b", "--gpus", "4", "--gpu-memory", "32GB", "--seq", "4096", "--micro-batch", "1")
LLAMA += ("--recompute", "full", "--zero", "3")
PSI = 6_738_415_616


# Memory -------------------------------------------------------------------------------------------------------------


def test_figure_1_of_the_zero_paper(labtui: Any) -> None:
    document = labtui("memory", "--params", "7.5e9", "--dp", "64", "--json").json
    assert document["parameters_count"] == 7.5e9
    found = document["per_gpu"]
    assert list(found) == ["ddp", "zero1", "zero2", "zero3"]
    assert [found[stage]["total"] for stage in found] == [120e9, 31.40625e9, 16.640625e9, 1.875e9]
    assert found["zero1"]["optimizer"] == 12 * 7.5e9 / 64
    assert [found["ddp"][part] for part in ("parameters", "gradients", "optimizer")] == [15e9, 15e9, 90e9]
    assert found["ddp"]["activations"] is None
    text = labtui("memory", "--params", "7.5e9", "--dp", "64").out
    assert all(figure in text for figure in ("120", "31.41", "16.64", "1.88"))
    assert "activations are left out" in text and "GB is 1e9 bytes" in text


def test_the_issues_own_example(labtui: Any) -> None:
    document = labtui("memory", *LLAMA, "--json").json
    assert document["parameters_count"] == PSI
    found = document["per_gpu"]["zero3"]
    activations = 32 * 2 * 4096 * 4096
    assert (found["parameters"], found["gradients"], found["optimizer"]) == (PSI / 2, PSI / 2, PSI * 3)
    assert found["activations"] == activations and found["total"] == 4 * PSI + activations
    assert found["fits"] and not document["per_gpu"]["zero2"]["fits"]
    assert found["largest_micro_batch"] == 1 and found["largest_micro_batch_by_total"] == 4
    assert document["fit"] == {
        "zero": "zero3", "fits": True, "cuts": [], "needed": found["needed"], "gpus_with_zero3": None,
    }  # fmt: skip
    done = labtui("memory", *LLAMA)
    assert "ZeRO-3 fits" in done.out and "32 GB = 29.8 GiB" in done.out
    assert done.out.isascii() and max(map(len, done.out.splitlines())) <= 80


def test_figure_1_of_korthikanti_from_the_command_line(labtui: Any) -> None:
    arguments = ("--model", "megatron-530b", "--tp", "8", "--pp", "35", "--interleave", "3", "--seq", "2048")
    arguments += ("--micro-batch", "1", "--json")
    plain = labtui("memory", *arguments).json["per_gpu"]["ddp"]
    assert plain["activations"] / 2**30 == 114.0234375
    best = labtui("memory", *arguments, "--sp", "--recompute", "selective").json["per_gpu"]["ddp"]
    assert best["activations"] / 2**30 == 23.076171875
    # The same shape, told number by number; a model of one parameter more or less has the same activations.
    own = ("--layers", "105", "--hidden", "20480", "--heads", "128", *arguments[2:])
    assert labtui("memory", *own).json["per_gpu"]["ddp"]["activations"] == plain["activations"]
    assert labtui("memory", "--params", "530e9", *own).json["parameters_count"] == 530e9


def test_what_makes_it_fit(labtui: Any) -> None:
    small = ("--model", "llama-7b", "--gpus", "4", "--seq", "4096", "--micro-batch", "8", "--gpu-memory")
    document = labtui("memory", *small, "32GB", "--json").json
    fit = document["fit"]
    assert not fit["fits"] and fit["cuts"][0] == "a fused attention kernel" and fit["needed"] <= 32e9
    text = labtui("memory", *small, "32GB").out
    assert "DDP does not fit, by" in text and "it would with, together (" in text
    one = labtui("memory", "--model", "llama-7b", "--gpus", "4", "--gpu-memory", "50GB").out
    assert "it would with (47.17 GB):\n  ZeRO-1" in one
    none = labtui("memory", "--model", "llama-7b", "--gpu-memory", "1GB")
    assert "no cut that is known here" in none.out and max(map(len, none.out.splitlines())) <= 80


def test_gb_and_gib_are_told_apart(labtui: Any) -> None:
    for text, size in (("32GB", 32e9), ("32GiB", 32 * 2**30), ("81559 mib", 81559 * 2**20), ("0.5TB", 5e11)):
        document = labtui("memory", "--params", "1e9", "--gpu-memory", text, "--json").json
        assert document["gpu_memory"] == size
    for text in ("32", "32G", "GB", "-1GB", "0GB", "nanGB", "1e9999GB"):
        sentence = labtui("memory", "--params", "1e9", f"--gpu-memory={text}").sentence
        assert "is no size, as 32GB (32e9 bytes) and 32GiB (32 x 2**30) are" in sentence


def test_precision_optimizer_offload_adapters_and_averages(labtui: Any) -> None:
    def ddp(*arguments: str, stage: str = "ddp") -> Any:
        return labtui("memory", "--model", "llama-7b", *arguments, "--json").json["per_gpu"][stage]

    assert ddp("--precision", "fp32")["total"] == 16 * PSI
    assert ddp("--precision", "mixed-fp32-grads")["total"] == 18 * PSI
    assert ddp("--precision", "fp32", "--optimizer", "sgd")["total"] == 8 * PSI
    assert ddp("--offload", "optimizer")["total"] == 2 * PSI
    assert ddp("--offload", "optimizer")["host"]["total"] == 16 * PSI
    assert ddp("--offload", "all", stage="zero3")["total"] == 0
    adapted = labtui("memory", "--model", "llama-7b", "--lora", "8", "--json").json
    assert adapted["trainable_count"] == 4_194_304
    assert adapted["per_gpu"]["ddp"]["total"] == 2 * PSI + 16 * 4_194_304
    assert ddp("--ema", "gpu")["total"] == 20 * PSI and ddp("--ema", "gpu")["ema"] == 4 * PSI
    assert ddp("--ema", "cpu")["total"] == 16 * PSI and ddp("--ema", "cpu")["host"]["ema"] == 4 * PSI
    text = labtui("memory", "--model", "llama-7b", "--lora", "8", "--ema", "gpu", "--offload", "optimizer").out
    assert (
        "4,194,304 more in adapters, and only these are trained (0.06%)" in text and "on the host for each GPU" in text
    )
    assert max(map(len, text.splitlines())) <= 80


# Axes and models that fit -------------------------------------------------------------------------------------------


def test_axes(labtui: Any) -> None:
    arguments = ("memory", "--axes", "--model", "mixtral-8x7b", "--dp", "16", "--ep", "8", "--tp", "2", "--pp", "4")
    arguments += ("--seq", "4096", "--micro-batch", "1", "--micro-batches", "8", "--recompute", "full")
    document = labtui(*arguments, "--json").json
    rows = {row["axis"]: row for row in document["axes"]}
    assert list(rows) == ["data", "tensor", "pipeline", "expert"]
    assert rows["tensor"]["bytes_per_step"] == 6 * 8 * 8 * 4096 * 4096 * 2  # 6 a layer, 8 layers, 8 micro-batches
    assert rows["expert"]["times_per_step"] == 6 * 8 * 8
    assert all(
        row["bytes_each"] * row["times_per_step"] == pytest.approx(row["bytes_per_step"]) for row in rows.values()
    )
    out = labtui(*arguments).out
    assert "all-to-all" in out and "GB is 1e9 bytes" in out and max(map(len, out.splitlines())) <= 80
    zero3 = labtui(*arguments, "--zero", "3").out
    assert "all-gather" in zero3 and max(map(len, zero3.splitlines())) <= 80


def test_models_that_fit_on_told_gpus(labtui: Any) -> None:
    document = labtui("memory", "--fits", "--gpus", "8", "--gpu-memory", "80GB", "--json").json
    rows = {row["model"]: row for row in document["rows"]}
    assert rows["llama-7b"]["fits"] == {"ddp": False, "zero1": True, "zero2": True, "zero3": True}
    assert rows["llama-70b"]["gpus_with_zero3"] == 16
    named = labtui("memory", "--fits", "--gpu", "A100 SXM 40GB", "--gpus", "8", "--model", "llama-13b")
    assert "40 GB = 37.25 GiB (A100 SXM 40GB)" in named.out and "llama-13b" in named.out
    assert max(map(len, labtui("memory", "--fits", "--gpu-memory", "80GB").out.splitlines())) <= 80


def test_models_that_fit_on_this_machines_gpus(labtui: Any, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 4", "gpu * name NVIDIA H100 80GB HBM3", "gpu * mem_total_mib 81559")
    document = labtui("memory", "--fits", "--json").json
    assert (document["gpus"], document["gpu_memory"]) == (4, 81559 * 2**20)
    assert document["machine"] == "NVIDIA H100 80GB HBM3"
    out = labtui("memory", "--fits", "--gpu-memory", "10GB", "--gpus", "2").out
    assert "2 GPUs of 10 GB" in out  # what is told wins


def test_without_a_gpu_its_memory_is_asked_for(labtui: Any, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 0")
    sentence = labtui("memory", "--fits").sentence
    assert "no GPU is here" in sentence and "--gpu-memory 80GB" in sentence


# FLOPs and GPU-hours ------------------------------------------------------------------------------------------------


def test_the_lessons_own_figures(labtui: Any) -> None:
    """37e9 active parameters, 14.8e12 tokens: 3.3e24 FLOPs; at 340 TFLOP/s a GPU, 2.664 million GPU-hours give 2048
    cards less than two months (DeepSeek-V3's report, as the lesson quotes it)."""
    arguments = ("--params", "37e9", "--tokens", "14.8e12", "--peak-tflops", "989", "--mfu", "0.3465", "--gpus", "2048")
    document = labtui("memory", *arguments, "--json").json
    assert document["flops_6nd"] == pytest.approx(3.2856e24)
    assert document["gpu_hours"] == pytest.approx(2.664e6, rel=0.01)
    assert 50 < document["days"] < 60
    out = labtui("memory", *arguments).out
    assert "3.286e+24" in out and "2,048 GPUs" in out


def test_a_shape_is_counted_and_a_gpu_looked_up(labtui: Any) -> None:
    done = labtui("memory", "--model", "1b", "--tokens", "1e9", "--gpu", "H100 SXM", "--mfu", "0.5", "--json")
    assert 1.1e9 < done.json["parameters_count"] < 1.4e9 and done.json["peak_tflops"] == pytest.approx(989, rel=0.01)
    assert "H100 SXM" in done.json["peak_source"] and done.json["gpu_memory"] == 80e9


def test_a_mixtures_token_passes_through_its_active_experts(labtui: Any) -> None:
    done = labtui("memory", "--model", "mixtral-8x7b", "--tokens", "1e12", "--json").json
    assert done["flops_6nd"] == 6 * 12_879_925_248 * 1e12 and done["parameters_count"] == 46_702_792_704


def test_without_a_peak_there_are_no_hours(labtui: Any) -> None:
    assert "gpu_hours" not in labtui("memory", "--params", "1e9", "--tokens", "1e9", "--json").json
    assert "flops_6nd" not in labtui("memory", "--params", "1e9", "--json").json


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "which model: --params, --model, or --layers, --hidden and --heads?"),
        (["--params", "-1", "--tokens", "1"], "--params is -1, a number above 0 expected"),
        (["--params", "nan", "--tokens", "1"], "a number above 0 expected"),
        (["--params", "inf"], "--params is inf, a number above 0 expected"),
        (["--params", "1e300"], "--params is 1e+300, at most 1e18 expected"),
        (["--params", "7B"], "'7B' is no number, as 7.5e9 is"),
        (["--params", "1", "--tokens", "1", "--mfu", "0.4"], "GPU-hours need both a peak"),
        (["--params", "1", "--mfu", "0.4"], "so --tokens is needed too"),
        (["--params", "1", "--tokens", "1", "--mfu", "4", "--peak-tflops", "1"], "an MFU lies above 0 and up to 1"),
        (["--params", "1", "--tokens", "1", "--gpu", "GTX 1"], "no GPU 'GTX 1' in the table"),
        (["--params", "1", "--dp", "0"], "--dp: 0 given, a whole number of at least 1 expected"),
        (["--params", "1", "--dp", "1.5"], "1.5 given, a whole number"),
        (["--params", "1", "--gpus", "8", "--tp", "3"], "8 GPUs can't be cut into tp 3 x pp 1 evenly"),
        (["--params", "1", "--gpus", "8", "--dp", "4"], "dp 4 x tp 1 x pp 1 are not the 8 of --gpus"),
        (["--params", "1", "--seq", "8", "--micro-batch", "1"], "activations need a shape beside --params"),
        (["--params", "1", "--micro-batch", "1"], "so --seq is needed too"),
        (["--params", "1", "--model", "gpt2"], "--model has its parameters and shape"),
        (["--params", "1", "--lora", "8"], "--lora needs a shape"),
        (["--params", "1", "--axes"], "--axes needs a model with a shape"),
        (["--layers", "2"], "--hidden is missing"),
        (["--layers", "2", "--hidden", "10", "--heads", "3"], "a width that its heads divide, not 10 by 3"),
        (["--model", "llama-8b"], "'llama-8b' is no model that is known here: tiny, baby"),
        (["--model", "llama-7b", "--tp", "5"], "32 heads can't be cut among 5 tensor-parallel ranks"),
        (["--model", "llama-7b", "--pp", "5"], "32 layers can't be cut into 5 pipeline stages evenly"),
        (["--model", "llama-7b", "--sp"], "sequence parallelism goes with tensor parallelism"),
        (["--model", "llama-7b", "--lora", "8", "--lora-on", "w"], "adapters go on q, k, v, o, mlp, not on w"),
        (["--model", "deepseek-v3", "--seq", "8", "--micro-batch", "1"], "are known with full recomputation only"),
        (["--fits", "--gpu-memory", "80GB", "--seq", "8"], "activations need both --seq and --micro-batch"),
        (["--fits", "--gpu-memory", "80GB", "--model", "x"], "'x' is no model that is known here"),
    ],
)
def test_what_can_not_be_is_a_sentence(labtui: Any, arguments: list[str], words: str) -> None:
    assert words in labtui("memory", *arguments).sentence
