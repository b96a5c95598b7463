"""A small model and a batch for experiments about gradients, the same on every rank.

Made so that comparing gradients means something: no layer's gradient fades (with torch's own initialisation the first
of eight layers would have gradients near any bound one could set), and tanh is smooth (at the kink of a ReLU a
rounding error decides on a whole gradient).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from labtui.bench.device import refuse
from labtui.bench.group import Group


def make_model(group: Group, layers: int, width: int) -> nn.Sequential:
    """`layers` hidden layers width -> width with tanh, then width -> 1; equal weights on all ranks and in each call."""
    torch.manual_seed(group.seed)
    with group.device:
        hidden = [nn.Linear(width, width) for _ in range(layers)]
        for layer in hidden:
            nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))
        return nn.Sequential(*(part for layer in hidden for part in (layer, nn.Tanh())), nn.Linear(width, 1))


def make_batch(group: Group, examples: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [examples, width] and targets [examples, 1] that can be learnt; equal on all ranks and in each call."""
    torch.manual_seed(group.seed + 1)
    with group.device:
        inputs = torch.randn(examples, width)
        return inputs, torch.tanh(inputs @ torch.randn(width, 1) / width**0.5)


def even_share(group: Group, examples: int) -> slice:
    """This rank's part of the batch: equal parts, in the order of ranks. Raises ValueError if they can't be equal."""
    each, left_over = divmod(examples, group.world_size)
    if left_over:
        raise ValueError(f"{examples} examples can't be shared equally by {group.world_size} ranks")
    return slice(group.rank * each, (group.rank + 1) * each)


def uneven_share(group: Group, examples: int) -> slice:
    """This rank's part of the batch, in proportion to rank + 1: with two ranks one third and two thirds.

    Refuses the run where that leaves a rank without any, or where one rank is all there is.
    """
    ranks = group.world_size
    bounds = [examples * r * (r + 1) // (ranks * (ranks + 1)) for r in range(ranks + 1)]
    if ranks == 1 or 0 in (end - start for start, end in pairwise(bounds)):
        refuse(f"{examples} examples can't be shared unequally by {ranks} process{'es' * (ranks > 1)}")
    return slice(bounds[group.rank], bounds[group.rank + 1])
