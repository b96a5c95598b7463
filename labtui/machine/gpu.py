"""NVML, NVIDIA's management library: opened, asked, and its errors in words. The only module that imports `pynvml`.

It is imported when a library is opened, not before. Where names changed between driver generations, either is taken.
Calls block in C, and one about a sick GPU may take seconds: machine.gpus gives each GPU a thread of its own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from labtui.machine.host import ROOT, read_text
from labtui.machine.reading import LOST, NOT_SUPPORTED

# NVML's error numbers.
E_NOT_SUPPORTED, E_NO_PERMISSION, E_DRIVER_NOT_LOADED, E_TIMEOUT = 3, 4, 9, 10
E_LIBRARY_NOT_FOUND, E_FUNCTION_NOT_FOUND, E_MISMATCH = 12, 13, 18
E_ASKED_OTHERWISE = (E_NOT_SUPPORTED, E_FUNCTION_NOT_FOUND, 25, 26)
"""An older or newer way of asking may work: not supported, not found, another version of the struct, deprecated."""
_GONE = (1, E_DRIVER_NOT_LOADED, 15, 16, E_MISMATCH, 28)
"""Asking on is no use: uninitialized, no driver, lost, reset required, another driver, no such GPU."""

_ALTERNATIVES = {
    "temperature": ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
    "throttle": ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    "processes": ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    "mps": ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
}
"""The newest name first."""


class Unavailable(Exception):
    """There is no NVML to ask. The message is the reason, in one sentence."""


class Gone(Exception):
    """This GPU tells nothing any more, or not yet. The message is the reason."""


def open_library(root: Path = ROOT) -> Library:
    """Loads and initializes NVML; without persistence mode that takes seconds per GPU. Raises Unavailable."""
    try:
        import pynvml
    except ImportError:
        raise Unavailable("the Python package nvidia-ml-py is not installed") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unavailable(_why_not(pynvml, error, root)) from None
    try:
        return Library(pynvml, root)
    except pynvml.NVMLError as error:
        raise Unavailable(f"NVML can't count the GPUs: {_lower(error)}") from None


def _why_not(nvml: Any, error: Any, root: Path) -> str:
    loaded = _loaded_driver(root)
    if error.value == E_LIBRARY_NOT_FOUND:
        if loaded is not None:
            return f"driver {loaded} is loaded, but its NVML library (libnvidia-ml.so.1) is not installed here"
        return "no NVIDIA driver is installed (libnvidia-ml.so.1 is missing)"
    if error.value == E_MISMATCH:
        library = _library_version(nvml)
        return f"driver {loaded or 'of another version'} loaded, library {library or 'newer'}: reload the driver"
    if error.value == E_DRIVER_NOT_LOADED:
        return "the NVIDIA driver is installed, but its kernel module is not loaded"
    if error.value == E_NO_PERMISSION:
        return "this user may not talk to the NVIDIA driver (/dev/nvidiactl)"
    return f"NVML can't be initialized: {_lower(error)}"


def _loaded_driver(root: Path) -> str | None:
    """The version of the kernel module that runs now."""
    first = (read_text(root / "proc/driver/nvidia/version") or "").partition("\n")[0]
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)(?:\s|$)", first)
    return found[1] if found else None


def _library_version(nvml: Any) -> str | None:
    """The driver that the library on disk belongs to: NVML says `12.570.86.10` for 570.86.10."""
    try:
        told = nvml.nvmlSystemGetNVMLVersion()
    except nvml.NVMLError:
        return None
    return re.sub(r"^\d{1,2}\.(?=\d{3}\.)", "", text(told))


def _lower(error: Any) -> str:
    words = str(error).rstrip(".") or "an error without a name"
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


def text(value: str | bytes) -> str:
    """What NVML returned as a string; older versions of the package return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class Library:
    """NVML, initialized. May be used by several threads."""

    def __init__(self, nvml: Any, root: Path = ROOT) -> None:
        self.nvml = nvml
        self.root = root
        self.count = int(nvml.nvmlDeviceGetCount())
        self._chosen: dict[str, Callable[..., Any]] = {}
        self.driver: str | None = None
        try:
            self.driver = text(nvml.nvmlSystemGetDriverVersion())
        except nvml.NVMLError:
            pass  # a word in some reasons, no more

    def call(self, what: str, *arguments: Any) -> Any:
        """Calls an NVML function by name, or the first of its alternatives that driver and package both have.

        Raises pynvml's NVMLError.
        """
        chosen = self._chosen.get(what)
        if chosen is not None:
            return chosen(*arguments)
        first: Exception | None = None
        for name in _ALTERNATIVES.get(what, (what,)):
            function = getattr(self.nvml, name, None)
            if function is None:
                continue
            try:
                answer = function(*arguments)
            except self.nvml.NVMLError as error:
                if first is None or getattr(first, "value", None) == E_FUNCTION_NOT_FOUND:
                    first = error
                if error.value in E_ASKED_OTHERWISE:
                    continue
                raise
            self._chosen[what] = function
            return answer
        raise first or self.nvml.NVMLError(E_FUNCTION_NOT_FOUND)

    def reason(self, error: Any) -> str:
        """An error in words for people."""
        driver = f"driver {self.driver}" if self.driver else "this driver"
        known = {
            1: "NVML was shut down",
            E_NOT_SUPPORTED: NOT_SUPPORTED,
            E_NO_PERMISSION: "not permitted to this user",
            E_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded any more",
            E_TIMEOUT: "the driver timed out",
            E_FUNCTION_NOT_FOUND: f"not known to {driver}",
            15: LOST,
            16: "GPU needs a reset",
            E_MISMATCH: "the driver was replaced: reload it",
            21: "no data yet",
            25: f"not told by {driver} in this form",
            26: f"no longer told by {driver}",
            28: "GPU is not there any more",
            999: "the driver met an error that it has no name for",
        }
        return known.get(error.value) or _lower(error)

    def handle(self, index: int) -> Handle:
        """The GPU with this index. Raises Gone."""
        try:
            return Handle(self, self.nvml.nvmlDeviceGetHandleByIndex(index))
        except self.nvml.NVMLError as error:
            raise Gone(self.reason(error)) from None

    def close(self) -> None:
        try:
            self.nvml.nvmlShutdown()
        except self.nvml.NVMLError:
            pass  # the driver went first


