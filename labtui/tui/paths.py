"""Which way the ranks' data takes: what the paths pane shows, drawn from a snapshot. Pure.

The path of a pair is what NCCL says that it chose (nccl.json), its ceiling is what the link between the two GPUs can
carry (machine.json, by rank -> NVML index), its bandwidth is what the run measured. Each may be unknown by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.charts import number
from labtui.runs.clean import clean_line
from labtui.runs.records import Document
from labtui.runs.watch import Snapshot

Pair = tuple[int, int]
"""From which rank to which."""

MOST_RANKS = 4096
"""Higher ranks than this are none."""


@dataclass(frozen=True)
class Ceiling:
    """What the link between two ranks' GPUs can carry in one direction."""

    gb_per_s: float | None
    kind: str
    """NV4, PIX, PHB, SYS, ..."""
    what: str
    """The link in words, or why its ceiling isn't known."""


@dataclass(frozen=True)
class Paths:
    """The paths between all ranks of a run."""

    ranks: int
    transports: Mapping[Pair, tuple[str, ...]] = field(default_factory=dict)
    """As NCCL names them, in full: `SHM/direct/direct`."""
    ceilings: Mapping[Pair, Ceiling] = field(default_factory=dict)
    measured: Mapping[Pair, float] = field(default_factory=dict)
    """GB/s in one direction: the most that was reported for the pair."""
    facts: tuple[str, ...] = ()
    """`NCCL 2.27.5`, `4 channels`, ..."""
    diagnosis: str = ""
    warnings: tuple[str, ...] = ()


def paths(snapshot: Snapshot) -> Paths:
    """All that is known of a run's paths."""
    nccl = snapshot.nccl or {}
    transports = _transports(nccl)
    measured = _measured(nccl, snapshot.results)
    asked = snapshot.request.nproc if snapshot.request is not None else None
    nodes = snapshot.request.nnodes if snapshot.request is not None else 1
    told = nccl.get("nranks")
    seen = max((max(pair) for pair in (*transports, *measured)), default=-1) + 1
    ranks = max(seen, asked * nodes if asked else 0, told if type(told) is int and told <= MOST_RANKS else 0)
    return Paths(
        ranks=min(ranks, MOST_RANKS),
        transports=transports,
        ceilings=_ceilings(snapshot.machine or {}, ranks),
        measured=measured,
        facts=_facts(nccl, [name for named in transports.values() for name in named]),
        diagnosis=clean_line(str(nccl.get("diagnosis") or "")),
        warnings=tuple(clean_line(str(kind)) for kind in _list(nccl.get("warnings"))),
    )


def short(transport: str) -> str:
    """`SHM`, of `SHM/direct/direct`."""
    return clean_line(transport).split("/")[0][:8] or "?"


def is_on_gpus(snapshot: Snapshot) -> bool:
    """Whether NCCL, rather than gloo, is what carries the run's data; for a user's own command by what it left."""
    device = snapshot.request.device if snapshot.request is not None else None
    if device is not None:
        return device != "cpu"
    return snapshot.nccl is not None and snapshot.nccl.get("kind") == "nccl"


def gloo_words(snapshot: Snapshot) -> str:
    """By which interface gloo's bytes go. Between processes of one host they never leave it, whatever was asked for."""
    request = snapshot.request
    environment = request.environment if request is not None else {}
    named = clean_line(environment.get("GLOO_SOCKET_IFNAME", ""))
    if request is not None and request.link:
        return f"gloo over a shaped link ({_rate_words(request.link)})"
    if request is not None and request.nnodes > 1:
        return f"gloo over {named}" if named else "gloo, its interface n/a (GLOO_SOCKET_IFNAME was not set)"
    bound = f", bound to {named}" if named and named != "lo" else ""
    return f"gloo over lo (loopback){bound}"


def _rate_words(link: Mapping[str, Any]) -> str:
    rate = number(link.get("rate_bits"))
    if rate is None:
        return "rate n/a"
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate >= size:
            return f"{rate / size:g} {unit}"
    return f"{rate:g} bit/s"


