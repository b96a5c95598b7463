"""What is read of a guide: its text, the reader's progress, and how the runs of its blocks stand. Reads files.

Imported by the thread that reads, when the first guide is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from labtui.catalog.guide import read_guide
from labtui.catalog.manifest import Experiment
from labtui.catalog.reading import CatalogError
from labtui.catalog.sources import BrokenExperiment
from labtui.runs import progress, state
from labtui.runs.compare import Compared
from labtui.runs.folder import RunFolder
from labtui.runs.records import RecordError
from labtui.runs.watch import Snapshot, Watch
from labtui.tui import lesson
from labtui.tui.lesson import Lesson, Look


class Runs:
    """The runs of one guide's blocks, each read as long as it changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ended: dict[str, Look] = {}
        """Run id -> what is known of it for good."""
        self._watches: dict[str, Watch] = {}

    def look(self, runs: Mapping[str, str]) -> dict[str, Look]:
        """How they stand now: run block's id -> its run; `runs` are their ids."""
        return {block: self._look_at(id) for block, id in runs.items()}

    def _look_at(self, id: str) -> Look:
        """A run that has ended is read once, unless it is gone."""
        folder = RunFolder(self._root / id)
        ended = self._ended.get(id)
        if ended is not None and folder.status_file.exists():
            return ended
        look = self._read(folder)
        # One that ended between our two looks is read again, for its last word.
        if look.run is not None and not look.live and id not in self._watches:
            self._ended[id] = look
        return look

    def _read(self, folder: RunFolder) -> Look:
        if not folder.path.is_dir():
            return Look(folder.id, None, f"its run {folder.id} is not there any more")
        try:
            if not state.observe(folder).live:
                from labtui.runs import side_by_side  # a reader without runs needs nothing of it

                self._watches.pop(folder.id, None)
                return Look(folder.id, side_by_side.read(folder))
        except (RecordError, OSError) as error:
            return Look(folder.id, None, f"its run can't be read: {error}")
        watch = self._watches.setdefault(folder.id, Watch(folder))
        snapshot = watch.poll(time.time())
        while snapshot.behind:
            snapshot = watch.poll(time.time())
        run, done = _compared(snapshot), snapshot.done
        if run is None:
            return Look(folder.id, None, f"its run can't be read: {'; '.join(snapshot.errors)}")
        return Look(folder.id, run, "", *((done.done, done.total) if done else (None, None)))


def _compared(snapshot: Snapshot) -> Compared | None:
    if snapshot.request is None or snapshot.status is None:
        return None
    status = replace(
        snapshot.status, checks=snapshot.checks, predictions=snapshot.predictions, results=snapshot.results
    )
    return Compared(snapshot.request, status, snapshot.machine, snapshot.nccl)


def read_lesson(entry: Experiment | BrokenExperiment) -> Lesson:
    """The entry's guide with the reader's progress; a page that says why, where it can't be read."""
    if isinstance(entry, BrokenExperiment):
        return Lesson(entry.name, lesson.plain_page(f"This experiment can't be used: {entry.error}"))
    try:
        pages = lesson.pages(read_guide(entry.folder, entry))
    except CatalogError as error:
        return Lesson(entry.name, lesson.plain_page(entry.question, f"Its guide can't be read: {error}"), entry)
    return Lesson(entry.name, pages, entry, progress.read(entry.name))
