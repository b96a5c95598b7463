"""The machine profile as a run gets it, and the peak that speeds are shares of."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

import torch

from labtui.bench import peak, profile
from labtui.theory import hardware

CPU = torch.device("cpu")


def test_without_a_profile_there_is_none(monkeypatch):
    assert profile.current() is None
    monkeypatch.setenv("LABTUI_PROFILE", "null")
    assert profile.current() is None
    assert peak.of(CPU, "float32") == peak.Peak(
        None, "no published peak for a CPU, and no profile of this machine: run link_vs_compute first"
    )


def test_a_profile_tells_link_and_compute(monkeypatch):
    document = {"alpha": 0, "beta": 0.8, "tflops": {"float32": 0.147}, "date": "2026-11-29", "nproc": 2}
    monkeypatch.setenv("LABTUI_PROFILE", json.dumps(document))
    assert profile.current() == profile.Profile(0.0, 0.8, {"float32": 0.147}, "2026-11-29")
    assert peak.of(CPU, "float32") == peak.Peak(
        0.147, "0.147 TFLOP/s, this machine's best float32 matrix product, measured 2026-11-29"
    )
    assert peak.of(CPU, "bfloat16").tflops is None


def test_a_profile_of_one_process_knows_no_link(monkeypatch):
    monkeypatch.setenv("LABTUI_PROFILE", '{"tflops": {"float32": 1}}')
    found = profile.current()
    assert found is not None
    assert (found.alpha, found.beta, found.measured) == (None, None, "")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fast", "LABTUI_PROFILE is 'fast', a JSON object expected"),
        ('{"tflops": 3}', "LABTUI_PROFILE is '{\"tflops\": 3}', a JSON object expected"),
        ('{"alpha": 1}', "LABTUI_PROFILE has beta = None, a number above 0 expected"),
        ('{"alpha": -1, "beta": 1}', "LABTUI_PROFILE has alpha = -1, a number above 0 expected"),
        ('{"alpha": 1, "beta": 0}', "LABTUI_PROFILE has beta = 0, a number above 0 expected"),
        ('{"tflops": {"float32": true}}', "LABTUI_PROFILE has tflops of float32 = True, a number above 0 expected"),
    ],
)
def test_what_is_no_profile_ends_the_run_with_a_sentence(monkeypatch, capsys, text, sentence):
    monkeypatch.setenv("LABTUI_PROFILE", text)
    with pytest.raises(SystemExit) as leaving:
        profile.current()
    assert leaving.value.code == 2
    assert capsys.readouterr().err.strip() == sentence


def test_a_gpus_peak_is_the_published_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    cuda = torch.device("cuda", 0)
    assert peak.published(cuda) == hardware.gpu_model("H200")
    assert peak.of(cuda, "float32") == peak.Peak(989, "989 TFLOP/s, dense bf16 of H200 (published)")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Somebody's GPU")
    assert peak.of(cuda, "float32").tflops is None
