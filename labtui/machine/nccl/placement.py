"""Which rank ran on which host, and on how many nodes the job was, as far as the lines show it.

A rank is placed by the lines that its process printed, by a table of nccl-tests, by peers that share its memory, and by
neighbours: hosts hold blocks of ranks. Where that leaves a rank unplaced, the number of nodes is unknown. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import pairwise

from labtui.machine.nccl.facts import Facts, Origin
from labtui.machine.nccl.links import Connection

MOST_RANKS = 1 << 17
"""Ranks of a job that are looked for; a larger number is no number of ranks."""

_SAME_HOST = (b"P2P", b"SHM", b"dir")


def canonical_hosts(facts: Facts) -> dict[Origin, str]:
    """The host of each origin, mended: a name with text glued before it, or with its beginning cut off, is that of the
    same process with most lines."""
    by_pid: dict[int, Counter[str]] = {}
    for origin in facts.origins.values():
        if origin.host:
            weight = 1 + sum(origin.connections.values())
            by_pid.setdefault(origin.pid, Counter())[origin.host] += weight
    mended = {pid: _mended(names) for pid, names in by_pid.items()}
    return {origin: mended.get(origin.pid, {}).get(origin.host, origin.host) for origin in facts.origins.values()}


def _mended(names: Counter[str]) -> dict[str, str]:
    """Each name -> the most frequent of those that end with it, or that it ends with.

    In containers the processes of all hosts may have the same pid, so this must not compare each name with each.
    """
    backwards = sorted(name[::-1] for name in names)
    place = {name: number for number, name in enumerate(names)}
    found = {}
    for name in names:
        related = {ending for cut in range(len(name)) if (ending := name[cut:]) in names}
        for number in range(bisect_left(backwards, name[::-1]), len(backwards)):
            if not backwards[number].startswith(name[::-1]):
                break
            related.add(backwards[number][::-1])
        # Of equals the one that came first.
        found[name] = max(related, key=lambda each: (names[each], -place[each]))
    return found


def places(facts: Facts, made: tuple[Connection, ...], size: int) -> dict[int, str]:
    """rank -> host, for the ranks of the largest communicator that the lines place directly."""
    return {rank: host for rank, (host, _) in _places(facts, made, size).items()}


def node_count(facts: Facts, made: tuple[Connection, ...], size: int) -> int | None:
    """On how many nodes the largest communicator was; None where the log does not show where all of its ranks are."""
    if size in facts.nodes:
        return facts.nodes[size]
    if not 0 < size <= MOST_RANKS:
        return None
    placed = _places(facts, made, size)
    groups = _Groups()
    for rank, (host, _) in placed.items():
        groups.join(rank, host)
    if not facts.mnnvl:
        for connection in made:
            if connection.transport[:3] in _SAME_HOST:
                groups.join(connection.source, connection.target)
    _fill(groups, placed, size)
    found = {groups.of(rank) for rank in range(size) if rank in groups}
    shown = sum(rank in groups for rank in range(size))
    if shown == size and (len(found) == 1 or all(groups.host(group) for group in found)):
        return len({groups.host(group) or "" for group in found})
    return _like_nodes(groups, size) or _by_processes(facts, size)


def _places(facts: Facts, made: tuple[Connection, ...], size: int) -> dict[int, tuple[str, int]]:
    """rank -> host and device; by communicators and tables, else by who printed a connection."""
    hosts = canonical_hosts(facts)
    named: dict[int, set[tuple[str, int]]] = {}
    for origin, host in hosts.items():
        if host and size in origin.ranks:
            named.setdefault(origin.ranks[size], set()).add((host, origin.device))
    for rank, host in facts.placed.items():
        if rank not in named:
            named[rank] = {(host, -1)}
    if any(len({host for host, _ in found}) > 1 for found in named.values()):
        return {}
    placed = {rank: min(found) for rank, found in named.items()}
    if len(placed) >= size:
        return placed
    printed: dict[int, set[tuple[str, int]]] = {}
    for connection in made:
        if host := hosts[connection.origin]:
            rank = connection.target if connection.receives else connection.source
            printed.setdefault(rank, set()).add((host, connection.origin.device))
    # Ranks of several communicators overlap: a rank on two hosts means that connections place nothing.
    if any(len({host for host, _ in found}) > 1 for found in printed.values()):
        return placed
    for rank, found in printed.items():
        if placed.setdefault(rank, min(found))[0] not in {host for host, _ in found}:
            return {}
    return placed


def _fill(groups: _Groups, placed: dict[int, tuple[str, int]], size: int) -> None:
    """Ranks between two of the same host are on it, where hosts hold blocks: ranks count up with the GPUs."""
    offsets: dict[str, set[int]] = {}
    for rank, (host, device) in placed.items():
        offsets.setdefault(host, set()).add(rank - device if device >= 0 else -1)
    blocks: dict[str, list[int]] = {}
    for rank in range(size):
        name = groups.host(groups.of(rank)) if rank in groups else None
        if name:
            blocks.setdefault(name, []).append(rank)
    spans = sorted((min(ranks), max(ranks), host) for host, ranks in blocks.items())
    if all(one[1] < other[0] for one, other in pairwise(spans)):
        for first, last, host in spans:
            if len(offsets.get(host, ())) == 1:
                for rank in range(first, last + 1):
                    groups.join(rank, host)


def _like_nodes(groups: _Groups, size: int) -> int | None:
    """Where one host is seen whole and others in part: nodes alike, if that accounts for all ranks."""
    counts = Counter(groups.host(groups.of(rank)) for rank in range(size) if rank in groups)
    if not counts or None in counts:
        return None
    (_, most), hosts = counts.most_common(1)[0], len(counts)
    return hosts if most * hosts == size and hosts > 1 and most > 1 else None


def _by_processes(facts: Facts, size: int) -> int | None:
    """As many processes with a GPU as there are ranks: all were heard of."""
    hosts = canonical_hosts(facts)
    heard = {(host, origin.pid, origin.device) for origin, host in hosts.items() if origin.size == size and host}
    return len({host for host, _, _ in heard}) if len(heard) == size else None


class _Groups:
    """Ranks and hosts that belong together (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[int | str, int | str] = {}
        self._host: dict[int | str, str] = {}

    def __contains__(self, item: int | str) -> bool:
        return item in self._parent

    def of(self, item: int | str) -> int | str:
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def host(self, group: int | str) -> str | None:
        return self._host.get(group)

    def join(self, one: int | str, other: int | str) -> None:
        for item in (one, other):
            if item not in self._parent:
                self._parent[item] = item
                if isinstance(item, str):
                    self._host[item] = item
        first, second = self.of(one), self.of(other)
        if first != second:
            self._parent[second] = first
            host = self._host.pop(second, None)
            if host is not None:
                self._host.setdefault(first, host)