class Handle:
    """A GPU to ask about. Not for two threads at once."""

    def __init__(self, library: Library, nvml_handle: Any) -> None:
        self.library = library
        self.nvml = nvml_handle
        self.error: type[Exception] = library.nvml.NVMLError

    def ask(self, why: dict[str, str], fields: str, what: str, *arguments: Any) -> Any:
        """The answer, or None and the reason in `why` for each of the fields. Raises Gone where asking on is no use."""
        try:
            return self.library.call(what, self.nvml, *arguments)
        except self.error as error:
            self.note(why, fields, error)
        except UnicodeDecodeError:
            why.update(dict.fromkeys(fields.split(), "the driver's answer is no text"))
        return None

    def note(self, why: dict[str, str], fields: str, error: Any) -> None:
        """Writes down why there is no answer. Raises Gone where asking on is no use."""
        reason = self.library.reason(error)
        if error.value in _GONE:
            raise Gone(reason) from None
        why.update(dict.fromkeys(fields.split(), reason))

    def field_values(self, wanted: Sequence[int | tuple[int, int]]) -> list[int | None]:
        """The values of NVML's fields, by number, or number and scope; None for what isn't told. Raises Gone."""
        values = self.ask({}, "", "nvmlDeviceGetFieldValues", wanted)
        if values is None:
            return [None] * len(wanted)
        return [
            None if error else value & 0xFFFFFFFF if kind == _UNSIGNED_INT else value
            for _, _, _, _, kind, error, value in _FIELD_VALUE.iter_unpack(bytes(values))
        ]


# nvmlFieldValue_t: field, scope, timestamp, latency, type, error, value (a union: an unsigned int fills half of it).
# Unpacked at once: 18 NVLinks make 36 of them, and going through the package's structs takes 20 times longer.
_FIELD_VALUE = struct.Struct("=IIqqiiQ")
_UNSIGNED_INT = 1
