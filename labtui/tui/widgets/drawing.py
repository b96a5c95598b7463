"""The base of our own widgets: lines made by a pure function, of which only the cells that changed are sent again.

Textual sends every dirty region whole, styles included; over a slow link that is what counts (see changed_span).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from labtui.tui.lines import Line, changed_span, crop
from labtui.tui.theme import ROLES


class Drawing(Widget):
    """A widget that shows what `build` returns."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Line] = ()
        self._base: Style | None = None

    def build(self, width: int, height: int) -> Sequence[Line]:
        """The lines to show, at most `height`, each of exactly `width` cells. No I/O; data comes by attributes."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Builds the lines anew and repaints what differs. To be called when the data has changed."""
        width, height = self.size
        if not self.is_mounted or not self.display or width < 1 or height < 1:
            return
        old, self._lines = self._lines, [crop(line, width) for line in self.build(width, height)][:height]
        if len(old) != len(self._lines):
            self.refresh()
            return
        for y, (before, after) in enumerate(zip(old, self._lines, strict=True)):
            span = changed_span(before, after)
            if span is not None:
                self.refresh(Region(span[0], y, span[1] - span[0], 1))

    def render_line(self, y: int) -> Strip:
        if self._base is None:
            self._base = self.rich_style
        base, width = self._base, self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, base)
        return Strip([Segment(text, base + _style(role)) for text, role in self._lines[y]], width)

    def notify_style_update(self) -> None:
        self._base = None
        super().notify_style_update()

    def on_resize(self, event: events.Resize) -> None:
        self._lines = ()
        self.redraw()

    def on_show(self, event: events.Show) -> None:
        self.redraw()


@lru_cache(maxsize=256)
def _style(role: str | Style) -> Style:
    return role if isinstance(role, Style) else sum((ROLES[name] for name in role.split()), Style.null())
