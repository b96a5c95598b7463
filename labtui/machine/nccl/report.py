"""The report: what a job's logs say, drawn from the facts. Pure; `document` is what `labtui nccl --json` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

from labtui.machine.nccl import diagnosis, placement, troubles
from labtui.machine.nccl.facts import Facts
from labtui.machine.nccl.grammar import version_tuple
from labtui.machine.nccl.links import Connection, Link, connection_counts, connections, links
from labtui.machine.nccl.outline import Outline, Warned
from labtui.machine.nccl.styles import PLAIN

T = TypeVar("T")
NCCL, GLOO, TORCHRUN, TOPO = "nccl", "gloo", "torchrun", "topo"

_SHORT_SHM = (2, 32)
"""From this version on `SHM/direct` is a whole transport; before, it is one that was cut."""


@dataclass(frozen=True)
class Report:
    """What the logs of one job say. None is what they don't."""

    kind: str | None = None
    """What kind of text it is: nccl, gloo, torchrun, topo."""
    library: str | None = None
    prefix: str | None = None
    nccl_version: str | None = None
    nranks: int | None = None
    """Of the largest communicator."""
    nnodes: int | None = None
    transports: dict[str, int] = field(default_factory=dict)
    """-> lines that say so."""
    pairs: tuple[tuple[int, int, str], ...] = ()
    links: tuple[Link, ...] = ()
    channels: int | None = None
    rings: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """channel -> ranks in the order of the ring."""
    trees: tuple[tuple[int, int, int, tuple[int, ...]], ...] = ()
    """channel, rank, parent (-1: none), children."""
    env_overrides: dict[str, str] = field(default_factory=dict)
    network: str | None = None
    algorithms: tuple[tuple[str, str, str, int, int, int], ...] = ()
    """collective, algorithm, protocol, times, smallest and largest size in bytes."""
    placement: dict[int, str] = field(default_factory=dict)
    """rank -> host."""
    warnings: tuple[str, ...] = ()
    """Kinds, the gravest first."""
    evidence: tuple[Warned, ...] = ()
    diagnosis: str = ""
    truncated: bool = False
    unknown: int = 0
    """NCCL messages that this reader doesn't know; the first of them in `unknown_lines`."""
    unknown_lines: tuple[str, ...] = ()
    size: int = 0
    """Bytes that were read."""
    lines: int = 0
    """Whole ones."""
    nccl_lines: int = 0
    no_text: bool = False
    """Whether there are NUL bytes in it."""

    def document(self) -> dict[str, Any]:
        """As JSON has it: the fields of the corpus, and what we add to them."""
        return {
            "kind": self.kind,
            "library": self.library,
            "prefix": self.prefix,
            "nccl_version": self.nccl_version,
            "nranks": self.nranks,
            "nnodes": self.nnodes,
            "transports": dict(self.transports),
            "pairs": [list(pair) for pair in self.pairs],
            "channels": self.channels,
            "env_overrides": dict(self.env_overrides),
            "network": self.network,
            "warnings": list(self.warnings),
            "diagnosis": self.diagnosis,
            "truncated": self.truncated,
            "links": [[link.source, link.target, link.transport, list(link.channels)] for link in self.links],
            "rings": {str(channel): list(ranks) for channel, ranks in self.rings.items()},
            "trees": [[channel, rank, up, list(downs)] for channel, rank, up, downs in self.trees],
            "algorithms": [
                dict(zip(("collective", "algorithm", "protocol", "count", "smallest", "largest"), row, strict=True))
                for row in self.algorithms
            ],
            "placement": {str(rank): host for rank, host in self.placement.items()},
            "evidence": [
                {"kind": found.kind, "count": found.count, "hosts": list(found.hosts), "line": found.line}
                for found in self.evidence
            ],
            "unknown": self.unknown,
            "unknown_lines": list(self.unknown_lines),
            "lines": self.lines,
        }


def draw(facts: Facts) -> Report:
    """The report of what is known by now."""
    kind = _kind(facts)
    if kind is None or kind == TOPO:
        sentence = diagnosis.TOPOLOGY if kind == TOPO else diagnosis.nothing(facts.lines)
        return Report(kind=kind, diagnosis=sentence, size=facts.size, lines=facts.lines, no_text=facts.zeros)
    is_nccl = kind == NCCL
    version = facts.version or facts.version_by_code
    made = _connections(facts, version)
    counts = connection_counts(facts, made)
    all_links = links(made)
    nranks = _size(facts, all_links) if is_nccl else None
    nnodes = placement.node_count(facts, made, nranks or 0) if is_nccl else None
    warned = troubles.warned(facts, version, nranks or 0, all_links)
    outline = Outline(
        kind=kind,
        library="RCCL" if facts.rccl else "NCCL",
        version=version,
        nranks=nranks,
        nnodes=nnodes,
        channels=_channels(facts, nranks or 0),
        network=_network(facts, all_links),
        links=all_links,
        warned=warned,
        facts=facts,
    )
    return Report(
        kind=kind,
        library=outline.library if is_nccl else None,
        prefix=_prefix(facts),
        nccl_version=version,
        nranks=nranks,
        nnodes=nnodes,
        transports=dict(counts),
        pairs=tuple(sorted({(link.source, link.target, link.transport) for link in all_links})),
        links=all_links,
        channels=outline.channels,
        rings=_rings(facts, nranks or 0),
        trees=_trees(facts, nranks or 0),
        env_overrides=dict(facts.overrides),
        network=outline.network,
        algorithms=tuple((*names, *numbers) for names, numbers in sorted(facts.choices.items())),  # type: ignore[misc]
        placement=dict(sorted(placement.places(facts, made, nranks or 0).items())),
        warnings=tuple(dict.fromkeys(found.kind for found in warned)),
        evidence=warned,
        diagnosis=diagnosis.sentence(outline),
        truncated=_truncated(facts, nranks or 0, warned),
        unknown=facts.unknown,
        unknown_lines=tuple(facts.unknown_lines),
        size=facts.size,
        lines=facts.lines,
        nccl_lines=facts.nccl_lines,
        no_text=facts.zeros,
    )


