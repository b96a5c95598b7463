"""2 Run: one run, alive or not: chart, findings, paths, machine, logs. It looks the same wherever its folder came from.

Panes share four places. Where several have one place, the one that was last in focus is in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget

from labtui.catalog.manifest import Experiment
from labtui.runs.folder import RunFolder
from labtui.runs.plots import plots
from labtui.runs.watch import Snapshot
from labtui.tui import actions
from labtui.tui.messages import LogWindow
from labtui.tui.screens.choose import Confirm
from labtui.tui.screens.framed import Framed
from labtui.tui.widgets.chart import ChartPane
from labtui.tui.widgets.findings import Findings
from labtui.tui.widgets.headline import Headline
from labtui.tui.widgets.log import LogPane
from labtui.tui.widgets.machine import MachinePane
from labtui.tui.widgets.pane import Pane
from labtui.tui.widgets.paths import PathsPane

WIDE = 150
"""From so many columns on, findings and paths stand side by side."""


class RunScreen(Framed):
    """One run's folder."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.RUN, actions.PANE)]
    name_on_title = "run"
    places = (actions.RUN, actions.PANE, actions.SCREEN, actions.APP)

    class StopWanted(Message):
        """The run should be ended."""

    class StacksWanted(Message):
        """The ranks should say where they are."""

    class AgainWanted(Message):
        """A run like this one should be started."""

    def __init__(self, experiment_of: Callable[[str], Experiment | None], *, ascii: bool) -> None:
        super().__init__()
        self._experiment_of = experiment_of
        self.folder: RunFolder | None = None
        self.snapshot: Snapshot | None = None
        self.headline = Headline()
        self.chart = ChartPane(ascii=ascii)
        self.findings = Findings(joint="┬")
        self.paths = PathsPane(joint="┬")
        self.machine = MachinePane()
        self.log_pane = LogPane(joint="┼")
        self._zoomed = False
        self._in_front: Pane = self.findings
        """Of the two that share a place."""

    @property
    def panes(self) -> tuple[Pane, ...]:
        """In the order in which tab walks through them."""
        return self.chart, self.findings, self.paths, self.machine, self.log_pane

    @property
    def _of_the_snapshot(self) -> tuple[Headline | Findings | PathsPane | MachinePane, ...]:
        return self.headline, self.findings, self.paths, self.machine

    def compose_body(self) -> Iterable[Widget]:
        yield self.headline
        with Horizontal(id="upper"):
            yield self.chart
            yield self.findings
            yield self.paths
        with Horizontal(id="lower"):
            yield self.machine
            yield self.log_pane

    def on_mount(self) -> None:
        self.log_pane.focus()

    # News

    def open(self, folder: RunFolder) -> None:
        """From now on this run."""
        self.folder, self.snapshot = folder, None
        self.headline.snapshot = self.findings.snapshot = None
        self.headline.empty = f"{folder.id} is being read"
        for pane in (self.chart, self.paths, self.machine, self.log_pane):
            pane.clear()
        self.notice.say("")
        for drawing in (self.headline, self.findings):
            drawing.redraw()

    def show(self, snapshot: Snapshot) -> None:
        """Shows how the run is now."""
        if self.folder is None or snapshot.folder != self.folder:
            return
        if self.snapshot is not None and self.snapshot.live and not snapshot.live:
            self.notice.say("")  # what was asked of the live run has been answered
        self.snapshot = snapshot
        experiment = self._experiment_of(snapshot.request.experiment) if snapshot.request else None
        with self.app.batch_update():
            for drawing in self._of_the_snapshot:
                drawing.snapshot = snapshot
            self.headline.experiment = experiment.title if experiment else ""
            is_default = snapshot.request is not None and not snapshot.request.variant
            self.headline.minutes = experiment.minutes if experiment and is_default else None
            for drawing in self._of_the_snapshot:
                drawing.redraw()
            self.chart.show(plots(snapshot, experiment.charts if experiment else ()), snapshot.taken)
            self.log_pane.show_logs([(log.name, log.size) for log in snapshot.logs])

    def show_log(self, window: LogWindow) -> None:
        """Shows lines that were read."""
        self.log_pane.show(window)

    # Room

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = self._focused_pane
        turned = pane in (self.findings, self.paths) and pane is not self._in_front
        if turned:
            self._in_front = pane
        if turned or self._is_alone:
            self._lay_out()

    @property
    def _is_alone(self) -> bool:
        return self._zoomed or self.is_small

    def _lay_out(self) -> None:
        alone = self._is_alone
        self.set_class(alone, "-alone")
        shown: tuple[Pane, ...] = (self._focused_pane,) if alone else self.panes
        if not alone and self.size.width < WIDE:
            behind = self.paths if self._in_front is self.findings else self.findings
            shown = tuple(pane for pane in shown if pane is not behind)
        for pane in self.panes:
            pane.alone = alone
            pane.display = pane in shown
        for row in self.query("#upper, #lower"):
            row.display = any(pane.display for pane in row.children)
        for pane in self.panes:
            pane.redraw()

    @property
    def _focused_pane(self) -> Pane:
        return self.focused if isinstance(self.focused, Pane) else self.log_pane

    def action_next_pane(self) -> None:
        self._step(1)

    def action_previous_pane(self) -> None:
        self._step(-1)

    def _step(self, by: int) -> None:
        panes: Sequence[Pane] = self.panes
        self._go_to(panes[(panes.index(self._focused_pane) + by) % len(panes)])

    def action_show_machine(self) -> None:
        self._go_to(self.machine)

    def action_show_paths(self) -> None:
        self._go_to(self.paths)

    def _go_to(self, pane: Pane) -> None:
        for widget in (pane, pane.parent):
            if isinstance(widget, Widget):
                widget.display = True  # what is hidden can't be focused
        pane.focus()

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self._lay_out()

    # Actions

    def go_back(self) -> None:
        if self._zoomed:
            self.action_zoom()
        else:
            self.app.action_go_back()  # type: ignore[attr-defined]

    def action_next_tab(self) -> None:
        self._turnable.action_next_tab()

    def action_previous_tab(self) -> None:
        self._turnable.action_previous_tab()

    @property
    def _turnable(self) -> ChartPane | PathsPane | MachinePane | LogPane:
        for pane in (self.chart, self.paths, self.machine):
            if self.focused is pane:
                return pane
        return self.log_pane

    def action_follow(self) -> None:
        self.log_pane.action_follow()

    def action_other_stream(self) -> None:
        self.log_pane.action_other_stream()

    def action_stop_run(self) -> None:
        if self.snapshot is None:
            return
        if not self.snapshot.live:
            self.notice.say("this run has ended already")
            return

        def answer(yes: bool | None) -> None:
            if yes:
                self.post_message(self.StopWanted())

        self.app.push_screen(Confirm(f"Stop {self.snapshot.folder.id}? All its ranks are ended.", "stop it"), answer)

    def action_take_stacks(self) -> None:
        if self.snapshot is None:
            return
        if not self.snapshot.live:
            self.notice.say("this run has ended: only live ranks have stacks")
            return
        self.notice.say("asking every rank where it is")
        self.post_message(self.StacksWanted())

    def action_run_again(self) -> None:
        if self.folder is not None:
            self.notice.say("a run like this one is being started")
            self.post_message(self.AgainWanted())
