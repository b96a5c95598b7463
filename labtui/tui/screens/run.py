"""2 Run: one run, alive or not, in seven panes. It looks the same wherever its folder came from.

Panes share four places. Where several have one place, the one that was last in focus is in front, and its heading
names the other one with the key that brings it there. In a small terminal, or zoomed, one pane has all the room.
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
from labtui.runs.clean import clean
from labtui.runs.folder import RunFolder
from labtui.runs.plots import plots
from labtui.runs.watch import Log, Snapshot
from labtui.tui import actions
from labtui.tui.messages import LogWindow
from labtui.tui.screens.choose import Confirm
from labtui.tui.screens.log_keys import LogKeys
from labtui.tui.widgets.chart import ChartPane
from labtui.tui.widgets.findings import Findings
from labtui.tui.widgets.headline import Headline
from labtui.tui.widgets.log import LogPane
from labtui.tui.widgets.machine import MachinePane
from labtui.tui.widgets.pane import Pane
from labtui.tui.widgets.paths import PathsPane
from labtui.tui.widgets.processes import ProcessesPane
from labtui.tui.widgets.timeline import TimelinePane

WIDE = 150
"""From so many columns on, findings and paths stand side by side."""
MOST_COPIED = 1 << 16
"""Characters; terminals take no more by OSC 52."""


class RunScreen(LogKeys):
    """One run's folder."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *actions.bindings(actions.LOG, actions.TIME, actions.RUN, actions.PANE)
    ]  # fmt: skip
    name_on_title = "run"
    places = (actions.LOG, actions.TIME, actions.RUN, actions.PANE, actions.SCREEN, actions.APP)

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
        self.timeline = TimelinePane()
        self.findings = Findings(joint="┬")
        self.paths = PathsPane(joint="┬")
        self.machine = MachinePane()
        self.processes = ProcessesPane()
        self.log_pane = LogPane(joint="┼")
        self._zoomed = False
        self._stopping = False
        self._shared: tuple[list[Pane], ...] = (
            [self.chart, self.timeline], [self.findings, self.paths], [self.machine, self.processes],
        )  # fmt: skip
        """Places that two panes have together; the one in front comes first."""

    @property
    def panes(self) -> tuple[Pane, ...]:
        """In the order in which tab walks through them."""
        return self.chart, self.timeline, self.findings, self.paths, self.machine, self.processes, self.log_pane

    @property
    def _of_the_snapshot(
        self,
    ) -> tuple[Headline | Findings | PathsPane | MachinePane | ProcessesPane | TimelinePane, ...]:
        return self.headline, self.findings, self.paths, self.machine, self.processes, self.timeline

    @property
    def logs(self) -> tuple[Log, ...]:
        return self.snapshot.logs if self.snapshot is not None else ()

    def compose_body(self) -> Iterable[Widget]:
        yield self.headline
        with Horizontal(id="upper"):
            yield self.chart
            yield self.timeline
            yield self.findings
            yield self.paths
        with Horizontal(id="lower"):
            yield self.machine
            yield self.processes
            yield self.log_pane

    def on_mount(self) -> None:
        self.log_pane.focus()

    # News

    def open(self, folder: RunFolder) -> None:
        """From now on this run."""
        self.folder, self.snapshot, self._stopping = folder, None, False
        self.headline.snapshot = self.findings.snapshot = None
        self.headline.empty = f"{folder.id} is being read"
        for pane in (self.chart, self.timeline, self.paths, self.machine, self.processes, self.log_pane):
            pane.clear()
        self.notice.say("")
        for drawing in (self.headline, self.findings):
            drawing.redraw()

    def show(self, snapshot: Snapshot) -> None:
        """Shows how the run is now."""
        if self.folder is None or snapshot.folder != self.folder:
            return
        if self.snapshot is not None and self.snapshot.live and not snapshot.live:
            self._stopping = False
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
        turned = False
        for place in self._shared:
            if pane is place[1]:
                place.reverse()
                turned = True
        if turned or self._is_alone:
            self._lay_out()
        self._show_keys(pane)

    def _show_keys(self, pane: Pane) -> None:
        """The footer's keys are those of the pane in focus, then the screen's."""
        own = {actions.LOG: pane is self.log_pane, actions.TIME: pane in (self.timeline, self.machine)}
        self.footer.places = tuple(place for place in self.places if own.get(place, True))
        self.footer.labels = {"fit_time": "", "zoom_time(1)": ""} if pane is self.machine else {}
        self.footer.redraw()

    @property
    def _is_alone(self) -> bool:
        return self._zoomed or self.is_small

    def _lay_out(self) -> None:
        alone = self._is_alone
        self.set_class(alone, "-alone")
        shown: tuple[Pane, ...] = (self._focused_pane,) if alone else self.panes
        for front, behind in self._shared:
            both = alone or (self.size.width >= WIDE and front in (self.findings, self.paths))
            front.behind = "" if both else _BEHIND[type(behind)]
            if not both:
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

    def action_show_timeline(self) -> None:
        self._go_to(self.timeline)

    def action_show_processes(self) -> None:
        self._go_to(self.processes)

    def action_show_chart(self) -> None:
        self._go_to(self.chart)

    def action_show_findings(self) -> None:
        self._go_to(self.findings)

    def action_show_logs(self) -> None:
        self._go_to(self.log_pane)

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
        if self._focused_pane.take_back():
            return
        if self._zoomed:
            self.action_zoom()
        else:
            self.app.action_go_back()  # type: ignore[attr-defined]

    def action_next_tab(self) -> None:
        self._turnable.action_next_tab()

    def action_previous_tab(self) -> None:
        self._turnable.action_previous_tab()

    @property
    def _turnable(self) -> ChartPane | TimelinePane | PathsPane | MachinePane | LogPane:
        for pane in (self.chart, self.timeline, self.paths, self.machine):
            if self.focused is pane:
                return pane
        return self.log_pane

    @property
    def _timed(self) -> TimelinePane | MachinePane:
        return self.timeline if self.focused is self.timeline else self.machine

    def action_step_in_time(self, by: int) -> None:
        self._timed.step_in_time(by)

    def action_leap_in_time(self, by: int) -> None:
        self._timed.leap_in_time(by)

    def action_zoom_time(self, by: int) -> None:
        self.timeline.zoom(by)

    def action_fit_time(self) -> None:
        self.timeline.fit()

    def action_copy(self) -> None:
        text, what = self._focused_pane.copied()
        if not text.strip():
            self.notice.say("there is nothing to copy here")
            return
        self.app.copy_to_clipboard(clean(text[:MOST_COPIED]))
        self.notice.say(f"copied: {what}" if len(text) <= MOST_COPIED else f"copied: the first part of {what}")

    def action_stop_run(self) -> None:
        if self.snapshot is None:
            return
        if not self.snapshot.live:
            self.notice.say("this run has ended already")
            return

        def answer(yes: bool | None) -> None:
            if yes:
                self._stopping = True
                self.post_message(self.StopWanted())

        id = self.snapshot.folder.id
        if self._stopping:
            question = Confirm(f"{id} is being stopped already. Kill its ranks at once?", "kill them")
        else:
            question = Confirm(f"Stop {id}? All its ranks are ended.", "stop it")
        self.app.push_screen(question, answer)

    def action_take_stacks(self) -> None:
        if self.snapshot is None:
            return
        if not self.snapshot.live:
            self.notice.say("this run has ended: only live ranks have stacks")
            return
        self.notice.say("asking every rank where it is")
        self.post_message(self.StacksWanted())

    def action_export_run(self) -> None:
        from labtui.tui.screens.export import ask_and_export

        if self.folder is not None:
            ask_and_export(self, self.folder.id)

    def action_run_again(self) -> None:
        if self.folder is not None:
            self.notice.say("a run like this one is being started")
            self.post_message(self.AgainWanted())


_BEHIND: dict[type[Pane], str] = {
    ChartPane: "C chart", TimelinePane: "T timeline", Findings: "F findings", PathsPane: "p paths",
    MachinePane: "m machine", ProcessesPane: "P processes",
}  # fmt: skip
"""What stands in the heading of the pane in front for the one behind it: its key and its name."""
