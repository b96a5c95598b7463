"""All GPUs of this machine: each with a thread of its own, so that a sick one neither hides nor delays the others.

    gpus = Gpus.open(os.environ)
    for reading in gpus.read():
        print(reading.document())
    gpus.close()

NVML's calls block in C, for seconds where a GPU is sick; Python's other threads go on meanwhile. A GPU that does not
answer in time gets a reading without values, and is not waited for again until it has answered. Knows no runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labtui.machine import gpu_paths, topology
from labtui.machine.gpu import Gone, Library, Unavailable, open_library
from labtui.machine.gpu_device import Device
from labtui.machine.gpu_paths import Row
from labtui.machine.host import ROOT
from labtui.machine.reading import Gpu, Reading, silent
from labtui.machine.topology import Ends, Topology
from labtui.machine.visible import visible

OPENING_S = 5.0
"""Waiting for NVML to start; without persistence mode it wakes each GPU first."""
DEADLINE_S = 0.3
"""For one reading of all GPUs."""
PATIENCE_S = 0.01
"""A GPU that answers within this is read before the next one is asked: threads that don't overlap cost less."""

_NOT_YET = "the driver has not answered yet"


class _Worker:
    """The thread of one GPU: identifies it, then reads it whenever asked."""

    def __init__(self, device: Device, clock: Callable[[], float]) -> None:
        self.device = device
        self.identified = threading.Event()
        self.turn = False
        """Whether it may hold the driver after this reading, to measure traffic."""
        self.lagging = False
        """It isn't worth waiting for: somebody did, in vain, or it has been slow before."""
        self._clock = clock
        self._asked = threading.Event()
        self._answered = threading.Event()
        self._answered.set()
        self._asked_at = clock()
        self._reading: Reading | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"gpu{device.index}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.device.identify()
        except Gone:
            pass  # the readings say why
        self.identified.set()
        while True:
            self._asked.wait()
            if self._closed:
                return
            self._asked.clear()
            self._reading = self.device.read()
            self._answered.set()
            self.device.measure(self._asked.wait, self.turn)

    @property
    def busy(self) -> bool:
        return not self._answered.is_set()

    def ask(self) -> Reading | None:
        """Asks for a reading; gives the one before, if that came too late to be taken. Only where it isn't busy."""
        late, self._reading = self._reading, None
        self.lagging = late is not None
        self._asked_at = self._clock()
        self._answered.clear()
        self._asked.set()
        return late

    def wait(self, seconds: float) -> bool:
        """Whether the reading that was asked for is there, after at most so many seconds."""
        return self._answered.wait(max(0.0, seconds))

    def take(self) -> Reading:
        """The reading that was asked for last, or one that says that it is missing."""
        if not self.busy and self._reading is not None:
            reading, self._reading = self._reading, None
            return reading
        seconds = self._clock() - self._asked_at
        return silent(
            self.device.index, self.device.gpu.uuid, f"the driver has not answered about this GPU for {seconds:.1f} s"
        )

    def close(self) -> bool:
        """Ends the thread; False where it hangs in the driver."""
        self._closed = True
        self._asked.set()
        self._thread.join(0.0 if self.busy else 20 * PATIENCE_S)
        return not self._thread.is_alive()


