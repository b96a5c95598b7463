"""What this run's device computes at most: the figure that an achieved speed is a share of, and where it is from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labtui.bench import profile
from labtui.theory import hardware


@dataclass(frozen=True)
class Peak:
    """The most that one device computes."""

    tflops: float | None
    """1e12 FLOP/s; None where nobody knows."""
    words: str
    """What it is and where it is from, for the `why` of a number."""


def published(device: torch.device) -> hardware.GpuModel | None:
    """The published figures of this GPU; None for a CPU, and for a GPU that isn't in the table."""
    return hardware.gpu_model(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def of(device: torch.device, dtype: str) -> Peak:
    """A GPU's published bf16 peak, else the best that was measured here before with this dtype, else nothing.

    The bf16 peak counts for float32 too: the share then also tells what float32 leaves lying.
    """
    model = published(device)
    if model is not None:
        return Peak(model.bf16_tflops, f"{model.bf16_tflops:g} TFLOP/s, dense bf16 of {model.name} ({model.status})")
    measured = profile.current()
    if measured is not None and dtype in measured.tflops:
        best = measured.tflops[dtype]
        return Peak(best, f"{best:.3g} TFLOP/s, this machine's best {dtype} matrix product{measured.measured}")
    kind = "GPU that is not in the table" if device.type == "cuda" else "CPU"
    return Peak(None, f"no published peak for a {kind}, and no profile of this machine: run link_vs_compute first")
