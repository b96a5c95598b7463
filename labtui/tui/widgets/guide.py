"""A guide's text under its heading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll

from labtui.tui import actions
from labtui.tui.lines import Line, heading
from labtui.tui.widgets.drawing import Drawing

if TYPE_CHECKING:
    from textual.widgets import Markdown


class GuideHeading(Drawing):
    """The chosen experiment's title in a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.title = "Guide"
        self.focused_below = False
        self.joint = "┬"

    def build(self, width: int, height: int) -> Sequence[Line]:
        return [heading(self.title, width, focused=self.focused_below, joint=self.joint)]


class GuideText(VerticalScroll, can_focus=True):
    """The Markdown, scrolled without animation: each frame of one would cross the wire."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.LIST)]

    def __init__(self) -> None:
        super().__init__()
        self._markdown: Markdown | None = None
        self._shown = ""

    def show(self, markdown: str) -> None:
        """Shows another text from its beginning."""
        if markdown != self._shown:
            self._shown = markdown
            if self._markdown is None:
                # After the first paint: its parser takes longer to import than all of our own modules.
                from textual.widgets import Markdown

                self._markdown = Markdown(markdown, open_links=False)
                self.mount(self._markdown)
            else:
                self._markdown.update(markdown)
            self.scroll_home(animate=False)

    def action_move(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        self.scroll_relative(y=pages * max(self.size.height - 2, 1), animate=False)

    def action_go_first(self) -> None:
        self.scroll_home(animate=False)

    def action_go_last(self) -> None:
        self.scroll_end(animate=False)
