"""The file behind the run index: SQLite, one row per run, in the user's cache folder.

Holds what `rows` reads and nothing else. Raises sqlite3.Error, Unusable and Outdated as they come: `index` knows what
to do then. Only that module uses this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.runs.find import listing, only_runs
from labtui.runs.query import WORDS_IN, Query, same_value
from labtui.runs.records import LIVE, LOST
from labtui.runs.rows import Look, Row, Stamps, look, stamps

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

VERSION = 2
"""PRAGMA user_version of the files this module writes. A file of another layout must have another one."""
BUSY_S = 0.25
"""How long another process may hold the file before its `database is locked`."""
BATCH = 500
"""Folders per transaction: ctrl-c loses no more than these, and others wait no longer for their turn."""
RACY_NS = 2_000_000_000
"""A folder that changed so shortly before its names were read may change again under the same time stamp."""
ROUNDS = 4
"""How often rows that change while they are being listed are read again."""

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value);
CREATE TABLE runs (
  id TEXT PRIMARY KEY, experiment TEXT NOT NULL, variant TEXT NOT NULL, "group" TEXT, state TEXT NOT NULL,
  reason TEXT NOT NULL, exit_code INTEGER, created REAL NOT NULL, started REAL, ended REAL, nproc INTEGER,
  device TEXT, user TEXT NOT NULL, host TEXT NOT NULL, tags TEXT NOT NULL, note TEXT NOT NULL, star INTEGER NOT NULL,
  parameters TEXT NOT NULL, words TEXT NOT NULL, run_ns INTEGER, status_ns INTEGER, labels_ns INTEGER);
CREATE INDEX by_age ON runs (created DESC, id DESC);
CREATE INDEX by_experiment ON runs (experiment, created DESC, id DESC);
CREATE INDEX by_state ON runs (state, created DESC, id DESC);
CREATE TABLE broken (id TEXT PRIMARY KEY, error TEXT NOT NULL, run_ns INTEGER, status_ns INTEGER, labels_ns INTEGER);
"""
_NAMED = ("runs", "broken")
"""The tables that know names. A run is in both if its labels can't be read."""
_PROPER = 18
"""The columns of a row proper, in the order of Row's fields; what plain words are looked for in and three time stamps
follow."""
_LIVE = "({})".format(", ".join(f"'{state}'" for state in sorted(LIVE)))
_NEWEST_FIRST = "ORDER BY created DESC, id DESC"
_COLUMN_OF = {"took": "coalesce(ended, :now) - started", "tags": "tags", "group": '"group"'}
"""Where a column is not called as in a query."""


class Unusable(Exception):
    """The file must be left alone. The message is one sentence."""


class Outdated(Exception):
    """The file must be built anew."""


