"""A fully connected layer as one flat tensor that N ranks can cut into equal parts, its derivative written out.

For experiments in which weights come and go: no autograd keeps a reference to them, so what is dropped is freed. Knows
its ranks' number but sends nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from labtui.bench.group import Group
from labtui.bench.timeline import span


class FlatLayer:
    """outputs = tanh(inputs @ weight.T + bias), the last layer of a model without the tanh.

    `weights` holds weight [out, in] and bias [out], one after the other. Zeros fill it up to a multiple of N; their
    gradient is zero, so they stay zero. Shapes below: B examples; "flat" is all of a layer, as long as `weights` at
    the beginning.
    """

    def __init__(self, name: str, linear: nn.Linear, is_last: bool, group: Group) -> None:
        self.name, self.is_last, self.shape = name, is_last, linear.weight.shape
        self._split = linear.weight.numel()
        self.count: int = self._split + linear.bias.numel()
        """Parameters, without the padding."""
        self.padding: int = -self.count % group.world_size
        self.weights = F.pad(torch.cat([linear.weight.detach().flatten(), linear.bias.detach()]), (0, self.padding))
        each = len(self.weights) // group.world_size
        self.mine = slice(group.rank * each, (group.rank + 1) * each)
        """The part that is this rank's."""
        self.gradient: torch.Tensor | None = None
        """Of all weights, or of this rank's part: the training's to set and to drop."""
        self.adamw: Any = None

    def forward(self, flat: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:  # [flat], [B, in] -> [B, out]
        """What comes out; it keeps nothing."""
        with span("compute", f"forward {self.name}"):
            outputs = F.linear(inputs, self._weight(flat), flat[self._split : self.count])
            return outputs if self.is_last else outputs.tanh_()

    def backward(
        self, flat: torch.Tensor, inputs: torch.Tensor, outputs: torch.Tensor, slope: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """From the loss's derivative by the outputs [B, out] to those by the weights [flat] and the inputs [B, in]."""
        with span("compute", f"backward {self.name}"):
            if not self.is_last:
                slope = slope * (1 - outputs * outputs)  # back through the tanh
            gradient = torch.zeros_like(flat)
            torch.mm(slope.T, inputs, out=self._weight(gradient))
            torch.sum(slope, 0, out=gradient[self._split : self.count])
            return gradient, slope @ self._weight(flat)

    def _weight(self, flat: torch.Tensor) -> torch.Tensor:
        return flat[: self._split].view(self.shape)


def cut(model: nn.Module, group: Group) -> list[FlatLayer]:
    """The linear layers of a model such as `mlp.make_model` gives, in order, their weights copied."""
    linears = [part for part in model.modules() if isinstance(part, nn.Linear)]
    return [FlatLayer(str(i), linear, linear is linears[-1], group) for i, linear in enumerate(linears)]
