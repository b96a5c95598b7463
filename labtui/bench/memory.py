"""How much memory a rank's tensors take at most while something runs."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


def peak_bytes(
    step: Callable[[], object], model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> int:
    """The most bytes of tensors that were alive at once on this rank during `step`.

    On a GPU its allocator knows. On the CPU the storages of all tensors that a step touches are added up: a process
    there seldom gives memory back, so what the system says of it would tell of everything before, too. Takes the step
    twice there, the first time to get to know what others keep between steps (DDP its buckets).
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        step()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device))
    with Alive(_lasting(model, optimizer)) as alive:
        step()
        alive.peak = alive.now
        step()
    return int(alive.peak)


class Alive(TorchDispatchMode):  # type: ignore[misc]
    """Adds up the storages of all tensors that operations inside return, each once and as long as it lives.

    `known` are tensors that were there before. Views share a storage, which counts whole.
    """

    def __init__(self, known: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.now = 0
        """Bytes, at this moment."""
        self.peak = 0
        """Bytes, at most so far."""
        self._seen: set[int] = set()
        for tensor in known:
            self._see(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._see(leaf)
        return out

    def _see(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage._cdata, storage.nbytes()
        if place in self._seen:
            return
        self._seen.add(place)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, place, size).atexit = False

    def _gone(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self.now -= size


def _lasting(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """What is there between steps: weights, gradients that weren't dropped, and the optimizer's state."""
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        yield tensor
        if tensor.grad is not None:
            yield tensor.grad
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))
