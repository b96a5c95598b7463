"""The links of a topology line by line: what each kind carries at most, and what is near each GPU. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from labtui.machine import topology, topology_words
from labtui.machine.topology import Topology
from labtui.theory.hardware import Ceiling


def kinds(paths: Topology) -> list[str]:
    """Each kind of link between GPUs, how many pairs have it, and the most that it carries."""
    lines = []
    pairs = paths.pairs()
    for kind, number in topology_words.by_distance(Counter(kind for _, _, kind in pairs)):
        ceilings = {topology.ceiling(paths, one, other) for one, other, each in pairs if each == kind}
        head = f"{kind}  {topology_words.counted(number, 'pair')}"
        if kind in topology.WAYS:
            head += f", through {topology.WAYS[kind]}"
        known = sorted((each for each in ceilings if each is not None), key=lambda each: each.gb_per_s)
        if known:
            lines += [f"{head}: at most {_carries([each])} one way (source: {each.source})" for each in known]
            continue
        possible = topology.candidates(kind)
        lines.append(f"{head}: at most {_carries(possible)} one way; which, isn't told" if possible else head)
    return lines


def _carries(ceilings: Sequence[Ceiling]) -> str:
    """`31.5 GB/s (PCIe 4.0 x16) or 63.0 GB/s (PCIe 5.0 x16)`."""
    names: dict[str, list[str]] = {}
    for ceiling in ceilings:
        names.setdefault(f"{ceiling.gb_per_s:.1f} GB/s", []).append(ceiling.what)
    return " or ".join(f"{rate} ({', '.join(what)})" for rate, what in names.items())


def near(paths: Topology) -> list[str]:
    """What CPUs, NUMA node and NICs are near each GPU; a line for each that has told something."""
    lines = []
    closest = topology.closest_nics(paths) or {}
    devices: Any = paths.nic_devices or {}
    for place, gpu in enumerate(paths.gpus):
        told = []
        for what, values in (("CPUs", paths.cpu_affinity), ("NUMA node", paths.numa_affinity)):
            if values is not None and values[place] is not None:
                told.append(f"{what} {values[place]}")
        nics = closest.get(f"GPU{gpu}", [])
        if nics:
            kind = paths.links.get((f"GPU{gpu}", nics[0])) or paths.links.get((nics[0], f"GPU{gpu}"))
            told.append(f"NICs {', '.join(devices.get(nic, nic) for nic in nics)} ({kind})")
        if told:
            lines.append(f"GPU{gpu} near {'; '.join(told)}")
    return lines
