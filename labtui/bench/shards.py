"""Tensors of which each rank has a shard (torch's DTensor), and plain ones, treated alike."""

from __future__ import annotations

import torch


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of a tensor: its shard, or all of it."""
    return tensor.to_local() if _is_sharded(tensor) else tensor


def on(device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its shards on this kind of device; itself if they are there.

    NCCL sends nothing that lies in the host's memory, where FSDP2's offloading leaves it.
    """
    if not _is_sharded(tensor):
        return tensor.to(device)
    if tensor.to_local().device.type == device.type:
        return tensor
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        tensor.to_local().to(device), tensor.device_mesh, tensor.placements,
        run_check=False, shape=tensor.shape, stride=tensor.stride(),
    )  # fmt: skip


def whole(device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor, on this device. For a sharded one a collective of its ranks."""
    tensor = on(device, tensor)
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def _is_sharded(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "to_local")  # without loading DTensor, which takes a second
