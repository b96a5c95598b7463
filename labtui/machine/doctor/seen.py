"""What the driver says of the GPUs: asked once, with a deadline for each question. A sick GPU can't hold it up.

gpus = begin(os.environ)      # returns at once; other things can be looked at meanwhile
seen = take(gpus, os.environ)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labtui.machine import host, visible
from labtui.machine.gpu import Unavailable, open_library
from labtui.machine.gpus import OPENING_S, Gpus
from labtui.machine.host import ROOT, read_text
from labtui.machine.reading import MEASURED, Gpu, Reading
from labtui.machine.topology import Topology

READING_S = 2.0
PATHS_S = 1.0
CUDA_S = 1.0


@dataclass(frozen=True)
class Seen:
    """The GPUs as they are now. `gpus` and `readings` are in NVML's order, and of one length."""

    gpus: tuple[Gpu, ...] = ()
    readings: tuple[Reading, ...] = ()
    topology: Topology | None = None
    driver: str | None = None
    """NVML's word for it, else that of the kernel module."""
    cuda: tuple[int, int] | None = None
    """The newest CUDA that this driver runs."""
    why: str | None = None
    """Why NVML tells of no GPU."""
    late: bool = False
    """Whether that is because it did not open in time."""
    used: frozenset[int] = frozenset()
    """NVML's indices of the GPUs that CUDA_VISIBLE_DEVICES leaves to runs."""
    listed: int = 0
    """How many GPUs the kernel's driver knows."""
    chips: int = 0
    """How many NVIDIA GPUs sit on the PCI bus, driver or not."""

    @property
    def count(self) -> int:
        """How many GPUs this machine has for CUDA."""
        return len(self.gpus) or self.listed

    def names(self) -> dict[str, list[int]]:
        """Name -> the GPUs of that name; a GPU too sick to tell its name is not among them."""
        named: dict[str, list[int]] = {}
        for gpu in self.gpus:
            if gpu.name:
                named.setdefault(gpu.name, []).append(gpu.index)
        return named

    def silent(self) -> dict[int, str]:
        """The GPUs that tell nothing at all -> why."""
        reasons = {reading.index: {reading.why.get(field) for field in MEASURED} for reading in self.readings}
        return {index: told.pop() or "" for index, told in reasons.items() if len(told) == 1 and None not in told}


def begin(environ: Mapping[str, str], root: Path = ROOT) -> Gpus:
    """Starts to open NVML, and returns at once."""
    return Gpus(environ, root=root)


def take(opening: Gpus, environ: Mapping[str, str], root: Path = ROOT) -> Seen:
    """What could be learned of the GPUs within about nine seconds, mostly far less. Closes NVML."""
    try:
        in_time = opening.wait(OPENING_S)
        described = opening.gpus()
        answering = bool(described)  # a driver that does not even open is not asked anything else
        return Seen(
            gpus=described,
            readings=opening.read(READING_S) if answering else (),
            topology=opening.topology(PATHS_S) if answering else None,
            driver=opening.driver or host.describe(root)["driver"],
            cuda=_cuda(root) if answering else None,
            why=opening.why,
            late=not in_time and not described,
            used=_used(described, environ),
            listed=host.gpu_count({}, root),
            chips=_chips(root),
        )
    finally:
        opening.close()


def _cuda(root: Path) -> tuple[int, int] | None:
    """The newest CUDA that the driver runs, where it says so in time."""
    told: list[int] = []

    def ask() -> None:
        try:
            library = open_library(root)
        except Unavailable:
            return
        try:
            told.append(int(library.call("nvmlSystemGetCudaDriverVersion")))
        except library.nvml.NVMLError:
            pass  # then it isn't known
        finally:
            library.close()

    asking = threading.Thread(target=ask, name="cuda", daemon=True)
    asking.start()
    asking.join(CUDA_S)
    # 12080 is 12.8.
    return (told[0] // 1000, told[0] % 1000 // 10) if told and told[0] > 0 else None


def _used(described: tuple[Gpu, ...], environ: Mapping[str, str]) -> frozenset[int]:
    documents = [gpu.document() for gpu in described]
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return frozenset(gpu.index for gpu in described)
    used = {visible.nvml_index(documents, uuid) for uuid in visible.visible(documents, environ)}
    # A GPU that is too sick to tell its UUID may be wanted all the same.
    entries = {entry.strip() for entry in wanted.split(",")}
    used |= {gpu.index for gpu in described if gpu.uuid is None and str(gpu.index) in entries}
    return frozenset(index for index in used if index is not None)


def _chips(root: Path) -> int:
    """Display and 3D controllers of NVIDIA."""
    devices = root / "sys/bus/pci/devices"
    try:
        names = os.listdir(devices)
    except OSError:
        return 0
    return sum(
        (read_text(devices / name / "vendor") or "").strip() == "0x10de"
        and (read_text(devices / name / "class") or "").startswith(("0x0300", "0x0302"))
        for name in names
    )
