"""What lies between the GPUs: peer access, NVLink, PCIe lanes, NVSwitches."""

from __future__ import annotations

import os
import re
from pathlib import Path

from labtui.machine.doctor import container
from labtui.machine.doctor.finding import Finding, counted, gpus, listed
from labtui.machine.doctor.seen import Seen
from labtui.machine.host import ROOT, read_text
from labtui.machine.topology import P2P, Topology, nvlinks

_GUIDE = "NCCL user guide, GPU troubleshooting"

_REFUSALS = {
    "CNS": "look in the BIOS: both cards under one CPU, above 4G decoding on, ACS and IOMMU off",
    "DR": "NVreg_RegistryDwords in /etc/modprobe.d disables it: see /proc/driver/nvidia/params",
}
"""What to do about a refusal, by nvidia-smi's word for it."""


# Peer access --------------------------------------------------------------------------------------------------------


def refused(seen: Seen) -> dict[tuple[int, int], str] | None:
    """The pairs of used GPUs without peer access -> nvidia-smi's word for why; None where the driver doesn't tell."""
    told = _told(seen)
    if not told:
        return None
    refusals: dict[tuple[int, int], str] = {}
    for (one, other), status in told.items():
        if status != "OK":
            refusals.setdefault((min(one, other), max(one, other)), status)
    return refusals


def over_pcie(seen: Seen) -> list[tuple[int, int]]:
    """The pairs of used GPUs with peer access and without NVLink."""
    told = _told(seen)
    topology = seen.topology or Topology(())
    return [
        pair for pair, status in told.items() if pair[0] < pair[1] and status == "OK" and not _nvlinked(topology, *pair)
    ]


def _told(seen: Seen) -> dict[tuple[int, int], str]:
    """Ordered pairs of used GPUs -> whether one may read the other's memory."""
    told = seen.topology.p2p.get("read", {}) if seen.topology is not None else {}
    return {pair: status for pair, status in told.items() if seen.used.issuperset(pair)}


def _nvlinked(topology: Topology, one: int, other: int) -> bool:
    return nvlinks(topology.kind(one, other) or "") is not None


def peer_access(seen: Seen) -> Finding | None:
    """Whether GPUs may reach into each other's memory; None for fewer than two GPUs."""
    if len(seen.used) < 2 or seen.topology is None:
        return None
    refusals = refused(seen)
    if refusals is None:
        return Finding(
            "peer access", "note", "the driver tells nothing about it", "", "labtui topo shows what is known"
        )
    if refusals:
        return _refused(seen, refusals)
    suspicious = [pair for pair in over_pcie(seen) if all(_geforce(seen, index) for index in pair)]
    if suspicious:
        return Finding(
            "peer access",
            "warn",
            f"allowed between {_pairs(suspicious, seen)}, which are GeForce cards without NVLink",
            "NVIDIA's driver doesn't offer it for these: this is a patched driver, or one that grants what doesn't "
            f"work. Then NCCL hangs, or adds up wrongly ({_GUIDE}; nccl-tests issue 117)",
            "CUDA's sample simpleP2P proves it; NCCL_P2P_DISABLE=1 does without",
        )
    return Finding("peer access", "ok", "allowed between all pairs")


def _refused(seen: Seen, refusals: dict[tuple[int, int], str]) -> Finding:
    topology = seen.topology or Topology(())
    by_status: dict[str, list[tuple[int, int]]] = {}
    for pair, status in refusals.items():
        by_status.setdefault(status, []).append(pair)
    found = "; ".join(
        f"not between {_pairs(pairs, seen)} ({status}: {P2P.get(status, 'unknown')})"
        for status, pairs in by_status.items()
    )
    why = "NCCL passes each byte through host memory there (transport SHM), twice over PCIe, instead of from GPU to GPU"
    geforce = all(any(_geforce(seen, index) for index in pair) for pair in refusals)
    if geforce and not any(_nvlinked(topology, *pair) for pair in refusals):
        advice = "nothing is broken: to GeForce RTX 30 and later NVIDIA's driver offers it over NVLink only; expect SHM"
        return Finding("peer access", "note", found, why, advice)
    advice = next((_REFUSALS[status] for status in by_status if status in _REFUSALS), "nvidia-smi topo -p2p r; dmesg")
    return Finding("peer access", "warn", found, why, advice)