def _kind(facts: Facts) -> str | None:
    if facts.nccl_lines or facts.connections or facts.collnet:
        return NCCL
    kinds = {finding.kind for finding in facts.evidence}
    if "gloo_connect_failed" in kinds or (facts.torch.gloo and kinds):
        return GLOO
    if facts.torch.spoke or kinds:
        return TORCHRUN
    return TOPO if facts.topology else None


def _prefix(facts: Facts) -> str:
    if not facts.styles:
        return PLAIN
    seen = sum(facts.styles.values())
    name = facts.styles.most_common(1)[0][0]
    if facts.clock_lines >= 2 and facts.clock_lines * 4 >= seen:
        return "cloudwatch"
    return "ansi" if name == PLAIN and facts.escaped_lines * 2 > seen else name


def _connections(facts: Facts, version: str | None) -> tuple[Connection, ...]:
    """The whole ones: `via SHM/direct` without a second half is whole in new versions only."""
    if version is not None:
        return connections(facts, version_tuple(version) >= _SHORT_SHM)
    made = connections(facts)
    long = any(found.transport.startswith(b"SHM/") and found.transport.count(b"/") == 2 for found in made)
    return connections(facts, False) if long else made


def _size(facts: Facts, all_links: tuple[Link, ...]) -> int | None:
    """Ranks of the largest communicator that is shown: named, or as far as ranks are seen."""
    seen = max((max(link.source, link.target) for link in all_links), default=-1) + 1
    found = max(facts.largest, seen)
    if not found:
        found = max(facts.placed, default=-1) + 1
    return found or None


def _channels(facts: Facts, size: int) -> int | None:
    rings, counts, trees = facts.ring_channels, facts.coll_channels, facts.tree_entries
    if rings.get(size) or counts.get(size):
        return rings.get(size) or counts[size]
    if rings:
        return rings[max(rings)]
    told = counts or trees
    return told.get(size) or max(told.values(), default=0) or None


def _network(facts: Facts, all_links: tuple[Link, ...]) -> str | None:
    """The network in use: as NCCL says it, as links show it, as it was announced."""
    if facts.networks:
        return facts.networks.most_common(1)[0][0]
    used = Counter(link.transport.split("/")[1] for link in all_links if link.transport.startswith("NET/"))
    for names in (used, facts.plugins):
        if names:
            return names.most_common(1)[0][0]
    found = [name for name, devices in facts.announced.items() if devices]
    return next((name for name in found if name != "Socket"), found[0] if found else None)


def _rings(facts: Facts, size: int) -> dict[int, tuple[int, ...]]:
    """The rings as they are listed; else pieced together from each rank's neighbours, where all are known."""
    listed = facts.rings.get(size) or (next(iter(facts.rings.values())) if facts.rings else {})
    if listed:
        return dict(sorted(listed.items()))
    following: dict[int, dict[int, int]] = {}
    for (channel, rank), (_, after) in _of_size(facts.steps, size).items():
        following.setdefault(channel, {})[rank] = after
    rings = {}
    for channel, steps in sorted(following.items()):
        ring = [0]
        while (rank := steps.get(ring[-1], 0)) != 0 and len(ring) < size:
            ring.append(rank)
        if len(ring) == size and steps.get(ring[-1]) == 0:
            rings[channel] = tuple(ring)
    return rings


def _trees(facts: Facts, size: int) -> tuple[tuple[int, int, int, tuple[int, ...]], ...]:
    found = _of_size(facts.trees, size)
    return tuple(sorted((channel, rank, up, downs) for (channel, rank), (up, downs) in found.items()))


def _of_size(told: dict[tuple[int, int, int], T], size: int) -> dict[tuple[int, int], T]:
    """(channel, rank) -> what was told for communicators of this size, or before their size was told."""
    found: dict[tuple[int, int], T] = {}
    for wanted in (size, 0):
        for (of, channel, rank), what in told.items():
            if of == wanted:
                found.setdefault((channel, rank), what)
    return found


def _truncated(facts: Facts, size: int, warned: tuple[Warned, ...]) -> bool:
    """Whether the text starts or ends mid-run, or has cut lines: a hint, not a proof."""
    if facts.unterminated or facts.cut_connections or any(one.kind == "hang_suspected" for one in warned):
        return True
    if not facts.nccl_lines:
        return False
    failed = any(one.kind not in troubles.HARMLESS for one in warned)
    completed = sum(size in origin.completed for origin in facts.origins.values())
    return not facts.began or not (failed or (size and completed >= size))
