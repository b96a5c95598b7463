"""How the GPUs of one machine hang together: the kind of link between each pair, and what it can carry.

The same data come from NVML (machine.gpus) and from the text of `nvidia-smi topo` (machine.topology_text). Pure: reads
nothing itself. What isn't known is None or absent.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.theory import hardware
from labtui.theory.hardware import Ceiling

NEAREST_FIRST = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Kinds of PCIe paths in nvidia-smi's words, the shortest first. Beside them: NV# for # NVLinks, and SOC, the name
that drivers before 2017 had for SYS."""

WAYS = {
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the PCIe host bridge, in the CPU",
    "NODE": "several PCIe host bridges of one NUMA node",
    "SYS": "the link between two CPU sockets or NUMA nodes",
    "SOC": "the link between two CPU sockets",
}
"""What a path of this kind crosses."""

P2P = {
    "OK": "allowed",
    "CNS": "the chipset doesn't support it",
    "GNS": "the GPU doesn't support it",
    "TNS": "the topology doesn't support it",
    "NS": "not supported",
    "DR": "disabled by a registry key of the driver",
    "U": "unknown",
}
"""Whether one GPU may reach into the memory of another, in nvidia-smi's words."""


@dataclass(frozen=True)
class Ends:
    """How one GPU is attached."""

    pcie_generation: int | None = None
    """The highest that GPU and slot can do; an idle link runs slower."""
    pcie_width: int | None = None
    """Lanes in use."""
    nvlink_generation: int | None = None
    nvlink_gb_per_s: float | None = None
    """Of one link, one direction, as the driver tells it."""