class Store:
    """One logs folder's runs, in one file."""

    def __init__(self, root: Path, file: Path) -> None:
        import sqlite3

        self._root = root
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Unusable(f"the run index can't be written: {error.strerror}: {file.parent}") from error
        self._db = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        self._db.create_function("lowered", 1, str.lower, deterministic=True)
        self._db.create_function("same", 3, _same, deterministic=True)
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        version = self._version()
        if version > VERSION:
            raise Unusable("the run index was written by a newer labtui")
        if version == 0:
            self._create()
        elif version != VERSION:
            raise Outdated
        self._db.execute("PRAGMA synchronous=NORMAL")
        if self._meta("root") != os.fsencode(self._root):
            # Two logs folders with one check sum: whoever came first keeps the file.
            raise Unusable("the run index belongs to another logs folder")

    def _create(self) -> None:
        import sqlite3

        try:
            mode = self._db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            mode = "none"
        if mode != "wal":
            # WAL needs shared memory, which some network file systems don't have.
            self._db.execute("PRAGMA journal_mode=DELETE")
        with self._transaction():
            # Another process may have been faster.
            if self._version() == 0:
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO meta VALUES ('root', ?)", (os.fsencode(self._root),))
                self._db.execute(f"PRAGMA user_version={VERSION}")

    def close(self) -> None:
        self._db.close()

    # What is asked ---------------------------------------------------------------------------------------------------

    def refresh(self, progress: Callable[[int, int], None] | None) -> None:
        """Finds new and deleted folders, by name, if the logs folder has changed at all."""
        changed = _changed(self._root)
        if changed is not None and changed == self._meta("changed"):
            self._check_broken()
            return
        present = set(listing(self._root))
        known = set(self.names())
        unknown = present - known
        new = sorted(only_runs(self._root, unknown), reverse=True)
        if len(known) > len(present) - len(unknown):
            with self._transaction():
                self._forget(known - present)
        for begin in range(0, len(new), BATCH):
            self._write([look(self._root, name) for name in new[begin : begin + BATCH]])
            if progress is not None:
                progress(min(begin + BATCH, len(new)), len(new))
        self._check_broken()
        settled = changed if changed is not None and time.time_ns() - changed > RACY_NS else None
        if settled != self._meta("changed"):
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('changed', ?)", (settled,))

    def newest(self, limit: int | None, query: Query) -> list[Row]:
        self._settle()
        where, values = _where(query)
        rest = f"{where} {_order(query)} LIMIT :limit"
        for _ in range(ROUNDS):
            found = self._select(rest, {**values, "limit": -1 if limit is None else limit, "now": time.time()})
            changed = [row.id for row, stored in found if not row.live and stamps(self._root, row.id) != stored]
            if not changed:
                break
            self._write([look(self._root, name) for name in changed])
        return [row for row, _ in found]

    def matching(self, query: Query) -> int:
        where, values = _where(query)
        return int(self._db.execute(f"SELECT count(*) FROM runs {where}", values).fetchone()[0])

    def live(self) -> list[Row]:
        self._settle()
        return [row for row, _ in self._select(f"WHERE state IN {_LIVE} {_NEWEST_FIRST}")]

    def names(self) -> list[str]:
        # One long text is read several times faster than 100,000 rows; no name holds a slash.
        texts = [self._db.execute(f"SELECT group_concat(id, '/') FROM {table}").fetchone()[0] for table in _NAMED]
        return list(dict.fromkeys(name for text in texts if text for name in text.split("/")))

    def count(self) -> int:
        query = (
            "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM broken WHERE id NOT IN (SELECT id FROM runs))"
        )
        return int(self._db.execute(query).fetchone()[0])

    def broken(self) -> list[tuple[str, str]]:
        return self._db.execute("SELECT id, error FROM broken ORDER BY id DESC").fetchall()

    # Keeping up ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Reads again the runs whose state may have changed: the live ones, and lost ones that got another word.

        A queued run is lost while nobody is left who would start it: that may change, and its own files do not.
        """
        unsettled = self._select(f"WHERE state IN {_LIVE} OR (state = '{LOST}' AND started IS NULL)")
        lost = self._select(f"WHERE state = '{LOST}' AND started IS NOT NULL")
        known = {row.id: (row, stored) for row, stored in unsettled}
        again = [row.id for row, stored in lost if stamps(self._root, row.id) != stored]
        looks = [look(self._root, name) for name in (*known, *again)]
        self._write([item for item in looks if item.trouble or (item.row, item.stamps) != known.get(item.name)])

    def _check_broken(self) -> None:
        """Reads folders again that couldn't be read and have changed: a run's folder is there before its run.json."""
        stored = self._db.execute("SELECT id, run_ns, status_ns, labels_ns FROM broken").fetchall()
        changed = [name for name, *ns in stored if stamps(self._root, name) != tuple(ns)]
        self._write([look(self._root, name) for name in changed])

    def _write(self, looks: list[Look]) -> None:
        """Replaces what is known about these folders, in one transaction."""
        if not looks:
            return
        with self._transaction():
            self._forget(item.name for item in looks)
            self._db.executemany(
                f"INSERT INTO runs VALUES ({', '.join('?' * (_PROPER + 4))})",
                [_columns(item.row, item.stamps) for item in looks if item.row is not None],
            )
            self._db.executemany(
                "INSERT INTO broken VALUES (?, ?, ?, ?, ?)",
                [(item.name, item.trouble, *item.stamps) for item in looks if item.trouble],
            )

    def _forget(self, names: Iterable[str]) -> None:
        doomed = [(name,) for name in names]
        self._db.executemany("DELETE FROM runs WHERE id = ?", doomed)
        self._db.executemany("DELETE FROM broken WHERE id = ?", doomed)

    # SQLite ----------------------------------------------------------------------------------------------------------

    def _select(self, rest: str, values: Mapping[str, Any] | None = None) -> list[tuple[Row, Stamps]]:
        return [_row(columns) for columns in self._db.execute(f"SELECT * FROM runs {rest}", values or {})]

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _meta(self, key: str) -> Any:
        found = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _columns(row: Row, times: Stamps) -> tuple[Any, ...]:
    words = "\n".join([*(str(getattr(row, name)) for name in WORDS_IN), *row.tags]).lower()
    return (
        row.id, row.experiment, row.variant, row.group, row.state, row.reason, row.exit_code, row.created, row.started,
        row.ended, row.nproc, row.device, row.user, row.host, json.dumps(row.tags, ensure_ascii=False), row.note,
        row.star, row.parameters, words, *times,
    )  # fmt: skip


def _row(columns: tuple[Any, ...]) -> tuple[Row, Stamps]:
    try:
        tags, note, star, parameters = columns[14:_PROPER]
        fields = (*columns[:14], tuple(json.loads(tags)), note, bool(star), parameters)
    except (ValueError, TypeError) as error:
        raise Outdated from error
    return Row(*fields), columns[_PROPER + 1 :]


def _where(query: Query) -> tuple[str, dict[str, Any]]:
    """The query's conditions as SQL. What was typed is in the values, never in the text."""
    parts, values = [], {}
    for number, term in enumerate(query.terms):
        key = f"t{number}"
        values[key] = term.text
        column = f'"{term.name}"'
        if term.kind == "word":
            part = f"instr(words, :{key}) > 0"
        elif term.kind == "field":
            # SQLite's own lower() is faster, and knows ASCII only.
            lower = "lower" if term.text.isascii() else "lowered"
            part = f"instr({lower}(coalesce({column}, '')), :{key}) > 0"
        elif term.kind == "exact":
            part = f"{column} IS :{key}"
        elif term.kind == "tag":
            part = f"EXISTS (SELECT 1 FROM json_each(tags) WHERE lowered(value) = :{key})"
        elif term.kind == "nproc":
            part = f"nproc IS CAST(:{key} AS INTEGER)"
        elif term.kind == "star":
            part = f"star AND :{key} IS NOT NULL"
        else:
            values[f"{key}n"] = term.name
            part = f"same(parameters, :{key}n, :{key})"
        parts.append(f"NOT ({part})" if term.negated else f"({part})")
    return f"WHERE {' AND '.join(parts)}" if parts else "", values


def _order(query: Query) -> str:
    way = "DESC" if query.descending else "ASC"
    if query.order == "created":
        return f"ORDER BY created {way}, id {way}"
    column = _COLUMN_OF.get(query.order, query.order)
    return f"ORDER BY {column} {way} NULLS LAST, created DESC, id DESC"


def _same(parameters: str, name: str, typed: str) -> bool:
    """For SQLite: whether one of a run's parameters has the value that was typed."""
    if name not in parameters:  # most have none of that name, and parsing takes longer than looking
        return False
    values = json.loads(parameters)
    return name in values and same_value(values[name], typed)


def _changed(root: Path) -> int | None:
    try:
        return root.stat().st_mtime_ns
    except OSError:
        return None
