"""What a topology means for training, in a sentence or two. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from labtui.machine.topology import NEAREST_FIRST, P2P, WAYS, Topology, closest_nics, nvlinks


def diagnosis(topology: Topology) -> str:
    """What the topology means for training, in a sentence or two."""
    if not topology.gpus:
        return f"No GPU: {topology.why}." if topology.why else "No GPU."
    if len(topology.gpus) == 1:
        parts = ["One GPU: there is no path between GPUs"]
    else:
        pairs = topology.pairs()
        parts = [
            _paths(topology, pairs) if pairs else f"{len(topology.gpus)} GPUs, and no link between any two is told"
        ]
    parts += [part for part in (_sockets(topology), _nics(topology), _peer_access(topology), topology.why) if part]
    return "; ".join(parts) + "."


def _paths(topology: Topology, pairs: list[tuple[int, int, str]]) -> str:
    count = len(topology.gpus)
    kinds = Counter(kind for _, _, kind in pairs)
    by_nvlink = [pair for pair in pairs if nvlinks(pair[2]) is not None]
    if len(by_nvlink) == len(pairs):
        if len(kinds) == 1:
            (kind,) = kinds
            through = "through NVSwitch" if count > 2 else "by an NVLink bridge or directly"
            return f"{count} GPUs, each pair joined by {counted(nvlinks(kind) or 0, 'NVLink')} ({kind}) {through}"
        told = ", ".join(f"{kind} for {counted(number, 'pair')}" for kind, number in by_distance(kinds))
        return f"{count} GPUs, all pairs joined by NVLink, though not alike: {told}"
    rest = Counter({kind: number for kind, number in kinds.items() if nvlinks(kind) is None})
    slowest, number = by_distance(rest)[-1]
    which = _named(pairs, slowest) if number <= 3 else counted(number, "pair")
    if not by_nvlink:
        if len(rest) == 1:
            all_pairs = "the two" if count == 2 else "all pairs"
            return f"{count} GPUs without NVLink: {all_pairs} talk over {WAYS[slowest]} ({slowest})"
        told = ", ".join(f"{counted(n, 'pair')} over {WAYS[kind]} ({kind})" for kind, n in by_distance(rest))
        return f"{count} GPUs without NVLink: {told}; a ring over all runs at the speed of the slowest, {slowest}"
    islands = _islands(topology.gpus, by_nvlink)
    joined = " and ".join(", ".join(f"GPU{gpu}" for gpu in island) for island in islands if len(island) > 1)
    nvlink_kinds = Counter(kind for _, _, kind in by_nvlink)
    told = ", ".join(kind for kind, _ in by_distance(nvlink_kinds))
    where = f"NVLink joins {joined} ({told})" if len(islands) > 1 else f"NVLink joins {len(by_nvlink)} pairs ({told})"
    advice = (
        "a ring over all GPUs has to cross it"
        if len(islands) > 1
        else "NCCL can route around it, since NVLink reaches every GPU"
    )
    return f"{count} GPUs: {where}, but {which} talk over {WAYS[slowest]} ({slowest}); {advice}"


def by_distance(kinds: Mapping[str, int]) -> list[tuple[str, int]]:
    """Kinds of links and how many there are, the fastest first: NVLink by count, then PCIe by length."""

    def rank(item: tuple[str, int]) -> tuple[int, int]:
        count = nvlinks(item[0])
        if count is not None:
            return 0, -count
        return 1, NEAREST_FIRST.index(item[0]) if item[0] in NEAREST_FIRST else len(NEAREST_FIRST)

    return sorted(kinds.items(), key=rank)


def _named(pairs: list[tuple[int, int, str]], kind: str) -> str:
    return ", ".join(f"GPU{one} and GPU{other}" for one, other, each in pairs if each == kind)


def _islands(gpus: tuple[int, ...], pairs: list[tuple[int, int, str]]) -> list[list[int]]:
    """The GPUs in groups that these pairs connect."""
    island = {gpu: {gpu} for gpu in gpus}
    for one, other, _ in pairs:
        if one in island and other in island and island[one] is not island[other]:
            island[one] |= island[other]
            for gpu in island[other]:
                island[gpu] = island[one]
    return sorted({id(group): sorted(group) for group in island.values()}.values())


def _sockets(topology: Topology) -> str:
    what, values = "NUMA nodes: {} on {}", topology.numa_affinity
    if values is None:
        what, values = "CPUs: {} near {}", topology.cpu_affinity
    near: dict[str, list[int]] = {}
    for gpu, value in zip(topology.gpus, values or (), strict=False):
        if value is not None and value != "N/A":
            near.setdefault(value, []).append(gpu)
    if len(near) < 2:
        return ""
    first, *others = near.items()
    told = [what.format(_range(first[1]), first[0]), *(f"{_range(gpus)} on {value}" for value, gpus in others)]
    return ", ".join(told)


def _range(gpus: list[int]) -> str:
    if len(gpus) > 2 and gpus == list(range(gpus[0], gpus[-1] + 1)):
        return f"GPU{gpus[0]} to GPU{gpus[-1]}"
    return " and ".join(f"GPU{gpu}" for gpu in gpus)


def _nics(topology: Topology) -> str:
    closest = closest_nics(topology)
    if not closest:
        return ""
    levels = {
        gpu: topology.links.get((gpu, nics[0])) or topology.links.get((nics[0], gpu)) for gpu, nics in closest.items()
    }
    near = [gpu for gpu, level in levels.items() if level in ("PIX", "PXB")]
    owners = Counter(nic for gpu in near for nic in closest[gpu])
    count = counted(len(topology.nics), "NIC")
    if len(near) == len(levels):
        own = len(levels) > 1 and all(len(nics) == 1 for nics in closest.values()) and max(owners.values()) == 1
        text = f"{count}, each GPU with {'its own' if own else 'one or more'} behind the same PCIe switches"
        far = [nic for nic in topology.nics if nic not in owners]
        return text + (f" ({', '.join(far)} near none)" if 0 < len(far) < len(topology.nics) else "")
    if not near:
        return f"{count}, none behind the same PCIe switch as a GPU"
    return f"{count}, near {len(near)} of {len(levels)} GPUs"


def _peer_access(topology: Topology) -> str:
    for may in ("read", "any", "write"):
        told = topology.p2p.get(may)
        if told:
            refused = Counter(status for status in told.values() if status != "OK")
            if not refused:
                return "peer access is allowed between all pairs"
            status, number = refused.most_common(1)[0]
            share = "between all pairs" if number == len(told) else f"between {number} of {len(told)} ordered pairs"
            return (
                f"the driver allows no peer access {share} ({status}: {P2P.get(status, 'unknown')}), "
                "so NCCL goes through host memory there"
            )
    kinds = [kind for _, _, kind in topology.pairs()]
    if kinds and all(nvlinks(kind) is None for kind in kinds):
        return "where the driver forbids peer access, as for GeForce, NCCL goes through host memory"
    return ""


def counted(number: int, what: str) -> str:
    """`1 pair`, `28 pairs`."""
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"
