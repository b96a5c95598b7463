"""Reading files that still grow: events, telemetry and logs, in bounded bites.

Only whole lines count: an unterminated last line stays pending, so that a torn line is no error and no line is
ever read twice. Knows files, lines and that an event is a JSON object with a kind; knows no state of a run and
keeps no events (see `watch`).
"""

from __future__ import annotations

import os
import re
import stat
import time
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from labtui.runs.folder import RunFolder
from labtui.runs.json_text import parse

Event = dict[str, Any]

BITE = 1 << 20
"""Bytes read from a file (or from all event files together) in one poll."""
LONGEST_LINE = 1 << 20
"""A longer line is cut here: what is left is no JSON any more and counts as a bad line."""
LONGEST_SHOWN = 4096
"""Bytes of a log line that are shown."""
LOG_REACH = 256 << 20
"""Of a larger log, only the last bytes are indexed."""
LOG_LINES = 1_000_000
"""Lines that a log index holds (8 bytes each); when full, it forgets its older half."""

_RANK_FILE = re.compile(r"rank(\d+)\.jsonl")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, os.stat_result] | None]:
    """The file's descriptor and stat, or None where no regular file is (yet). Raises OSError (no permission, ...)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    try:
        facts = os.fstat(descriptor)
        yield (descriptor, facts) if stat.S_ISREG(facts.st_mode) else None
    finally:
        os.close(descriptor)


class LineTail:
    """The lines of a growing file, each once.

    A file that is replaced (another inode) or truncated is read again from its start. One that is truncated and
    regrows past the old place between two polls can't be told from one that only grew.
    """

    def __init__(self, path: Path, *, from_end: int | None = None) -> None:
        """With `from_end`, starts at most that many bytes before the end of the file as it is first seen."""
        self.path = path
        self.behind = False
        """Whether the last poll left bytes unread because its bite was full."""
        self._from_end = from_end
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._pending = bytearray()
        self._skipping = False

    def poll(self, limit: int = BITE) -> list[bytes]:
        """New whole lines, without their newlines, from at most `limit` further bytes. Raises OSError."""
        with _opened(self.path) as opened:
            if opened is None:
                self.behind = False
                return []
            descriptor, facts = opened
            self._settle((facts.st_dev, facts.st_ino), facts.st_size)
            chunk = os.pread(descriptor, limit, self._offset)
        self._offset += len(chunk)
        self.behind = self._offset < facts.st_size and bool(chunk)
        return self._cut(chunk)

    def _settle(self, file: tuple[int, int], size: int) -> None:
        """Finds out where to go on reading."""
        if file == self._file and size >= self._offset:
            return
        first = self._file is None
        self._file, self._offset, self._skipping = file, 0, False
        self._pending.clear()
        if first and self._from_end is not None and size > self._from_end:
            self._offset, self._skipping = size - self._from_end, True

    def _cut(self, chunk: bytes) -> list[bytes]:
        if self._skipping:
            newline = chunk.find(b"\n")
            if newline < 0:
                return []
            chunk, self._skipping = chunk[newline + 1 :], False
        *whole, rest = chunk.split(b"\n")
        lines = []
        for line in whole:
            if self._pending:
                line = bytes(self._pending + line)
                self._pending.clear()
            lines.append(line[:LONGEST_LINE])
        self._pending += rest
        if len(self._pending) > LONGEST_LINE:
            lines.append(bytes(self._pending[:LONGEST_LINE]))
            self._pending.clear()
            self._skipping = True
        return lines


def parse_event(line: bytes, rank: int) -> Event | None:
    """The event on a line, with its rank (that of its file unless it says so itself); None for a bad line."""
    try:
        event = parse(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str):
        return None
    if type(event.get("rank")) is not int:
        event["rank"] = rank
    return event


class EventTail:
    """The events of all ranks of a run, each once; files of further ranks are picked up as they appear."""

    def __init__(self, folder: RunFolder) -> None:
        self.counts: dict[int, int] = {}
        """Good events so far, by the rank whose file they were in."""
        self.bad_lines = 0
        self.errors: dict[str, str] = {}
        """File name -> why it could not be read at the last poll."""
        self.behind = False
        """Whether the last poll left something unread because its bite was full."""
        self._folder = folder.events
        self._tails: dict[int, LineTail] = {}

    def poll(self, limit: int = BITE) -> list[Event]:
        """New events, by rank, from about `limit` further bytes. Never raises for a file: see `errors`."""
        self._find_files()
        self.errors = {}
        self.behind = False
        events: list[Event] = []
        share = max(limit // max(len(self._tails), 1), 1 << 12)
        for rank, tail in sorted(self._tails.items()):
            try:
                lines = tail.poll(share)
            except OSError as error:
                self.errors[tail.path.name] = error.strerror or str(error)
                continue
            self.behind |= tail.behind
            for line in lines:
                event = parse_event(line, rank)
                if event is None:
                    self.bad_lines += 1
                else:
                    self.counts[rank] = self.counts.get(rank, 0) + 1
                    events.append(event)
        return events

    def _find_files(self) -> None:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return  # Not there yet, or gone: the caller sees that from the run's own files.
        for name in names:
            match = _RANK_FILE.fullmatch(name)
            if match and int(match[1]) not in self._tails:
                self._tails[int(match[1])] = LineTail(self._folder / name)


def read_events(folder: RunFolder, kinds: Collection[str] | None = None) -> tuple[list[Event], int]:
    """All events there are now (of these kinds, if given), by rank and in the order of writing; and the bad lines."""
    tail = EventTail(folder)
    events: list[Event] = []
    while True:
        events += [event for event in tail.poll() if kinds is None or event["kind"] in kinds]
        if not tail.behind:
            return events, tail.bad_lines


def last_state(line: str) -> str:
    """Of a line that overwrote itself (a progress bar) what was last seen of it."""
    return next((state for state in reversed(line.split("\r")) if state), "") if "\r" in line else line


class LogIndex:
    """Where the lines of a growing log begin, so that only those that are looked at need be read.

    An unterminated last line counts as a line. A log that is replaced or truncated is indexed anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes indexed so far."""
        self.skipped = 0
        """Bytes before the first indexed line: a very large log is indexed near its end only."""
        self.forgotten = 0
        """Lines that were indexed once and are no longer: so much lower are the numbers of the others now."""
        self.behind = False
        """Whether the last poll ran out of time."""
        self._file: tuple[int, int] | None = None
        self._starts = array("Q")

    def __len__(self) -> int:
        """Number of lines."""
        return len(self._starts) - 1 if self._starts and self._starts[-1] == self.size else len(self._starts)

    def poll(self, seconds: float = 0.02) -> bool:
        """Indexes what was added, for about that long; True if anything changed. Raises OSError."""
        deadline = time.monotonic() + seconds
        with _opened(self.path) as opened:
            if opened is None:
                changed = self._file is not None
                self._forget(None, 0, 0)
                return changed
            descriptor, facts = opened
            file, changed = (facts.st_dev, facts.st_ino), False
            if file != self._file or facts.st_size < self.size:
                self._start_anew(descriptor, file, facts.st_size)
                changed = True
            while chunk := os.pread(descriptor, min(BITE, facts.st_size - self.size), self.size):
                changed = True
                self._add(chunk)
                if time.monotonic() > deadline:
                    break
            self.behind = self.size < facts.st_size
        return changed

    def read(self, first: int, count: int) -> list[str]:
        """Up to `count` lines from line `first` on: of a progress bar its last state, of a long line its start.

        The text is decoded, but as raw as the rank wrote it: escape sequences are still in it. Raises OSError.
        """
        last = min(first + count, len(self))
        with _opened(self.path) as opened:
            if opened is None:
                return []
            return [self._read_line(opened[0], number) for number in range(max(first, 0), last)]

    def lines_before(self, offset: int) -> int:
        """How many lines begin before that byte of the file."""
        return min(bisect_left(self._starts, offset), len(self))

    def stretch(self, line: int, step: int, limit: int) -> tuple[int, int]:
        """Lines [first, end) of about `limit` bytes, at least one: from `line` on, or with step -1 up to it."""
        if step > 0:
            return line, max(self.lines_before(self._starts[line] + limit), line + 1)
        return min(bisect_left(self._starts, max(self._end(line) - limit, 0)), line), line + 1

    def raw(self, first: int, end: int, limit: int) -> bytes:
        """The bytes of lines [first, end), at most `limit` of them. Raises OSError."""
        with _opened(self.path) as opened:
            if opened is None or first >= end:
                return b""
            start = self._starts[first]
            return os.pread(opened[0], min(self._end(end - 1) - start, limit), start)

    def _end(self, number: int) -> int:
        return self._starts[number + 1] if number + 1 < len(self._starts) else self.size

    def _read_line(self, descriptor: int, number: int) -> str:
        start = self._starts[number]
        end = self._end(number)
        raw = os.pread(descriptor, min(end - start, LONGEST_SHOWN), start)
        if end - start > LONGEST_SHOWN:
            # A progress bar may be megabytes without a newline: what counts is behind its last carriage return.
            tail = os.pread(descriptor, LONGEST_SHOWN, end - LONGEST_SHOWN)
            raw = tail if b"\r" in tail.rstrip(b"\r\n") else raw + b"..."
        return last_state(raw.rstrip(b"\n").decode(errors="replace"))

    def _start_anew(self, descriptor: int, file: tuple[int, int], size: int) -> None:
        begin = max(0, size - LOG_REACH)
        if begin:
            newline = os.pread(descriptor, BITE, begin).find(b"\n")
            begin += newline + 1 if newline >= 0 else 0
        self._forget(file, begin, begin)
        self._starts.append(begin)

    def _forget(self, file: tuple[int, int] | None, size: int, skipped: int) -> None:
        self._file, self.size, self.skipped, self.behind, self.forgotten = file, size, skipped, False, 0
        self._starts = array("Q")

    def _add(self, chunk: bytes) -> None:
        lengths = (len(line) + 1 for line in chunk.split(b"\n")[:-1])
        begins = accumulate(lengths, initial=self.size)
        next(begins)  # Where the chunk itself begins is known: there, or before it, the last line began.
        self._starts.extend(begins)
        self.size += len(chunk)
        if len(self._starts) > LOG_LINES:
            del self._starts[: LOG_LINES // 2]
            self.forgotten += LOG_LINES // 2
            self.skipped = self._starts[0]
