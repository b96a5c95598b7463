"""Threads that read folders and post what has grown as messages. They draw nothing, and no screen waits for them.

Daemon threads of our own rather than Textual's workers: one that hangs in a read of a dead network file system must
not keep the app from ending.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from textual.message import Message

from labtui.catalog import sources
from labtui.catalog.manifest import Experiment
from labtui.runs import index
from labtui.runs.find import FindError
from labtui.runs.folder import RunFolder
from labtui.runs.query import Query
from labtui.runs.rows import Row
from labtui.runs.watch import Snapshot, Watch
from labtui.tui.messages import (
    CatalogRead,
    Crashed,
    History,
    HistoryRead,
    Listing,
    RunGrew,
)

Entry = Experiment | sources.BrokenExperiment
Post = Callable[[Message], object]

LIVE_S = 1.0
"""Between two looks at a run that is alive."""
ENDED_S = 2.0
TICK_S = 1.0
"""A live run is shown anew this often even if nothing was written: its time goes on."""
CATCH_UP_S = 0.01
"""Between two bites of a long file: leaves the screen its turn."""
LOG_S = 0.5
"""Between two looks at a log (see log_reader). Scrolling does not wait for it."""
HISTORY_S = 2.0
IDLE_S = 3600.0
"""Where nothing happens until something is asked for."""


def slow_down() -> None:
    """For a slow line: everything is looked at less often, and so sent less often."""
    global LIVE_S, TICK_S, LOG_S, HISTORY_S
    LIVE_S, TICK_S, LOG_S, HISTORY_S = 3.0, 3.0, 2.0, 6.0


class Poller:
    """Looks again and again, in a daemon thread of its own, whenever it is not paused."""

    def __init__(self, name: str, post: Post) -> None:
        self.post = post
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._woken = threading.Event()
        self._paused = True
        self._stopped = False

    def look(self) -> float:
        """One look; returns the seconds until the next one."""
        raise NotImplementedError

    def resume(self) -> None:
        """Looks at once, and then regularly."""
        self._paused = False
        self._woken.set()
        if not self._thread.ident:
            self._thread.start()

    def pause(self) -> None:
        """Looks no more until resumed. Returns at once, perhaps during a look."""
        self._paused = True

    def close(self) -> None:
        """What the thread does last."""

    def stop(self) -> None:
        """Lets the thread end. Returns at once."""
        self._stopped = True
        self._woken.set()

    def _run(self) -> None:
        try:
            while not self._stopped:
                seconds = None if self._paused else self.look()
                self._woken.wait(seconds)
                self._woken.clear()
        except BaseException as error:  # noqa: BLE001 - the app ends with it; in this thread it would vanish
            if not self._stopped:
                self.post(Crashed(error))
        finally:
            self.close()


class RunWatcher(Poller):
    """Follows one run and posts RunGrew."""

    def __init__(self, post: Post) -> None:
        super().__init__("run watcher", post)
        self._watch: Watch | None = None
        self._posted: tuple[Watch, Snapshot] | None = None

    def follow(self, folder: RunFolder) -> None:
        """From now on this run."""
        self._watch = Watch(folder, history=True)
        self.resume()

    def look(self) -> float:
        watch = self._watch
        if watch is None:
            return ENDED_S
        snapshot = watch.poll(time.time())
        if self._is_news(watch, snapshot):
            self._posted = watch, snapshot
            self.post(RunGrew(snapshot))
        if snapshot.behind:
            return CATCH_UP_S
        return LIVE_S if snapshot.live else ENDED_S

    def _is_news(self, watch: Watch, snapshot: Snapshot) -> bool:
        if self._posted is None or self._posted[0] is not watch:
            return True
        before = self._posted[1]
        passed = snapshot.taken - before.taken
        if snapshot.behind and passed < LIVE_S:
            return False
        if snapshot.live and passed >= TICK_S * 0.9:
            return True
        return replace(snapshot, taken=0.0, new=()) != replace(before, taken=0.0, new=())


class HistoryWatcher(Poller):
    """Follows the list of runs and posts HistoryRead when it has changed."""

    def __init__(self, post: Post, root: Path, limit: int) -> None:
        super().__init__("history watcher", post)
        self.limit = limit
        """Newest runs to read; more are asked for as somebody scrolls."""
        self._query = Query()
        self._root = root
        self._index: index.Index | None = None
        self._posted: History | None = None

    def ask(self, query: Query) -> None:
        """From now on these runs are listed; they are read at once."""
        self._query = query
        self.resume()

    def look(self) -> float:
        begun = time.monotonic()
        history = self._read()
        if history != self._posted:
            self._posted = history
            self.post(HistoryRead(history))
        # Who has scrolled to the end of 100,000 runs has them all read each time: that must not take a core.
        return max(HISTORY_S, 20 * (time.monotonic() - begun))

    def _read(self) -> History:
        try:
            if self._index is None:
                self._index = index.open_index(self._root)
            else:
                self._index.refresh()
            rows, total = tuple(self._index.newest(self.limit)), self._index.count()
            return History(
                rows=rows,
                total=total,
                live=tuple(self._index.live()),
                broken=tuple(self._index.broken()),
                trouble=self._index.trouble,
                listing=self._listing(self._index, self._query, rows, total),
            )
        except FindError as error:
            return History(trouble=str(error))

    def _listing(self, opened: index.Index, query: Query, rows: tuple[Row, ...], total: int) -> Listing:
        if query == Query():
            return Listing(rows, total, query)
        return Listing(tuple(opened.newest(self.limit, query=query)), opened.matching(query), query)


class CatalogReader(Poller):
    """Reads what can be run."""

    def __init__(self, post: Post) -> None:
        super().__init__("catalog reader", post)
        self._entries: tuple[Entry, ...] | None = None

    def look(self) -> float:
        if self._entries is None:
            self._entries = sources.catalog()
            self.post(CatalogRead(self._entries))
        return IDLE_S
