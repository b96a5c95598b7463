"""What all screens share: title line above, notice and footer below, panes between that the tab key walks through."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui.widgets.frame import Footer, NoticeLine, TitleLine

NARROW = 60
"""Below so many columns there is room for one pane at a time."""
LOW = 16
"""Below so many lines, too."""


class Framed(Screen[None]):
    """A screen on a digit."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.SCREEN)]
    name_on_title = ""
    places: tuple[str, ...] = (actions.APP,)
    """Whose actions the footer and `?` show."""
    general: tuple[str, ...] = (actions.LIST, actions.SCREEN, actions.APP)
    """What `?` shows last."""

    def __init__(self) -> None:
        super().__init__()
        self.title_line = TitleLine(self.name_on_title)
        self.notice = NoticeLine()
        self.footer = Footer()
        self.footer.places = self.places

    def compose(self) -> ComposeResult:
        yield self.title_line
        yield from self.compose_body()
        yield self.notice
        yield self.footer

    def compose_body(self) -> Iterable[Widget]:
        """What stands between title and notice."""
        raise NotImplementedError

    @property
    def is_small(self) -> bool:
        """Whether there is room for one pane only."""
        return self.size.width < NARROW or self.size.height < LOW

    def on_mount(self) -> None:
        self.title_line.machine = self.title_line.machine or os.uname().nodename
        self.set_interval(10.0, self.show_time)
        self.show_time()

    def on_screen_resume(self) -> None:
        self.show_time()

    def show_time(self) -> None:
        """Keeps the clock in the title line."""
        if self.is_current:
            self.title_line.time = time.strftime("%H:%M")
            self.title_line.redraw()

    def show_live(self, live: int) -> None:
        """Shows how many runs are alive."""
        self.title_line.live = live
        self.title_line.redraw()

    def action_back(self) -> None:
        """esc: takes a notice away first."""
        if self.notice.sentence:
            self.notice.say("")
        else:
            self.go_back()

    def go_back(self) -> None:
        """What esc does when there is nothing to take away."""

    def action_next_pane(self) -> None:
        self.focus_next()

    def action_previous_pane(self) -> None:
        self.focus_previous()
