"""Models by name, and the shapes of Llama-like ones."""

from __future__ import annotations

import pytest

from labtui.theory import known_models, llama
from labtui.theory.llama import Experts, LlamaShape


def test_every_model_has_a_source_and_about_the_size_of_its_name() -> None:
    sizes = {"t": 1e12, "b": 1e9, "m": 1e6}
    for name, model in known_models.MODELS.items():
        assert model.source, name
        tail = name.rpartition("-")[2]
        if tail[:-1].isdigit() and tail[-1] in sizes and name != "1b":
            said = int(tail[:-1]) * sizes[tail[-1]]
            assert known_models.parameters(model.shape) == pytest.approx(said, rel=0.09), name


def test_a_dense_models_parameters_are_all_active() -> None:
    shape = known_models.known("llama3-8b").shape
    assert known_models.parameters(shape) == known_models.parameters(shape, active=True)
    mixture = known_models.known("mixtral-8x7b").shape
    assert known_models.parameters(mixture, active=True) == 12_879_925_248  # "12.9B active"


def test_grouped_queries_and_tied_embeddings_save_what_they_say() -> None:
    whole = LlamaShape(2, 8, 64, 128, 16, 100)
    grouped = LlamaShape(2, 8, 64, 128, 16, 100, kv_heads=2)
    assert llama.parameters(whole) - llama.parameters(grouped) == 2 * 2 * 64 * (64 - 16)
    tied = LlamaShape(2, 8, 64, 128, 16, 100, tied=True)
    assert llama.parameters(whole) - llama.parameters(tied) == 6400


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(ValueError, match="'llama-8b' is no model that is known here: tiny, baby"):
        known_models.known("llama-8b")
    with pytest.raises(ValueError, match="not 64 by 8 by 3"):
        LlamaShape(2, 8, 64, 128, 16, 100, kv_heads=3)
    with pytest.raises(ValueError, match="can't pass through 9 of 8 experts"):
        Experts(8, 9, 16)
    with pytest.raises(ValueError, match="experts need sizes of at least 1"):
        Experts(0, 1, 16)
