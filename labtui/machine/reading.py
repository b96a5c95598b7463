"""What is known of a GPU: what it is, and one reading of how it fares. Pure data; knows no NVML.

Every field is a value, or None with a reason in `why` under the field's name. Sizes are bytes, traffic is GB/s
(1e9 bytes) in one direction, seen from the GPU: rx comes in, tx goes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

NOT_SUPPORTED = "not supported by this GPU"
LOST = "GPU is lost"
SECOND_NEEDED = "a rate needs a second reading"
BY_TURNS = "measured one GPU per tick"

SHARED = "shared with the host"
"""`mem_how` of a GPU without memory of its own: used is the host's MemTotal - MemAvailable."""
V2 = "v2"
"""`mem_how`: used is what programs use; what the driver holds back is `mem_reserved`."""
V1 = "v1, with the driver's reserve"
"""`mem_how` of older drivers: used holds the driver's reserve too."""


@dataclass(frozen=True)
class Process:
    """A process on a GPU, as NVML tells it: the pid may be another namespace's."""

    pid: int
    memory: int | None
    """Bytes of this GPU; None where the driver doesn't tell."""
    kind: str = "compute"
    """Or `mps`, a client of NVIDIA's multi-process service."""


@dataclass(frozen=True)
class MigDevice:
    """A part of a GPU that is split by MIG."""

    uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True)
class NvLinks:
    """The NVLinks of one GPU."""

    active: tuple[int, ...]
    down: int
    """How many exist and are not up."""
    generation: int | None
    gb_per_s: float | None
    """Of one link in one direction, as the driver tells it."""


@dataclass(frozen=True)
class Gpu:
    """What a GPU is."""

    index: int
    """NVML's: in the order of PCI bus ids."""
    uuid: str | None = None
    bus_id: str | None = None
    name: str | None = None
    memory: int | None = None
    memory_how: str | None = None
    pcie_generation: int | None = None
    """The highest that GPU and slot can do."""
    pcie_width: int | None = None
    nvlinks: NvLinks | None = None
    mig: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    compute_mode: str | None = None
    persistence: bool | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    why: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """An element of `gpus` in machine.json."""
        links = self.nvlinks
        return {
            "index": self.index,
            "uuid": self.uuid,
            "bus_id": self.bus_id,
            "name": self.name,
            "memory": self.memory,
            "memory_how": self.memory_how,
            "pcie": {"generation": self.pcie_generation, "width": self.pcie_width},
            "nvlink": {
                "links": len(links.active),
                "down": links.down,
                "generation": links.generation,
                "gb_per_s": links.gb_per_s,
            }
            if links is not None
            else None,
            "mig": self.mig,
            "mig_devices": [
                {"uuid": mig.uuid, "gpu_instance": mig.gpu_instance, "compute_instance": mig.compute_instance}
                for mig in self.mig_devices
            ],
            "compute_mode": self.compute_mode,
            "persistence": self.persistence,
            "compute_capability": self.compute_capability,
            "power_limit_w": self.power_limit_w,
            "why": dict(self.why),
        }


def unknown(index: int, reason: str) -> Gpu:
    """A GPU that has told nothing of itself, for one reason."""
    document = Gpu(index).document()
    return Gpu(index, why={name: reason for name in document if name not in ("index", "why", "mig_devices")})


@dataclass(frozen=True)
class Reading:
    """How one GPU fares at one tick."""

    index: int
    uuid: str | None = None
    util: int | None = None
    """Percent of the last fraction of a second in which a kernel ran, however small."""
    mem_util: int | None = None
    """Percent of that time in which memory was read or written."""
    mem_used: int | None = None
    mem_total: int | None = None
    mem_reserved: int | None = None
    mem_how: str | None = None
    """V2, V1 or SHARED."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temp_c: int | None = None
    sm_mhz: int | None = None
    mem_mhz: int | None = None
    pcie_gen: int | None = None
    """Now: an idle link falls back to a lower generation."""
    pcie_width: int | None = None
    pcie_rx: float | None = None
    pcie_tx: float | None = None
    nvlink_rx: float | None = None
    nvlink_tx: float | None = None
    throttle: tuple[str, ...] | None = None
    """Clock-event reasons by name, see machine.throttle."""
    ecc_corrected: int | None = None
    """Since the driver was loaded, as the next."""
    ecc_uncorrected: int | None = None
    xid_count: int | None = None
    """Critical errors that the driver told since this reader was opened."""
    xid_last: int | None = None
    """The number of the last one; None without a reason where there was none."""
    mig: bool | None = None
    compute_mode: str | None = None
    processes: tuple[Process, ...] | None = None
    why: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """An element of `gpus` in a telemetry line."""
        document = {name: _rounded(getattr(self, name)) for name in MEASURED}
        if self.processes is not None:
            document["processes"] = [[process.pid, process.memory] for process in self.processes]
        if self.throttle is not None:
            document["throttle"] = list(self.throttle)
        return {"index": self.index, **document, "why": dict(self.why)}


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


MEASURED = tuple(each.name for each in fields(Reading) if each.name not in ("index", "uuid", "why"))
"""The fields of a reading that are measured anew each time."""


def silent(index: int, uuid: str | None, reason: str) -> Reading:
    """A reading of a GPU that told nothing, for one reason."""
    return Reading(index, uuid, why=dict.fromkeys(MEASURED, reason))


# Rates --------------------------------------------------------------------------------------------------------------

WRAP = 1 << 32


def counter_rate(before: int, now: int, seconds: float, most_bytes_per_s: float) -> float | None:
    """GB/s from two readings of a byte counter that may be 32 bits wide and start again at 0.

    None where that could have happened more often than one can tell: PCIe 4 x16 fills 32 bits in 0.14 s. A counter
    that was seen beyond 32 bits is wide, and may not go down.
    """
    if seconds <= 0:
        return None
    if before >= WRAP or now >= WRAP:
        moved = now - before
        return moved / seconds / 1e9 if moved >= 0 else None
    if most_bytes_per_s * seconds >= WRAP:
        return None
    return (now - before) % WRAP / seconds / 1e9
