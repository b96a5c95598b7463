"""`?`: all keys that work here, from the table of actions: those of the focused pane first, then the screen's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui.lines import Line, fit, wrap
from labtui.tui.screens.choose import room
from labtui.tui.widgets.pane import Pane

TITLES = {
    actions.LAB: "Lab", actions.RUN: "Run", actions.PANE: "panes", actions.LOG: "logs", actions.TIME: "time",
    actions.RUNS: "Runs",
    actions.COMPARE: "Compare", actions.SIMULATE: "Simulate",
    actions.MACHINE: "Machine",
    actions.LIST: "lists and texts", actions.SCREEN: "everywhere", actions.APP: "",
}  # fmt: skip
"""Without a title: the actions go on below those of the place before."""
STATES = "· never run, Q queued, R running, ok succeeded, !! failed, -- stopped, ?? lost"

Section = tuple[str, tuple[str, ...]]
"""A title, and the places whose actions stand below it."""


def sections(places: Sequence[str], last: Sequence[str] = (), focused: Widget | None = None) -> list[Section]:
    """The keys of the focused pane, if it is one; then those of the other places, each once; `last` at the end."""
    here = dict.fromkeys((*(place for place in places if place not in last), *last))
    found: list[Section] = []
    if isinstance(focused, Pane):
        of_the_pane = tuple(place for place in focused.places if place in here)
        if of_the_pane:
            found.append((f"in focus: {focused.title}", of_the_pane))
            here = dict.fromkeys(place for place in here if place not in of_the_pane)
    for place in here:
        if TITLES[place] or not found:
            found.append((TITLES[place], (place,)))
        else:
            title, before = found[-1]
            found[-1] = (title, (*before, place))
    return found


class KeyList(Pane):
    """The keys of some places, with what they do."""

    title = "Keys"

    def __init__(self, places: Sequence[str], last: Sequence[str] = (), focused: Widget | None = None) -> None:
        super().__init__()
        self._sections = sections(places, last, focused)

    def facts(self) -> Sequence[tuple[str, str]]:
        return [("esc closes", "dim")]

    def body(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, places in self._sections:
            lines += [()] if lines else []
            lines += [((fit(title, width), "strong" if title.startswith("in focus") else "dim"),)] if title else []
            for action in actions.of(*places):
                for place, text in enumerate(wrap(action.help, width - 19)):
                    keys = fit(actions.shown_keys(action) if place == 0 else "", 16)
                    lines.append((("  ", ""), (keys, "accent"), (" ", ""), (text, "")))
        states: list[Line] = [(("  ", ""), (text, "")) for text in wrap(STATES, width - 2)]
        return [*lines, (), (("states", "dim"),), *states]


class HelpScreen(ModalScreen[None]):
    """The keys that work on the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "dismiss(None)", show=False)]

    def __init__(self, places: Sequence[str], last: Sequence[str] = (), focused: Widget | None = None) -> None:
        super().__init__()
        self._keys = KeyList(places, last, focused)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield self._keys

    def on_mount(self) -> None:
        width, height = room(self.app.size)
        self._keys.styles.width = min(width, 92)
        self._keys.styles.height = min(len(self._keys.body(width)) + 1, height)
        self._keys.focus()
