"""3 Runs: the history, in which runs are looked for, opened, tagged, compared, started again and deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from labtui.runs import query
from labtui.runs.query import Query
from labtui.runs.records import Labels
from labtui.runs.rows import Row
from labtui.tui import actions
from labtui.tui.messages import History
from labtui.tui.screens.framed import Framed
from labtui.tui.widgets.filter import FilterLine
from labtui.tui.widgets.history import MOST_MARKED, HistoryTable

REST_S = 0.05
"""What is typed is looked for when no key has come for so long."""


class RunsScreen(Framed):
    """The history."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.RUNS)]
    name_on_title = "runs"
    places = (actions.RUNS, actions.APP)

    class RunMessage(Message):
        """Something is wanted of one run."""

        def __init__(self, id: str) -> None:
            super().__init__()
            self.id = id

    class Opened(RunMessage):
        """It should be looked at."""

    class AgainWanted(RunMessage):
        """A run like it should be started."""

    class GroupWanted(RunMessage):
        """The runs of its group should be laid side by side."""

    class LabelsWanted(RunMessage):
        """Its tags, note or star should change."""

        def __init__(self, id: str, change: Callable[[Labels], Labels]) -> None:
            super().__init__(id)
            self.change = change

    class CompareWanted(Message):
        """These runs should be laid side by side."""

        def __init__(self, ids: Iterable[str]) -> None:
            super().__init__()
            self.ids = tuple(ids)

    class QueryChanged(Message):
        """Other runs, or another order, should be shown."""

        def __init__(self, query: Query) -> None:
            super().__init__()
            self.query = query

    def __init__(self) -> None:
        super().__init__()
        self.table = HistoryTable()
        self.filter = FilterLine("experiment: state: tag: nproc:2 width=512, or plain words")
        self._query = Query()
        self._trouble = ""
        self._resting: Timer | None = None

    def compose_body(self) -> Iterable[Widget]:
        yield self.filter
        yield self.table

    def on_mount(self) -> None:
        self.table.focus()

    def show_history(self, history: History) -> None:
        """Shows the runs there are."""
        self.table.show(history, time.time())
        self.show_live(len(history.live))
        trouble = history.trouble or _unreadable(history)
        if trouble != self._trouble:
            self._trouble = trouble
            self.notice.say(trouble, bad=True)

    @property
    def to_delete(self) -> tuple[str, ...]:
        """Ids of the runs that go when labtui is left."""
        return tuple(self.table.hidden)

    def go_back(self) -> None:
        if self.filter.display:
            self.filter.clear()
        else:
            self.app.action_go_back()  # type: ignore[attr-defined]

    # Which runs, in which order

    def action_filter(self) -> None:
        self.filter.open()

    @on(FilterLine.Typed)
    def _look_for(self) -> None:
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(REST_S, self._ask)

    @on(FilterLine.Left)
    def _to_the_table(self) -> None:
        self.table.focus()

    def _ask(self) -> None:
        wanted = query.parse(self.filter.text, self._query.order, self._query.descending)
        if wanted != self._query:
            self._query = wanted
            self.post_message(self.QueryChanged(wanted))

    def action_next_order(self) -> None:
        orders = query.ORDERS
        order = orders[(orders.index(self._query.order) + 1) % len(orders)]
        # Newest, longest and most first; names from A on.
        self._sort(replace(self._query, order=order, descending=order in ("created", "took", "nproc", "tags")))

    def action_turn_order(self) -> None:
        self._sort(replace(self._query, descending=not self._query.descending))

    def _sort(self, wanted: Query) -> None:
        self._query = wanted
        self.post_message(self.QueryChanged(wanted))

    # One run

    @on(HistoryTable.Picked)
    def action_open_run(self) -> None:
        chosen = self.table.chosen
        if chosen is not None:
            self.post_message(self.Opened(chosen.id))

    def action_run_again(self) -> None:
        chosen = self.table.chosen
        if chosen is not None:
            self.notice.say(f"a run like {chosen.id} is being started")
            self.post_message(self.AgainWanted(chosen.id))

    def action_export_run(self) -> None:
        from labtui.tui.screens.export import ask_and_export

        chosen = self.table.chosen
        if chosen is not None:
            ask_and_export(self, chosen.id)

    def action_delete_run(self) -> None:
        chosen = self.table.chosen
        if chosen is None:
            return
        if chosen.live:
            self.notice.say(f"{chosen.id} is {chosen.state}: stop it first (enter, then s)", bad=True)
            return
        self.table.hidden.append(chosen.id)
        self.table.marked = [id for id in self.table.marked if id != chosen.id]
        self._redraw()
        self.notice.say(f"{chosen.id} goes when you leave labtui; u brings it back")

    def action_undo_delete(self) -> None:
        if not self.table.hidden:
            self.notice.say("nothing is to be deleted")
            return
        id = self.table.hidden.pop()
        self._redraw()
        self.table.choose(id)
        self.table.redraw()
        self.notice.say(f"{id} stays")

    def _redraw(self) -> None:
        self.table.refilter()
        self.table.redraw()

    def action_star(self) -> None:
        chosen = self.table.chosen
        if chosen is not None:
            self.post_message(self.LabelsWanted(chosen.id, lambda labels: replace(labels, star=not labels.star)))

    def action_edit_tags(self) -> None:
        def write(chosen: Row, text: str) -> None:
            from labtui.runs.labelling import tagged

            tags = text.replace(",", " ").replace("#", " ").split()
            self.post_message(self.LabelsWanted(chosen.id, lambda labels: tagged(replace(labels, tags=()), tags)))

        self._ask_about("Tags, with spaces between", " ".join, lambda row: row.tags, write)

    def action_edit_note(self) -> None:
        def write(chosen: Row, text: str) -> None:
            self.post_message(self.LabelsWanted(chosen.id, lambda labels: replace(labels, note=text.strip())))

        self._ask_about("Note", "".join, lambda row: row.note, write)

    def _ask_about(
        self, what: str, join: Callable[[Iterable[str]], str], now: Callable[[Row], Iterable[str]],
        write: Callable[[Row, str], None],
    ) -> None:  # fmt: skip
        from labtui.tui.screens.ask import Ask

        chosen = self.table.chosen
        if chosen is None:
            return

        def answer(text: str | None) -> None:
            if text is not None:
                write(chosen, text)

        self.app.push_screen(Ask(f"{what}: {chosen.id}", join(now(chosen))), answer)

    # Several runs

    def action_mark(self) -> None:
        chosen = self.table.chosen
        if chosen is None:
            return
        marked = self.table.marked
        if chosen.id in marked:
            marked.remove(chosen.id)
        elif len(marked) == MOST_MARKED:
            self.notice.say(f"{MOST_MARKED} runs are as many as can be laid side by side", bad=True)
        else:
            marked.append(chosen.id)
        self.table.move_to(self.table.cursor + 1)
        self.table.redraw()

    def action_compare(self) -> None:
        if len(self.table.marked) >= 2:
            self.post_message(self.CompareWanted(self.table.marked))
        elif self.table.chosen is not None and self.table.chosen.group is not None and not self.table.marked:
            self.post_message(self.GroupWanted(self.table.chosen.id))
        else:
            self.notice.say("mark two runs or more with space, then c lays them side by side", bad=True)


def _unreadable(history: History) -> str:
    """The first folder that can't be read, and why; empty where all can."""
    if not history.broken:
        return ""
    (name, why), *more = history.broken
    return f"{name}: {why}" + (f" (and {len(more)} more like it)" if more else "")
