"""The trace of collective calls (NCCL_DEBUG_SUBSYS=COLL), compared between ranks as it goes by.

Every rank of a communicator has to make the same calls in the same order. Calls are told apart by the communicator's
count of operations; only a window of them is kept. Where several communicators have the same size, their ranks can't be
told apart from the trace alone, and nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 4096
"""Operations that wait for the other ranks."""
MOST_RANKS = 1 << 14
MOST_SIZES = 1 << 10

_POINT_TO_POINT = ("Send", "Recv")


@dataclass(frozen=True)
class Call:
    """One collective as a rank has called it."""

    name: str
    count: int
    datatype: int
    op: int
    root: int

    def __str__(self) -> str:
        return f"{self.name} of {self.count:,} elements"


@dataclass(frozen=True)
class Mismatch:
    """Two ranks that entered different collectives as the same operation."""

    size: int
    operation: int
    first: Call
    second: Call


class Calls:
    """What the ranks have called so far."""

    def __init__(self) -> None:
        self.count = 0
        self._open: dict[tuple[int, int], Call] = {}
        self._communicators: dict[int, set[tuple[object, str]]] = {}
        self._mismatches: dict[int, Mismatch] = {}

    def add(self, origin: object, communicator: str, size: int, operation: int, call: Call) -> None:
        """One line of the trace; `communicator` is its address within its process."""
        self.count += 1
        if size not in self._communicators and len(self._communicators) >= MOST_SIZES:
            return
        known = self._communicators.setdefault(size, set())
        if len(known) < MOST_RANKS:
            known.add((origin, communicator))
        if call.name in _POINT_TO_POINT or len(known) > size:
            return
        key = (size, operation)
        other = self._open.get(key)
        if other is None:
            if len(self._open) >= WINDOW:
                del self._open[next(iter(self._open))]
            self._open[key] = call
        elif other != call and size not in self._mismatches:
            self._mismatches[size] = Mismatch(size, operation, other, call)

    @property
    def mismatch(self) -> Mismatch | None:
        """The first one found, in a communicator whose ranks can be told apart."""
        for size, found in self._mismatches.items():
            if len(self._communicators[size]) <= size:
                return found
        return None

    @property
    def largest(self) -> int:
        """Size of the largest communicator that was called."""
        return max(self._communicators, default=0)

    def origins(self, size: int) -> int:
        """How many ranks of communicators of this size have called something."""
        return len(self._communicators.get(size, ()))
