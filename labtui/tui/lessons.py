"""The thread that reads guides and their blocks' runs, and what keeps the reader's progress."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from labtui.catalog.manifest import Experiment
from labtui.catalog.sources import BrokenExperiment
from labtui.tui import workers
from labtui.tui.messages import LessonRead, LooksRead, Noticed, ProgressKept
from labtui.tui.watcher import Poller, Post

if TYPE_CHECKING:
    from labtui.runs.progress import Progress
    from labtui.tui.lesson import Look
    from labtui.tui.lesson_source import Runs

Entry = Experiment | BrokenExperiment

LIVE_S = 1.0
"""Between two looks at the runs of a guide, one of which is alive."""
ENDED_S = 2.0


class LessonReader(Poller):
    """Reads the guide that is asked for as LessonRead, then its blocks' runs as LooksRead whenever they changed."""

    def __init__(self, post: Post, root: Path) -> None:
        super().__init__("lesson reader", post)
        self._root = root
        self._wanted: Entry | None = None
        self._name = ""
        self._ids: Mapping[str, str] = {}
        self._runs: Runs | None = None
        self._posted: Mapping[str, Look] | None = None

    def open(self, entry: Entry) -> None:
        """From now on this guide. Of several that are asked for in a hurry, the last one is read."""
        self._wanted = entry
        self.resume()

    def follow(self, name: str, runs: Mapping[str, str]) -> None:
        """From now on these runs of that experiment's blocks, if its guide is the one that is read."""
        if name == self._name and self._wanted is None:
            self._ids = dict(runs)
            self.resume()

    def look(self) -> float:
        from labtui.tui.lesson_source import Runs, read_lesson

        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            read = read_lesson(wanted)
            self._name, self._ids = read.name, read.progress.runs
            self._runs, self._posted = Runs(self._root), None
            self.post(LessonRead(read))
        if self._runs is None:
            return ENDED_S
        name, looks = self._name, self._runs.look(self._ids)
        live = any(look.live for look in looks.values())
        if live or looks != self._posted:  # a live run's time goes on
            self._posted = looks
            self.post(LooksRead(name, looks))
        return LIVE_S if live else ENDED_S


class ProgressKeeper:
    """Writes progress in threads, each time the newest that is known: a slower thread never undoes a later one."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._newest: dict[str, Progress] = {}
        self._writing = threading.Lock()

    def keep(self, name: str, reached: Progress) -> None:
        """Keeps it for the next time. Returns at once; leaving the app waits for the write."""
        self._newest[name] = reached
        workers.in_thread(self._post, lambda: self._write(name), must_finish=True)

    def _write(self, name: str) -> Message:
        from labtui.runs import progress

        with self._writing:
            try:
                progress.write(name, self._newest[name])
            except OSError as error:
                return Noticed(f"where you are in the guide can't be kept: {error.strerror or error}", bad=True)
        return ProgressKept(name)
