"""What a step's tensors are for, and what they take: torch's memory tracker, one step, by category.

    step()                                             # once untracked: the optimizer then has its state
    found = tracker.track(step, model, optimizer, (x, y))
    found.peak["activations"]                          # bytes, when the total was largest
    found.forward["activations"]                       # when forward was over: all that backward needs
    found.after["gradients"]                           # when the step was over: now they are complete

Storages are counted, each once and as long as it lives, wherever they are: on a GPU, on the CPU, or nowhere (fake
tensors). So the figures are the same there as here, and hold neither an allocator's gaps nor a kernel's workspace.
Nor what gloo takes for itself: see _Unseen.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from labtui.bench.counted import has_dtensor
from labtui.bench.device import refuse

HOW = "storages of tensors, as torch's memory tracker counts them"

# What torch calls them, for whole models and for FSDP2's, and what they are called here.
_NAMES = {
    "Parameter": "parameters",
    "Sharded Param": "parameters",
    "Gradient": "gradients",
    "Sharded Grad": "gradients",
    "Optstate": "optimizer",
    "OptState": "optimizer",
    "Activation": "activations",
    "Unsharded Param": "unsharded parameters",
    "Unsharded Grad": "unsharded gradients",
    "All Gather": "all-gather buffers",
    "Reduce Scatter": "reduce-scatter buffers",
    "Temp": "temporary",
    "Buffer": "buffers",
    "Inputs": "inputs",
    "Other": "inputs",
    "Total": "total",
}


@dataclass(frozen=True)
class Tracked:
    """Bytes by category on one device, "total" among them. All categories of the kind of model, those of 0 too.

    Any model: "parameters", "gradients", "optimizer", "activations", "temporary" (in backward: gradients of
    activations, DDP's buckets), "buffers", "inputs", "total". FSDP2's: and "unsharded parameters", "unsharded
    gradients", "all-gather buffers", "reduce-scatter buffers"; "parameters", "gradients" are then this rank's shards.
    """

    peak: dict[str, int]
    """At the moment when the total was largest. Seldom are gradients complete then."""
    forward: dict[str, int]
    """When the model's forward returned."""
    after: dict[str, int]
    """When the step had returned: what a rank holds between steps."""


def track(
    step: Callable[[], object],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: Iterable[torch.Tensor],
    device: str | None = None,
) -> Tracked:
    """Runs `step` once and returns what it held on `device` ("cpu" or "cuda"; without, where the inputs are).

    `step` takes no arguments and calls `model` (forward, backward, the optimizer) on `inputs` that exist already. The
    root that is called must be `model` itself: the DDP module, not what it wraps. FSDP2's modules get torch's
    FSDPMemTracker, all others MemTracker (DDP and ZeroRedundancyOptimizer included). The optimizer should have its
    state already, so take a step before: on fake tensors an optimizer's first step shows states of full size that no
    real one has. Enter an own dispatch mode (counted.Counted) inside of `step`. Ends the run with one sentence where
    this torch has no such tracker.
    """
    given = tuple(inputs)
    tracker = _tracker(model, optimizer, given)
    with tracker, _Unseen():
        step()
        after = tracker.get_tracker_snapshot("current")
    where = device or (given[0].device.type if given else next(model.parameters()).device.type)
    return Tracked(
        _readable(tracker.get_tracker_snapshot("peak"), where),
        _readable(_when_forward_ended(tracker, model), where),
        _readable(after, where),
    )


def _tracker(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: tuple[torch.Tensor, ...]) -> Any:
    refuse_old_torch()
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.distributed.fsdp import FSDPModule

    if isinstance(model, FSDPModule):
        tracker = FSDPMemTracker(model, optimizer)
        tracker.track_inputs(inputs)
        return tracker
    tracker = MemTracker()
    tracker.track_external(model, optimizer, *inputs)
    return tracker


class _Unseen(TorchDispatchMode):  # type: ignore[misc]
    """Hides from the tracker the copy of its input that gloo makes for each reduce-scatter.

    gloo has no reduce-scatter: torch sums a copy of the whole there and takes a part of it (ProcessGroupGloo). That
    copy would count as soon as the part is split off, and until one of gloo's threads lets go of it: now and then in
    the midst of the next layer, so that two runs of the same step would differ. NCCL has no such copy.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if has_dtensor(types):
            return NotImplemented
        if func is torch.ops.c10d._reduce_scatter_base_.default:
            self._sizes.append(args[1].numel())
        elif func is torch.ops.aten.split.Tensor and args[0].numel() in self._sizes:
            self._sizes.remove(args[0].numel())
            with _disable_current_modes():
                return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _when_forward_ended(tracker: Any, model: nn.Module) -> Any:
    """The snapshot that torch's tracker took when the root's forward returned; of the last forward, if several."""
    seen = tracker.memory_tracking.get(model)
    for state, snapshots in (seen.snapshots if seen is not None else {}).items():
        if state.value in ("Post-Forward", "After Post-Forward"):
            return snapshots[-1]
    raise RuntimeError("the step never called the model that is tracked")


def refuse_old_torch() -> None:
    """Ends the run where this torch has no memory tracker that knows FSDP2."""
    try:
        importlib.import_module("torch.distributed._tools.fsdp2_mem_tracker")
        importlib.import_module("torch.distributed.fsdp").FSDPModule  # noqa: B018 - a name that 2.6 made public
    except (ImportError, AttributeError):
        refuse(f"torch {torch.__version__} has no memory tracker for FSDP2: 2.6 or newer is needed")


def _readable(snapshot: dict[torch.device, dict[Any, int]], device: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for where, categories in snapshot.items():
        if where.type == device:
            for category, size in categories.items():
                name = _NAMES.get(str(getattr(category, "value", category)), str(category))
                found[name] = found.get(name, 0) + size
    return found
