"""labtui memory: FLOPs and GPU-hours."""

from __future__ import annotations

from typing import Any

import pytest


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
    assert "H100 SXM" in done.json["peak_source"]


def test_without_a_peak_there_are_no_hours(labtui: Any) -> None:
    assert "gpu_hours" not in labtui("memory", "--params", "1e9", "--tokens", "1e9", "--json").json


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--params", "1e9"], "--tokens"),
        (["--params", "-1", "--tokens", "1"], "--params is -1, a number above 0 expected"),
        (["--params", "nan", "--tokens", "1"], "a number above 0 expected"),
        (["--params", "1", "--tokens", "1", "--mfu", "0.4"], "GPU-hours need both a peak"),
        (["--params", "1", "--tokens", "1", "--mfu", "4", "--peak-tflops", "1"], "an MFU lies above 0 and up to 1"),
        (["--params", "1", "--tokens", "1", "--gpu", "GTX 1"], "no GPU 'GTX 1' in the table"),
    ],
)
def test_what_can_not_be_is_a_sentence(labtui: Any, arguments: list[str], words: str) -> None:
    assert words in labtui("memory", *arguments).sentence
