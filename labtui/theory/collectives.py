"""What collectives cost: how many bytes each rank sends, in how many messages, how long a link takes for them.

Numbers in, numbers out. Sizes are bytes as nccl-tests counts them: for all_gather, reduce_scatter and all_to_all the
whole, which is N times a rank's share; for the others one rank's tensor. Times are seconds, rates bytes per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
"""Those whose time can be predicted. In send_recv each rank sends to the next and receives from the one before."""

_TWICE = ("all_reduce",)
_ONCE = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_WHOLE = ("broadcast", "reduce", "send_recv")


# ---- Bandwidth as nccl-tests counts it.


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth (size/time), as in nccl-tests' doc/PERFORMANCE.md.

    It is chosen so that the bus bandwidth of a perfect algorithm is that of a rank's link, whatever the number of
    ranks: 2 (N-1)/N for all_reduce; (N-1)/N for all_gather, reduce_scatter, all_to_all, gather, scatter; 1 for
    broadcast, reduce, send_recv. Raises ValueError for no ranks or another name.
    """
    _at_least_one(ranks)
    if collective in _TWICE:
        return 2 * (ranks - 1) / ranks
    if collective in _ONCE:
        return (ranks - 1) / ranks
    if collective in _WHOLE:
        return 1.0
    raise ValueError(f"{collective!r} is none of {', '.join(_TWICE + _ONCE + _WHOLE)}")


def bandwidths(collective: str, size: float, seconds: float, ranks: int) -> tuple[float, float]:
    """nccl-tests' algbw and busbw in GB/s (1e9 bytes) of a collective of `size` bytes that took `seconds`.

    Raises ValueError for a time that is not above 0, and as `bus_factor`.
    """
    if not seconds > 0:
        raise ValueError(f"a collective takes at least some time, not {seconds} s")
    algbw = size / seconds / 1e9
    return algbw, algbw * bus_factor(collective, ranks)


# ---- The ring, step by step.


