"""DeepSpeed's own estimates of model states with and without CPU offload, re-expressed. Bytes, per GPU and per host.

They count buffers generously and no activations. Source: DeepSpeed's documentation, page Memory Requirements.
"""

from __future__ import annotations

from dataclasses import dataclass

BUFFERS = 1.5
"""DeepSpeed's factor for what the host needs beside the states."""


@dataclass(frozen=True)
class Estimate:
    """Bytes."""

    gpu: float
    host: float
    """Of one node, all its processes together."""


def zero2(parameters: float, gpus_per_node: int, nodes: int = 1, *, offload: bool = True) -> Estimate:
    """ZeRO-2; with `offload` optimizer state and gradients live on the host, and 2 bytes a parameter on the GPU."""
    gpus = _gpus(gpus_per_node, nodes)
    if offload:
        return Estimate(2 * parameters, parameters * max(4 * gpus, 16) * BUFFERS)
    return Estimate(4 * parameters + 16 * parameters / gpus, parameters * 4 * gpus_per_node * BUFFERS)


def zero3(
    parameters: float,
    largest_layer: float,
    gpus_per_node: int,
    nodes: int = 1,
    *,
    offload: str = "all",
    zero_init: bool = True,
) -> Estimate:
    """ZeRO-3; `offload` is "none", "optimizer" or "all" (parameters too), `largest_layer` a count of parameters.

    Without `zero_init` each process first makes the whole model, in fp32. Raises ValueError for another offload.
    """
    gpus = _gpus(gpus_per_node, nodes)
    gathered, whole = 4 * largest_layer, 4 * parameters * gpus_per_node
    if offload == "none":
        host = 4 * largest_layer * gpus_per_node if zero_init else whole
        return Estimate(gathered + 18 * parameters / gpus, host * BUFFERS)
    if offload not in ("optimizer", "all"):
        raise ValueError(f"offload is {offload!r}, none, optimizer, all expected")
    kept = (18 if offload == "all" else 16) * parameters / nodes
    host = kept if zero_init else max(whole, kept)
    return Estimate(gathered + (2 * parameters / gpus if offload == "optimizer" else 0), host * BUFFERS)


def _gpus(gpus_per_node: int, nodes: int) -> int:
    if min(gpus_per_node, nodes) < 1:
        raise ValueError(f"at least 1 GPU and 1 node expected, not {gpus_per_node} and {nodes}")
    return gpus_per_node * nodes
