"""A rank's log: tabs for ranks, the lines that are looked at, and no escape sequence but colours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.ansi import AnsiDecoder
from rich.cells import cell_len, set_cell_size
from textual import events
from textual.message import Message

from labtui.runs.clean import clean
from labtui.tui import words
from labtui.tui.lines import Line, Piece, cells, crop
from labtui.tui.messages import LogWindow
from labtui.tui.widgets.pane import Pane

TAB = 8


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

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.logs: Sequence[tuple[str, int]] = ()
        """Names of the logs and their sizes in bytes; `N stderr` belongs to the tab N."""
        self.name_shown = ""
        self.following = True
        self.window = LogWindow("")
        self._by_itself = True
        """Whether nobody has chosen a log by hand yet."""

    # Which log

    def show_logs(self, logs: Sequence[tuple[str, int]]) -> None:
        """The logs there are now. Chooses one if none is chosen yet."""
        self.logs = logs
        names = [name for name, _ in logs]
        if names and (self.name_shown not in names or (self._by_itself and self.name_shown != names[0])):
            # Ranks appear after the log of what started them, and are what one wants to see.
            self._choose(names[0])
        self.redraw()

    def choose(self, name: str) -> None:
        """Shows another log, from its end."""
        self._by_itself = False
        self._choose(name)

    def _choose(self, name: str) -> None:
        self.name_shown, self.following, self.window = name, True, LogWindow(name)
        self.post_message(self.Chosen(name))
        self.redraw()

    def clear(self) -> None:
        """Forgets everything, for another run."""
        self.logs, self.name_shown, self.following, self.window = (), "", True, LogWindow("")
        self._by_itself = True
        self.redraw()

    def show(self, window: LogWindow) -> None:
        """Shows lines that were read."""
        if window.name == self.name_shown:
            self.window = window
            self.redraw()

    @property
    def tabs(self) -> list[str]:
        """A tab for each rank, and the others."""
        return [name for name, _ in self.logs if not name.endswith(" stderr")]

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
        self.following = not self.following
        self._top = self._last_top
        self._ask()

    @property
    def _last_top(self) -> int:
        return max(0, self.window.total - self.rows)

    def scroll_rows(self, lines: int) -> None:
        if self.following:
            self._top = self._last_top
        self._top = max(0, min(self._top + lines, self._last_top))
        # Whoever scrolls up wants to read; whoever comes back to the end wants to follow again.
        self.following = self._top >= self._last_top and lines >= 0
        self._ask()

    def _ask(self) -> None:
        self.post_message(self.Scrolled(None if self.following else self._top, self.rows))
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        if self.name_shown:
            self._ask()

    # What it looks like

    def facts(self) -> Sequence[Piece]:
        window = self.window
        if not window.total:
            return ()
        if self.following:
            return [(words.count(window.total, "line"), "dim"), (" · ", "dim"), ("following", "live")]
        last = min(self._top + self.rows, window.total)
        return [(f"{self._top + 1:,} to {last:,} of {window.total:,}", "dim"), (" · ", "dim"), ("f follows", "warn")]

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        tabs = tab_line(self.tabs, self.tab, self.name_shown.endswith(" stderr"), self._with_stderr(), width)
        room = max(height - 1, 1)
        window = self.window
        if window.trouble:
            return [tabs, ((window.trouble, "bad"),)]
        if not window.total:
            return [tabs, ((self._empty, "dim"),)] if self.name_shown else []
        top = max(0, window.total - room) if self.following else self._top
        wanted = range(top - window.first, top - window.first + room)
        shown = [window.lines[n] if 0 <= n < len(window.lines) else "" for n in wanted]
        lines = [log_line(text, width) for text in shown[: window.total - top]]
        if window.skipped and top == 0:
            lines = [((f"{words.size(window.skipped)} before this are not shown", "dim"),), *lines[:-1]]
        return [tabs, *lines]

    @property
    def _empty(self) -> str:
        if self.tab in self._with_stderr() and not self.name_shown.endswith(" stderr"):
            return "nothing on stdout; e shows its stderr"
        return "nothing yet"

    @property
    def rows(self) -> int:
        return max(self.size.height - 2, 1)

    def _with_stderr(self) -> set[str]:
        return {name.removesuffix(" stderr") for name, size in self.logs if name.endswith(" stderr") and size}


def tab_line(tabs: Sequence[str], current: str, stderr: bool, marked: set[str], width: int) -> Line:
    """The tabs, the current one in sight; `!` marks ranks that wrote to stderr."""
    pieces: list[list[Piece]] = []
    for tab in tabs:
        role = "cursor strong" if tab == current else "dim"
        text = f" {tab} stderr " if tab == current and stderr else f" {tab} "
        pieces.append([(text, role), ("!" if tab in marked else " ", "warn")])
    at = tabs.index(current) if current in tabs else 0
    first = 0
    while first < at and cells(piece for tab in pieces[first : at + 1] for piece in tab) > width - 2:
        first += 1
    shown = [piece for tab in pieces[first:] for piece in tab]
    return crop(([("…", "dim")] if first else []) + shown, width)


@lru_cache(maxsize=4096)
def log_line(text: str, width: int) -> Line:
    """A line of a log: colours that the rank chose are kept, everything else that a terminal would obey is dropped."""
    line: list[Piece] = []
    room = width
    for piece, style in _coloured(clean(text, colours=True).replace("\n", " ")):
        if cell_len(piece) > room:
            line.append((set_cell_size(piece, room), style))
            break
        line.append((piece, style))
        room -= cell_len(piece)
    return tuple(line)


def _coloured(text: str) -> list[Piece]:
    """The text in pieces of one style each."""
    decoded = AnsiDecoder().decode_line(text)
    decoded.expand_tabs(TAB)
    pieces: list[Piece] = []
    at = 0
    for span in decoded.spans:
        if span.start > at:
            pieces.append((decoded.plain[at : span.start], ""))
        pieces.append((decoded.plain[span.start : span.end], span.style))
        at = span.end
    if at < len(decoded.plain):
        pieces.append((decoded.plain[at:], ""))
    return pieces