class Gpus:
    """The GPUs of this machine."""

    def __init__(
        self, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic, root: Path = ROOT
    ) -> None:
        """Starts opening NVML and returns at once. `open` waits, too. `root` is that of /proc and /sys."""
        self.why: str | None = _NOT_YET
        """Why there are no GPUs; None where there are."""
        self._environ = dict(environ)
        self._clock = clock
        self._root = root
        self._library: Library | None = None
        self._workers: tuple[_Worker, ...] = ()
        self._finding: list[threading.Thread] = []
        """Threads that look for the paths between GPUs."""
        self._next_turn = 0
        self._closed = False
        self._opened = threading.Event()
        threading.Thread(target=self._open, name="nvml", daemon=True).start()

    @classmethod
    def open(
        cls,
        environ: Mapping[str, str],
        wait_s: float = OPENING_S,
        clock: Callable[[], float] = time.monotonic,
        root: Path = ROOT,
    ) -> Gpus:
        """The GPUs, opened; where the driver takes longer than `wait_s` it goes on meanwhile, and they appear later.

        `environ` is the environment of the run that the GPUs are looked at for: its CUDA_VISIBLE_DEVICES counts.
        """
        gpus = cls(environ, clock, root)
        gpus.wait(wait_s)
        return gpus

    def _open(self) -> None:
        try:
            library = open_library(self._root)
        except Unavailable as unavailable:
            self.why = str(unavailable)
        else:
            self._library = library
            workers = [_Worker(Device(library, index, self._clock), self._clock) for index in range(library.count)]
            self.why = None if workers else "the NVIDIA driver finds no GPU"
            self._workers = tuple(workers)
        self._opened.set()
        if self._closed:
            self.close()

    def wait(self, seconds: float) -> bool:
        """Whether NVML is open, or known to be unavailable, and every GPU was looked at, after at most that long."""
        ends = time.monotonic() + seconds
        if not self._opened.wait(max(0.0, seconds)):
            return False
        return all(worker.identified.wait(max(0.0, ends - time.monotonic())) for worker in self._workers)

    @property
    def driver(self) -> str | None:
        return self._library.driver if self._library is not None else None

    # Reading --------------------------------------------------------------------------------------------------------

    def read(self, deadline_s: float = DEADLINE_S) -> tuple[Reading, ...]:
        """A reading of each GPU, in NVML's order, within `deadline_s`. Empty where there are none: see `why`.

        Rates are those since the reading before: the first has none. A GPU that needs longer gives each reading a
        tick late.
        """
        ends = time.monotonic() + deadline_s
        workers = self._workers
        ready = [worker for worker in workers if not worker.busy]
        self._give_turn(ready)
        late: dict[_Worker, Reading] = {}
        for worker in ready:
            before = worker.ask()
            if before is not None:
                late[worker] = before
            else:
                worker.wait(min(PATIENCE_S, ends - time.monotonic()))
        for worker in workers:
            if worker.busy and not worker.lagging:
                worker.lagging = not worker.wait(ends - time.monotonic())
        return tuple(late[worker] if worker in late and worker.busy else worker.take() for worker in workers)

    def _give_turn(self, workers: Sequence[_Worker]) -> None:
        """One GPU per tick may hold the driver for 40 ms after its reading."""
        waiting = [worker for worker in workers if worker.device.needs_turn]
        for worker in workers:
            worker.turn = False
        if waiting:
            first = next((worker for worker in waiting if worker.device.index >= self._next_turn), waiting[0])
            first.turn = True
            self._next_turn = first.device.index + 1

    # Describing -----------------------------------------------------------------------------------------------------

    def gpus(self) -> tuple[Gpu, ...]:
        """What each GPU is, as far as it is known."""
        return tuple(worker.device.gpu for worker in self._workers)

    def describe(self, wait_s: float = 1.0) -> dict[str, Any]:
        """The fields of machine.json that NVML fills: `driver`, `gpus`, `topology`.

        And `visible`, the UUIDs that CUDA shows to a process of the run, in its order; `gpus_why`, why there are no
        GPUs. Takes at most about `wait_s`.
        """
        gpus = [gpu.document() for gpu in self.gpus()]
        paths = self.topology(wait_s)
        return {
            "driver": self.driver,
            "gpus": gpus,
            "gpus_why": self.why,
            "visible": visible(gpus, self._environ),
            "topology": topology.machine_document(paths) if paths is not None else None,
        }

    def topology(self, wait_s: float = 1.0) -> Topology | None:
        """How the GPUs hang together; None where there are none. A GPU that doesn't answer is left out, and named."""
        workers = [worker for worker in self._workers if worker.identified.is_set() and worker.device.gpu.uuid]
        if not self._workers:
            return None
        ends = time.monotonic() + wait_s
        devices = [worker.device for worker in workers]
        rows: dict[int, Row] = {}

        def find(device: Device) -> None:
            try:
                rows[device.index] = gpu_paths.row(device, [other for other in devices if other is not device])
            except Gone:
                pass  # its row is missing, and that is said

        threads = [
            threading.Thread(target=find, args=(device,), name=f"paths{device.index}", daemon=True)
            for device in devices
        ]
        self._finding += threads
        for thread in threads:
            thread.start()
            thread.join(min(10 * PATIENCE_S, max(0.0, ends - time.monotonic())))
        for thread in threads:
            thread.join(max(0.0, ends - time.monotonic()))
        return _topology([worker.device.gpu for worker in self._workers], dict(rows), self._root)

    def close(self) -> None:
        """Ends the threads and NVML; what hangs in the driver is left to the end of the process."""
        self._closed = True
        ended = [worker.close() for worker in self._workers]
        if self._library is not None and all(ended) and not any(thread.is_alive() for thread in self._finding):
            self._library.close()


def _topology(gpus: Sequence[Gpu], rows: Mapping[int, Row], root: Path) -> Topology:
    access: dict[str, dict[tuple[int, int], str]] = {}
    for index, row in sorted(rows.items()):
        for way, told in row.access.items():
            access.setdefault(way, {}).update({(index, other): status for other, status in told.items()})
    near = [gpu_paths.affinities(gpu.bus_id, root) for gpu in gpus]
    missing = [f"GPU{gpu.index}" for gpu in gpus if gpu.index not in rows]
    return Topology(
        gpus=tuple(gpu.index for gpu in gpus),
        links={
            (f"GPU{index}", f"GPU{other}"): kind
            for index, row in sorted(rows.items())
            for other, kind in row.kinds.items()
        },
        cpu_affinity=tuple(cpus for cpus, _ in near) if any(cpus for cpus, _ in near) else None,
        numa_affinity=tuple(node for _, node in near) if any(node for _, node in near) else None,
        p2p=access,
        ends={
            gpu.index: Ends(
                gpu.pcie_generation,
                gpu.pcie_width,
                gpu.nvlinks.generation if gpu.nvlinks else None,
                gpu.nvlinks.gb_per_s if gpu.nvlinks else None,
            )
            for gpu in gpus
        },
        truncated=bool(missing),
        why=f"the driver told nothing about the paths from {', '.join(missing)}" if missing else None,
    )
