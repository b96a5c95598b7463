"""What collectives cost: how many bytes each rank sends, in how many messages. Numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence


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
