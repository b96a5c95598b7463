"""Values of which every result is known exactly beforehand, whatever the order in which they are added up.

Each rank's tensor is a run of small whole numbers that repeats: 0, 1, ..., M-1, 0, 1, ..., begun at another place on
each rank. M is small enough for the sum over all ranks to be a whole number that the dtype holds exactly, so right
means equal, and every element that isn't equal is wrong. (nccl-tests chooses its inputs for the same reason.)
"""

from __future__ import annotations

import torch

_EXACT = {torch.float64: 2**53, torch.float32: 2**24, torch.float16: 2**11, torch.bfloat16: 2**8}
"""Up to here a dtype holds every whole number."""
_LONGEST = 127  # prime, so that it divides no power of two: chunks that got mixed up don't look alike


class Pattern:
    """The values of all ranks for one dtype."""

    def __init__(self, ranks: int, dtype: torch.dtype, device: torch.device) -> None:
        """Raises ValueError where the dtype is too small to hold sums over so many ranks."""
        self._period = min(_LONGEST, (_EXACT[dtype] - 1) // ranks + 1)  # one is left for an element that is damaged
        if self._period < 3:
            raise ValueError(f"{dtype} can't hold the sum over {ranks} ranks exactly")
        self._numbers = torch.arange(self._period, device=device)
        self._ranks, self._dtype = ranks, dtype

    def of_rank(self, rank: int, offset: int = 0) -> torch.Tensor:
        """One period of that rank's values, begun at its element `offset`."""
        return self._begun(rank, offset).to(self._dtype)

    def total(self, offset: int = 0) -> torch.Tensor:
        """One period of the sum over all ranks, begun at element `offset`."""
        return torch.stack([self._begun(rank, offset) for rank in range(self._ranks)]).sum(dim=0).to(self._dtype)

    def _begun(self, rank: int, offset: int) -> torch.Tensor:
        # No rank begins with the last number. If ranks began with all of them equally often, all sums would be the
        # same, and a value in the wrong place would be right.
        return self._numbers.roll(-(rank % (self._period - 1) + offset))


def write(tensor: torch.Tensor, period: torch.Tensor) -> None:
    """Fills a flat tensor with the period, again and again. Needs no memory besides."""
    rows, rest = divmod(tensor.numel(), period.numel())
    tensor[: rows * period.numel()].view(rows, -1 if rows else period.numel()).copy_(period)
    tensor[rows * period.numel() :].copy_(period[:rest])


def wrong(tensor: torch.Tensor, period: torch.Tensor) -> int:
    """How many elements of a flat tensor are not what `write` would have put there. NaN is wrong too."""
    rows, rest = divmod(tensor.numel(), period.numel())
    whole = tensor[: rows * period.numel()].view(rows, -1 if rows else period.numel())
    found = torch.count_nonzero(whole != period) + torch.count_nonzero(tensor[rows * period.numel() :] != period[:rest])
    return int(found)
