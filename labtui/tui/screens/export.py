"""A small question over a screen: in which form a run should be exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen, Screen

from labtui.export.formats import ENDINGS, FORMATS
from labtui.tui.lines import Line, Piece, fit, with_role
from labtui.tui.screens.choose import WIDTH, room
from labtui.tui.widgets.pane import Choice

_ORDER = ("md", "csv", "json", "perfetto")


class ExportWanted(Message):
    """A run should be exported in that form, into the current folder."""

    def __init__(self, id: str, format: str) -> None:
        super().__init__()
        self.id = id
        self.format = format


class FormatList(Choice):
    """The forms there are."""

    title = "Export into the current folder"

    def facts(self) -> Sequence[Piece]:
        return [("enter writes", "dim")]

    def length(self) -> int:
        return len(_ORDER)

    @property
    def chosen(self) -> str:
        return _ORDER[self.cursor]

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        name = _ORDER[index]
        line: Line = (
            ("› " if chosen else "  ", "accent"),
            (fit(name, 9), "strong" if chosen else ""), (fit(FORMATS[name], 32), ""),
            (fit(ENDINGS[name], max(width - 43, 0)), "dim"),
        )  # fmt: skip
        return with_role(line, "cursor") if chosen else line


class ChooseFormat(ModalScreen[str | None]):
    """Answers with the form, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", show=False),
        Binding("escape,q,E", "dismiss(None)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._list = FormatList()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield self._list

    def on_mount(self) -> None:
        self._list.styles.width = min(room(self.app.size)[0], WIDTH)
        self._list.styles.height = self._list.length() + 1
        self._list.focus()

    def on_choice_picked(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self._list.chosen)


def ask_and_export(screen: Screen[None], id: str) -> None:
    """Asks for the form, and posts what is wanted to the screen."""

    def answer(format: str | None) -> None:
        if format is not None:
            screen.post_message(ExportWanted(id, format))

    screen.app.push_screen(ChooseFormat(), answer)
