"""The collectives that a piece of code issues, one by one: name, bytes, group, forward or backward.

    with counted.Counted() as seen:
        loss = model(x)
        loss.backward()
    seen.counts()                     # {"all_gather": 9, "reduce_scatter": 5}
    seen.totals()["all_gather"].sent  # bytes that an ideal algorithm makes each rank send for them
    seen.calls[0]                     # Call(collective="all_gather", bytes=..., ranks=2, ...)

It sees what torch's dispatcher sees: torch.distributed's functions, functional collectives (DTensor's are these), and
those that DDP and FSDP issue from C++ or hooks, also in backward. Works on any backend, the fake one and under
FakeTensorMode included, since nothing is timed and no data is looked at. What really crosses the wire is another
question, which bench.wire answers: gloo's reduce-scatter, for one, sends twice the ideal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, _resolve_process_group
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from labtui.theory import collectives


@dataclass(frozen=True)
class Call:
    """One collective, as this rank issued it."""

    collective: str
    """"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter", "send",
    "recv" or "barrier"."""
    bytes: int
    """Its size as nccl-tests counts it: of all_reduce, broadcast, reduce, send and recv the tensor; of all_gather and
    gather the whole that comes out, of reduce_scatter, scatter and all_to_all the whole that goes in."""
    ranks: int
    """Members of its process group."""
    group: str
    """What torch calls the group: "default_pg", "mesh_tp" for a mesh's axis "tp"; "" where it doesn't say."""
    backward: bool
    """Issued while autograd ran backward (its final callbacks included)."""
    sent: float
    """Bytes that this rank has to send for it at least: see `ideal_sent`. An all_to_all's are exact, uneven or not."""


@dataclass(frozen=True)
class Total:
    """All calls of one collective."""

    calls: int
    bytes: int
    sent: float


def ideal_sent(collective: str, size: float, ranks: int) -> float:
    """Bytes that a rank sends in a bandwidth-optimal algorithm, for a collective of `size` bytes.

    2 (N-1)/N of the size for all_reduce, (N-1)/N for all_gather, reduce_scatter and all_to_all, all of it for
    broadcast, reduce and send, nothing for recv and barrier (theory.collectives.bus_factor). For gather and scatter
    (N-1)/N is what the root's link carries. Where a rank is alone, nothing. Raises ValueError for another name or no
    ranks.
    """
    if collective in ("recv", "barrier"):
        return 0.0
    factor = collectives.bus_factor("send_recv" if collective == "send" else collective, ranks)
    return factor * size if ranks > 1 or collective == "send" else 0.0


