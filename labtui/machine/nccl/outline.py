"""What a diagnosis may look at: the finished parts of a report, and the facts behind them. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from labtui.machine.nccl.facts import Facts
from labtui.machine.nccl.links import Link


@dataclass(frozen=True)
class Warned:
    """One cause of trouble: how often, where, and the first lines that say so."""

    kind: str
    cause: str
    count: int
    hosts: tuple[str, ...]
    lines: tuple[str, ...]
    """The first ones that say so; none where it was deduced."""

    @property
    def line(self) -> str:
        return self.lines[0] if self.lines else ""


@dataclass(frozen=True)
class Outline:
    """A job in outline."""

    kind: str
    library: str
    version: str | None
    nranks: int | None
    nnodes: int | None
    channels: int | None
    network: str | None
    links: tuple[Link, ...]
    warned: tuple[Warned, ...]
    facts: Facts

    @property
    def families(self) -> set[str]:
        """The kinds of transport between the ranks: P2P, SHM, NET."""
        return {family(link.transport) for link in self.links}

    def has(self, kind: str) -> bool:
        return any(warned.kind == kind for warned in self.warned)


def family(transport: str) -> str:
    """P2P, SHM or NET."""
    return "SHM" if transport == "direct shared memory" else transport.split("/")[0]
