"""4 Compare: two to eight runs side by side, with what differed first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui.compare_lines import SideBySide
from labtui.tui.screens.framed import Framed
from labtui.tui.widgets.compared import ComparedCharts, ComparedTable
from labtui.tui.widgets.pane import Pane

EMPTY = """no runs are compared yet

In the Runs (3) mark two or more with space, then press c: they are laid side by side.
On a run that belongs to a group, c alone takes the whole group."""
WIDE = 140
"""From so many columns on, table and charts stand side by side."""


class CompareScreen(Framed):
    """Runs side by side."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.COMPARE)]
    name_on_title = "compare"
    places = (actions.COMPARE, actions.SCREEN, actions.APP)

    class ReadingWanted(Message):
        """These runs should be read (anew)."""

        def __init__(self, ids: Sequence[str]) -> None:
            super().__init__()
            self.ids = tuple(ids)

    def __init__(self, *, ascii: bool) -> None:
        super().__init__()
        self.table = ComparedTable()
        self.table.empty = EMPTY
        self.charts = ComparedCharts(joint="┬", ascii=ascii)
        self.ids: tuple[str, ...] = ()
        self._zoomed = False

    def compose_body(self) -> Iterable[Widget]:
        with Horizontal(id="compared"):
            yield self.table
            yield self.charts

    def on_mount(self) -> None:
        self.table.focus()

    def open(self, ids: Sequence[str]) -> None:
        """From now on these runs; they are being read."""
        self.ids = tuple(ids)
        self.table.compared = None
        self.table.empty = f"{len(self.ids)} runs are being read"
        self.charts.show(None)
        self.table.display = True
        self.set_focus(self.table)
        self.table.redraw()
        self.post_message(self.ReadingWanted(self.ids))

    def show(self, compared: SideBySide) -> None:
        """Shows what was read."""
        before = self.table.compared
        if before is not None and before.ids == compared.ids:
            compared = replace(compared, baseline=before.baseline)
        if not compared.runs:
            self.table.compared, self.table.empty = None, "\n".join(compared.missing) or EMPTY
        else:
            self.table.compared = compared
        self.charts.show(self.table.compared)
        self.table.redraw()

    # Room

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        panes: tuple[Pane, ...] = (self.table, self.charts)
        alone = self._zoomed or self.is_small or self.size.width < WIDE
        self.set_class(alone, "-alone")
        focused = self.focused if self.focused in panes else self.table
        for pane in panes:
            pane.alone = alone
            pane.display = not alone or pane is focused
        for pane in panes:
            pane.redraw()

    def action_next_pane(self) -> None:
        other: Pane = self.charts if self.focused is not self.charts else self.table
        other.display = True
        self.set_focus(other)  # at once: `focus` is put off, and the next key would go to this pane

    action_previous_pane = action_next_pane

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
        self.charts.action_next_tab()

    def action_previous_tab(self) -> None:
        self.charts.action_previous_tab()

    def action_apart(self) -> None:
        self.charts.action_apart()

    def action_next_baseline(self) -> None:
        compared = self.table.compared
        if compared is not None:
            self.table.compared = replace(compared, baseline=(compared.baseline + 1) % len(compared.runs))
            self.table.redraw()

    def action_read_again(self) -> None:
        if self.ids:
            self.post_message(self.ReadingWanted(self.ids))
