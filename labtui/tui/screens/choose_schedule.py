"""A question over the Simulate screen: which schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from labtui.theory.pipeline.schedules import SCHEDULES
from labtui.tui.lines import Line, Piece, fit, with_role
from labtui.tui.screens.choose import room
from labtui.tui.widgets.pane import Choice


class ScheduleList(Choice):
    """All schedules by name."""

    def __init__(self, title: str, chosen: str, without: str) -> None:
        super().__init__()
        self.title = title
        self.names = ["", *(name for name in SCHEDULES if name != without)] if without else list(SCHEDULES)
        self.cursor = self.names.index(chosen) if chosen in self.names else 0

    def facts(self) -> Sequence[Piece]:
        return [("enter chooses", "dim")]

    def length(self) -> int:
        return len(self.names)

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        name = self.names[index]
        size = max(map(len, self.names))
        summary = SCHEDULES[name].summary if name else "one schedule alone"
        line: Line = (
            ("› " if chosen else "  ", "accent"),
            (fit(name or "none", size), "strong" if chosen else ""), ("  ", ""),
            (fit(summary, width - size - 4), "dim"),
        )  # fmt: skip
        return with_role(line, "cursor") if chosen else line


class ChooseSchedule(ModalScreen[str | None]):
    """Answers with the schedule's name, or None where nothing was chosen.

    With `without`, that one can't be chosen, and none ("") can.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", show=False),
        Binding("escape,q,s,a", "dismiss(None)", show=False),
    ]

    def __init__(self, title: str, chosen: str, without: str = "") -> None:
        super().__init__()
        self._list = ScheduleList(title, chosen, without)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield self._list

    def on_mount(self) -> None:
        width, height = room(self.app.size)
        self._list.styles.width = min(width, 94)
        self._list.styles.height = min(self._list.length() + 1, height)
        self._list.focus()

    def on_choice_picked(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self._list.names[self._list.cursor])
