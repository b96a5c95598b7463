"""What is said of GPUs on the screen, in few letters. Pure; takes telemetry and machine documents as they are.

The words of machine/ are imported when a GPU is first spoken of: the first screen comes sooner without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labtui.charts import number
from labtui.machine import throttle
from labtui.runs.clean import clean_line
from labtui.runs.gauges import GpuGauges
from labtui.runs.records import Document
from labtui.tui.lines import Piece
from labtui.tui.words import UNKNOWN, count, time_of_day

GIB = 1 << 30

REASONS = {
    "gpu_idle": "idle",
    "applications_clocks_setting": "set clocks",
    "sw_power_cap": "power cap",
    "hw_slowdown": "slowdown",
    "sync_boost": "sync boost",
    "sw_thermal_slowdown": "too hot",
    "hw_thermal_slowdown": "far too hot",
    "hw_power_brake_slowdown": "power brake",
    "display_clock_setting": "display",
    "board_limit": "board limit",
    "reliability": "voltage",
}
"""Clock-event reasons in a word or two; machine.throttle.WORDS has the sentences."""

_FIELDS = {
    "util": "utilization", "mem_used": "memory", "power_w": "power", "temp_c": "temperature", "sm_mhz": "SM clock",
    "pcie_rx": "PCIe", "nvlink_rx": "NVLink", "throttle": "what holds it back",
}  # fmt: skip
"""Of which fields it is said why they are missing."""


def reason(name: str) -> str:
    """A clock-event reason in a word or two."""
    return REASONS.get(name) or clean_line(name)


def gpu_name(name: Any) -> str:
    """`RTX 4080`, of what the driver calls `NVIDIA GeForce RTX 4080`."""
    return clean_line(str(name)).removeprefix("NVIDIA ").removeprefix("GeForce ") if name else ""


def models(machine: Document | None) -> str:
    """`4x RTX 4080`: the GPUs of a machine.json by name; empty where there are none."""
    gpus = (machine or {}).get("gpus")
    names = [gpu_name(gpu.get("name")) for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    return ", ".join(f"{many}x {name or 'GPU'}" for name, many in Counter(names).items())


def pair(latest: Mapping[str, Any], one: str, other: str, write: Callable[[Any], str]) -> str:
    """Two fields of a reading: `214/320`, or the first alone where the second is unknown; n/a where both are."""
    first, second = write(latest.get(one)), write(latest.get(other))
    return first if second == UNKNOWN else f"{first}/{second}"


def plain(value: Any, digits: int = 0) -> str:
    """A number as it is."""
    real = number(value)
    return UNKNOWN if real is None else f"{real:.{digits}f}"


def gib(value: Any) -> str:
    """Bytes in GiB, as vendors count a GPU's memory."""
    real = number(value)
    return UNKNOWN if real is None else f"{real / GIB:.1f}"


def rate(value: Any) -> str:
    """GB/s with two digits that count."""
    real = number(value)
    return UNKNOWN if real is None else f"{real:.0f}" if real >= 99.95 else f"{real:.1f}"


def held(latest: Mapping[str, Any]) -> Piece:
    """What holds the clocks back now; empty where nothing does."""
    reasons = latest.get("throttle")
    if not isinstance(reasons, list):
        return UNKNOWN, "dim"
    return ", ".join(reason(str(name)) for name in throttle.held_back(map(str, reasons))), "warn"


def shared_memory(latest: Mapping[str, Any]) -> str:
    """`memory shared with the host`, of a GPU that has none of its own; else empty."""
    from labtui.machine.reading import SHARED

    return f"memory {SHARED}" if latest.get("mem_how") == SHARED else ""


def silence(gpu: GpuGauges) -> str:
    """`GPU is lost since 12:01:44`: why it tells nothing; empty while it speaks."""
    return f"{clean_line(gpu.silence)} since {time_of_day(gpu.silent_since)}" if gpu.silence else ""


def remarks(gpu: GpuGauges) -> list[Piece]:
    """What else should be known of a GPU, in sentences; the gravest first."""
    from labtui.machine.gpu_processes import outside_words
    from labtui.machine.reading import BY_TURNS, NOT_SUPPORTED, SECOND_NEEDED

    if gpu.silence:
        return [(f"{UNKNOWN}: {silence(gpu)}", "bad")]
    latest = gpu.latest
    told: list[Piece] = []
    xid, ecc, outside = (number(latest.get(name)) for name in ("xid_count", "ecc_uncorrected", "outside"))
    if xid:
        told.append((f"{count(int(xid), 'critical error')}, the last one XID {plain(latest.get('xid_last'))}", "bad"))
    if ecc:
        told.append((f"{count(int(ecc), 'memory error')} that ECC could not correct", "bad"))
    if shared_memory(latest):
        told.append((shared_memory(latest), "dim"))
    if outside:
        told.append((outside_words(int(outside)), "dim"))
    why = latest.get("why")
    reasons: dict[str, list[str]] = {}
    for name, shown in _FIELDS.items():
        said = why.get(name) if isinstance(why, dict) else None
        if said is not None and said not in (SECOND_NEEDED, BY_TURNS):
            reasons.setdefault(str(said), []).append(shown)
    # What no GPU of its kind can do comes last: it is no news.
    for said, names in sorted(reasons.items(), key=lambda item: item[0] == NOT_SUPPORTED):
        told.append((f"{UNKNOWN}: {', '.join(names)} ({said})", "dim" if said == NOT_SUPPORTED else "warn"))
    return told


def of_host(machine: Document | None, indices: Sequence[int]) -> dict[int, str]:
    """NVML's index -> the GPU's name, where machine.json tells it."""
    gpus = (machine or {}).get("gpus")
    found = {gpu.get("index"): gpu_name(gpu.get("name")) for gpu in gpus or () if isinstance(gpu, dict)}
    return {index: found[index] for index in indices if found.get(index)}
