"""The table of runs. Only what is on the screen is drawn, so that 100,000 runs cost no more than ten."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from labtui.runs.rows import Row
from labtui.tui import words
from labtui.tui.lines import Line, Piece, fit, with_role
from labtui.tui.messages import History
from labtui.tui.widgets.pane import Choice


class HistoryTable(Choice):
    """Runs, newest first."""

    title = "Runs"

    class EndNeared(Message):
        """The cursor is close to the last row that was read, and there are more."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.history = History()
        self.now = 0.0

    def show(self, history: History, now: float) -> None:
        """Shows the runs; the cursor stays on its run while that is still there."""
        before = self.chosen
        self.history, self.now = history, now
        if before is not None and self.cursor > 0:
            self.choose(before.id)
        self.redraw()

    @property
    def chosen(self) -> Row | None:
        """The run under the cursor."""
        rows = self.history.rows
        return rows[self.cursor] if self.cursor < len(rows) else None

    def choose(self, id: str) -> None:
        """Puts the cursor on that run, if it is in the list."""
        for index, row in enumerate(self.history.rows):
            if row.id == id:
                self.cursor = index
                return

    def facts(self) -> Sequence[Piece]:
        facts: list[Piece] = []
        if self.history.broken:
            facts += [(f"{len(self.history.broken)} unreadable", "bad"), (" · ", "dim")]
        position = f"{self.cursor + 1:,} of {self.history.total:,}" if self.history.rows else "none yet"
        return [*facts, (position, "dim")]

    def length(self) -> int:
        return len(self.history.rows)

    def header(self, width: int) -> Line:
        return _line(
            width, "", ("  ", "dim"), "experiment", "variant", "started", "took", "ranks", "what came of it", role="dim"
        )

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        row = self.history.rows[index]
        ranks = words.UNKNOWN if row.nproc is None else str(row.nproc)
        line = _line(
            width,
            "›" if chosen else " ",
            words.mark(row.state),
            row.experiment,
            row.variant or "default",
            words.when(row.created, self.now),
            words.clock(row.seconds(self.now)) if row.started is not None else "",
            ranks,
            row.reason or words.state_name(row.state),
        )
        return with_role(line, "cursor") if chosen else line

    def move_to(self, index: int, direction: int = 1) -> None:
        super().move_to(index, direction)
        if self.cursor + self.rows >= len(self.history.rows) < self.history.total:
            self.post_message(self.EndNeared())


def _line(
    width: int, pointer: str, mark: Piece, experiment: str, variant: str, started: str, took: str, ranks: str,
    reason: str, *, role: str = "",
) -> Line:  # fmt: skip
    """One row: what there is no room for is left out from the right; the experiment always stays."""
    dim = role or "dim"
    line: list[Piece] = [(fit(pointer, 1), "accent"), mark, (" ", "")]
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
        line += [(" ", ""), (fit(reason, width - used - 1), dim)]
    return tuple(line)
