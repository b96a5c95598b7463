"""The table of runs. Only what is on the screen is drawn, so that 100,000 runs cost no more than ten."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from labtui import charts
from labtui.runs.rows import Row
from labtui.tui import words
from labtui.tui.lines import Line, Piece, fit, with_role
from labtui.tui.messages import History
from labtui.tui.widgets.pane import Choice

MOST_MARKED = 8
"""Runs that can be laid side by side."""
_ARROWS = {True: "↓", False: "↑"}


class HistoryTable(Choice):
    """The runs that somebody looks for, newest first if nothing else is said."""

    title = "Runs"

    class EndNeared(Message):
        """The cursor is close to the last row that was read, and there are more."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.history = History()
        self.now = 0.0
        self.marked: list[str] = []
        """Ids in the order in which they were marked: the first is the baseline of a comparison."""
        self.hidden: list[str] = []
        """Ids of runs that are to be deleted, in the order in which that was said."""
        self._rows: Sequence[Row] = ()
        self._to_the_last = False

    def show(self, history: History, now: float) -> None:
        """Shows the runs; the cursor stays on its run while that is still there."""
        before = self.chosen
        same_list = history.listing.query == self.history.listing.query
        self.history, self.now = history, now
        self.refilter()
        if before is not None and self.cursor > 0 and same_list:
            self.choose(before.id)
        elif not same_list:
            self.cursor, self._to_the_last = 0, False
        self.redraw()

    def refilter(self) -> None:
        """To be called when `hidden` has changed."""
        hidden = set(self.hidden)
        rows = self.history.listing.rows
        self._rows = [row for row in rows if row.id not in hidden] if hidden else rows

    @property
    def chosen(self) -> Row | None:
        """The run under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def choose(self, id: str) -> None:
        """Puts the cursor on that run, if it is in the list."""
        for index, row in enumerate(self._rows):
            if row.id == id:
                self.cursor = index
                return

    def facts(self) -> Sequence[Piece]:
        facts: list[Piece] = []
        if self.history.broken:
            facts += [(f"{len(self.history.broken)} unreadable", "bad"), (" · ", "dim")]
        if self.hidden:
            facts += [(f"{len(self.hidden)} to delete", "warn"), (" · ", "dim")]
        if self.marked:
            facts += [(f"{len(self.marked)} marked", "accent"), (" · ", "dim")]
        listing = self.history.listing
        query = listing.query
        if (query.order, query.descending) != ("created", True):
            facts += [(f"by {query.order} {_ARROWS[query.descending]}", "accent"), (" · ", "dim")]
        matching = listing.matching - len(self.hidden)
        position = f"{self.cursor + 1:,} of {matching:,}" if self._rows else "none"
        if query.terms:
            position += f" (of {self.history.total:,})"
        elif not self._rows:
            position = "none yet"
        return [*facts, (position, "dim")]

    def length(self) -> int:
        return len(self._rows)

    def header(self, width: int) -> Line:
        return _line(
            width, "", ("  ", "dim"), "experiment", "variant", "started", "took", "ranks",
            "tags, note, what came of it", role="dim",
        )  # fmt: skip

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        row = self._rows[index]
        ranks = words.UNKNOWN if row.nproc is None else str(row.nproc)
        pointer = charts.LETTERS[self.marked.index(row.id)] if row.id in self.marked else "›" if chosen else " "
        line = _line(
            width,
            pointer,
            words.mark(row.state),
            row.experiment,
            row.variant or "default",
            words.when(row.created, self.now),
            words.clock(row.seconds(self.now)) if row.started is not None else "",
            ranks,
            _said(row),
            star=row.star,
        )
        return with_role(line, "cursor") if chosen else line

    @property
    def wanted(self) -> int:
        """How many runs should be read: all, once somebody has gone to the last."""
        return self.history.listing.matching if self._to_the_last else 0

    def action_go_last(self) -> None:
        self._to_the_last = True
        super().action_go_last()

    def move_to(self, index: int, direction: int = 1) -> None:
        super().move_to(index, direction)
        if self.cursor + self.rows >= len(self._rows) < self.history.listing.matching - len(self.hidden):
            self.post_message(self.EndNeared())


def _said(row: Row) -> str:
    """What a person said about it, then what it says itself."""
    tags = " ".join(f"#{tag}" for tag in row.tags)
    return "  ".join(filter(None, (tags, row.note, row.reason or words.state_name(row.state))))


def _line(
    width: int, pointer: str, mark: Piece, experiment: str, variant: str, started: str, took: str, ranks: str,
    said: str, *, role: str = "", star: bool = False,
) -> Line:  # fmt: skip
    """One row: what there is no room for is left out from the right; the experiment always stays."""
    dim = role or "dim"
    line: list[Piece] = [(fit(pointer, 1), "accent"), mark, ("*" if star else " ", "warn")]
    columns = [
        (experiment, 20 if width >= 60 else max(width - 27, 10), False, role),
        (variant, 16, False, dim),
        (started, 12, True, role),
        (took, 8, True, role),
        (ranks, 5, True, dim),
    ]
    if width < 60:
        columns = [columns[0], columns[2], columns[3]]
    elif width < 90:
        columns = [*columns[:4]]
    for text, size, right, its_role in columns:
        line += [(fit(text, size, right=right), its_role), (" ", "")]
    used = 4 + sum(size + 1 for _, size, _, _ in columns)
    if width - used >= 12:
        line += [(" ", ""), (fit(said, width - used - 1), dim)]
    return tuple(line)
