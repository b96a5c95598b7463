"""What lies between two GPUs, as NVML tells it: the kind of path, and whether one may reach into the other's memory.

The words are those of `nvidia-smi topo`. Knows no thread: machine.gpus asks for each GPU's row by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labtui.machine.gpu import text
from labtui.machine.gpu_device import Device
from labtui.machine.host import read_text

_P2P_WAYS = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3}
_P2P_STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
_ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""0 is another chip of the same board: a bridge apart."""
_SWITCH = 2


@dataclass(frozen=True)
class Row:
    """The paths from one GPU."""

    kinds: dict[int, str] = field(default_factory=dict)
    """To each GPU with a higher index."""
    access: dict[str, dict[int, str]] = field(default_factory=dict)
    """What may be done -> to each other GPU -> whether, in nvidia-smi's words."""


def row(device: Device, others: Sequence[Device]) -> Row:
    """The paths from one GPU to others, which have been identified. Raises Gone."""
    handle = device.identify()
    beyond = _beyond_nvlinks(device)
    found = Row(access={way: {} for way in _P2P_WAYS})
    for other in others:
        theirs = other.identify().nvml
        for way, number in _P2P_WAYS.items():
            status = handle.ask({}, "", "nvmlDeviceGetP2PStatus", theirs, number)
            if status is not None:
                found.access[way][other.index] = _P2P_STATUS.get(status, "U")
        if other.index < device.index:
            continue
        links = _joined(beyond, _address(device.gpu.bus_id), other)
        ancestor = handle.ask({}, "", "nvmlDeviceGetTopologyCommonAncestor", theirs)
        if links:
            found.kinds[other.index] = f"NV{links}"
        elif ancestor in _ANCESTORS:
            found.kinds[other.index] = _ANCESTORS[ancestor]
    return Row(found.kinds, {way: told for way, told in found.access.items() if told})


def _joined(beyond: dict[str, int], address: str, other: Device) -> int:
    """How many NVLinks join a GPU to another, directly or through switches: what both ends have up."""
    direct = beyond.get(_address(other.gpu.bus_id), 0)
    if not direct and not beyond.get("switch"):
        return 0
    back = _beyond_nvlinks(other)
    return min(direct, back.get(address, 0)) if direct else min(beyond["switch"], back.get("switch", 0))


def _beyond_nvlinks(device: Device) -> dict[str, int]:
    """What is at the far ends of this GPU's NVLinks: a GPU's address, or `switch` -> over how many links."""
    handle = device.identify()
    beyond: dict[str, int] = {}
    for link in device.gpu.nvlinks.active if device.gpu.nvlinks else ():
        if handle.ask({}, "", "nvmlDeviceGetNvLinkRemoteDeviceType", link) == _SWITCH:
            end = "switch"
        else:
            pci = handle.ask({}, "", "nvmlDeviceGetNvLinkRemotePciInfo", link)
            if pci is None:
                continue
            end = _address(text(pci.busId))
        beyond[end] = beyond.get(end, 0) + 1
    return beyond


def _address(bus_id: str | None) -> str:
    """`00000000:1B:00.0` and `0000:1b:00.0` are one address."""
    domain, _, rest = (bus_id or "").lower().partition(":")
    return f"{domain.lstrip('0')}:{rest}"


def affinities(bus_id: str | None, root: Path) -> tuple[str | None, str | None]:
    """The CPUs and the NUMA node near a PCI device, as the kernel knows them: `0-31,64-95`, `0`."""
    domain, _, rest = (bus_id or "").lower().partition(":")
    device = root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}"
    cpus = (read_text(device / "local_cpulist") or "").strip()
    node = (read_text(device / "numa_node") or "").strip()
    # -1: the firmware doesn't tell.
    return cpus or None, node if node.isdecimal() else None