def all_reduce_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends when `ranks` ranks sum `size` bytes each: 2 (N-1)/N of the size.

    A reduce-scatter and an all-gather, each moving (N-1)/N. Without help from switches that add up, no algorithm sends
    less from its busiest rank (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    workstations", JPDC 69, 2009); a ring reaches it. nccl-tests uses the same factor for its bus bandwidth
    (doc/PERFORMANCE.md).
    Raises ValueError for no ranks or a negative size.
    """
    if ranks < 1 or size < 0:
        raise ValueError(f"an all-reduce needs at least 1 rank and 0 bytes, not {ranks} and {size}")
    return 2 * (ranks - 1) / ranks * size


def all_reduce_messages(ranks: int) -> int:
    """Messages that each rank sends, one after the other, in a ring all-reduce: 2 (N-1), each of 1/N of the size.

    This is the part that doesn't shrink with the tensor, and why many small all-reduces cost more than a large one.
    Raises ValueError for no ranks.
    """
    if ranks < 1:
        raise ValueError(f"an all-reduce needs at least 1 rank, not {ranks}")
    return 2 * (ranks - 1)


def chunk_bounds(count: int, ranks: int) -> list[tuple[int, int]]:
    """Where each of N chunks of `count` elements begins and ends; where N doesn't divide, the first have one more.

    Raises ValueError for no ranks or a negative count.
    """
    _at_least_one(ranks)
    if count < 0:
        raise ValueError(f"a tensor has at least 0 elements, not {count}")
    each, left_over = divmod(count, ranks)
    sizes = [each + (index < left_over) for index in range(ranks)]
    bounds = list(accumulate(sizes, initial=0))
    return list(zip(bounds, bounds[1:]))  # noqa: B905, RUF007 - Python 3.9 has neither strict= nor pairwise


@dataclass(frozen=True)
class RingStep:
    """What one rank does in one step of the ring all-reduce: both transfers at once, then the addition."""

    send: int
    """The chunk that goes to the next rank."""
    receive: int
    """The chunk that comes from the rank before."""
    add: bool
    """Whether what comes is added to the own values (reduce-scatter) or replaces them (all-gather)."""


def ring_steps(rank: int, ranks: int) -> list[RingStep]:
    """The 2 (N-1) steps of rank `rank`: N-1 of reduce-scatter, then N-1 of all-gather; none for a single rank.

    A rank begins with the chunk of its own number and afterwards passes on what it has just received. After the first
    half rank r holds the finished sum of chunk r+1. Raises ValueError for a rank outside 0..N-1.
    """
    if not 0 <= rank < ranks:
        raise ValueError(f"a ring of {ranks} has no rank {rank}: at least 0, below {ranks}")
    return [
        RingStep(send=(rank - step) % ranks, receive=(rank - step - 1) % ranks, add=step < ranks - 1)
        for step in range(2 * (ranks - 1))
    ]


def ring_elements(count: int, rank: int, ranks: int) -> int:
    """Elements that rank `rank` sends in a ring all-reduce of `count`, exactly.

    In each half it sends all chunks but one, first not r+1, then not r+2: 2 S - c(r+1) - c(r+2). Where N divides
    `count` that is 2 (N-1)/N of it. Raises ValueError as `ring_steps` and `chunk_bounds`.
    """
    if ranks == 1 and rank == 0:
        return 0
    lengths = [end - start for start, end in chunk_bounds(count, ranks)]
    return sum(lengths[step.send] for step in ring_steps(rank, ranks))


def naive_elements(count: int, rank: int, ranks: int) -> int:
    """Elements that rank `rank` sends where rank 0 adds up everything and sends the sum back to each."""
    _at_least_one(ranks)
    return count * (ranks - 1) if rank == 0 else count


# ---- Time: what is sent, over a link.


@dataclass(frozen=True)
class Link:
    """What messages travel on. A message of S bytes takes latency + S / rate (Hockney's alpha and 1/beta)."""

    latency_s: float
    bytes_per_s: float
    bus: bool = False
    """True: all ranks share the rate. False: each rank has it for itself, in both directions at once."""


@dataclass(frozen=True)
class Cost:
    """What a collective asks of its links."""

    messages: int
    """That follow one after the other."""
    busiest: float
    """Bytes that pass one after the other through the link of the busiest rank."""
    total: float
    """Bytes that all ranks together send."""

    def seconds(self, link: Link) -> float:
        """How long it takes on links of this kind."""
        return self.messages * link.latency_s + (self.total if link.bus else self.busiest) / link.bytes_per_s


def cost(collective: str, size: float, ranks: int, backend: str = "nccl") -> Cost:
    """What a collective of `size` bytes costs: by rings, as NCCL's do, or as the backend "gloo" does it.

    gloo's all_reduce and all_gather are rings too. Its reduce_scatter, as torch calls it, is a whole all_reduce on the
    wire (measured with torch 2.13), and its broadcast is a binomial tree that passes on whole tensors.
    Raises ValueError for another name, no ranks or a negative size.
    """
    if size < 0:
        raise ValueError(f"a collective moves at least 0 bytes, not {size}")
    _at_least_one(ranks)
    others = ranks - 1
    if backend == "gloo" and collective == "reduce_scatter":
        collective = "all_reduce"
    if collective == "all_reduce":
        return Cost(all_reduce_messages(ranks), all_reduce_bytes(size, ranks), 2 * others * size)
    if collective in ("all_gather", "reduce_scatter", "all_to_all"):
        return Cost(others, others / ranks * size, others * size)
    if collective == "broadcast":
        # A pipelined ring passes small pieces on while the next ones arrive: each link carries the tensor once.
        hops = others.bit_length() if backend == "gloo" else others  # of a tree, of the ring
        return Cost(hops, (hops if backend == "gloo" else min(1, hops)) * size, others * size)
    if collective == "send_recv":
        return Cost(1, size, ranks * size) if others else Cost(0, 0, 0)
    raise ValueError(f"{collective!r} is none of {', '.join(COLLECTIVES)}")


def naive_cost(size: float, ranks: int) -> Cost:
    """What it costs to send `size` bytes from each rank to rank 0 and the sum back: all of it passes rank 0's link.

    First in, then out: so a link that could carry both ways at once is used one way at a time.
    """
    _at_least_one(ranks)
    return Cost(2 * (ranks - 1), 2 * (ranks - 1) * size, 2 * (ranks - 1) * size)


def message_cost(size: float) -> Cost:
    """What one message between two ranks costs."""
    return Cost(1, size, size)


# ---- Packing.


def fill_buckets(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """Packs things of these sizes (bytes), in this order, into buckets; returns each bucket's indices.

    A bucket is closed as soon as it holds `capacity` bytes, so the thing that fills it may carry it beyond. This is
    the rule by which PyTorch's DistributedDataParallel fills its buckets. Raises ValueError for a capacity below 1.
    """
    if capacity < 1:
        raise ValueError(f"a bucket must hold at least 1 byte, not {capacity}")
    buckets: list[list[int]] = []
    filled = capacity
    for index, size in enumerate(sizes):
        if filled >= capacity:
            buckets.append([])
            filled = 0
        buckets[-1].append(index)
        filled += size
    return buckets


def _at_least_one(ranks: int) -> None:
    if ranks < 1:
        raise ValueError(f"a collective needs at least 1 rank, not {ranks}")
