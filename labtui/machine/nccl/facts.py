"""What has been learned from a job's logs so far: plain data that grows with ranks and channels, not with lines.

Everything here is counted or collected by the reader and drawn together in `report`. Knows no texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.machine.nccl import torch_side
from labtui.machine.nccl.calls import Calls
from labtui.machine.nccl.problems import Finding

MOST_ORIGINS = 1 << 14
"""Processes on GPUs that are told apart; further ones share one place."""
MOST_CONNECTIONS = 1 << 20
"""Different connections that are kept; further ones are no longer counted (`Facts.dropped`)."""
MOST_NAMES = 4096
"""Names and sizes of one sort that are kept: no job has so many, but a text may hold anything."""
MOST_HOSTS = 16
"""Hosts that an evidence names."""
MOST_SAMPLES = 5
"""Lines of a sort that are kept to be shown."""
MOST_LOOKED_AT = 1000
"""Lines of a sort that are looked at for being different."""
LONGEST_SHOWN = 400
"""Bytes of a line that are kept to be shown."""


def room(told: Mapping[Any, Any], key: object, most: int = MOST_NAMES) -> bool:
    """Whether there is room for the key: it is there already, or there are not too many."""
    return key in told or len(told) < most


class Origin:
    """A process and one GPU of it: where lines come from."""

    __slots__ = (
        "completed",
        "connections",
        "device",
        "host",
        "pid",
        "ranks",
        "rings",
        "size",
        "started",
        "told",
        "trees",
    )

    def __init__(self, host: str, pid: int, device: int) -> None:
        self.host, self.pid, self.device = host, pid, device
        """"" and -1 where the lines do not say it."""
        self.connections: dict[bytes, int] = {}
        """A connection as it is printed -> how often it was."""
        self.ranks: dict[int, int] = {}
        """Size of a communicator -> this GPU's rank in it."""
        self.size = 0
        """Of the communicator that was spoken of last; 0 if none was."""
        self.started: set[int] = set()
        self.completed: set[int] = set()
        """Sizes of the communicators whose initialisation began, and ended well."""
        self.rings = self.trees = 0
        """How often it said that all are connected, in other words each time."""
        self.told: set[bytes] = set()
        """Messages of which once is enough."""


@dataclass
class Evidence:
    """One cause of trouble: how often, where, and the first lines that say so."""

    finding: Finding
    lines: list[str] = field(default_factory=list)
    """The first ones, without those that say the same."""
    count: int = 0
    hosts: set[str] = field(default_factory=set)


@dataclass
class Facts:
    """All of it."""

    size: int = 0
    """Bytes."""
    lines: int = 0
    nccl_lines: int = 0
    taken: int = 0
    """Information messages that were looked at one by one."""
    informed: bool = False
    """Whether there was an INFO line, rather than warnings only."""
    origins: dict[tuple[str, int, int], Origin] = field(default_factory=dict)
    connections: int = 0
    """Different ones, over all origins."""
    dropped: int = 0
    cut_connections: int = 0
    """Lines in which a connection begins that isn't whole."""

    rccl: bool = False
    version: str | None = None
    version_by_code: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    disputed: set[str] = field(default_factory=set)
    """Settings that the ranks do not agree on."""
    networks: Counter[str] = field(default_factory=Counter)
    plugins: Counter[str] = field(default_factory=Counter)
    announced: dict[str, bool] = field(default_factory=dict)
    """NET/X -> whether it has found devices."""
    interfaces: tuple[str, ...] = ()
    """Of the host whose list is the longest."""

    largest: int = 0
    """Size of the largest communicator that was named."""
    nodes: dict[int, int] = field(default_factory=dict)
    rings: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    """Length -> channel -> ranks in the order of the ring, for the largest length only."""
    ring_channels: dict[int, int] = field(default_factory=dict)
    """Length of a ring -> channels, as the lines of rings say (`Channel 00/08`)."""
    steps: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    """(size, channel, rank) -> previous and next in the ring."""
    trees: dict[tuple[int, int, int], tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """(size, channel, rank) -> parent (-1: none) and children."""
    tree_entries: dict[int, int] = field(default_factory=dict)
    coll_channels: dict[int, int] = field(default_factory=dict)
    """Size (0: unknown) -> channels, as trees and as `coll channels` tell."""
    collnet: Counter[str] = field(default_factory=Counter)
    placed: dict[int, str] = field(default_factory=dict)
    """rank -> host, from the table that nccl-tests print."""
    first_ranks: set[tuple[str, int]] = field(default_factory=set)
    """Host and pid of every process that such a table calls rank 0."""
    gpus: Counter[str] = field(default_factory=Counter)
    mnnvl: bool = False
    nvls: bool = False
    gdr: bool | None = None
    memory_limit: tuple[int, int] | None = None
    """Shared memory per block that NCCL wants, and that the GPU has, where it is not enough."""
    folded: bool = False
    """Whether Ray has folded repeated lines."""
    began: bool = False
    """Whether a start-up line is among the first of NCCL's."""

    choices: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    """Collective, algorithm, protocol -> times, smallest and largest size in bytes."""
    calls: Calls = field(default_factory=Calls)
    evidence: dict[Finding, Evidence] = field(default_factory=dict)
    torch: torch_side.Facts = field(default_factory=torch_side.Facts)
    topology: bool = False
    """Whether there is a matrix of `nvidia-smi topo -m` in the text."""
    zeros: bool = False
    """Whether there are NUL bytes: no text, or a log with holes."""
    unterminated: bool = False

    unknown: int = 0
    unknown_lines: list[str] = field(default_factory=list)
    styles: Counter[str] = field(default_factory=Counter)
    """Ways in which lines begin -> how many of the first lines."""
    clock_lines: int = 0
    escaped_lines: int = 0

    def origin(self, host: str, pid: int, device: int) -> Origin:
        """The one of that name; new if it is the first time."""
        key = (host, pid, device)
        found = self.origins.get(key)
        if found is None:
            if len(self.origins) >= MOST_ORIGINS:
                key = ("", -1, -1)
                if key in self.origins:
                    return self.origins[key]
            found = self.origins[key] = Origin(*key)
        return found

    def connect(self, origin: Origin, connection: bytes) -> None:
        """Counts a connection line."""
        counts = origin.connections
        if connection in counts:
            counts[connection] += 1
        elif self.connections < MOST_CONNECTIONS:
            counts[connection] = 1
            self.connections += 1
        else:
            self.dropped += 1

    def note(self, finding: Finding, line: bytes, host: str = "") -> None:
        """Counts what a line says is wrong."""
        if not finding.kind:
            return
        found = self.evidence.get(finding)
        if found is None:
            found = self.evidence[finding] = Evidence(finding)
        found.count += 1
        if len(found.lines) < MOST_SAMPLES and found.count < MOST_LOOKED_AT:
            text = line[:LONGEST_SHOWN].decode(errors="replace").strip()
            if text not in found.lines:
                found.lines.append(text)
        if host and len(found.hosts) < MOST_HOSTS:
            found.hosts.add(host)

    def puzzle(self, message: bytes) -> None:
        """Counts a message that nothing is known of."""
        self.unknown += 1
        if len(self.unknown_lines) < MOST_SAMPLES:
            self.unknown_lines.append(message[:LONGEST_SHOWN].decode(errors="replace"))
