"""Collectives that can be timed and proved, one function each: `all_reduce(group, size, dtype)` gives an Operation.

Sizes are bytes as nccl-tests counts them (see `theory.collectives`), and made a multiple of what the ranks can share.
In place where torch's own call is; NCCL's in-place form of the others has no counterpart there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labtui.bench import exact, p2p
from labtui.bench.device import refuse
from labtui.bench.group import Group

UNTOUCHED = -1
"""What outputs hold before: no rank's value, so an element that nobody wrote is wrong."""


@dataclass(frozen=True)
class Operation:
    """One collective of one size, with buffers of its own."""

    name: str
    size: int
    """Bytes, as nccl-tests counts them."""
    count: int
    """Elements, as nccl-tests counts them: of one rank's share where the size is that of all shares."""
    redop: str
    root: int
    place: str
    """"in-place" or "out-of-place"."""
    run: Callable[[], object]
    fill: Callable[[], None]
    """Writes this rank's input, and makes the output forget what it held."""
    outputs: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """(a part of this rank's output, the period of values that it must hold)."""

    def wrong(self) -> int:
        """How many elements of this rank's output are not what they must be. Run it after `fill` and one `run`."""
        return sum(exact.wrong(part, period) for part, period in self.outputs)

    def damage(self) -> None:
        """Makes one element of this rank's output wrong, as a faulty link would: for proving that `wrong` sees it."""
        for part, _ in self.outputs[:1]:
            part[part.numel() // 2] += 1


def all_reduce(group: Group, size: int, dtype: torch.dtype) -> Operation:
    """Every rank gets the sum of all ranks' tensors."""
    values, count = _pattern(group, dtype), _elements(size, dtype)
    tensor = _empty(group, count, dtype)
    return Operation(
        "all_reduce", tensor.nbytes, count, "sum", -1, "in-place",
        run=lambda: dist.all_reduce(tensor),
        fill=lambda: exact.write(tensor, values.of_rank(group.rank)),
        outputs=((tensor, values.total()),),
    )  # fmt: skip


def all_gather(group: Group, size: int, dtype: torch.dtype) -> Operation:
    """Every rank gets all ranks' tensors, one after the other."""
    values, share = _pattern(group, dtype), _elements(size, dtype, group.world_size)
    mine, everyones = _empty(group, share, dtype), _empty(group, share * group.world_size, dtype)

    def fill() -> None:
        exact.write(mine, values.of_rank(group.rank))
        everyones.fill_(UNTOUCHED)

    return Operation(
        "all_gather", everyones.nbytes, share, "none", -1, "out-of-place",
        run=lambda: all_gather_single(everyones, mine),
        fill=fill,
        outputs=tuple((part, values.of_rank(rank)) for rank, part in enumerate(everyones.split(share))),
    )  # fmt: skip


def reduce_scatter(group: Group, size: int, dtype: torch.dtype) -> Operation:
    """Every rank gets its own part of the sum of all ranks' tensors."""
    values, share = _pattern(group, dtype), _elements(size, dtype, group.world_size)
    whole, mine = _empty(group, share * group.world_size, dtype), _empty(group, share, dtype)

    def fill() -> None:
        exact.write(whole, values.of_rank(group.rank))
        mine.fill_(UNTOUCHED)

    return Operation(
        "reduce_scatter", whole.nbytes, share, "sum", -1, "out-of-place",
        run=lambda: reduce_scatter_single(mine, whole),
        fill=fill,
        outputs=((mine, values.total(offset=group.rank * share)),),
    )  # fmt: skip


def all_to_all(group: Group, size: int, dtype: torch.dtype) -> Operation:
    """Rank r's part s goes to rank s and becomes its part r: a matrix that is transposed over the ranks."""
    values, share = _pattern(group, dtype), _elements(size, dtype, group.world_size)
    before, after = (_empty(group, share * group.world_size, dtype) for _ in range(2))

    def fill() -> None:
        exact.write(before, values.of_rank(group.rank))
        after.fill_(UNTOUCHED)

    return Operation(
        "all_to_all", after.nbytes, share, "none", -1, "out-of-place",
        run=lambda: dist.all_to_all_single(after, before),
        fill=fill,
        outputs=tuple(
            (part, values.of_rank(rank, offset=group.rank * share)) for rank, part in enumerate(after.split(share))
        ),
    )  # fmt: skip


def broadcast(group: Group, size: int, dtype: torch.dtype) -> Operation:
    """Every rank gets rank 0's tensor."""
    values, count = _pattern(group, dtype), _elements(size, dtype)
    tensor = _empty(group, count, dtype)

    def fill() -> None:
        if group.rank == 0:
            exact.write(tensor, values.of_rank(0))
        else:
            tensor.fill_(UNTOUCHED)

    return Operation(
        "broadcast", tensor.nbytes, count, "none", 0, "in-place",
        run=lambda: dist.broadcast(tensor, src=0),
        fill=fill,
        outputs=((tensor, values.of_rank(0)),),
    )  # fmt: skip


def send_recv(group: Group, size: int, dtype: torch.dtype) -> Operation:
    """Every rank sends to the next and receives from the one before, at once. Refuses a single rank."""
    if group.world_size == 1:
        refuse("send_recv needs at least 2 processes, this is 1: all_reduce can still show what a call costs")
    values, count = _pattern(group, dtype), _elements(size, dtype)
    mine, its = _empty(group, count, dtype), _empty(group, count, dtype)
    after, before = (group.rank + 1) % group.world_size, (group.rank - 1) % group.world_size

    def fill() -> None:
        exact.write(mine, values.of_rank(group.rank))
        its.fill_(UNTOUCHED)

    return Operation(
        "send_recv", mine.nbytes, count, "none", -1, "out-of-place",
        run=lambda: p2p.exchange(mine, after, its, before).wait(),
        fill=fill,
        outputs=((its, values.of_rank(before)),),
    )  # fmt: skip


def pair(group: Group, size: int, dtype: torch.dtype, src: int, dst: int) -> Operation:
    """Rank `src` sends to rank `dst`; the others only look on."""
    values, count = _pattern(group, dtype), _elements(size, dtype)
    tensor = _empty(group, count if group.rank in (src, dst) else 0, dtype)

    def fill() -> None:
        if group.rank == src:
            exact.write(tensor, values.of_rank(src))
        else:
            tensor.fill_(UNTOUCHED)

    def run() -> None:
        if group.rank == src:
            dist.send(tensor, dst)
        elif group.rank == dst:
            dist.recv(tensor, src)

    return Operation(
        "send_recv", count * dtype.itemsize, count, "none", -1, "out-of-place",
        run=run,
        fill=fill,
        outputs=((tensor, values.of_rank(src)),) if group.rank == dst else (),
    )  # fmt: skip


ALL: dict[str, Callable[[Group, int, torch.dtype], Operation]] = {
    function.__name__: function
    for function in (all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv)
}


def sizes(least: int, most: int, factor: int) -> list[int]:
    """`least`, and each time `factor` times as much, as long as it is no more than `most`. Refuses an empty range."""
    if least > most:
        refuse(f"min_bytes is {least}, that is more than max_bytes, {most}")
    found = [least]
    while found[-1] * factor <= most:
        found.append(found[-1] * factor)
    return found


def bytes_needed(name: str, size: int, dtype: torch.dtype, ranks: int, backend: str) -> int:
    """Memory that each rank will hold for an operation of this size while it runs or is proved.

    Buffers, a byte per element for comparing, and, for gloo's reduce_scatter, the copy that torch makes of its input.
    NCCL's own buffers are not in it.
    """
    buffers: dict[str, float] = {
        "all_reduce": 1.0,
        "broadcast": 1.0,
        "all_gather": 1 + 1 / ranks,
        "reduce_scatter": 1 + 1 / ranks,
    }
    copies = 1 if (name, backend) == ("reduce_scatter", "gloo") else 0
    return int(size * (buffers.get(name, 2.0) + copies + 1 / dtype.itemsize))


# torch 2.13 renamed these two; the old names still work in it, with a warning on each rank.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def _pattern(group: Group, dtype: torch.dtype) -> exact.Pattern:
    try:
        return exact.Pattern(group.world_size, dtype, group.device)
    except ValueError as error:
        refuse(f"results could not be proved: {error}")


def _elements(size: int, dtype: torch.dtype, parts: int = 1) -> int:
    """Elements of one of so many equal parts of `size` bytes; at least one."""
    return max(1, size // (int(dtype.itemsize) * parts))


def _empty(group: Group, count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device=group.device)
