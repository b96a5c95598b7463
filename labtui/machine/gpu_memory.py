"""How much memory one GPU has, and how much of it is in use: by the newest way that the driver knows.

A GPU without memory of its own (GB10, Jetson and others: not supported, or 0 in all) works in the host's.
"""

from __future__ import annotations

import re

from labtui.machine.gpu import E_ASKED_OTHERWISE, Handle
from labtui.machine.host import read_text
from labtui.machine.reading import NOT_SUPPORTED, SHARED, V1, V2

Memory = tuple[int | None, int | None, int | None, str | None]
"""Bytes used, in all, held back by the driver; and how that is counted: V2, V1 or SHARED."""

_FIELDS = ("mem_used", "mem_total", "mem_reserved", "mem_how")


class GpuMemory:
    """Asks for a GPU's memory, and remembers which way the driver answers."""

    def __init__(self) -> None:
        self._way: str | None = None

    def read(self, handle: Handle, why: dict[str, str]) -> Memory:
        """What is known now; what is None has its reason in `why`, under the names of a reading. Raises Gone."""
        version = getattr(handle.library.nvml, "nvmlMemory_v2", None)
        for way in (self._way,) if self._way else (V2, V1):
            if way == V2 and version is None:
                continue  # the package is older than that
            try:
                arguments = (version,) if way == V2 else ()
                answer = handle.library.call("nvmlDeviceGetMemoryInfo", handle.nvml, *arguments)
            except handle.error as error:
                if getattr(error, "value", None) in E_ASKED_OTHERWISE:
                    continue
                handle.note(why, " ".join(_FIELDS), error)
                return None, None, None, None
            self._way = way
            if not answer.total:
                break
            if way == V2:
                return answer.used, answer.total, answer.reserved, V2
            why["mem_reserved"] = "the driver counts it as used"
            return answer.used, answer.total, None, V1
        return _of_the_host(handle, why)


def _of_the_host(handle: Handle, why: dict[str, str]) -> Memory:
    told = read_text(handle.library.root / "proc/meminfo") or ""
    total, available = (re.search(rf"^{name}:\s*(\d+) kB", told, re.M) for name in ("MemTotal", "MemAvailable"))
    why["mem_reserved"] = NOT_SUPPORTED
    if total is None or available is None:
        why.update(dict.fromkeys(_FIELDS, NOT_SUPPORTED))
        return None, None, None, None
    return (int(total[1]) - int(available[1])) * 1024, int(total[1]) * 1024, None, SHARED
