"""A question that is answered with a line of text, over a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from labtui.tui.lines import Line, wrap
from labtui.tui.screens.choose import WIDTH, room
from labtui.tui.widgets.drawing import Drawing


class Asked(Drawing):
    """What is asked, and what the keys do."""

    def __init__(self, question: str, width: int) -> None:
        super().__init__()
        self.sentences = wrap(question, width)

    def build(self, width: int, height: int) -> Sequence[Line]:
        return [((text, "strong"),) for text in self.sentences]


class Ask(ModalScreen[str | None]):
    """Answers with what was typed, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, question: str, text: str = "", hint: str = "") -> None:
        super().__init__()
        self._question, self._text, self._hint = question, text, hint

    def compose(self) -> ComposeResult:
        width = min(room(self.app.size)[0], WIDTH)
        asked = Asked(self._question, width)
        asked.styles.width, asked.styles.height = width, len(asked.sentences)
        field = Input(self._text, placeholder=self._hint, compact=True, select_on_focus=False)
        field.styles.width = width
        with Vertical(classes="dialog"):
            yield asked
            yield field

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def answer(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)
