"""The lines of a growing log that have something in them, looked for in bites: 8 bytes for each that is found."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from pathlib import Path
from typing import Protocol

from labtui.tui.log_search import Pattern

STRETCH = 1 << 16
"""Bytes of a log that are looked through at a time: a few milliseconds at the worst."""


class Lines(Protocol):
    """A growing log, whose lines have numbers from 0: runs.tail.LogIndex, runs.merged_log.MergedLog, FilteredLog."""

    skipped: int
    forgotten: int
    behind: bool

    @property
    def path(self) -> Path: ...
    def __len__(self) -> int: ...
    def poll(self, seconds: float = 0.02) -> bool: ...
    def read(self, first: int, count: int) -> list[str]: ...
    def stretch(self, line: int, step: int, limit: int) -> tuple[int, int]: ...
    def raw(self, first: int, end: int, limit: int) -> bytes: ...


def found_in(lines: Lines, first: int, end: int, pattern: Pattern) -> list[int]:
    """Which of these lines have it. They are those of one `stretch`."""
    raw = lines.raw(first, end, 2 * STRETCH)
    return [first + n for n in pattern.lines(raw) if first + n < end]


class FilteredLog:
    """Those lines of another log that match."""

    def __init__(self, lines: Lines, pattern: Pattern) -> None:
        self.lines, self.pattern = lines, pattern
        self.forgotten = 0
        self.skipped = 0
        self.behind = False
        self._matches = array("Q")
        """Numbers of the matching lines, counted from the first that ever was indexed."""
        self._done = 0
        """Lines that have been looked at, counted likewise."""

    @property
    def path(self) -> Path:
        return self.lines.path

    def __len__(self) -> int:
        return len(self._matches)

    def poll(self, seconds: float = 0.02) -> bool:
        """Looks through what is new, for about that long. Raises OSError."""
        deadline = time.monotonic() + seconds
        lines = self.lines
        grown = lines.poll(seconds / 2)
        before = len(self._matches)
        end = len(lines)
        if self._done > end + lines.forgotten:  # it is another file now
            self._matches, self._done, self.forgotten = array("Q"), 0, 0
        gone = bisect_left(self._matches, lines.forgotten)
        if gone:
            del self._matches[:gone]
            self.forgotten += gone
        # What was the last line may have gone on: it is looked at once more.
        again = grown and self._done > lines.forgotten
        if again and self._matches and self._matches[-1] == self._done - 1:
            self._matches.pop()
        at = max(self._done - again - lines.forgotten, 0)
        while at < end:
            first, until = lines.stretch(at, 1, STRETCH)
            until = min(until, end)
            self._matches.extend(n + lines.forgotten for n in found_in(lines, first, until, self.pattern))
            at = until
            if time.monotonic() > deadline:
                break
        self._done = max(self._done, at + lines.forgotten)
        self.behind = lines.behind or at < end
        return grown or len(self._matches) != before or bool(gone)

    def number(self, line: int) -> int:
        """The number that a line of this log has in the other one."""
        return self._matches[line] - self.lines.forgotten

    def read(self, first: int, count: int) -> list[str]:
        """See LogIndex."""
        numbers = self._matches[max(first, 0) : max(first + count, 0)]
        return [text for n in numbers for text in self.lines.read(n - self.lines.forgotten, 1)]

    def stretch(self, line: int, step: int, limit: int) -> tuple[int, int]:
        return line, line + 1

    def raw(self, first: int, end: int, limit: int) -> bytes:
        return "\n".join(self.read(first, end - first)).encode()[:limit]
