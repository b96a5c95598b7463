"""The peak of a step: what is alive at once counts, once, and no longer than it lives."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from labtui.bench import memory

MB = 250_000  # elements of float32


def test_the_peak_is_what_lived_at_the_same_time():
    with memory.Alive() as alive:
        first = torch.zeros(3 * MB)
        view = first.view(3, MB)  # no memory of its own
        del first
        assert alive.now == 3_000_000
        second = view + 1
        del view
        assert (alive.now, alive.peak) == (3_000_000, 6_000_000)
        third = second[0].clone()
        del second
    assert (alive.now, alive.peak, third.nbytes) == (1_000_000, 6_000_000, 1_000_000)


def test_a_step_counts_weights_gradients_and_the_optimizers_state():
    model = torch.nn.Linear(500, 500, bias=False)  # 1 MB
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.zeros(1, 500)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    peak = memory.peak_bytes(step, model, optimizer, torch.device("cpu"))
    assert 4_000_000 <= peak < 6_100_000  # 16 bytes a parameter, and what the optimizer computes meanwhile
