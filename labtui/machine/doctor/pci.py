"""What may send data between PCIe devices the long way: an IOMMU that translates, switches with ACS.

The kernel tells much of this only by hints, and some of it only to root: findings say which it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from labtui.machine.doctor.finding import Finding, counted, gpus, listed
from labtui.machine.doctor.seen import Seen
from labtui.machine.host import ROOT, read_text

_GUIDE = "NCCL user guide, GPU troubleshooting"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ACS, _EXTENDED = 0x0D, 0x100
"""The number of the ACS capability, and where the chain of such capabilities begins."""
_ACS_REDIRECTS = 0x01 | 0x04 | 0x08
"""SrcValid, which the guide tells to look for, ReqRedir and CmpltRedir, which send packets up to the CPU."""


def iommu(seen: Seen, rdma: list[str], root: Path = ROOT) -> Finding | None:
    """Whether the IOMMU translates what GPUs send; None where they send nothing to each other or to RDMA devices."""
    if len(seen.gpus) < 2 and not (seen.gpus and rdma):
        return None
    why = (
        "an IOMMU that translates sends what goes from device to device over PCIe up to the CPU: slower, and it has "
        f"made NCCL hang ({_GUIDE})"
    )
    words = (read_text(root / "proc/cmdline") or "").split()
    set_by = listed(word for word in words if re.match(r"(intel_|amd_)?iommu(\.[a-z]+)?=", word))
    asked = f"; the kernel was started with {set_by}" if set_by else ""
    try:
        groups = len(os.listdir(root / "sys/kernel/iommu_groups"))
    except OSError:
        groups = 0
    if not groups:
        where = " in this virtual machine; what its host does can't be seen" if virtual_machine(root) else ""
        return Finding("IOMMU", "ok", f"off{where}{asked}", why)
    kinds: dict[str, list[int]] = {}
    for gpu in seen.gpus:
        kind = (read_text(_device(gpu.bus_id, root) / "iommu_group/type") or "").strip()
        kinds.setdefault(kind or "unknown", []).append(gpu.index)
    told = listed(f"{kind} for {gpus(indices)}" for kind, indices in kinds.items())
    if set(kinds) == {"identity"}:
        return Finding("IOMMU", "ok", f"on, and passes the GPUs through untranslated (identity){asked}", why)
    if set(kinds) <= {"identity", "unknown"}:
        return Finding(
            "IOMMU", "note", f"on; whether it translates for the GPUs isn't told{asked}", why, "cat /proc/cmdline"
        )
    return Finding(
        "IOMMU",
        "warn",
        f"on, and translates: {told}{asked}",
        why,
        "iommu=pt on the kernel's command line, or off in the BIOS (VT-d, AMD-Vi); GPUs joined by NVLink are not "
        "concerned",
    )


def acs(seen: Seen, root: Path = ROOT) -> Finding | None:
    """Whether PCIe switches above the GPUs send packets up to the CPU; None for fewer than two GPUs, or no switch.

    The kernel shows what it takes to root only.
    """
    if len(seen.gpus) < 2:
        return None
    ports = sorted({port for gpu in seen.gpus for port in _switch_ports(gpu.bus_id, root)})
    if not ports:
        return None
    states = {port: _acs_control(root / "sys/bus/pci/devices" / port / "config") for port in ports}
    why = (
        "with ACS a PCIe switch sends what goes from one GPU to another up to the CPU instead of across: slower, or a "
        f"hang ({_GUIDE})"
    )
    hidden = [port for port, state in states.items() if state is None]
    redirecting = [port for port, state in states.items() if state is not None and state & _ACS_REDIRECTS]
    above = counted(len(ports), "port of PCIe switches", "ports of PCIe switches") + " above the GPUs"
    if redirecting:
        virtual = virtual_machine(root)
        return Finding(
            "ACS",
            "warn",
            f"on at {listed(redirecting, 4)}, of {above}",
            why,
            "virtual machines need it: let ATS be enabled in the network adapters"
            if virtual
            else "off in the BIOS, or setpci -s PORT ECAP_ACS+0x6.w=0000, as root after each boot",
        )
    if hidden:
        return Finding(
            "ACS",
            "note",
            f"{above}; only root may see whether it is on",
            why,
            "sudo lspci -vvv | grep ACSCtl: SrcValid+ means on",
        )
    return Finding("ACS", "ok", f"off at {above}", why)


def virtual_machine(root: Path) -> bool:
    return re.search(r"^flags\s*:.*\bhypervisor\b", read_text(root / "proc/cpuinfo") or "", re.M) is not None


def _device(bus_id: str | None, root: Path) -> Path:
    """The folder of a PCI device; NVML writes `00000000:1B:00.0`, the kernel `0000:1b:00.0`."""
    domain, _, rest = (bus_id or "").lower().partition(":")
    return root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}"


def _switch_ports(bus_id: str | None, root: Path) -> list[str]:
    """The ports of switches above a device: all bridges but the first, which is the CPU's own root port."""
    try:
        path = _device(bus_id, root).resolve(strict=True)
    except OSError:
        return []
    addresses = [part for part in path.parts if _ADDRESS.fullmatch(part)]
    return addresses[1:-1]


def _acs_control(config: Path) -> int | None:
    """The ACS control register; 0 for a port without ACS, None where the kernel shows only the first 64 bytes."""
    try:
        data = config.read_bytes()
    except OSError:
        return None
    if len(data) <= _EXTENDED:
        return None
    at, seen = _EXTENDED, set[int]()
    while at not in seen and _EXTENDED <= at <= len(data) - 8:
        seen.add(at)
        header = int.from_bytes(data[at : at + 4], "little")
        if header & 0xFFFF == _ACS:
            return int.from_bytes(data[at + 6 : at + 8], "little")
        at = header >> 20
    return 0
