"""Links: which rank talks to which, by what transport, on which channels. Drawn from the counted connections. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from labtui.machine.nccl.facts import Facts, Origin
from labtui.machine.nccl.grammar import CONNECTION, transport_name

_SHORT = b"SHM/direct"


@dataclass(frozen=True)
class Connection:
    """A connection as an origin has printed it."""

    origin: Origin
    channel: int | None
    source: int
    target: int
    receives: bool
    """Whether the receiving end printed it."""
    transport: bytes
    count: int


@dataclass(frozen=True, order=True)
class Link:
    """One direction between two ranks, by one transport."""

    source: int
    target: int
    transport: str
    channels: tuple[int, ...] = ()
    """Empty where the lines don't name them."""


def connections(facts: Facts, short_shm: bool | None = None) -> tuple[Connection, ...]:
    """All that were printed. `short_shm`: whether `SHM/direct` is whole (None: keep it for now)."""
    found = []
    for origin in facts.origins.values():
        for text, count in origin.connections.items():
            match = CONNECTION.search(text)
            if match is not None and (match[5] != _SHORT or short_shm is not False):
                channel, source, target, side, transport = match.groups()
                number = None if channel is None else int(channel)
                found.append(Connection(origin, number, int(source), int(target), side == b"receive", transport, count))
    return tuple(found)


def connection_counts(facts: Facts, made: tuple[Connection, ...]) -> Counter[str]:
    """Transport -> how many connection lines name it."""
    counts: Counter[str] = Counter(facts.collnet)
    for connection in made:
        counts[transport_name(connection.transport)] += connection.count
    return counts


def links(made: tuple[Connection, ...]) -> tuple[Link, ...]:
    """All of them, sorted; the two ends of one (`[send]`, `[receive]`) are one link."""
    channels: dict[tuple[int, int, str], set[int]] = {}
    for connection in made:
        key = (connection.source, connection.target, transport_name(connection.transport))
        named = channels.setdefault(key, set())
        if connection.channel is not None:
            named.add(connection.channel)
    return tuple(sorted(Link(*key, tuple(sorted(named))) for key, named in channels.items()))


def rings_whole(facts: Facts, size: int, all_links: tuple[Link, ...]) -> bool:
    """Whether every link of every ring was chosen."""
    rings = facts.rings.get(size, {})
    if not rings or len(rings) < facts.ring_channels.get(size, 0):
        return False
    made = {(channel, link.source, link.target) for link in all_links for channel in link.channels}
    return all((channel, *step) in made for channel, ring in rings.items() for step in pairwise((*ring, ring[0])))
