"""The logs: a tab for each rank and one for all of them, the lines that are looked at, searched, filtered, wrapped."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from labtui.tui import actions, words
from labtui.tui.lines import Line, Piece, fit
from labtui.tui.log_lines import MERGED, log_rows, prefix, tab_line
from labtui.tui.log_search import Pattern, shown_text
from labtui.tui.messages import LogFound, LogWindow
from labtui.tui.widgets.pane import Pane


class LogPane(Pane):
    """One log at a time. Shows the window that it was given, and asks for another one when it is scrolled."""

    title = "Log"

    class Chosen(Message):
        """Another log is wanted."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Scrolled(Message):
        """Other lines are wanted: `count` from line `first` on, or the last ones (None)."""

        def __init__(self, first: int | None, count: int) -> None:
            super().__init__()
            self.first = first
            self.count = count

    class Filtered(Message):
        """Only lines that match are wanted; all, where it is None."""

        def __init__(self, wanted: Pattern | None) -> None:
            super().__init__()
            self.wanted = wanted

    class Searched(Message):
        """The nearest line that matches is wanted, from this one on in direction `step`."""

        def __init__(self, wanted: Pattern, line: int, step: int) -> None:
            super().__init__()
            self.wanted = wanted
            self.line = line
            self.step = step

    places = (actions.LOG, actions.PANE, actions.LIST)

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.logs: Sequence[tuple[str, int]] = ()
        """Names of the logs and their sizes in bytes; `N stderr` belongs to the tab N."""
        self.name_shown = ""
        self.following = True
        self.wrapped = False
        self.wanted: Pattern | None = None
        """What is looked for."""
        self.filter: Pattern | None = None
        """What the lines shown match."""
        self.hit: int | None = None
        """The line at which the search stands."""
        self.window = LogWindow("")
        self._seen = 0
        """Lines there were when following ended; -1 while that isn't known."""
        self._by_itself = True
        """Whether nobody has chosen a log by hand yet."""

    # Which log

    def show_logs(self, logs: Sequence[tuple[str, int]]) -> None:
        """The logs there are now. Chooses one if none is chosen yet."""
        self.logs = logs
        names = [name for name, _ in logs]
        known = self.name_shown in names or (self.name_shown == MERGED and MERGED in self.tabs)
        if names and (not known or (self._by_itself and self.name_shown != names[0])):
            # Ranks appear after the log of what started them, and are what one wants to see.
            self._choose(names[0])
        self.redraw()

    def choose(self, name: str) -> None:
        """Shows another log, from its end."""
        self._by_itself = False
        self._choose(name)

    def _choose(self, name: str) -> None:
        self.name_shown, self.following, self.window, self.hit = name, True, LogWindow(name), None
        self.post_message(self.Chosen(name))
        if self.filter is not None:
            self.post_message(self.Filtered(self.filter))
        self.redraw()

    def clear(self) -> None:
        """Forgets everything, for another run."""
        self.logs, self.name_shown, self.following, self.window = (), "", True, LogWindow("")
        self.wanted = self.filter = self.hit = None
        self._by_itself = True
        self.redraw()

    def show(self, window: LogWindow) -> None:
        """Shows lines that were read."""
        if window.name != self.name_shown or window.filtered != (self.filter.text if self.filter else ""):
            return
        gone = window.forgotten - self.window.forgotten
        if gone > 0:  # what is looked at stays where it is
            self._top, self._seen = max(self._top - gone, 0), max(self._seen - gone, 0)
            self.hit = None if self.hit is None or self.hit < gone else self.hit - gone
        if self._seen < 0:
            self._seen = window.total
        self.window = window
        self.redraw()

    @property
    def tabs(self) -> list[str]:
        """A tab for each rank, one for all of them together, and the others."""
        names = [name for name, _ in self.logs if not name.endswith(" stderr")]
        ranks = [name for name in names if name.isdigit()]
        together = [MERGED] if len(ranks) > 1 or f"{ranks[0] if ranks else ''} stderr" in dict(self.logs) else []
        return [*ranks, *together, *(name for name in names if not name.isdigit())]

    @property
    def tab(self) -> str:
        return self.name_shown.removesuffix(" stderr")

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        tabs = self.tabs
        if self.tab in tabs:
            tab = tabs[(tabs.index(self.tab) + by) % len(tabs)]
            stderr = f"{tab} stderr"
            keep = self.name_shown.endswith(" stderr") and any(name == stderr for name, _ in self.logs)
            self.choose(stderr if keep else tab)

    def action_other_stream(self) -> None:
        other = self.tab if self.name_shown.endswith(" stderr") else f"{self.tab} stderr"
        if any(name == other for name, _ in self.logs):
            self.choose(other)

    # Which lines

    def action_follow(self) -> None:
        self._stand_at(self._last_top, following=not self.following)

    def _stand_at(self, top: int, *, following: bool) -> None:
        if self.following and not following:
            self._seen = self.window.total or -1
        self._top, self.following = top, following
        self._ask()

    @property
    def _last_top(self) -> int:
        """The first line on show where the last one is in sight."""
        total, rows = self.window.total, self.rows
        if not self.wrapped:
            return max(0, total - rows)
        begin = self.window.first
        if begin + len(self.window.lines) < total:  # the end isn't known: it is far away
            return max(0, total - 1)
        top, used = total, 0
        while top > begin:
            used += len(self._rows_of(top - 1, self._inner))
            if used > rows:
                break
            top -= 1
        return max(0, min(top, total - 1))

    def scroll_rows(self, lines: int) -> None:
        last = self._last_top
        top = max(0, min((last if self.following else self._top) + lines, last))
        # Whoever scrolls up wants to read; whoever comes back to the end wants to follow again.
        self._stand_at(top, following=top >= last and lines >= 0)

    def _ask(self) -> None:
        self.post_message(self.Scrolled(None if self.following else self._top, self.rows))
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        if self.name_shown:
            self._ask()

    def action_wrap(self) -> None:
        self.wrapped = not self.wrapped
        self.redraw()

    # What is looked for

    def search(self, wanted: Pattern | None) -> None:
        """Marks what is looked for; `find` goes to it."""
        self.wanted, self.hit = wanted, None
        self.redraw()

    def find(self, step: int) -> None:
        """To the next line that has it, down (1) or up (-1)."""
        if self.wanted is None or not self.window.total:
            return
        if self.hit is not None:
            start = self.hit + step
        elif self.following:
            start = self.window.total - 1  # everything stands above the end
            step = -1
        else:
            start = self._top if step > 0 else self._top - 1
        self.post_message(self.Searched(self.wanted, start, step))

    def found(self, event: LogFound) -> None:
        """Goes to where a search has ended."""
        if event.line is None:
            return
        if event.name != self.name_shown:
            self.choose(event.name)
        self.hit = event.line
        in_sight = range(self._top, self._top + self.rows - 1)
        if self.following or event.line not in in_sight:
            top = max(event.line - self.rows // 3, 0)
            # Of a log that is only being opened the end isn't known yet.
            self._stand_at(min(top, self._last_top) if self.window.total else top, following=False)
        else:
            self.redraw()

    def show_only(self, wanted: Pattern | None) -> None:
        """Only lines that match; all again, where it is None."""
        if wanted == self.filter:
            return
        self.filter, self.hit, self.following = wanted, None, True
        self.window = LogWindow(self.name_shown, filtered=wanted.text if wanted else "")
        self.post_message(self.Filtered(wanted))
        self.redraw()

    def take_back(self) -> bool:
        """esc: ends the filter, then the search; False where there is neither."""
        if self.filter is not None:
            self.show_only(None)
        elif self.wanted is not None:
            self.search(None)
        else:
            return False
        return True

    def copied(self) -> tuple[str, str]:
        """The line at which the search stands, or all that are in sight; and what that is, in words."""
        window = self.window
        if self.hit is not None and 0 <= self.hit - window.first < len(window.lines):
            return shown_text(window.lines[self.hit - window.first]), f"line {self.hit + 1:,}"
        top = max(0, window.total - self.rows) if self.following else self._top
        first = max(top - window.first, 0)
        lines = [shown_text(text) for text in window.lines[first : first + self.rows]]
        return "\n".join(lines), words.count(len(lines), "line")

    # What it looks like

    def facts(self) -> Sequence[Piece]:
        window = self.window
        facts: list[Piece] = []
        if self.filter is not None:
            facts += [(f"& {fit(self.filter.text, min(len(self.filter.text), 16))} ", "warn")]
            facts += [(f"{window.total:,} of {window.whole:,} · ", "dim")]
        if self.wanted is not None:
            shown = self.wanted.text.removeprefix("/")
            facts += [(f"/{fit(shown, min(len(shown), 16))}", "accent"), (" · ", "dim")]
        if not window.total:
            return facts[:-1] if self.wanted is not None else facts
        if self.following:
            return [*facts, *([] if self.filter else [(words.count(window.total, "line"), "dim"), (" · ", "dim")]),
                    ("following", "live")]  # fmt: skip
        new = window.total - self._seen if self._seen >= 0 else 0
        if new > 0:
            facts += [(f"+{new:,} new", "live"), (" · ", "dim")]
        elif not facts:
            last = min(self._top + self.rows, window.total)
            facts += [(f"{self._top + 1:,} to {last:,} of {window.total:,}", "dim"), (" · ", "dim")]
        return [*facts, ("f follows", "warn")]

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        tabs = tab_line(self.tabs, self.tab, self.name_shown.endswith(" stderr"), self._with_stderr(), width)
        room = max(height - 1, 1)
        window = self.window
        if window.trouble:
            return [tabs, ((fit(window.trouble, width), "bad"),)]
        if not window.total:
            return [tabs, ((self._empty, "dim"),)] if self.name_shown else []
        said = self._said(width)
        room = max(room - len(said), 1)
        if self.following:
            rows: list[Line] = []
            line = window.total - 1
            while line >= 0 and len(rows) < room:
                rows[:0] = self._rows_of(line, width)
                line -= 1
            return [tabs, *said, *rows[-room:]]
        rows, line = [], self._top
        while len(rows) < room and line < window.total:
            rows += self._rows_of(line, width)
            line += 1
        return [tabs, *said, *rows[:room]]

    def _rows_of(self, line: int, width: int) -> list[Line]:
        """One line of the log, on one row or several; blank while it isn't read."""
        window, place = self.window, line - self.window.first
        if not 0 <= place < len(window.lines):
            return [()]
        before = prefix(window.sources[place], self._digits) if place < len(window.sources) else None
        wanted = self.wanted or self.filter
        return log_rows(
            window.lines[place], width, prefix=before, wanted=wanted, hit=line == self.hit, wrap=self.wrapped
        )

    @property
    def _digits(self) -> int:
        return max((len(name) for name, _ in self.logs if name.isdigit()), default=1)

    @property
    def _inner(self) -> int:
        return max(self.size.width - (3 if self.beside else 2), 1)

    def _said(self, width: int) -> list[Line]:
        """What must be known of the lines below, where their beginning is in sight."""
        window = self.window
        at_start = not self._top and not self.following
        if window.skipped and at_start:
            return [((f"{words.size(window.skipped)} before this are not shown", "dim"),)]
        if self.name_shown == MERGED and at_start:
            since = f"in order of arrival since {words.time_of_day(window.since)}, " if window.since is not None else ""
            return [((fit(f"{since}before that by file; ! is stderr", width), "dim"),)]
        return []

    @property
    def _empty(self) -> str:
        if self.filter is not None:
            return f"no line of {self.window.whole:,} has it" if self.window.whole else "looking"
        if self.tab in self._with_stderr() and not self.name_shown.endswith(" stderr"):
            return "nothing on stdout; e shows its stderr"
        return "nothing yet"

    @property
    def rows(self) -> int:
        return max(self.size.height - 2, 1)

    def _with_stderr(self) -> set[str]:
        return {name.removesuffix(" stderr") for name, size in self.logs if name.endswith(" stderr") and size}