def _geforce(seen: Seen, index: int) -> bool:
    """Whether it is a GeForce of those generations to which NVIDIA's driver gives no peer access over PCIe."""
    name = next((gpu.name or "" for gpu in seen.gpus if gpu.index == index), "")
    return re.search(r"GeForce RTX [3-9]0\d\d", name) is not None


def _pairs(pairs: list[tuple[int, int]], seen: Seen) -> str:
    count = len(seen.used)
    if len(pairs) == count * (count - 1) // 2:
        return "any two" if count > 2 else gpus(pairs[0])
    return f"GPU {listed((f'{one}-{other}' for one, other in pairs), 6)}"


# Links --------------------------------------------------------------------------------------------------------------


def links(seen: Seen) -> list[Finding]:
    """NVLinks that are down where others are up, and PCIe links with fewer lanes than they could have."""
    findings = []
    for name, indices in seen.names().items():
        up = {
            gpu.index: len(gpu.nvlinks.active) for gpu in seen.gpus if gpu.index in indices and gpu.nvlinks is not None
        }
        if len(set(up.values())) > 1:
            most = max(up.values())
            fewer = listed(f"GPU {index} has {count}" for index, count in up.items() if count < most)
            findings.append(
                Finding(
                    f"NVLink of {name}",
                    "warn",
                    f"{fewer}, others have {most}",
                    "a link that is down takes its share of the bandwidth, and a ring runs at the slowest link",
                    "nvidia-smi nvlink -s and -e; look for NVLink errors in dmesg; reseat the bridge",
                )
            )
    narrow = [
        f"GPU {gpu.index} has {reading.pcie_width} of {gpu.pcie_width} lanes"
        for gpu, reading in zip(seen.gpus, seen.readings, strict=True)
        if gpu.pcie_width and reading.pcie_width and reading.pcie_width < gpu.pcie_width
    ]
    if narrow:
        findings.append(
            Finding(
                "PCIe lanes",
                "warn",
                listed(narrow),
                "the bandwidth to host memory, and to GPUs without NVLink, shrinks by the same share",
                "reseat the card and its riser; look in the BIOS for bifurcation. Few GPUs lower it when idle: look "
                "again while one works (labtui gpus --json)",
            )
        )
    return findings


def fabric_manager(root: Path = ROOT) -> Finding | None:
    """Whether the service that sets up NVSwitches runs; None where there are none, by their device files."""
    try:
        switches = [name for name in os.listdir(root / "dev") if re.fullmatch(r"nvidia-nvswitch\d+", name)]
        processes = [name for name in os.listdir(root / "proc") if name.isdecimal()]
    except OSError:
        return None
    if not switches:
        return None
    # The kernel keeps 15 characters of a name.
    names = {(read_text(root / "proc" / pid / "comm") or "").strip() for pid in processes}
    found = counted(len(switches), "NVSwitch", "NVSwitches")
    if {"nv-fabricmanage", "nvidia-fabricma"} & names:
        return Finding("fabric manager", "ok", f"{found}, and it runs")
    if container.hides_processes(root):
        return Finding(
            "fabric manager",
            "note",
            f"{found}; whether it runs on the host can't be seen from this container",
            "CUDA fails without it: error 802, system not yet initialized",
        )
    return Finding(
        "fabric manager",
        "fail",
        f"{found}, and it doesn't run",
        "CUDA fails without it: error 802, system not yet initialized",
        "systemctl start nvidia-fabricmanager, of exactly the driver's version (journalctl -u nvidia-fabricmanager)",
    )
