"""Whether runs may use the CPUs near each GPU."""

from __future__ import annotations

import os
import re
from collections.abc import Set
from pathlib import Path

from labtui.machine import host
from labtui.machine.doctor.finding import Finding, gpus, listed
from labtui.machine.doctor.seen import Seen
from labtui.machine.host import ROOT, read_text

_GUIDE = "NCCL user guide, CPU and memory affinity"
_WHY = "data between a GPU and a CPU of another NUMA node crosses the link between them, as does NCCL's own thread"


def affinity(seen: Seen, root: Path = ROOT, allowed: Set[int] | None = None) -> Finding | None:
    """`allowed` are the CPUs that runs may use (default: ours). None without a GPU, or with one NUMA node only."""
    nodes = host.describe(root)["numa"]
    if not seen.gpus or len(nodes) < 2:
        return None
    allowed = os.sched_getaffinity(0) if allowed is None else allowed
    near = _near(seen)
    where: dict[str, list[int]] = {}
    for gpu in seen.gpus:
        node = near.get(gpu.index, (None, None))[1]
        where.setdefault(f"node {node}" if node else "no node that is told", []).append(gpu.index)
    found = f"{len(nodes)} nodes; " + listed(f"{gpus(indices)} at {node}" for node, indices in where.items())
    far = [index for index, (cpus, _) in near.items() if cpus and allowed.isdisjoint(_numbers(cpus))]
    if far:
        return Finding(
            "NUMA",
            "warn",
            f"{found}; runs may use no CPU near {gpus(far)}",
            f"{_WHY} ({_GUIDE})",
            "look at taskset -p $$, cpusets and the job's CPU list; or take the GPUs near the CPUs that you have",
        )
    if "no node that is told" in where:
        return Finding("NUMA", "note", found, f"{_WHY}; without this nobody knows which CPUs are near")
    if (read_text(root / "proc/sys/kernel/numa_balancing") or "0").strip() != "0":
        return Finding(
            "NUMA",
            "note",
            f"{found}; the kernel moves memory between nodes (numa_balancing)",
            "moving pages costs time, most of all while GPUs read them (NVIDIA's and AMD's tuning guides)",
            "sysctl kernel.numa_balancing=0, and pin ranks: torchrun --numa-binding=node, where this torch has it",
        )
    return Finding("NUMA", "ok", found, _WHY)


def _near(seen: Seen) -> dict[int, tuple[str | None, str | None]]:
    """GPU -> the CPUs near it, and its node."""
    topology = seen.topology
    if topology is None:
        return {}
    unknown = (None,) * len(topology.gpus)
    return {
        index: (cpus, node)
        for index, cpus, node in zip(
            topology.gpus, topology.cpu_affinity or unknown, topology.numa_affinity or unknown, strict=False
        )
    }


def _numbers(text: str) -> set[int]:
    """The kernel's notation, `0-2,8`, as numbers."""
    return {cpu for low, high in re.findall(r"(\d+)(?:-(\d+))?", text) for cpu in range(int(low), int(high or low) + 1)}
