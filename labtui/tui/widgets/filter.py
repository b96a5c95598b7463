"""A line to type into what is looked for: there while it is used, and as long as it says something."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class FilterLine(Input):
    """Hidden until it is opened. Enter keeps what was typed, esc takes it away; both go back to what is filtered."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear_filter", show=False)]

    class Typed(Message):
        """Something else is looked for."""

    class Left(Message):
        """The keys should go to what is filtered again."""

    def __init__(self, hint: str) -> None:
        super().__init__(placeholder=hint, compact=True, select_on_focus=False)
        self.display = False

    @property
    def text(self) -> str:
        """What is looked for."""
        return self.value.strip()

    def open(self) -> None:
        """Shows it, to be typed into."""
        self.display = True
        self.focus()

    def clear(self) -> None:
        """Takes away what was typed, and the line."""
        self.value = ""
        self.display = False
        self.post_message(self.Left())

    def action_clear_filter(self) -> None:
        self.clear()

    @on(Input.Changed)
    def tell(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed())

    @on(Input.Submitted)
    def leave(self, event: Input.Submitted) -> None:
        event.stop()
        self.display = bool(self.text)
        self.post_message(self.Left())
