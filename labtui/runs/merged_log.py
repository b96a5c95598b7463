"""Several growing logs as one, in the order in which their lines arrived.

No line carries its time, so the order is that of looking: what was in the files at one look stands before what came
until the next. Within one look the files follow each other, as does all that was written before the first look. Knows
files and lines only; what it keeps is 8 bytes a line (in the index of each file) and a few for each look.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labtui.runs.tail import LogIndex

Sizes = Mapping[str, int]
"""Name of a log -> its bytes at one look."""

LOOKS = 4096
"""So many looks are remembered; beyond, every other one is forgotten, and its lines count as those of the next."""


class Looks:
    """How long the logs were at successive looks. One thread adds to it while another one reads."""

    def __init__(self) -> None:
        self.since: float | None = None
        """Time of the first one."""
        self._looks: deque[Sizes] = deque()

    def add(self, sizes: Sizes, t: float) -> None:
        """A look. One that saw nothing new is not kept."""
        if self.since is None:
            self.since = t
        if self._looks and self._looks[-1] == sizes:
            return
        self._looks.append(sizes)
        if len(self._looks) > LOOKS:
            self._looks = deque(list(self._looks)[1::2])

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(tuple(self._looks))


@dataclass(frozen=True)
class _Run:
    """Successive lines of one file, by their numbers since the file began."""

    name: str
    first: int
    end: int


class MergedLog:
    """The lines of several logs. Its line numbers change only when it is `begun` anew."""

    def __init__(self, paths: Mapping[str, Path], looks: Looks) -> None:
        self.behind = False
        """Whether the last poll left something unread."""
        self.skipped = self.forgotten = 0
        """Never: lines that a file's index forgets stay as empty ones."""
        self.since = looks.since
        """From then on lines stand in the order of their arrival."""
        self._files = {name: LogIndex(path) for name, path in paths.items()}
        self._looks = list(looks)
        self._taken = dict.fromkeys(paths, 0)
        self._runs: list[_Run] = []
        self._begins: list[int] = []
        """Number of the first line of each run."""
        self._length = 0

    @property
    def path(self) -> Path:
        return next(iter(self._files.values())).path

    def __len__(self) -> int:
        return self._length

    def poll(self, seconds: float = 0.02) -> bool:
        """Takes in what was added, for about that long; True if anything changed. Raises OSError."""
        changed = False
        for name, index in self._files.items():
            lines = len(index) + index.forgotten
            changed |= index.poll(seconds / len(self._files))
            if len(index) + index.forgotten < min(lines, self._taken[name]):
                self._taken[name] = 0  # it was replaced: its lines are new ones
        self.behind = any(index.behind for index in self._files.values())
        if not self.behind:
            for sizes in self._looks:
                self._take(sizes)
            self._looks = []
            self._take({})
        return changed

    def _take(self, sizes: Sizes) -> None:
        """Goes on with the lines that were there at a look; at a file's present end where no size is given."""
        for name, index in self._files.items():
            there = index.lines_before(sizes[name]) if name in sizes else len(index)
            end = there + index.forgotten
            if end > self._taken[name]:
                self._add(_Run(name, self._taken[name], end))
                self._taken[name] = end

    def _add(self, run: _Run) -> None:
        last = self._runs[-1] if self._runs else None
        if last is not None and last.name == run.name and last.end == run.first:
            self._runs[-1] = _Run(last.name, last.first, run.end)
        else:
            self._runs.append(run)
            self._begins.append(self._length)
        self._length += run.end - run.first

    def read(self, first: int, count: int) -> list[str]:
        """Up to `count` lines from line `first` on: see LogIndex."""
        return [text for _, text in self.read_named(first, count)]

    def read_named(self, first: int, count: int) -> list[tuple[str, str]]:
        """The same, each with the name of its log. Raises OSError."""
        lines: list[tuple[str, str]] = []
        at, end = max(first, 0), min(first + count, self._length)
        while at < end:
            run, line, until = self._place(at)
            wanted = min(until - at, end - at)
            index = self._files[run.name]
            texts = index.read(line - index.forgotten, wanted)
            lines += [(run.name, text) for text in [""] * (wanted - len(texts)) + texts]
            at += wanted
        return lines

    def stretch(self, line: int, step: int, limit: int) -> tuple[int, int]:
        """Lines [first, end) of one file and about `limit` bytes, at least one: from `line` on, or up to it."""
        run, number, until = self._place(line)
        index = self._files[run.name]
        if number < index.forgotten:
            return line, line + 1
        first, end = index.stretch(number - index.forgotten, step, limit)
        shift = number - index.forgotten - line
        return max(first - shift, line - (number - run.first)), min(end - shift, until)

    def raw(self, first: int, end: int, limit: int) -> bytes:
        """The bytes of lines [first, end) of one file, at most `limit` of them. Raises OSError."""
        run, number, _ = self._place(first)
        index = self._files[run.name]
        at = number - index.forgotten
        return index.raw(at, at + end - first, limit) if at >= 0 else b""

    def _place(self, line: int) -> tuple[_Run, int, int]:
        """The run in which a line lies, its number in its file, and the line with which the run ends."""
        place = bisect_right(self._begins, line) - 1
        run, begin = self._runs[place], self._begins[place]
        return run, run.first + line - begin, begin + run.end - run.first
