"""How far ranks are from a reference, and from each other.

Collectives, which every rank must call, give the largest over all ranks, and NaN if any value is NaN: so one rank can
report for all.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from labtui.bench.group import Group


def off_reference(group: Group, mine: Iterable[torch.Tensor], reference: Iterable[torch.Tensor]) -> float:
    """The largest |mine - reference| over all elements and ranks. Raises ValueError if there aren't equally many."""
    each = [(a.detach() - b.detach()).abs().max() for a, b in zip(mine, reference, strict=True)]
    return group.largest(torch.stack(each).max().item())


def weakest(model: nn.Module) -> tuple[str, float]:
    """The parameter whose largest |gradient| is smallest, and that gradient: what a difference must be held against.

    Where it is not far above a check's bound, that check proves nothing about this parameter. No collective.
    """
    largest = {name: p.grad.abs().max().item() for name, p in model.named_parameters() if p.grad is not None}
    name = min(largest, key=lambda each: largest[each])
    return name, largest[name]


def apart(group: Group, model: nn.Module) -> float:
    """The largest difference between any rank's weights and rank 0's; 0 means identical to the last bit."""
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    rank_0s = mine.clone()
    dist.broadcast(rank_0s, src=0)
    return group.largest((mine - rank_0s).abs().max().item())
