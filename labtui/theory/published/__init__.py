"""Values that others have printed, each beside our own way to compute it: what `labtui validate` compares.

Facts only, each with its source. A module here has a function `values()` that returns its `Value`s; a new module is
found by itself. Numbers in, numbers out: nothing here measures, reads a file or knows a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules


@dataclass(frozen=True)
class Value:
    """One printed figure and how we come to it."""

    topic: str
    """What `labtui validate TOPIC` filters by, as in "memory"."""
    what: str
    """Which figure it is, as in "7.5B, N=64, ZeRO-1"."""
    source: str
    """Paper and table, or repository and file at a commit."""
    printed: float
    unit: str
    """As in "GB" (1e9 bytes), "GiB" (2**30 bytes), "ms", "%"; empty for a bare number."""
    tolerance: float
    """The largest difference that counts as equal: absolute, in that unit. 0 means exactly."""
    ours: Callable[[], float]
    """Computes the same figure from our theory."""
    why: str = ""
    """Why the tolerance is what it is."""


def everything() -> tuple[Value, ...]:
    """All values of all modules of this package, in the order of the modules' names."""
    found: list[Value] = []
    for module in sorted(module.name for module in iter_modules(__path__)):
        values = getattr(import_module(f"{__name__}.{module}"), "values", None)
        if values is not None:
            found += values()
    return tuple(found)


def agrees(value: Value, ours: float) -> bool:
    """Whether `ours` lies within the value's tolerance; what isn't finite never does."""
    # The last bits of floats are no difference: 0.1 + 0.2 and a printed 0.3 agree exactly.
    slack = 1e-9 * max(abs(value.printed), abs(value.tolerance))
    return abs(ours - value.printed) <= value.tolerance + slack
