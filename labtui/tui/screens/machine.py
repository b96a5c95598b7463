"""6 Machine: what this machine is, how its GPUs hang together, what it does now, and what would trip up a run on it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui.messages import Examined, Machine
from labtui.tui.screens.framed import Framed
from labtui.tui.widgets.here import AboutPane, DoctorPane, LinksPane
from labtui.tui.widgets.pane import Pane
from labtui.tui.widgets.strip import MachineStrip

WIDE = 110
"""From so many columns on, the doctor stands beside the others. Below, links and doctor have one place."""


OLD_S = 60.0
"""What the doctor found longer ago is looked at again when somebody comes back to this screen."""


class MachineScreen(Framed):
    """This machine."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.MACHINE)]
    name_on_title = "machine"
    places = (actions.MACHINE, actions.SCREEN, actions.APP)

    class ExaminationWanted(Message):
        """The doctor should look (again)."""

    def __init__(self) -> None:
        super().__init__()
        self.about = AboutPane()
        self.links = LinksPane()
        self.doctor = DoctorPane(joint="┬")
        self.strip = MachineStrip()
        self._zoomed = False
        self._in_front: Pane = self.doctor
        """Of the two that share a place."""
        self._is_examining = False

    @property
    def panes(self) -> tuple[Pane, ...]:
        """In the order in which tab walks through them."""
        return self.about, self.links, self.doctor

    def compose_body(self) -> Iterable[Widget]:
        with Horizontal(id="here"):
            with Vertical(id="here-left"):
                yield self.about
                yield self.links
            yield self.doctor
        yield self.strip

    def on_mount(self) -> None:
        self.doctor.focus()
        self.action_examine()

    def on_screen_resume(self) -> None:
        taken = self.doctor.taken
        if taken is not None and time.time() - taken > OLD_S:
            self.action_examine()

    # News

    def show_machine(self, machine: Machine) -> None:
        """Shows what this machine is, and how it is now."""
        before = self.strip.machine
        self.strip.machine = self.about.machine = machine
        self.links.show(machine)
        if not self.is_mounted:
            return
        if before is None or len(before.gauges.gpus) != len(machine.gauges.gpus) or before.document != machine.document:
            self._lay_out()
        self.strip.redraw()
        self.about.redraw()

    def show_examined(self, examined: Examined) -> None:
        """Shows what the doctor found, and the newest profiles."""
        self._is_examining = False
        self.doctor.findings, self.doctor.taken = examined.findings, examined.taken
        self.about.profiles = examined.profiles
        self._lay_out()

    # Room

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if self._focused_pane is not self.about:
            self._in_front = self._focused_pane
        self._lay_out()

    def _lay_out(self) -> None:
        alone = self._zoomed or self.is_small
        stacked = not alone and self.size.width < WIDE
        hidden: tuple[Pane, ...] = ()
        if alone:
            hidden = tuple(pane for pane in self.panes if pane is not self._focused_pane)
        elif stacked:
            hidden = (self.links if self._in_front is self.doctor else self.doctor,)
        for pane in self.panes:
            pane.display = pane not in hidden
            pane.alone = alone or stacked
        self.set_class(stacked, "-stacked")
        self.set_class(alone, "-alone")
        strip = self.strip.lines_wanted(self.size.width, 1 if self.is_small else self.size.height // 3)
        self.strip.styles.height = strip
        left = self.query_one("#here-left")
        left.display = self.about.display or self.links.display
        inner = self.size.width // (1 if alone or stacked else 2) - 2
        height = self.size.height - strip - 2
        # It needs what it needs, and leaves what is below half of the room, or as much as that can fill.
        spare = height - len(self.links.body(inner)) - 1 if not stacked else 0
        tall = min(len(self.about.body(inner)) + 1, max(height // 2, spare, 4))
        only = alone or not self.links.display
        self.about.styles.height = "1fr" if only else tall
        left.styles.height = tall if stacked and not self.links.display else "1fr"
        self.doctor.meets_at = tall if not (alone or stacked) else None
        self.strip.joint_at = None if alone or stacked else self.size.width // 2
        for pane in self.panes:
            pane.redraw()
        self.strip.redraw()

    @property
    def _focused_pane(self) -> Pane:
        return self.focused if isinstance(self.focused, Pane) else self.doctor

    def action_next_pane(self) -> None:
        self._step(1)

    def action_previous_pane(self) -> None:
        self._step(-1)

    def _step(self, by: int) -> None:
        panes = self.panes
        pane = panes[(panes.index(self._focused_pane) + by) % len(panes)]
        for widget in (pane, self.query_one("#here-left")):
            widget.display = True  # what is hidden can't be focused
        pane.focus()

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self._lay_out()

    def go_back(self) -> None:
        if self._zoomed:
            self.action_zoom()
        else:
            self.app.action_go_back()  # type: ignore[attr-defined]

    # Actions

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        if not self.links.display:
            self._step_to_links()
        self.links.turn(by)

    def _step_to_links(self) -> None:
        for widget in (self.links, self.query_one("#here-left")):
            widget.display = True
        self.links.focus()

    def action_examine(self) -> None:
        if self._is_examining:
            return
        self._is_examining = True
        self.doctor.taken = None
        self.doctor.redraw()
        self.post_message(self.ExaminationWanted())