def _transports(nccl: Document) -> dict[Pair, tuple[str, ...]]:
    found: dict[Pair, list[str]] = {}
    # `pairs` has the same without channels: for reports of older readers.
    for entry in _list(nccl.get("links")) or _list(nccl.get("pairs")):
        pair = _pair(entry)
        if pair is not None and len(entry) > 2 and isinstance(entry[2], str) and entry[2]:
            named = found.setdefault(pair, [])
            if entry[2] not in named:
                named.append(entry[2])
    return {pair: tuple(named) for pair, named in found.items()}


def _measured(nccl: Document, results: Iterable[Document]) -> dict[Pair, float]:
    """What was reported, in the agent's summary or by the live run itself."""
    found: dict[Pair, float] = {}
    rows = (row for row in _list(nccl.get("bandwidth")) if isinstance(row, list) and len(row) > 2)
    told = [(_pair(row), row[2]) for row in rows]
    for result in results:
        labels = result.get("labels")
        if result.get("unit") == "GB/s" and isinstance(labels, dict):
            told.append((_pair([labels.get("src"), labels.get("dst")]), result.get("value")))
    for pair, value in told:
        real = number(value)
        if pair is not None and real is not None:
            found[pair] = max(real, found.get(pair, real))
    return found


def _ceilings(machine: Document, ranks: int) -> dict[Pair, Ceiling]:
    """By pair of ranks; machine.json has them by unordered pair of GPUs."""
    topology = machine.get("topology")
    by_gpus: dict[Pair, Ceiling] = {}
    for entry in _list(topology.get("ceilings")) if isinstance(topology, dict) else ():
        pair = _pair(entry.get("pair")) if isinstance(entry, dict) else None
        if pair is not None:
            what = clean_line(str(entry.get("what") or entry.get("why") or ""))
            ceiling = Ceiling(number(entry.get("gb_per_s")), clean_line(str(entry.get("kind") or "?")), what)
            by_gpus[pair] = by_gpus[pair[::-1]] = ceiling
    gpus = gpus_of_ranks(machine)
    placed = [(rank, gpus[rank]) for rank in sorted(gpus) if rank < ranks]
    return {
        (one, other): by_gpus[its, others]
        for one, its in placed
        for other, others in placed
        if one != other and (its, others) in by_gpus
    }


def gpus_of_ranks(machine: Document | None) -> dict[int, int]:
    """Rank -> NVML's index, where machine.json tells it."""
    ranks = (machine or {}).get("ranks")
    found: dict[int, int] = {}
    for rank, its in ranks.items() if isinstance(ranks, dict) else ():
        index = its.get("nvml_index") if isinstance(its, dict) else None
        if str(rank).isdecimal() and len(str(rank)) < 6 and type(index) is int:
            found[int(rank)] = index
    return found


def _facts(nccl: Document, transports: Iterable[str]) -> tuple[str, ...]:
    facts = []
    version, channels, network, nodes = (nccl.get(name) for name in ("nccl_version", "channels", "network", "nnodes"))
    if nccl.get("kind") == "nccl":
        library = clean_line(str(nccl.get("library") or "NCCL"))
        facts.append(f"{library} {clean_line(str(version))}" if version else f"{library}, version n/a")
    if type(channels) is int:
        facts.append(f"{channels} channel{'' if channels == 1 else 's'}")
    # Within one host the network that NCCL found carries nothing, unless a link says so.
    if network and ((type(nodes) is int and nodes > 1) or any(short(name) == "NET" for name in transports)):
        facts.append(f"network {clean_line(str(network))}")
    if type(nodes) is int and nodes > 1:
        facts.append(f"{nodes} nodes")
    return tuple(facts)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _pair(entry: Any) -> Pair | None:
    if not isinstance(entry, list) or len(entry) < 2:
        return None
    one, other = entry[:2]
    if type(one) is not int or type(other) is not int or not (0 <= one < MOST_RANKS and 0 <= other < MOST_RANKS):
        return None
    return one, other
