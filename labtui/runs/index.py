"""The run index: lists 100,000 runs at once.

Derived and throw-away: it holds nothing that isn't in the folders' run.json, status.json and labels.json, and reads
nothing else. A listing never stops: an index that is deleted or corrupt is built anew; one that is locked, newer than
this labtui or can't be written is left alone, and the folders are read directly.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from labtui.runs import query as queries
from labtui.runs.find import run_names, second_of
from labtui.runs.query import Query
from labtui.runs.records import LIVE
from labtui.runs.rows import Row, look
from labtui.runs.store import Outdated, Store, Unusable

__all__ = ["Broken", "Index", "Row", "cache_file", "open_index"]

Broken = tuple[str, str]
"""A folder in which something can't be read: its name, and what in one sentence."""
Progress = Callable[[int, int], None]
Answer = TypeVar("Answer")


def open_index(root: Path, progress: Progress | None = None) -> Index:
    """The runs in the logs folder `root`, as they are now. A `root` that isn't there holds none.

    progress: called with (folders read, folders to read) while new ones are read into the index.
    An Index may move between threads, but serves one at a time. Raises FindError where `root` can't be read.
    """
    index = Index(root, cache_file(root), progress)
    index.refresh()
    return index


def cache_file(root: Path) -> Path:
    """Where the index of `root` lies. Each host has its own: in a shared home two hosts would otherwise mix what
    they see under one path, and SQLite's WAL works on one host only."""
    import zlib

    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - never raises
    key = zlib.crc32(os.fsencode(f"{os.uname().nodename}:{root}"))
    return Path(cache) / "labtui" / f"runs-{key:08x}.sqlite"


class Index:
    """The runs of one logs folder: from the index file where that works, else straight from the folders."""

    def __init__(self, root: Path, file: Path, progress: Progress | None = None) -> None:
        self.root = root
        self.file = file
        self.trouble = ""
        """Why the folders are read directly, in one sentence; "" while the index file is used."""
        self._progress = progress
        self._rebuilt = False
        self._reader: Store | _Folders | None = None

    def refresh(self) -> None:
        """Finds new, copied and deleted folders. Cheap while there are none: one look at the folder's time stamp.

        Also tries the index file again if it couldn't be used.
        """
        if isinstance(self._reader, _Folders):
            self._reader, self.trouble = None, ""
        self._ask(lambda reader: reader.refresh(self._progress))

    def newest(
        self, limit: int | None = None, experiment: str | None = None, state: str | None = None, *,
        query: Query | None = None,
    ) -> list[Row]:  # fmt: skip
        """The newest `limit` runs (None: all), newest first, each as its folder says now.

        Or those that a query asks for, in its order; `experiment` and `state` are exact, for a query of just them.
        """
        wanted = query or queries.of(experiment=experiment, state=state)
        return self._ask(lambda reader: reader.newest(limit, wanted))

    def matching(self, query: Query) -> int:
        """How many runs a query finds."""
        return self._ask(lambda reader: reader.matching(query))

    def live(self) -> list[Row]:
        """The runs that are queued, starting or running, newest first."""
        return self._ask(lambda reader: reader.live())

    def names(self) -> list[str]:
        """The names of all run folders, readable or not, in no order."""
        return self._ask(lambda reader: reader.names())

    def count(self) -> int:
        """How many run folders there are, readable or not."""
        return self._ask(lambda reader: reader.count())

    def broken(self) -> list[Broken]:
        """The folders in which something can't be read, newest first. While folders are read directly: only those
        that a list came across."""
        return self._ask(lambda reader: reader.broken())

    def close(self) -> None:
        if isinstance(self._reader, Store):
            self._reader.close()
        self._reader = None

    def _ask(self, question: Callable[[Store | _Folders], Answer]) -> Answer:
        while not isinstance(self._reader, _Folders):
            try:
                if self._reader is None:
                    self._reader = Store(self.root, self.file)
                    if self._rebuilt:
                        self._reader.refresh(self._progress)
                return question(self._reader)
            except Exception as error:
                trouble = _trouble(error)
                if trouble is None:
                    raise
                self._recover(trouble)
        return question(self._reader)

    def _recover(self, trouble: str) -> None:
        """Makes the next try build the file anew, once, or do without it."""
        self.close()
        if not trouble and not self._rebuilt:
            self._rebuilt = True
            try:
                for suffix in ("", "-wal", "-shm", "-journal"):
                    Path(f"{self.file}{suffix}").unlink(missing_ok=True)
                return
            except OSError as error:
                trouble = f"the run index is damaged and can't be replaced: {error.strerror}"
        self.trouble = trouble or "the run index was damaged again while it was being built"
        self._reader = _Folders(self.root)


def _trouble(error: Exception) -> str | None:
    """Why the index file must be left alone; "" where it should be built anew; None where the error isn't its own."""
    if isinstance(error, Unusable):
        return str(error)
    if isinstance(error, Outdated):
        return ""
    if isinstance(error, ImportError):
        return "this Python has no sqlite3"
    import sqlite3

    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "the run index is in use by another process"
    left_alone = (
        sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS,
    )  # fmt: skip
    return f"the run index can't be used: {error}" if code in left_alone else ""


class _Folders:
    """The same answers without an index: reads only as many folders as a question needs, newest first."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._broken: dict[str, str] = {}

    def refresh(self, progress: Progress | None) -> None:
        """Nothing is kept that could be out of date."""

    def newest(self, limit: int | None, query: Query) -> list[Row]:
        by_age = query.order == "created" and query.descending
        found: list[Row] = []
        for rows in self._by_second():
            found += (row for row in rows if _matches(query, row))
            if by_age and limit is not None and len(found) >= limit:
                break
        return (found if by_age else queries.in_order(query, found, time.time()))[:limit]

    def matching(self, query: Query) -> int:
        return sum(_matches(query, row) for rows in self._by_second() for row in rows)

    def live(self) -> list[Row]:
        return [row for rows in self._by_second() for row in rows if row.state in LIVE]

    def names(self) -> list[str]:
        return run_names(self._root)

    def count(self) -> int:
        return len(run_names(self._root))

    def broken(self) -> list[Broken]:
        return sorted(self._broken.items(), reverse=True)

    def _by_second(self) -> Iterator[list[Row]]:
        """The rows of each second in which runs were made, newest first: names are in order up to the second."""
        self._broken = {}
        dated = sorted(((second_of(self._root, name), name) for name in run_names(self._root)), reverse=True)
        for _, group in groupby(dated, key=lambda item: item[0]):
            rows = []
            for _, name in group:
                found = look(self._root, name)
                if found.trouble:
                    self._broken[name] = found.trouble
                if found.row is not None:
                    rows.append(found.row)
            yield sorted(rows, key=lambda row: (row.created, row.id), reverse=True)


def _matches(query: Query, row: Row) -> bool:
    return query.matches(row, json.loads(row.parameters))
