"""FSDP2, torch's `fully_shard`: what it pads, gathers and sends, for a model in units (its blocks, and the rest).

Numbers in, numbers out; knows no torch. As torch/distributed/fsdp/_fully_shard does it (read in torch 2.13): a tensor
is cut by rows; a unit's weights are gathered together, in forward and, where they were dropped after it, once more in
backward; its gradients are reduce-scattered together. The root unit (what no other unit has) isn't dropped after
forward, since backward begins with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labtui.theory.collectives import bus_factor


def padded(shape: Sequence[int], ranks: int) -> int:
    """Numbers that all ranks together store of a tensor of this shape: each has ceil(rows / N) rows, filled up.

    So a tensor of fewer rows than ranks is stored N times a row. Raises ValueError for no ranks or a tensor of none.
    """
    if ranks < 1 or not shape or min(shape) < 1:
        raise ValueError(f"a tensor of {list(shape)} can't be cut by rows among {ranks} ranks")
    rows, *rest = shape
    return -(-rows // ranks) * ranks * math.prod(rest)


def padded_unit(shapes: Iterable[Sequence[int]], ranks: int) -> int:
    """The same of all tensors of a unit."""
    return sum(padded(shape, ranks) for shape in shapes)


@dataclass(frozen=True)
class Traffic:
    """The collectives of one step (forward and backward of one micro-batch). Bytes are those of the whole unit."""

    all_gathers: int
    all_gather_bytes: int
    reduce_scatters: int
    reduce_scatter_bytes: int
    ranks: int

    @property
    def sent(self) -> float:
        """Bytes that each rank sends, at least: (N-1)/N of the whole for either collective."""
        whole = self.all_gather_bytes + self.reduce_scatter_bytes
        return bus_factor("all_gather", self.ranks) * whole


def traffic(
    units: Sequence[int], root: int, ranks: int, *, weight: int = 4, gradient: int = 4, reshard: bool = True
) -> Traffic:
    """What a step sends. `units` and `root` are numbers, padding included (`padded_unit`); 0 where there is no root.

    `weight` and `gradient` are bytes of a number as it travels; `reshard` is reshard_after_forward of the units.
    """
    if ranks == 1:
        return Traffic(0, 0, 0, 0, ranks)  # torch 2.13 leaves out what a rank would say to itself
    times = 2 if reshard else 1
    parts = len(units) + (root > 0)
    return Traffic(
        all_gathers=times * len(units) + (root > 0),
        all_gather_bytes=weight * (times * sum(units) + root),
        reduce_scatters=parts,
        reduce_scatter_bytes=gradient * (sum(units) + root),
        ranks=ranks,
    )


def textbook_sent(parameters: float, ranks: int, *, weight: int = 4, gradient: int = 4, reshard: bool = True) -> float:
    """Bytes that each rank sends by the ZeRO paper's count: all parameters gathered twice, all gradients reduced once.

    3 Psi numbers for stage 3, and 2 Psi where gathered weights are kept until backward, as in stage 2 (Rajbhandari et
    al., arXiv 1910.02054, section 7); here with (N-1)/N and either size of number.
    """
    times = 2 if reshard else 1
    return bus_factor("all_gather", ranks) * parameters * (times * weight + gradient)


@dataclass(frozen=True)
class Step:
    """What a rank has besides the state that it keeps between steps. Bytes."""

    gathered: float
    """Weights that are whole at the fullest moment: the root's, the unit in use and the next one; 0 in AdamW's step."""
    activations: float
    """What forward leaves behind for backward."""
    peak: float
    """Everything at the fullest moment, what is kept between steps included."""


def step(
    parameters: float,
    unit: float,
    units: int,
    root: float,
    late: float,
    ranks: int,
    *,
    activations: float,
    outside: float,
    weight: int = 4,
    gradient: int = 4,
    reshard: bool = True,
) -> Step:
    """Memory of a step with Adam in float32, for `units` alike of `unit` numbers each, and a root of `root`.

    All these are numbers as they are stored, padding included; together they are `parameters`.
    `late`: numbers of the root whose gradients come first in backward and wait, whole, for its end (the output layer).
    `activations`: bytes that forward keeps of one unit; `outside`: of the root, such as log-probabilities.

    Fullest is the beginning of backward: 12 bytes a parameter / N (gradients are hardly there), the gathered weights,
    a unit's gradients whole and the late ones, and either all units' activations, or those of one unit less and the
    buffer from which that one's gradients are reduce-scattered. Unless there are few ranks and tokens: then it is
    AdamW's step, with all 16 bytes a parameter / N and 4 more (updates of all tensors at a time, foreach). An
    estimate: what single operations take meanwhile is left out, so is a loss whose log-probabilities outweigh the
    units.
    """
    whole = root + (min(2, units) * unit if reshard else units * unit)
    waiting = weight * (late + unit)
    kept = (units - 1) * activations + max(activations, gradient * unit)
    backward = 12 * parameters / ranks + weight * whole + waiting + kept
    update = 20 * parameters / ranks
    return Step(
        gathered=weight * whole if backward > update else 0.0,
        activations=units * activations + outside,
        peak=max(backward, update),
    )
