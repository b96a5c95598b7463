"""The host as Linux describes it in /proc and /sys: what it is, and how busy it is.

Standard library only: knows neither NVML nor torch, and no runs. What can't be read is None or absent, never 0.
Every function takes the root of the file system, so that tests can show it another machine.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path("/")
GB = 1e9


def read_text(path: Path) -> str | None:
    """The whole file, or None where it can't be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


# What it is ---------------------------------------------------------------------------------------------------------


def gpu_count(environ: Mapping[str, str] | None = None, root: Path = ROOT) -> int:
    """How many NVIDIA GPUs a process started in `environ` (default: ours) could use.

    Counts what the driver lists; CUDA_VISIBLE_DEVICES narrows it by CUDA's own rules: "" hides all, the list ends at
    the first entry that names no GPU (-1, an index beyond the last), a GPU named twice hides all.
    """
    try:
        present = len(os.listdir(root / "proc/driver/nvidia/gpus"))
    except OSError:
        return 0
    visible = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    chosen: list[str] = []
    for entry in visible.split(","):
        name = entry.strip()
        index = re.match(r"[+-]?\d+", name)
        if index is not None:
            if not 0 <= int(index[0]) < present:
                break
            name = str(int(index[0]))
        elif not name.startswith(("GPU-", "MIG-")):
            break
        if name in chosen:
            return 0
        chosen.append(name)
    return min(len(chosen), present)


def describe(root: Path = ROOT) -> dict[str, Any]:
    """The fields of machine.json that need neither NVML nor torch.

    `cores` counts the logical CPUs that this process may run on, `memory` is bytes, `numa` lists the nodes with the
    numbers of their CPUs. `gpus` is empty and `topology` null: nobody has looked yet.
    """
    return {
        "host": os.uname().nodename,
        "cpu": _cpu_model(root),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _meminfo(root, "MemTotal"),
        "numa": _numa(root),
        "driver": _driver(root),
        "gpus": [],
        "topology": None,
        "versions": {"python": ".".join(map(str, sys.version_info[:3]))},
    }


def _cpu_model(root: Path) -> str | None:
    found = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", read_text(root / "proc/cpuinfo") or "", re.M)
    return found[1].strip() if found else None


def _meminfo(root: Path, field: str) -> int | None:
    """A field of /proc/meminfo, in bytes (the kernel's kB are KiB)."""
    found = re.search(rf"^{field}:\s*(\d+) kB", read_text(root / "proc/meminfo") or "", re.M)
    return int(found[1]) * 1024 if found else None


def _numa(root: Path) -> list[dict[str, Any]]:
    nodes = root / "sys/devices/system/node"
    try:
        numbers = sorted(int(name[4:]) for name in os.listdir(nodes) if re.fullmatch(r"node\d+", name))
    except OSError:
        return []
    lists = ((number, read_text(nodes / f"node{number}" / "cpulist")) for number in numbers)
    return [{"node": number, "cpus": _cpu_list(cpus)} for number, cpus in lists if cpus is not None]


def _cpu_list(text: str) -> list[int]:
    """The kernel's notation, "0-2,8", as numbers."""
    return [cpu for low, high in re.findall(r"(\d+)(?:-(\d+))?", text) for cpu in range(int(low), int(high or low) + 1)]


def _driver(root: Path) -> str | None:
    """The version of NVIDIA's kernel module."""
    first = (read_text(root / "proc/driver/nvidia/version") or "").partition("\n")[0]
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)(?:\s|$)", first)
    return found[1] if found else None


# How busy it is -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counters:
    """One reading of what only grows; rates are differences of two."""

    t: float
    """Seconds on the monotonic clock."""
    cpu: tuple[int, int] | None
    """Clock ticks since boot, all CPUs together: those spent working, and all."""
    net: dict[str, tuple[int, int]]
    """Interface -> bytes received, bytes sent."""
    namespace: str | None
    """The network namespace that `net` belongs to."""


def read_counters(network_of: int | None = None, root: Path = ROOT) -> Counters:
    """Reads the counters now; the network's as process `network_of` sees it, or as we do where it is gone."""
    net: dict[str, tuple[int, int]] = {}
    namespace = None
    for process in (str(network_of), "self") if network_of else ("self",):
        text = read_text(root / "proc" / process / "net/dev")
        try:
            namespace = str((root / "proc" / process / "ns/net").readlink())
        except OSError:
            continue
        if text is not None:
            net = _interfaces(text)
            break
    return Counters(time.monotonic(), _cpu_ticks(read_text(root / "proc/stat") or ""), net, namespace)


def _cpu_ticks(stat: str) -> tuple[int, int] | None:
    found = re.match(r"cpu +([\d ]+)", stat)
    if found is None:
        return None
    # user nice system idle iowait irq softirq steal; the two guest fields behind them are part of user and nice.
    ticks = [int(field) for field in found[1].split()[:8]]
    if len(ticks) < 5:
        return None
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _interfaces(text: str) -> dict[str, tuple[int, int]]:
    """/proc/net/dev, without interfaces that have never moved a byte."""
    found = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(":")
        fields = rest.split()
        if colon and len(fields) >= 9 and fields[0].isdecimal() and fields[8].isdecimal():
            received, sent = int(fields[0]), int(fields[8])
            if received or sent:
                found[name.strip()] = (received, sent)
    return found


def busyness(before: Counters | None, now: Counters, root: Path = ROOT) -> dict[str, Any]:
    """The `host` part of a telemetry line. Rates need an earlier reading: without one they are absent.

    `cpu` is the percentage (0 to 100) of all CPUs, `net` the GB/s (GB = 1e9 bytes) by interface, the rest is of
    this moment: `load1`, `mem_available` and `shm_used` (use of /dev/shm) in bytes.
    """
    load = (read_text(root / "proc/loadavg") or "").split()
    host: dict[str, Any] = {
        "load1": float(load[0]) if load else None,
        "mem_available": _meminfo(root, "MemAvailable"),
        "shm_used": shm_used(root),
    }
    if before is None or now.t <= before.t:
        return host
    if before.cpu is not None and now.cpu is not None and now.cpu[1] > before.cpu[1]:
        share = (now.cpu[0] - before.cpu[0]) / (now.cpu[1] - before.cpu[1])
        # Idle time can step back by a tick when a CPU wakes up.
        host["cpu"] = round(100 * min(1.0, max(0.0, share)), 1)
    if before.namespace == now.namespace:
        host["net"] = _net_rates(before, now)
    return host


def _net_rates(before: Counters, now: Counters) -> dict[str, dict[str, float]]:
    seconds = now.t - before.t
    rates = {}
    for name, (received, sent) in now.net.items():
        if name not in before.net:
            continue
        rx, tx = received - before.net[name][0], sent - before.net[name][1]
        if rx >= 0 and tx >= 0:  # else the interface was made anew under its old name
            rates[name] = {"rx": round(rx / seconds / GB, 6), "tx": round(tx / seconds / GB, 6)}
    return rates


def shm_used(root: Path = ROOT) -> int | None:
    """Bytes of /dev/shm in use; NCCL within one machine and DataLoader workers pass their data there."""
    try:
        shm = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return (shm.f_blocks - shm.f_bfree) * shm.f_frsize
