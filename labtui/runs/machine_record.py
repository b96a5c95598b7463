"""machine.json: what a run ran on. The host at once, NVML's part and the versions as soon as they are told."""

from __future__ import annotations

from collections.abc import Callable

from labtui.machine import host
from labtui.machine.visible import nvml_index, order_is_certain, visible
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.ranks import RankWatch
from labtui.runs.records import Document, Request, RunProcess


class MachineRecord:
    """Keeps machine.json of one run."""

    def __init__(self, folder: RunFolder, request: Request, log: Callable[[str], None]) -> None:
        self._folder = folder
        self._request = request
        self._log = log
        self._described = host.describe()
        self._written: Document = {}

    def moved(self, folder: RunFolder) -> None:
        """The run's folder lies elsewhere now."""
        self._folder = folder

    def update(self, told: Document | None, watch: RankWatch) -> None:
        """Writes it anew if there is news. `told` is the sampler's description, with NVML's part once that is open."""
        machine: Document = {**self._described, **(told or {})}
        machine["versions"] = {**machine.get("versions", {}), **watch.versions}
        gpus = machine.get("gpus") or []
        machine["ranks"] = {
            str(number): self._place(number, rank, watch, gpus) for number, rank in sorted(watch.ranks.items())
        }
        if machine == self._written:
            return
        self._written = machine
        try:
            write_json(self._folder.machine_file, machine)
        except OSError as error:
            self._log(f"machine.json can't be written: {error.strerror}")

    def _place(self, number: int, rank: RunProcess, watch: RankWatch, gpus: list[Document]) -> Document:
        """Where a rank runs: its CPUs, and its GPU, which CUDA numbers among those that it shows to this rank."""
        place: Document = {"cpus": watch.cpus.get(number)}
        if self._request.device == "cpu" or not gpus or rank.local_rank is None:
            return place
        cuda = watch.cuda.get(number, {})
        shown = visible(gpus, cuda)
        if order_is_certain(gpus, cuda) and rank.local_rank < len(shown):
            uuid = shown[rank.local_rank]
            return {**place, "uuid": uuid, "nvml_index": nvml_index(gpus, uuid)}
        return {**place, "uuid": None, "nvml_index": None}
