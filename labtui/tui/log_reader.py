"""The thread that reads logs: the lines that are looked at, what is looked for in them, the first traceback.

A search goes on in bites between two looks, so that a log of many GB holds up neither the screen nor this thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from labtui.runs.folder import RunFolder
from labtui.runs.merged_log import Looks, MergedLog
from labtui.runs.tail import LogIndex
from labtui.runs.watch import Log
from labtui.tui import watcher
from labtui.tui.filtered_log import STRETCH, FilteredLog, Lines, found_in
from labtui.tui.log_search import Pattern, pattern
from labtui.tui.messages import LogFound, LogRead, LogWindow

BITE_S = 0.02
"""So long it searches before others have their turn."""
SMOOTH_LINES = 200
"""Lines read before and after those on the screen, so that scrolling seldom waits."""
TRACEBACK = pattern("Traceback (most recent call last)")


def merged_parts(logs: Sequence[Log]) -> dict[str, Path]:
    """The logs that are merged: all ranks' stdout and stderr."""
    return {log.name: log.path for log in logs if log.name.removesuffix(" stderr").isdigit()}


class LogReader(watcher.Poller):
    """Follows one log, or the ranks' as one, and posts the lines that are looked at as LogRead."""

    def __init__(self, post: watcher.Post) -> None:
        super().__init__("log reader", post)
        self._opened: tuple[str, object] = ("", None)
        self._log: LogIndex | MergedLog | None = None
        self._filter: FilteredLog | None = None
        self._view: tuple[int | None, int] = (None, 0)
        self._asked = False
        self._changed = False
        """Whether there is something that was not posted yet."""
        self._posted_at = 0.0
        self._hunt: Iterator[None] | None = None
        self._folder: RunFolder | None = None
        self._looks = Looks()

    # What is asked of it, from the loop

    def saw(self, folder: RunFolder, logs: Sequence[Log], t: float) -> None:
        """How long the run's logs are now: by this their lines are merged in the order of their arrival."""
        if folder != self._folder:
            self._folder, self._looks = folder, Looks()
        self._looks.add({log.name: log.size for log in logs if log.name.removesuffix(" stderr").isdigit()}, t)

    def open(self, name: str, path: Path | Mapping[str, Path] | None) -> None:
        """From now on this log, or these as one, from the end."""
        if (name, path) == self._opened:
            return
        self._opened = name, path
        log: LogIndex | MergedLog | None = None
        if isinstance(path, Path):
            log = LogIndex(path)
        elif path:
            log = MergedLog(path, self._looks)
        self._filter = self._hunt = None
        self._log = log
        self._view, self._asked = (None, self._view[1]), True
        self.resume()

    def show(self, first: int | None, count: int) -> None:
        """The lines looked at: `count` from `first` on, or the last ones (None)."""
        self._view, self._asked = (first, count), True
        self.resume()

    def filter(self, wanted: Pattern | None) -> None:
        """Only lines that match, from the last ones; or all again."""
        log = self._log
        self._hunt = None
        self._filter = FilteredLog(log, wanted) if log is not None and wanted is not None else None
        self._view, self._asked = (None, self._view[1]), True
        self.resume()

    def find(self, wanted: Pattern, line: int, step: int) -> None:
        """The nearest line that matches, from this one on (or backwards, with step -1), is posted as LogFound."""
        lines = self._log if self._filter is None else self._filter
        if lines is not None:
            self._hunt = self._find(lines, wanted, line, step)
            self.resume()

    def find_traceback(self, logs: Sequence[tuple[str, Path]]) -> None:
        """The first traceback: in the first of these logs, else in whichever was written last the longest ago."""
        self._hunt = self._find_traceback(logs)
        self.resume()

    # What it does, in its thread

    def look(self) -> float:
        name, asked, self._asked = self._opened[0], self._asked, False
        log, filtered, hunt = self._log, self._filter, self._hunt
        if hunt is not None:
            self._go_on(hunt)
        if log is None:
            if asked:
                self.post(LogRead(LogWindow(name)))
            return watcher.CATCH_UP_S if self._hunt is not None else watcher.ENDED_S
        lines: Lines = log if filtered is None else filtered  # one without lines is false
        try:
            self._changed |= lines.poll()
            # While there is much to catch up with, what can be seen of it needs no more than a few looks a second.
            due = not lines.behind or time.monotonic() - self._posted_at > watcher.LOG_S
            if (asked or (self._changed and due)) and log is self._log and filtered is self._filter:
                self._changed, self._posted_at = False, time.monotonic()
                self.post(LogRead(self._window(name, lines)))
        except OSError as error:
            if asked:
                self.post(LogRead(LogWindow(name, trouble=f"{log.path.name} can't be read: {error.strerror}")))
        return watcher.CATCH_UP_S if lines.behind or self._hunt is not None else watcher.LOG_S

    def _window(self, name: str, lines: Lines) -> LogWindow:
        first, count = self._view
        if first is None:
            first = len(lines) - count
        begin = max(0, first - SMOOTH_LINES)
        count = first - begin + count + SMOOTH_LINES
        below = lines.lines if isinstance(lines, FilteredLog) else lines
        sources: tuple[str, ...] = ()
        if isinstance(below, MergedLog):
            if isinstance(lines, FilteredLog):
                numbers = [lines.number(n) for n in range(begin, min(begin + count, len(lines)))]
                named = [pair for n in numbers for pair in below.read_named(n, 1)]
            else:
                named = below.read_named(begin, count)
            sources, texts = tuple(source for source, _ in named), tuple(text for _, text in named)
        else:
            texts = tuple(lines.read(begin, count))
        return LogWindow(
            name, begin, texts, len(lines), lines.skipped, sources=sources, forgotten=lines.forgotten,
            filtered=lines.pattern.text if isinstance(lines, FilteredLog) else "", whole=len(below),
            since=below.since if isinstance(below, MergedLog) else None,
        )  # fmt: skip

    def _go_on(self, hunt: Iterator[None]) -> None:
        deadline = time.monotonic() + BITE_S
        try:
            while time.monotonic() < deadline:
                next(hunt)
            return
        except (StopIteration, OSError, IndexError):  # IndexError: the log was replaced meanwhile
            pass
        if self._hunt is hunt:
            self._hunt = None

    def _find(self, lines: Lines, wanted: Pattern, line: int, step: int) -> Iterator[None]:
        """From the line to the log's end, then from its other end to the line."""
        name, origin = self._opened[0], line
        for wrapped in (False, True):
            at = line if not wrapped else 0 if step > 0 else len(lines) - 1
            while 0 <= at < len(lines):
                first, end = lines.stretch(at, step, STRETCH)
                found = [n for n in found_in(lines, first, end, wanted) if (n - at) * step >= 0]
                if found:
                    self.post(LogFound(name, found[0] if step > 0 else found[-1], wanted.text, wrapped=wrapped))
                    return
                at = end if step > 0 else first - 1
                yield
                if wrapped and (at - origin) * step > 0:
                    break
        self.post(LogFound(name, None, wanted.text))

    def _find_traceback(self, logs: Sequence[tuple[str, Path]]) -> Iterator[None]:
        def written(log: tuple[str, Path]) -> float:
            with suppress(OSError):
                return log[1].stat().st_mtime
            return float("inf")

        for name, path in [*logs[:1], *sorted(logs[1:], key=written)]:
            index = LogIndex(path)
            index.poll()
            while index.behind:
                yield
                index.poll()
            at = 0
            while at < len(index):
                first, end = index.stretch(at, 1, STRETCH)
                found = found_in(index, first, end, TRACEBACK)
                if found:
                    self.post(LogFound(name, found[0], TRACEBACK.text))
                    return
                at = end
                yield
        self.post(LogFound("", None, TRACEBACK.text))
