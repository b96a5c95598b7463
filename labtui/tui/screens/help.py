"""`?`: all keys that work here, from the table of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from labtui.tui import actions
from labtui.tui.lines import Line, fit
from labtui.tui.screens.choose import room
from labtui.tui.widgets.pane import Pane

_TITLES = {
    actions.LAB: "Lab", actions.RUN: "Run", actions.PANE: "charts and logs", actions.RUNS: "Runs",
    actions.LIST: "lists and texts", actions.SCREEN: "everywhere", actions.APP: "",
}  # fmt: skip
STATES = "· never run, Q queued, R running, ok succeeded, !! failed, -- stopped, ?? lost"


class KeyList(Pane):
    """The keys of some places, with what they do."""

    title = "Keys"

    def __init__(self, places: Sequence[str]) -> None:
        super().__init__()
        self._places = places

    def facts(self) -> Sequence[tuple[str, str]]:
        return [("esc closes", "dim")]

    def body(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for place in self._places:
            if _TITLES[place]:
                lines += [(), ((_TITLES[place], "dim"),)] if lines else [((_TITLES[place], "dim"),)]
            for action in actions.of(place):
                keys = fit(actions.shown_keys(action), 16)
                lines.append((("  ", ""), (keys, "accent"), (" ", ""), (fit(action.help, width - 19), "")))
        return [*lines, (), (("states", "dim"),), (("  ", ""), (fit(STATES, width - 2), ""))]


class HelpScreen(ModalScreen[None]):
    """The keys that work on the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "dismiss(None)", show=False)]

    def __init__(self, places: Sequence[str]) -> None:
        super().__init__()
        last = (actions.LIST, actions.SCREEN, actions.APP)
        self._keys = KeyList([*(place for place in places if place not in last), *last])

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield self._keys

    def on_mount(self) -> None:
        width, height = room(self.app.size)
        self._keys.styles.width = min(width, 92)
        self._keys.styles.height = min(len(self._keys.body(width)) + 1, height)
        self._keys.focus()
