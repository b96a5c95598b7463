"""What a rank's tensors take at the moments of a step, by kind: parameters, gradients, optimizer state, activations.

Counted from storages that are really alive, each once, and never from the process's size, which on a CPU doesn't fall
when memory is freed. The training says which tensors are its parameters, gradients and so on; `memory.Alive` knows all
that live. What is alive and of no kind that was named is counted too, as "other": so a copy that nobody lets go of
can't hide. Tensors only: a library's own buffers (NCCL's, a matrix product's workspace) are no tensors of torch.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch

from labtui.bench.group import Group
from labtui.bench.memory import Alive

OTHER = "other"

_PATIENCE = 50
"""Readings, 1 ms apart. gloo's threads let go of a collective's tensors a moment after telling that it is over."""

Named = Callable[[], Mapping[str, Iterable[torch.Tensor]]]
"""Which tensors a training holds right now, by kind. A storage that stands under two kinds counts for the first."""


@dataclass(frozen=True)
class Held:
    """Bytes that one rank held in a step."""

    at: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By moment, then by kind; the last kind is "other"."""
    peak: int = 0
    """The most that was alive at once, of all kinds. What a backend let go of late is in it."""

    def total(self, moment: str) -> int:
        """All kinds together. Raises KeyError for a moment that didn't come."""
        return sum(self.at[moment].values())


def during(step: Callable[[Callable[[str], None]], object], named: Named, besides: Iterable[torch.Tensor] = ()) -> Held:
    """Runs `step(look)`; each `look(moment)` in it counts what is held then. The last one of a moment stays.

    `besides` are tensors that have been there before and belong to no kind, such as the batch: they count nowhere.
    """
    at: dict[str, dict[str, int]] = {}
    outside = list(besides)
    # No list of them: it would keep alive what the step drops.
    before = (tensor for tensors in named().values() for tensor in tensors)
    with Alive(itertools.chain(before, outside)) as alive:
        ignored = sum(_sizes(outside).values())

        def look(moment: str) -> None:
            split = by_kind(named())
            unnamed = [alive.now - ignored - sum(split.values())]
            while unnamed[-1] and len(unnamed) < _PATIENCE:
                time.sleep(1e-3)
                unnamed.append(alive.now - ignored - sum(split.values()))
            at[moment] = {**split, OTHER: min(unnamed)}

        step(look)
    return Held(at, alive.peak - ignored)


def by_kind(named: Mapping[str, Iterable[torch.Tensor]]) -> dict[str, int]:
    """The bytes of the storages behind these tensors. Views share one, which counts once, whole."""
    seen: set[int] = set()
    found = {}
    for kind, tensors in named.items():
        sizes = _sizes(tensors)
        found[kind] = sum(size for place, size in sizes.items() if place not in seen)
        seen |= sizes.keys()
    return found


def largest(group: Group, held: Held) -> Held:
    """Each figure from the rank where it is largest. A collective: every rank must have looked at the same moments."""
    at = {moment: {kind: int(group.largest(size)) for kind, size in kinds.items()} for moment, kinds in held.at.items()}
    return Held(at, int(group.largest(held.peak)))


def _sizes(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """Storages by their place; torch keeps one object for each, however many tensors look into it."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return {storage._cdata: storage.nbytes() for storage in storages}
