"""One GPU: what it is, and one reading of it after the other. Asks through machine.gpu; knows no thread and no run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from labtui.machine import throttle
from labtui.machine.gpu import E_TIMEOUT, Gone, Handle, Library, text
from labtui.machine.gpu_memory import GpuMemory
from labtui.machine.gpu_traffic import Traffic
from labtui.machine.reading import (
    NOT_SUPPORTED,
    Gpu,
    MigDevice,
    NvLinks,
    Process,
    Reading,
    silent,
    unknown,
)

SLOW_S = 5.0
"""What hardly changes (limits, modes, ECC counts) is asked for this often."""
PROCESSES_S = 1.0
"""Listing processes costs a driver up to 2 ms."""

_MOST_XIDS = 64
"""Critical errors taken from the driver per reading."""
_XID_EVENT = 8
"""nvmlEventTypeXidCriticalError."""
_MOST_LINKS = 18
_LINK_SPEED = 90
"""NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: MB/s of one link, in one direction."""
_LINK_GENERATIONS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
"""NVML_NVLINK_VERSION_* (1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0, 6.0) -> generation."""
_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_CORRECTED, _UNCORRECTED, _SINCE_LOADED = 0, 1, 0


class Device:
    """A GPU. Its methods take as long as the driver likes; not for two threads at once."""

    def __init__(self, library: Library, index: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.index = index
        self.gpu = unknown(index, "the driver has not answered about this GPU yet")
        """What is known of it so far."""
        self._library = library
        self._clock = clock
        self._handle: Handle | None = None
        self._traffic: Traffic | None = None
        self._memory = GpuMemory()
        self._events: Any = None
        self._xid_count = 0
        self._xid_last: int | None = None
        self._xid_why: dict[str, str] = {}
        self._slow: dict[str, Any] = {}
        self._slow_why: dict[str, str] = {}
        self._slow_at = float("-inf")
        self._processes: tuple[Process, ...] | None = None
        self._processes_why: dict[str, str] = {}
        self._processes_at = float("-inf")

    # What it is -----------------------------------------------------------------------------------------------------

    def identify(self) -> Handle:
        """Finds out what it is, once, and gives its handle. Raises Gone."""
        if self._handle is None:
            try:
                handle = self._library.handle(self.index)
                self.gpu = self._identify(handle)
            except Gone as gone:
                self.gpu = unknown(self.index, str(gone))
                raise
            self._handle = handle
        return self._handle

    def _identify(self, handle: Handle) -> Gpu:
        why: dict[str, str] = {}
        uuid = handle.ask(why, "uuid", "nvmlDeviceGetUUID")
        name = handle.ask(why, "name", "nvmlDeviceGetName")
        pci = handle.ask(why, "bus_id", "nvmlDeviceGetPciInfo")
        # A GPU that sits on no PCIe says 0.
        generation = handle.ask(why, "pcie", "nvmlDeviceGetMaxPcieLinkGeneration") or None
        width = handle.ask(why, "pcie", "nvmlDeviceGetMaxPcieLinkWidth") or None
        capability = handle.ask(why, "compute_capability", "nvmlDeviceGetCudaComputeCapability")
        persistence = handle.ask(why, "persistence", "nvmlDeviceGetPersistenceMode")
        memory_why: dict[str, str] = {}
        _, total, _, memory_how = self._memory.read(handle, memory_why)
        if total is None:
            why.update(dict.fromkeys(("memory", "memory_how"), memory_why["mem_total"]))
        if generation is None or width is None:
            why.setdefault("pcie", NOT_SUPPORTED)
        links = _nvlinks(handle, why)
        self._traffic = Traffic(handle, self._clock, (generation, width), links.active if links else ())
        if links and not links.active:
            self._traffic.nvlink_why = why["nvlink"]
        self._ask_slow(handle)
        self._watch_errors(handle)
        return Gpu(
            self.index,
            uuid=text(uuid) if uuid is not None else None,
            bus_id=text(pci.busId) if pci is not None else None,
            name=text(name) if name is not None else None,
            memory=total,
            memory_how=memory_how,
            pcie_generation=generation,
            pcie_width=width,
            nvlinks=links,
            mig=self._slow["mig"],
            mig_devices=_mig_devices(handle) if self._slow["mig"] else (),
            compute_mode=self._slow["compute_mode"],
            persistence=bool(persistence) if persistence is not None else None,
            compute_capability=".".join(map(str, capability)) if capability is not None else None,
            power_limit_w=self._slow["power_limit_w"],
            why={**{name: self._slow_why[name] for name in _SLOW_FACTS if name in self._slow_why}, **why},
        )

    def _watch_errors(self, handle: Handle) -> None:
        """From now on the driver keeps critical errors (XIDs) for us."""
        self._events, self._xid_why = None, {}
        try:
            events = self._library.call("nvmlEventSetCreate")
            self._library.call("nvmlDeviceRegisterEvents", handle.nvml, _XID_EVENT, events)
            self._events = events
        except handle.error as error:
            handle.note(self._xid_why, "xid_count xid_last", error)

    # How it fares ---------------------------------------------------------------------------------------------------

    def read(self) -> Reading:
        """One reading. A GPU that is gone gives one without values."""
        try:
            return self._read(self.identify())
        except Gone as gone:
            if self._traffic is not None:
                self._traffic.forget()
            self._slow_at = self._processes_at = float("-inf")
            return silent(self.index, self.gpu.uuid, str(gone))

    def _read(self, handle: Handle) -> Reading:
        assert self._traffic is not None
        why: dict[str, str] = {}
        util = handle.ask(why, "util mem_util", "nvmlDeviceGetUtilizationRates")
        used, total, reserved, how = self._memory.read(handle, why)
        power = handle.ask(why, "power_w", "nvmlDeviceGetPowerUsage")
        mask = handle.ask(why, "throttle", "throttle")
        rates: dict[str, Any] = self._traffic.read(why)
        xids = self._take_errors(handle, why)
        now = self._clock()
        if now - self._slow_at >= SLOW_S:
            self._ask_slow(handle)
        if now - self._processes_at >= PROCESSES_S:
            self._list_processes(handle)
        values = {
            "util": _percent(why, "util", util.gpu if util is not None else None),
            "mem_util": _percent(why, "mem_util", util.memory if util is not None else None),
            "mem_used": used,
            "mem_total": total,
            "mem_reserved": reserved,
            "mem_how": how,
            "power_w": power / 1000 if power is not None else None,
            "temp_c": handle.ask(why, "temp_c", "temperature", 0),
            "sm_mhz": handle.ask(why, "sm_mhz", "nvmlDeviceGetClockInfo", _SM_CLOCK),
            "mem_mhz": handle.ask(why, "mem_mhz", "nvmlDeviceGetClockInfo", _MEMORY_CLOCK),
            "throttle": throttle.names(mask) if mask is not None else None,
            "xid_count": self._xid_count if xids else None,
            "xid_last": self._xid_last if xids else None,
            "processes": self._processes,
            **self._slow,
            **rates,
        }
        why = {**self._slow_why, **self._processes_why, **why}
        if self._slow["mig"]:
            why = {field: _said_under_mig(reason) for field, reason in why.items()}
        return Reading(self.index, self.gpu.uuid, why=why, **values)

    def _ask_slow(self, handle: Handle) -> None:
        why: dict[str, str] = {}
        limit = handle.ask(why, "power_limit_w", "nvmlDeviceGetEnforcedPowerLimit")
        mig = handle.ask(why, "mig", "nvmlDeviceGetMigMode")
        mode = handle.ask(why, "compute_mode", "nvmlDeviceGetComputeMode")
        ecc = "nvmlDeviceGetTotalEccErrors"
        self._slow = {
            "power_limit_w": limit / 1000 if limit is not None else None,
            "pcie_gen": handle.ask(why, "pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": handle.ask(why, "pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
            "mig": bool(mig[0]) if mig is not None else None,
            "compute_mode": _COMPUTE_MODES.get(mode, f"mode {mode}") if mode is not None else None,
            "ecc_corrected": handle.ask(why, "ecc_corrected", ecc, _CORRECTED, _SINCE_LOADED),
            "ecc_uncorrected": handle.ask(why, "ecc_uncorrected", ecc, _UNCORRECTED, _SINCE_LOADED),
        }
        self._slow_why, self._slow_at = why, self._clock()

    def _list_processes(self, handle: Handle) -> None:
        self._processes, self._processes_why, self._processes_at = None, {}, self._clock()
        listed = handle.ask(self._processes_why, "processes", "processes")
        if listed is None:
            return
        clients = handle.ask({}, "", "mps") or ()
        # Of processes in a container some drivers tell 0 bytes: that is unknown, not none.
        self._processes = tuple(
            Process(each.pid, each.usedGpuMemory or None, kind)
            for kind, those in (("compute", listed), ("mps", clients))
            for each in those
        )

    def _take_errors(self, handle: Handle, why: dict[str, str]) -> bool:
        """Takes over the critical errors since the last reading; whether the driver tells them."""
        if self._events is None:
            why.update(self._xid_why)
            return False
        for _ in range(_MOST_XIDS):
            try:
                event = self._library.call("nvmlEventSetWait_v2", self._events, 0)
            except handle.error as error:
                if getattr(error, "value", None) == E_TIMEOUT:
                    break
                handle.note(why, "xid_count xid_last", error)
                return False
            self._xid_count += 1
            self._xid_last = int(event.eventData)
        return True

    # Traffic on PCIe ------------------------------------------------------------------------------------------------

    @property
    def needs_turn(self) -> bool:
        """See Traffic."""
        return self._traffic is not None and self._traffic.needs_turn

    def measure(self, pause: Callable[[float], object], turn: bool) -> None:
        """After a reading, see Traffic."""
        if self._traffic is not None:
            self._traffic.measure(pause, turn)


_SLOW_FACTS = ("mig", "compute_mode", "power_limit_w")
"""What is asked for again and again, and is part of what a GPU is, too."""


def _nvlinks(handle: Handle, why: dict[str, str]) -> NvLinks | None:
    active, down = list[int](), 0
    link_why: dict[str, str] = {}
    for link in range(getattr(handle.library.nvml, "NVML_NVLINK_MAX_LINKS", _MOST_LINKS)):
        state = handle.ask({} if link else link_why, "nvlink", "nvmlDeviceGetNvLinkState", link)
        if state is None:
            continue  # there is no such link; others may be there all the same
        if state:
            active.append(link)
        else:
            down += 1
    if not active:
        why["nvlink"] = "no NVLink is up" if down else link_why.get("nvlink", NOT_SUPPORTED)
        return NvLinks((), down, None, None) if down else None
    version = handle.ask({}, "", "nvmlDeviceGetNvLinkVersion", active[0])
    (speed,) = handle.field_values([_LINK_SPEED])
    return NvLinks(tuple(active), down, _LINK_GENERATIONS.get(version or 0), speed / 1000 if speed else None)


def _mig_devices(handle: Handle) -> tuple[MigDevice, ...]:
    found = []
    for place in range(handle.ask({}, "", "nvmlDeviceGetMaxMigDeviceCount") or 0):
        part = handle.ask({}, "", "nvmlDeviceGetMigDeviceHandleByIndex", place)
        if part is None:
            continue  # this place is free
        mig = Handle(handle.library, part)
        uuid = mig.ask({}, "", "nvmlDeviceGetUUID")
        gpu_instance = mig.ask({}, "", "nvmlDeviceGetGpuInstanceId")
        compute_instance = mig.ask({}, "", "nvmlDeviceGetComputeInstanceId")
        if uuid is not None and gpu_instance is not None and compute_instance is not None:
            found.append(MigDevice(text(uuid), gpu_instance, compute_instance))
    return tuple(found)


def _percent(why: dict[str, str], field: str, value: int | None) -> int | None:
    if value is not None and value > 100:
        why[field] = f"the driver said {value} percent"
        return None
    return value


def _said_under_mig(reason: str) -> str:
    return "not told of a GPU that MIG has split" if reason == NOT_SUPPORTED else reason