class Counted(TorchDispatchMode):  # type: ignore[misc]
    """Counts the collectives issued inside the `with`, by this thread and by autograd for it.

    Enter it before forward: DDP's hooks keep the modes that were active then. Use a new one for each measurement.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        """In the order in which they were issued."""

    def counts(self, *, backward: bool | None = None) -> dict[str, int]:
        """How many calls of each collective: in all, or only those of backward (True) or outside of it (False)."""
        return {name: total.calls for name, total in self.totals(backward=backward).items()}

    def totals(self, *, backward: bool | None = None) -> dict[str, Total]:
        """Calls, bytes and ideally sent bytes of each collective; `backward` as in `counts`."""
        found: dict[str, Total] = {}
        for call in self.calls:
            if backward in (None, call.backward):
                before = found.get(call.collective, Total(0, 0, 0.0))
                found[call.collective] = Total(before.calls + 1, before.bytes + call.bytes, before.sent + call.sent)
        return found

    def sent(self) -> float:
        """Bytes that this rank sends at least for all of it."""
        return sum(call.sent for call in self.calls)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if has_dtensor(types):
            return NotImplemented  # first it becomes operations on local tensors, with collectives between them
        space, _, name = func._schema.name.partition("::")
        known = _OPERATIONS.get(space, {}).get(name)
        if known is not None:
            self.calls.extend(_calls(func, known, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


# Operation: the collective's name, the argument that holds its tensors, and whether that is a rank's share of it all.
_CLASSIC = {
    "allreduce_": ("all_reduce", "tensors", False),
    "allreduce_coalesced_": ("all_reduce", "tensors", False),
    "allgather_": ("all_gather", "output_tensors", False),
    "_allgather_base_": ("all_gather", "output_tensor", False),
    "allgather_coalesced_": ("all_gather", "output_lists", False),
    "allgather_into_tensor_coalesced_": ("all_gather", "outputs", False),
    "reduce_scatter_": ("reduce_scatter", "input_tensors", False),
    "_reduce_scatter_base_": ("reduce_scatter", "input_tensor", False),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", "inputs", False),
    "alltoall_": ("all_to_all", "input_tensors", False),
    "alltoall_base_": ("all_to_all", "input", False),
    "broadcast_": ("broadcast", "tensors", False),
    "reduce_": ("reduce", "tensors", False),
    "gather_": ("gather", "input_tensors", True),  # only the root has the whole
    "scatter_": ("scatter", "output_tensors", True),
    "send": ("send", "tensors", False),
    "recv_": ("recv", "tensors", False),
    "recv_any_source_": ("recv", "tensors", False),
    "barrier": ("barrier", "", False),
    "monitored_barrier_": ("barrier", "", False),
}
_FUNCTIONAL = {
    "all_reduce": ("all_reduce", "input", False),
    "all_reduce_": ("all_reduce", "input", False),
    "all_reduce_coalesced": ("all_reduce", "inputs", False),
    "all_reduce_coalesced_": ("all_reduce", "inputs", False),
    "all_gather_into_tensor": ("all_gather", "input", True),
    "all_gather_into_tensor_out": ("all_gather", "input", True),
    "all_gather_into_tensor_coalesced": ("all_gather", "inputs", True),
    "reduce_scatter_tensor": ("reduce_scatter", "input", False),
    "reduce_scatter_tensor_out": ("reduce_scatter", "input", False),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", "inputs", False),
    "all_to_all_single": ("all_to_all", "input", False),
    "broadcast": ("broadcast", "input", False),
    "broadcast_": ("broadcast", "input", False),
    "isend": ("send", "tensor", False),
    "irecv": ("recv", "tensor", False),
    "batch_p2p_ops": ("batch", "tensors", False),
}
_OPERATIONS = {
    "c10d": _CLASSIC,
    "_c10d_functional": _FUNCTIONAL,
    # As a rule these turn into the plain ones before a mode sees them.
    "_c10d_functional_autograd": _FUNCTIONAL,
    "_dtensor": {"shard_dim_alltoall": ("all_to_all", "input", False)},
}


def _calls(func: Any, known: tuple[str, str, bool], args: Any, kwargs: Any) -> Iterable[Call]:
    collective, argument, is_share = known
    given = {**{one.name: value for one, value in zip(func._schema.arguments, args)}, **kwargs}  # noqa: B905
    group = _group(given.get("process_group", given.get("group_name")))
    backward = torch._C._current_graph_task_id() != -1
    name = getattr(group, "group_desc", "")
    if collective == "batch":
        for operation, tensor in zip(given["op_list"], given["tensors"]):  # noqa: B905 - Python 3.9
            which = "send" if operation == "isend" else "recv"
            size = _bytes(tensor)
            yield Call(which, size, group.size(), name, backward, ideal_sent(which, size, group.size()))
        return
    size = _bytes(given[argument]) if argument else 0
    if is_share:
        size *= group.size()
    sent = ideal_sent(collective, size, group.size())
    if collective == "all_to_all":
        sent = size - _kept(given, size, group)
    yield Call(collective, size, group.size(), name, backward, sent)


def _kept(given: dict[str, Any], size: int, group: Any) -> float:
    """Bytes of an all_to_all that a rank only hands to itself."""
    if "input_tensors" in given:
        return _bytes(given["input_tensors"][group.rank()])
    splits = [int(rows) for rows in given.get("input_split_sizes") or [1] * group.size()]
    return size * splits[int(group.rank())] / (sum(splits) or 1)


def _group(given: Any) -> Any:
    if isinstance(given, str):
        return _resolve_process_group(given)
    return given if isinstance(given, dist.ProcessGroup) else ProcessGroup.unbox(given)


def _bytes(tensors: Any) -> int:
    found = (leaf for leaf in pytree.tree_leaves(tensors) if isinstance(leaf, torch.Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in found)


def has_dtensor(types: Any) -> bool:
    """Whether an operation has DTensors among its arguments, by the `types` that a dispatch mode is given."""
    if not types or all(kind is torch.Tensor for kind in types):
        return False
    loaded = sys.modules.get("torch.distributed.tensor")  # takes a second to load, and without it there are none
    return loaded is not None and any(issubclass(kind, loaded.DTensor) for kind in types)
