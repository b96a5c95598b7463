"""NCCL's logs of a run, followed while they grow: nccl/*.log read into nccl.json.

The rank files of one job are one job's log. Results with the labels `src` and `dst` are the bandwidth that the path
between two ranks gave. The reading itself is `machine.nccl`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Document
from labtui.runs.tail import LineTail

if TYPE_CHECKING:
    from labtui.machine.nccl import Reader

EVERY_S = 1.0
"""nccl.json is written anew at most so often."""


class NcclLog:
    """Follows the logs of one run."""

    def __init__(self, folder: RunFolder, log: Callable[[str], None]) -> None:
        self._folder = folder
        self._log = log
        self.trouble = ""
        """What went wrong and what to try, in a sentence; empty where nothing was warned of."""
        self._reader: Reader | None = None
        self._tails: dict[Path, LineTail] = {}
        self._written: Document | None = None
        self._next = 0.0

    def moved(self, folder: RunFolder) -> None:
        """The run's folder lies elsewhere now: its logs are read anew there."""
        self._folder, self._tails, self._reader = folder, {}, None

    def poll(self, now: float) -> None:
        """Reads what was added and, if that changed anything, writes nccl.json. `now` is monotonic."""
        if now < self._next:
            return
        self._next = now + EVERY_S
        if self._read():
            self._write([])

    def finish(self, results: Sequence[Document]) -> None:
        """The end: reads all that is left, and adds the measured bandwidths."""
        while self._read():
            pass
        if self._reader is not None:
            self._reader.finish()
            self._write(bandwidths(results))

    def _read(self) -> bool:
        for path in sorted(self._folder.nccl.glob("*.log")):
            self._tails.setdefault(path, LineTail(path))
        if self._tails and self._reader is None:
            from labtui.machine.nccl import Reader  # takes a tenth of a second, and most runs have no such log

            self._reader = Reader()
        anything = False
        for path, tail in self._tails.items():
            try:
                lines = tail.poll()
            except OSError as error:
                self._log(f"{path.name} can't be read: {error.strerror}")
                continue
            if self._reader is not None:
                self._reader.feed_lines(lines, path.name)
            anything |= bool(lines)
        return anything

    def _write(self, bandwidth: list[list[float]]) -> None:
        if self._reader is None:
            return
        document = self._reader.report().document()
        self.trouble = document["diagnosis"] if document["warnings"] else ""
        if bandwidth:
            document["bandwidth"] = bandwidth
        if document == self._written:
            return
        self._written = document
        try:
            write_json(self._folder.nccl_file, document)
        except OSError as error:
            self._log(f"nccl.json can't be written: {error.strerror}")


def bandwidths(results: Sequence[Document]) -> list[list[float]]:
    """[src, dst, GB/s] by pair of ranks, as a run reported them; the newest of each pair counts."""
    found: dict[tuple[int, int], float] = {}
    for result in results:
        labels = result.get("labels")
        if not isinstance(labels, dict) or result.get("unit") != "GB/s":
            continue
        source, target, value = labels.get("src"), labels.get("dst"), result.get("value")
        if type(source) is int and type(target) is int and isinstance(value, int | float):
            found[source, target] = float(value)
    return [[source, target, value] for (source, target), value in sorted(found.items())]
