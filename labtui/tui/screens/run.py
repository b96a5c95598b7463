"""2 Run: one run, alive or not: chart, findings, processes, logs. It looks the same wherever the folder came from."""

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
from labtui.runs.watch import Snapshot
from labtui.tui import actions
from labtui.tui.messages import LogWindow
from labtui.tui.plots import plots
from labtui.tui.screens.choose import Confirm
from labtui.tui.screens.framed import Framed
from labtui.tui.widgets.chart import ChartPane
from labtui.tui.widgets.findings import Findings
from labtui.tui.widgets.headline import Headline
from labtui.tui.widgets.log import LogPane
from labtui.tui.widgets.pane import Pane
from labtui.tui.widgets.processes import Processes


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
        self.processes = Processes()
        self.log_pane = LogPane(joint="┼")
        self._zoomed = False

    @property
    def panes(self) -> tuple[Pane, ...]:
        return self.chart, self.findings, self.processes, self.log_pane

    def compose_body(self) -> Iterable[Widget]:
        yield self.headline
        with Horizontal(id="upper"):
            yield self.chart
            yield self.findings
        with Horizontal(id="lower"):
            yield self.processes
            yield self.log_pane

    def on_mount(self) -> None:
        self.log_pane.focus()

    # News

    def open(self, folder: RunFolder) -> None:
        """From now on this run."""
        self.folder, self.snapshot = folder, None
        self.headline.snapshot = self.findings.snapshot = self.processes.snapshot = None
        self.headline.empty = f"{folder.id} is being read"
        self.chart.clear()
        self.log_pane.clear()
        self.notice.say("")
        for drawing in (self.headline, self.findings, self.processes):
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
            self.headline.snapshot = self.findings.snapshot = self.processes.snapshot = snapshot
            self.headline.experiment = experiment.title if experiment else ""
            is_default = snapshot.request is not None and not snapshot.request.variant
            self.headline.minutes = experiment.minutes if experiment and is_default else None
            for drawing in (self.headline, self.findings, self.processes):
                drawing.redraw()
            self.chart.show(plots(snapshot, experiment.charts if experiment else ()))
            self.log_pane.show_logs([(log.name, log.size) for log in snapshot.logs])

    def show_log(self, window: LogWindow) -> None:
        """Shows lines that were read."""
        self.log_pane.show(window)

    # Room

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if self._is_alone:
            self._lay_out()

    @property
    def _is_alone(self) -> bool:
        return self._zoomed or self.is_small

    def _lay_out(self) -> None:
        alone = self._is_alone
        self.set_class(alone, "-alone")
        shown = self._focused_pane
        for pane in self.panes:
            pane.alone = alone
            pane.display = not alone or pane is shown
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
        pane = panes[(panes.index(self._focused_pane) + by) % len(panes)]
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
    def _turnable(self) -> ChartPane | LogPane:
        return self.chart if self.focused is self.chart else self.log_pane

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