@dataclass(frozen=True)
class Topology:
    """The GPUs of a machine, and the paths between them. Lists are in the order of `gpus`."""

    gpus: tuple[int, ...]
    """Their numbers, in NVML's order (by PCI bus id)."""
    links: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(`GPU0`, `GPU1`), (`GPU0`, `NIC0`) -> kind; each pair once, in the order of the columns."""
    nics: tuple[str, ...] = ()
    nic_devices: Mapping[str, str] | None = None
    """`NIC0` -> `mlx5_0`, where a legend tells it."""
    cpu_affinity: tuple[str | None, ...] | None = None
    """The CPUs near each GPU, as `0-31,64-95`."""
    numa_affinity: tuple[str | None, ...] | None = None
    p2p: Mapping[str, Mapping[tuple[int, int], str]] = field(default_factory=dict)
    """What may be done (`read`, `write`, `nvlink` ..., `any` where the text doesn't say) -> (from, to) -> status."""
    ends: Mapping[int, Ends] = field(default_factory=dict)
    """GPU -> how it is attached, where NVML was asked."""
    prefix: str = "plain"
    """How the lines of the text began, in the words of the reader of NCCL logs."""
    truncated: bool = False
    why: str | None = None
    """Why something is missing, in one sentence."""

    def kind(self, one: int, other: int) -> str | None:
        """The kind of link between two GPUs."""
        names = f"GPU{one}", f"GPU{other}"
        return self.links.get(names) or self.links.get(names[::-1])

    def pairs(self) -> list[tuple[int, int, str]]:
        """Each unordered pair of GPUs whose link is known, once."""
        found = ((one, other, self.kind(one, other)) for one, other in itertools.combinations(sorted(self.gpus), 2))
        return [(one, other, kind) for one, other, kind in found if kind is not None]


# Ceilings -----------------------------------------------------------------------------------------------------------


def nvlinks(kind: str) -> int | None:
    """18 for NV18; None for a path over PCIe."""
    return int(kind[2:]) if re.fullmatch(r"NV[0-9]{1,4}", kind) else None


def ceiling(topology: Topology, one: int, other: int) -> Ceiling | None:
    """The most that the path between two GPUs carries in one direction; None where it isn't known.

    NVLink by count and generation, every other kind by the slower of the two GPUs' own PCIe links. What lies between
    (a crowded switch, the sockets' interconnect) may well be slower, and where peer access isn't allowed each byte
    passes through host memory.
    """
    kind = topology.kind(one, other)
    if kind is None:
        return None
    ends = [topology.ends.get(gpu, Ends()) for gpu in (one, other)]
    count = nvlinks(kind)
    if count is not None:
        found = [hardware.nvlink(count, end.nvlink_generation, end.nvlink_gb_per_s) for end in ends]
    else:
        found = [
            hardware.pcie(end.pcie_generation, end.pcie_width) if end.pcie_generation and end.pcie_width else None
            for end in ends
        ]
    known = [each for each in found if each is not None]
    return min(known, key=lambda each: each.gb_per_s) if len(known) == 2 else None


def candidates(kind: str) -> list[Ceiling]:
    """What a link of this kind may carry where nothing but its name is known: by NVLink generation, or for PCIe x16."""
    count = nvlinks(kind)
    if count is not None:
        return hardware.nvlink_candidates(count)
    if kind not in WAYS:
        return []
    found = (hardware.pcie(generation, 16) for generation in (3, 4, 5))
    return [each for each in found if each is not None]


# NICs ---------------------------------------------------------------------------------------------------------------


def closest_nics(topology: Topology) -> dict[str, list[str]] | None:
    """Each GPU -> all NICs on the shortest kind of path; None where there are no NICs."""
    if not topology.nics:
        return None
    closest = {}
    for number in topology.gpus:
        gpu = f"GPU{number}"
        kinds = {nic: topology.links.get((gpu, nic)) or topology.links.get((nic, gpu)) for nic in topology.nics}
        best = next((kind for kind in (*NEAREST_FIRST, "SOC") if kind in kinds.values()), None)
        if best is not None:
            closest[gpu] = [nic for nic, kind in kinds.items() if kind == best]
    return closest


# Documents ----------------------------------------------------------------------------------------------------------


def report(topology: Topology, diagnosis: str) -> dict[str, Any]:
    """What `labtui topo --json` prints: the fields that the reader of NCCL logs has too, for kind `topo`, and more.

    `diagnosis` is machine.topology_words'.
    """
    pairs = topology.pairs()
    return {
        "kind": "topo",
        "library": None,
        "prefix": topology.prefix,
        "nccl_version": None,
        "nranks": None,
        "nnodes": None,
        "transports": dict(Counter(kind for _, _, kind in pairs)),
        "pairs": [list(pair) for pair in pairs],
        "channels": None,
        "env_overrides": {},
        "network": None,
        "warnings": [],
        "diagnosis": diagnosis,
        "truncated": topology.truncated,
        "topo": {
            "gpus": len(topology.gpus),
            "nics": len(topology.nics),
            "nic_devices": dict(topology.nic_devices) if topology.nic_devices is not None else None,
            "cpu_affinity": _listed(topology.cpu_affinity),
            "numa_affinity": _listed(topology.numa_affinity),
            "closest_nics": closest_nics(topology),
        },
        **machine_document(topology),
    }


def machine_document(topology: Topology) -> dict[str, Any]:
    """The field `topology` of machine.json: `pairs`, `p2p` (ordered pairs), `ceilings` (one direction), affinities."""
    return {
        "pairs": [list(pair) for pair in topology.pairs()],
        "p2p": {may: [[*pair, status] for pair, status in told.items()] for may, told in topology.p2p.items()},
        "ceilings": [
            {"pair": [one, other], "kind": kind, **_ceiling_document(ceiling(topology, one, other), kind)}
            for one, other, kind in topology.pairs()
        ],
        "cpu_affinity": _listed(topology.cpu_affinity),
        "numa_affinity": _listed(topology.numa_affinity),
        "why": topology.why,
    }


def _ceiling_document(found: Ceiling | None, kind: str) -> dict[str, Any]:
    if found is None:
        possible = [{"gb_per_s": round(each.gb_per_s, 3), "what": each.what} for each in candidates(kind)]
        return {"gb_per_s": None, "why": "which generation this is, isn't told", "possible": possible}
    return {
        "gb_per_s": round(found.gb_per_s, 3),
        "direction": "one",
        "what": found.what,
        "source": found.source,
        "status": found.status,
    }


def _listed(values: tuple[str | None, ...] | None) -> list[str | None] | None:
    return list(values) if values is not None else None
