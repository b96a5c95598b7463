"""The pane that shows a guide step by step, and in which one live block at a time is chosen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from labtui.tui.lines import RULE, Line, Piece
from labtui.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from labtui.tui.lesson import Lesson, Live
    from labtui.tui.lesson_lines import Placed


class LessonPane(Pane):
    """A step of a guide. Moving goes to the next block where that is in view, and through the text where it isn't."""

    class Moved(Message):
        """Another block is chosen, or none."""

    class Picked(Message):
        """The chosen block was clicked twice."""

    def __init__(self, *, id: str | None = None, joint: str = RULE) -> None:
        super().__init__(id=id, joint=joint)
        self.title = "Guide"
        self.lesson: Lesson | None = None
        self._chosen: int | None = None
        self._blocks: list[Placed] = []
        self._length = 0

    # What is shown

    def show(self, lesson: Lesson | None) -> None:
        """Shows a guide, or what has changed in it; another step from its beginning."""
        before = self.lesson
        self.lesson = lesson
        if before is None or lesson is None or (before.name, before.step) != (lesson.name, lesson.step):
            self._top, self._chosen = 0, None
        self.redraw()
        if self._chosen is None:
            self._choose_visible()
        elif before is not None and lesson is not None and before.progress != lesson.progress:
            # What was just answered says more than before, and should be seen whole.
            self._choose(min(self._chosen, len(self._blocks) - 1) if self._blocks else None)

    def facts(self) -> Sequence[Piece]:
        told: list[Piece] = []
        if self._top + self.rows < self._length:
            told.append(("↓ more", "accent" if self.has_focus else "dim"))
        if self.lesson is not None and len(self.lesson.pages) > 1:
            told.append((f"{'  ' if told else ''}step {self.lesson.step + 1} of {len(self.lesson.pages)}", "dim"))
        return told

    def body(self, width: int) -> Sequence[Line]:
        if self.lesson is None:
            return []
        from labtui.tui.lesson_lines import page_lines  # there is a guide, so it has been imported

        lines, self._blocks = page_lines(self.lesson, width, self._chosen if self.has_focus else None, time.time())
        self._length = len(lines)
        return lines

    def build(self, width: int, height: int) -> Sequence[Line]:
        lines = super().build(width, height)
        # How much is below is known only now.
        return [super().build(width, 1)[0], *lines[1:]] if self.lesson is not None and height > 1 else lines

    # The chosen block

    @property
    def chosen(self) -> Live | None:
        """The block that keys act on."""
        return (
            self._blocks[self._chosen].part if self._chosen is not None and self._chosen < len(self._blocks) else None
        )

    def choose_next(self, by: int) -> bool:
        """To the next block, or the one before (-1); False where there is none."""
        place = (-1 if by > 0 else len(self._blocks)) if self._chosen is None else self._chosen
        if not 0 <= place + by < len(self._blocks):
            return False
        self._choose(place + by)
        return True

    def _choose(self, place: int | None) -> None:
        self._chosen = place
        if place is not None:
            block = self._blocks[place]
            if block.after > self._top + self.rows:
                self._top = block.after - self.rows
            self._top = min(self._top, block.first)
        self.redraw()
        self.post_message(self.Moved())

    def _is_visible(self, block: Placed) -> bool:
        """Whether enough of it is in view to be acted on: all, or as much as there is room for."""
        whole = block.first >= self._top and block.after <= self._bottom
        return whole or (block.first <= self._top and block.after >= self._bottom)

    @property
    def _bottom(self) -> int:
        """The first line below the view."""
        return self._top + self.rows

    def _choose_visible(self, *, last: bool = False) -> None:
        """Where the chosen block has left the view, one that is in it is chosen, if any."""
        in_view = [n for n, block in enumerate(self._blocks) if self._top < block.after and block.first < self._bottom]
        if self._chosen in in_view:
            return
        visible = [n for n in in_view if self._is_visible(self._blocks[n])] or in_view
        chosen = visible[-1 if last else 0] if visible else None
        if chosen != self._chosen:
            self._chosen = chosen
            self.redraw()
            self.post_message(self.Moved())

    # Moving

    def action_move(self, lines: int) -> None:
        place = (-1 if lines > 0 else len(self._blocks)) if self._chosen is None else self._chosen
        if self._chosen is None:
            inside = [n for n, block in enumerate(self._blocks) if block.first >= self._top]
            place = (inside[0] - 1 if inside else len(self._blocks)) if lines > 0 else place
        following = place + (1 if lines > 0 else -1)
        if 0 <= following < len(self._blocks) and self._is_visible(self._blocks[following]):
            self._choose(following)
        else:
            self.scroll_rows(lines)

    def scroll_rows(self, lines: int) -> None:
        self._top = max(0, min(self._top + lines, self._length - self.rows))
        self._choose_visible(last=lines > 0)
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._choose_visible()

    def on_focus(self) -> None:
        super().on_focus()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        y = self._top + event.y - 1
        place = next((n for n, block in enumerate(self._blocks) if block.first <= y < block.after), None)
        if place is None:
            return
        if place == self._chosen and event.chain > 1:
            self.post_message(self.Picked())
        else:
            self._choose(place)
