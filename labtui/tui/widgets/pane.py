"""Panes: a heading in a rule, and lines below it that can be scrolled, or chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from labtui.tui import actions
from labtui.tui.lines import RULE, UPRIGHT, Line, Piece, crop, heading
from labtui.tui.widgets.drawing import Drawing


class Pane(Drawing, can_focus=True):
    """A part of a screen with a heading. What doesn't fit can be scrolled to."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.LIST)]

    title = ""
    behind = ""
    """What stands behind the title, where there is room."""
    places: tuple[str, ...] = (actions.LIST,)
    """Whose actions `?` shows first while the pane is in focus."""

    def __init__(self, *, id: str | None = None, joint: str = RULE) -> None:
        super().__init__(id=id)
        self.joint = joint
        """How the heading meets the rule at the pane's left, or plain RULE where there is none."""
        self.alone = False
        """Whether the pane has the whole width, so that there is nothing at its left."""
        self._top = 0

    # What a pane consists of

    def facts(self) -> Sequence[Piece]:
        """What stands at the right end of the heading."""
        return ()

    def body(self, width: int) -> Sequence[Line]:
        """All lines below the heading, of at most `width` cells each."""
        raise NotImplementedError

    # How it is laid out

    @property
    def beside(self) -> bool:
        """Whether a rule stands at the pane's left."""
        return self.joint != RULE and not self.alone

    def build(self, width: int, height: int) -> Sequence[Line]:
        inner = max(width - (3 if self.beside else 2), 0)
        joint = self.joint if self.beside else RULE
        head = heading(
            self.title, width, facts=self.facts(), focused=self.has_focus, joint=joint, behind=self.behind
        )  # fmt: skip
        margin: Piece = (f"{UPRIGHT} ", "rule") if self.beside else (" ", "")
        below = [crop((margin, *line), width) for line in self.shown_lines(inner, height - 1)]
        below += [crop((margin,), width)] * (height - 1 - len(below))
        return [head, *below]

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        """The lines on show, after scrolling; remembers no further than there is something."""
        lines = self.body(width)
        self._top = max(0, min(self._top, len(lines) - height))
        return lines[self._top : self._top + height]

    @property
    def rows(self) -> int:
        """Lines on show at a time."""
        return max(self.size.height - 1, 1)

    # What can be done with it

    def copied(self) -> tuple[str, str]:
        """What `y` copies: a text, and what it is in words. Here the lines that are in sight."""
        width = max(self.size.width - 2, 1)
        lines = ["".join(text for text, _ in line).rstrip() for line in self.shown_lines(width, self.rows)]
        return "\n".join(lines), "what is in sight"

    def take_back(self) -> bool:
        """esc: takes back what was done last in the pane; False where there is nothing."""
        return False

    def action_move(self, lines: int) -> None:
        self.scroll_rows(lines)

    def action_page(self, pages: int) -> None:
        self.scroll_rows(pages * max(self.rows - 1, 1))

    def action_go_first(self) -> None:
        self.scroll_rows(-(1 << 40))

    def action_go_last(self) -> None:
        self.scroll_rows(1 << 40)

    def scroll_rows(self, lines: int) -> None:
        """Moves the view; beyond the ends it stops."""
        self._top = max(0, self._top + lines)
        self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-3)

    def on_focus(self) -> None:
        self.call_next(self.redraw)  # by then it knows that it has the focus

    def on_blur(self) -> None:
        self.call_next(self.redraw)


class Choice(Pane):
    """A pane in which one line is under the cursor. Lines that aren't `choosable` are stepped over."""

    class Moved(Message):
        """The cursor stands on another line."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

        @property
        def control(self) -> Choice:
            return self.choice

    class Picked(Message):
        """The line under the cursor was clicked."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, *, id: str | None = None, joint: str = RULE) -> None:
        super().__init__(id=id, joint=joint)
        self.cursor = 0

    def length(self) -> int:
        """How many lines there are."""
        raise NotImplementedError

    def choosable(self, index: int) -> bool:
        return True

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        """One line."""
        raise NotImplementedError

    def header(self, width: int) -> Line | None:
        """A line above all, which stays when they are scrolled."""
        return None

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        header = self.header(width)
        room = max(height - (header is not None), 1)
        self.cursor = self._nearest(self.cursor, 1)
        first_choosable = self._nearest(0, 1)
        # Headings above the first line come into view with it.
        top_wanted = 0 if self.cursor == first_choosable else self.cursor
        self._top = max(min(self._top, top_wanted), self.cursor - room + 1, 0)
        self._top = max(0, min(self._top, self.length() - room))
        shown = range(self._top, min(self._top + room, self.length()))
        rows = [self.row(index, width, chosen=index == self.cursor) for index in shown]
        return [header, *rows] if header is not None else rows

    def move_to(self, index: int, direction: int = 1) -> None:
        """Puts the cursor on the line, or on the nearest choosable one in that direction."""
        before = self.cursor
        self.cursor = self._nearest(index, direction)
        if self.cursor != before:
            self.post_message(self.Moved(self))
        self.redraw()

    def _nearest(self, index: int, direction: int) -> int:
        last = self.length() - 1
        index = max(0, min(index, last))
        for step in (direction, -direction):
            at = index
            while 0 <= at <= last:
                if self.choosable(at):
                    return at
                at += step
        return 0

    def scroll_rows(self, lines: int) -> None:
        self.move_to(self.cursor + lines, 1 if lines > 0 else -1)

    def on_click(self, event: events.Click) -> None:
        index = self._top + event.y - 1 - (self.header(self.size.width) is not None)
        if not 0 <= index < self.length() or not self.choosable(index):
            return
        if index == self.cursor and self.has_focus and event.chain > 1:
            self.post_message(self.Picked(self))
        self.move_to(index)
