"""The GPT is what theory says it is, causal, and equal on all ranks; torch's own counter agrees on its FLOPs."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from torch.utils.flop_counter import FlopCounterMode

from labtui.bench import gpt, memory
from labtui.theory import flops, models

SMALL = models.GptShape(layers=2, heads=2, width=16, context=8, vocabulary=11)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", models.SIZES)
def test_parameters_by_formula_and_by_counting(name, tied):
    shape = models.size(name, 97, tied=tied)
    assert gpt.parameters(gpt.make(shape, 0, "meta")) == models.parameters(shape)


def test_a_token_sees_only_what_came_before_it():
    model = gpt.make(SMALL, 0)
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6]])
    changed = tokens.clone()
    changed[0, 4] = 9
    before, after = model(tokens), model(changed)
    assert before.shape == (1, 6, 11)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_the_same_seed_makes_the_same_weights_and_another_one_others():
    first, again, other = (gpt.make(SMALL, seed).head.output.weight for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_new_model_knows_nothing_and_learns():
    model = gpt.make(SMALL, 0)
    tokens = torch.arange(9).remainder(5)[None]
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    assert model(inputs, targets).item() == pytest.approx(torch.tensor(11.0).log().item(), rel=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(inputs, targets)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_parameters_are_registered_in_the_order_of_forward():
    names = [name.partition(".")[0] for name, _ in gpt.make(SMALL, 0, "meta").named_parameters()]
    assert list(dict.fromkeys(names)) == ["embed", "blocks", "head"]


@pytest.mark.parametrize(("sequences", "length"), [(1, 8), (3, 5)])
def test_torch_counts_the_same_flops_but_for_attention_on_the_cpu(sequences, length):
    tokens = torch.zeros(sequences, length, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        gpt.make(SMALL, 0)(tokens, tokens).backward()
    again = SMALL.layers * flops.layer_forward(SMALL, sequences, length).scores  # a fused backward computes them twice
    missed = flops.missed_by_torch_on_cpu(SMALL, sequences, length)
    assert counter.get_total_flops() == flops.training(SMALL, sequences, length) + again - missed


def test_activations_are_about_what_theory_says():
    shape = models.GptShape(layers=6, heads=4, width=64, context=64, vocabulary=72)
    model, tokens = gpt.make(shape, 0), torch.zeros(8, 64, dtype=torch.int64)
    with memory.Alive(model.parameters()) as alive:
        before = alive.now
        loss = model(tokens, tokens)
        kept = alive.now - before
    assert loss.requires_grad
    assert kept == pytest.approx(models.activation_bytes(shape, 8), rel=0.1)
