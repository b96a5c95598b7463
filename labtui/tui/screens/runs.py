"""3 Runs: all runs, newest first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui.messages import History
from labtui.tui.screens.choose import Confirm
from labtui.tui.screens.framed import Framed
from labtui.tui.widgets.history import HistoryTable


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

    class DeleteWanted(RunMessage):
        """Its folder should be deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.table = HistoryTable()
        self._trouble = ""

    def compose_body(self) -> Iterable[Widget]:
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

    def go_back(self) -> None:
        self.app.action_go_back()  # type: ignore[attr-defined]

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

    def action_delete_run(self) -> None:
        chosen = self.table.chosen
        if chosen is None:
            return
        if chosen.live:
            self.notice.say(f"{chosen.id} is {chosen.state}: stop it first (enter, then s)", bad=True)
            return

        def answer(yes: bool | None) -> None:
            if yes:
                self.post_message(self.DeleteWanted(chosen.id))

        question = f"Delete {chosen.id}? Its folder goes, with logs, events and results."
        self.app.push_screen(Confirm(question, "delete it"), answer)


def _unreadable(history: History) -> str:
    """The first folder that can't be read, and why; empty where all can."""
    if not history.broken:
        return ""
    (name, why), *more = history.broken
    return f"{name}: {why}" + (f" (and {len(more)} more like it)" if more else "")
