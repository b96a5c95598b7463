"""A layer as one flat tensor: it computes what torch's does, its derivative is autograd's, and its parts are equal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from labtui.bench import flat_layer


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64])
def test_parts_are_equal_and_together_they_are_the_layer(ranks):
    linear = nn.Linear(5, 3)
    cut = [flat_layer.FlatLayer("0", linear, True, SimpleNamespace(rank=r, world_size=ranks)) for r in range(ranks)]
    layer = cut[0]
    assert layer.count == 18
    assert len(layer.weights) % ranks == 0
    assert 0 <= layer.padding < ranks
    whole = torch.cat([other.weights[other.mine] for other in cut])
    assert torch.equal(whole[:18], torch.cat([linear.weight.flatten(), linear.bias]))
    assert not whole[18:].any()
    assert len({len(other.weights[other.mine]) for other in cut}) == 1


def test_the_derivative_is_autograds():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    outputs = model(x)
    outputs.square().sum().backward()

    layers = flat_layer.cut(model, SimpleNamespace(rank=1, world_size=5))
    assert [layer.padding for layer in layers] == [1, 0]
    with torch.no_grad():
        kept = [x]
        for layer in layers:
            kept.append(layer.forward(layer.weights, kept[-1]))
        assert torch.allclose(kept[-1], outputs, rtol=1e-14)
        slope = 2 * kept[-1]
        for layer, linear in zip(reversed(layers), (model[2], model[0]), strict=True):
            after = kept.pop()
            gradient, slope = layer.backward(layer.weights, kept[-1], after, slope)
            right = torch.cat([linear.weight.grad.flatten(), linear.bias.grad])
            assert torch.allclose(gradient[: layer.count], right, rtol=1e-13)
            assert not gradient[layer.count :].any()  # so the padding stays zero
    assert torch.allclose(slope, x.grad, rtol=1e-13)
