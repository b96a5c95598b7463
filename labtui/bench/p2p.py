"""Messages from rank to rank, both ways at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Transfer:
    """A message to one rank and one from another (or the same), both under way."""

    sent: int
    """Bytes that leave."""
    _works: list[dist.Work]

    def wait(self) -> None:
        """Until one has come and the other has left. On a GPU it is the stream that waits, not this process."""
        for work in self._works:
            work.wait()


def exchange(outgoing: torch.Tensor, to: int, incoming: torch.Tensor, source: int) -> Transfer:
    """Begins to send one tensor and to receive another; empty ones are left out.

    Together, because a rank that first sends and then receives uses a link that carries both ways at once one way at
    a time; and on NCCL two ranks that both send first wait for each other for ever.
    """
    operations = [dist.P2POp(dist.irecv, incoming, source)] if incoming.numel() else []
    operations += [dist.P2POp(dist.isend, outgoing, to)] if outgoing.numel() else []
    works = dist.batch_isend_irecv(operations) if operations else []
    return Transfer(outgoing.nbytes, works)
