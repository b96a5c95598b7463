"""What the registry holds of a schedule: the function that makes its order, and what sizes it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Order

Make = Callable[[int, int, int, Costs, Optional[float]], Order]  # noqa: UP045 - Python 3.9 has no |
"""make(devices, microbatches, virtual, costs, memory_limit): sizes are checked by `build` before; what only this
schedule forbids it says itself, by an OrderError. `virtual` is stages per device. The limit is in units of one device's
whole share of a micro-batch, None without one. Most schedules use neither costs nor limit."""


@dataclass(frozen=True)
class Maker:
    """One schedule by name."""

    make: Make
    summary: str
    """One line for lists."""
    virtual: int = 1
    """Stages per device where none are asked for."""
    chooses_virtual: bool = False
    """Whether another number may be asked for."""
    pieces: int = 2
    """Operations per micro-batch and stage: 2 for F and B, 3 where backwards are split into I and W."""
    limited: bool = False
    """Whether `make` itself keeps to a memory limit; for others `build` refuses a limit that is below their peak."""
