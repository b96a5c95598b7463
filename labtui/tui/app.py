"""The terminal UI: wires screens, the threads that read, and what a person asks for. It owns no run.

Closing it, killing it or losing the connection ends nothing: every run has an agent of its own.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App
from textual.binding import BindingType
from textual.filter import LineFilter

from labtui.catalog.manifest import Experiment
from labtui.runs.folder import RunFolder, logs_root
from labtui.runs.records import LIVE, QUEUED
from labtui.tui import actions, bell, gpu_words, plain, sampling, stopping, watcher, words, workers
from labtui.tui.driver import TolerantDriver
from labtui.tui.lessons import LessonReader, ProgressKeeper
from labtui.tui.log_lines import MERGED
from labtui.tui.log_reader import LogReader, merged_parts
from labtui.tui.messages import (
    CatalogRead,
    Crashed,
    Examined,
    FirstStart,
    GroupFound,
    History,
    HistoryRead,
    LastRead,
    LessonRead,
    LogFound,
    LogRead,
    LooksRead,
    MachineRead,
    Noticed,
    Planned,
    RunGrew,
    RunLabelled,
    RunStarted,
    SideBySideRead,
)  # fmt: skip
from labtui.tui.sampling import MachineWatcher
from labtui.tui.screens.compare import CompareScreen
from labtui.tui.screens.framed import Framed
from labtui.tui.screens.help import HelpScreen
from labtui.tui.screens.lab import LabScreen
from labtui.tui.screens.run import RunScreen
from labtui.tui.screens.runs import RunsScreen
from labtui.tui.theme import THEME
from labtui.tui.watcher import CatalogReader, HistoryWatcher, Poller, RunWatcher
from labtui.tui.widgets.history import HistoryTable
from labtui.tui.widgets.log import LogPane

if TYPE_CHECKING:
    from textual.command import Provider

    from labtui.tui.screens.export import ExportWanted
    from labtui.tui.screens.machine import MachineScreen

MACHINE_SHOWN = ("lab", "machine")
"""Modes in which one sees how this machine is."""
FIRST_ROWS = 500
"""Runs that are read for the lists; scrolling asks for more."""


def _palette() -> type[Provider]:
    """What ctrl+p searches; imported when it is first pressed."""
    from labtui.tui.palette import Actions

    return Actions


class LabApp(App[None]):
    """labtui's screens over one logs folder."""

    TITLE = "labtui"
    CSS_PATH: ClassVar[str] = "styles/labtui.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.APP)]
    COMMANDS = {_palette}
    DEFAULT_MODE: ClassVar[str] = "lab"

    def __init__(self, root: Path, run: RunFolder | None = None, *, ascii: bool = False, welcome: bool = False) -> None:
        """`welcome`: a user who starts the lab for the first time is shown what it is."""
        no_color = os.environ.get("NO_COLOR")
        super().__init__(driver_class=TolerantDriver)
        if no_color is not None:
            os.environ["NO_COLOR"] = no_color  # Textual takes it away, and runs started from here should see it.
        self.register_theme(THEME)
        self.theme = THEME.name
        self.root = root
        self.animation_level = "none"  # Each frame of an animation would cross the wire.
        self.history = History()
        self._first_run = run
        self._welcome = welcome
        self._filters_of_ours: list[LineFilter] = [plain.AsciiFilter()] if ascii else []
        if self.console.color_system == "standard":
            self._filters_of_ours.append(plain.SixteenFilter())
        self._experiments: dict[str, Experiment] = {}
        self._came_from = "lab"
        self.lab = LabScreen()
        self.run_screen = RunScreen(self._experiments.get, ascii=ascii)
        self.runs = RunsScreen()
        self.compare = CompareScreen(ascii=ascii)
        for name, screen in (
            ("lab", self.lab), ("run", self.run_screen), ("runs", self.runs), ("compare", self.compare),
        ):  # fmt: skip
            self.add_mode(name, lambda screen=screen: screen)  # type: ignore[misc]
        self.add_mode("simulate", self._made_simulate)
        self.add_mode("machine", self._made_machine)
        self.machine: MachineScreen | None = None
        self.catalog_reader = CatalogReader(self.post_message)
        self.lesson_reader = LessonReader(self.post_message, root)
        self.progress_keeper = ProgressKeeper(self.post_message)
        self.history_watcher = HistoryWatcher(self.post_message, root, FIRST_ROWS)
        self.run_watcher = RunWatcher(self.post_message)
        self.log_reader = LogReader(self.post_message)
        self.machine_watcher = MachineWatcher(self.post_message)
        self._painted = self._knows_runs = False
        self._watched = bell.Watched()
        self._made_later: list[Framed] = []
        """Screens that are made when they are first shown."""

    @property
    def _pollers(self) -> tuple[Poller, ...]:
        return (
            self.catalog_reader,
            self.lesson_reader,
            self.history_watcher,
            self.run_watcher,
            self.log_reader,
            self.machine_watcher,
        )

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), *self._filters_of_ours]

    def _made_simulate(self) -> Framed:
        """The Simulate screen, when it is first shown: the start shouldn't wait for the schedules."""
        from labtui.tui.screens.simulate import SimulateScreen

        screen = SimulateScreen()
        screen.title_line.machine = self.lab.title_line.machine
        screen.show_live(len(self.history.live))
        self._made_later.append(screen)
        return screen

    def _made_machine(self) -> Framed:
        """The Machine screen, when it is first shown."""
        from labtui.tui.screens.machine import MachineScreen

        self.machine = screen = MachineScreen()
        screen.title_line.machine = self.lab.title_line.machine
        screen.show_live(len(self.history.live))
        if self.lab.strip.machine is not None:
            screen.show_machine(self.lab.strip.machine)
        self._made_later.append(screen)
        return screen

    # From start to end

    def on_mount(self) -> None:
        self.catalog_reader.resume()
        self.history_watcher.resume()
        self._leave_on_signals()
        # After ctrl+z and fg the terminal is empty, and Textual takes what it once painted to be there still.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        if self._first_run is not None:
            self._open(self._first_run)
            self._go("run")
        self.call_after_refresh(self._go_on_after_first_paint)

    def _go_on_after_first_paint(self) -> None:
        _collect_garbage_again()
        self._painted = True
        self._watch_machine()
        if self._welcome:
            workers.look_for_first_start(self.post_message)

    def _leave_on_signals(self) -> None:
        """Textual alone would die of these with the terminal left in its own state."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self._leave_by, number)
            except (ValueError, RuntimeError):
                return  # Not in the main thread: whoever embeds us handles them.

    def _leave_by(self, number: int) -> None:
        self.exit(return_code=128 + number, message=None)

    def on_unmount(self) -> None:
        bell.give_title_back(self)
        for poller in self._pollers:
            poller.stop()

    # News from the threads

    @on(CatalogRead)
    def _show_catalog(self, event: CatalogRead) -> None:
        found = {entry.name: entry for entry in event.entries if isinstance(entry, Experiment)}
        self._experiments.clear()
        self._experiments.update(found)
        self.lab.show_catalog(event.entries)

    @on(LessonRead)
    def _show_lesson(self, event: LessonRead) -> None:
        self.lab.show_lesson(event.lesson)

    @on(LooksRead)
    def _show_looks(self, event: LooksRead) -> None:
        self.lab.show_looks(event.name, event.looks)

    @on(HistoryRead)
    def _show_history(self, event: HistoryRead) -> None:
        first, self._knows_runs, self.history = not self._knows_runs, True, event.history
        self.lab.show_history(self.history)
        self.runs.show_history(self.history)
        for screen in (self.run_screen, *self._made_later):
            screen.show_live(len(self.history.live))
        for row in self.history.rows:
            if row.id == self._watched.id:
                self._tell_end(row.id, row.experiment, row.state)
        self._watch_machine()
        if self.current_mode == "run":
            self._open_newest()
        if first and self.history.live and self.screen is self.lab:
            self.lab.notice.say(f"2 shows {words.alive(self.history.live)}")

    def _watch_machine(self) -> None:
        """A live run measures this machine already; a sampler of ours is started only where none does."""
        if not (self._painted and self._knows_runs):
            return
        host = os.uname().nodename
        live = [row for row in self.history.live if row.host == host and row.state != QUEUED]
        self.machine_watcher.show(self.current_mode in MACHINE_SHOWN)
        self.machine_watcher.follow((RunFolder(self.root / live[0].id), live[0].experiment) if live else None)

    @on(MachineRead)
    def _show_machine(self, event: MachineRead) -> None:
        self.lab.show_machine(event.machine)
        if self.machine is not None:
            self.machine.show_machine(event.machine)
        models = gpu_words.models(event.machine.document)
        for screen in (self.lab, self.run_screen, self.runs, self.compare, *self._made_later):
            screen.title_line.machine = " · ".join(filter(None, (os.uname().nodename, models)))
        self.lab.title_line.redraw()

    @on(RunGrew)
    def _show_run(self, event: RunGrew) -> None:
        snapshot = event.snapshot
        self.log_reader.saw(snapshot.folder, snapshot.logs, snapshot.taken)
        self.run_screen.show(snapshot)
        if snapshot.status is not None:
            name = snapshot.request.experiment if snapshot.request else snapshot.folder.id
            self._tell_end(snapshot.folder.id, name, snapshot.status.state)
        # A rank that was started again writes to another file under its old name.
        self._read_log_named(self.run_screen.log_pane.name_shown)

    def _tell_end(self, id: str, name: str, state: str) -> None:
        """The bell, and the terminal's title: for somebody who looks elsewhere."""
        title, ring = self._watched.tell(id, name, state, live=state in LIVE)
        if title:
            bell.set_title(self, title)
        if ring:
            self.bell()

    @on(LogFound)
    def _show_found(self, event: LogFound) -> None:
        self.run_screen.found(event)

    @on(LogRead)
    def _show_log(self, event: LogRead) -> None:
        self.run_screen.show_log(event.window)

    @on(Noticed)
    def _notice(self, event: Noticed) -> None:
        self._framed.notice.say(event.sentence, bad=event.bad)
        self.lab.show_refusal()

    @on(RunStarted)
    def _follow_started(self, event: RunStarted) -> None:
        self.runs.notice.say("")
        self.history_watcher.resume()
        if event.wish is not None:
            self.lab.follow_started(event.wish, event.folder.id)
        if event.wish is None or event.wish.watch:
            self.lab.notice.say("")
            self._open(event.folder)
            self._go("run")

    @on(RunLabelled)
    def _show_labels(self) -> None:
        self.history_watcher.resume()

    @on(Crashed)
    def _end_with(self, event: Crashed) -> None:
        raise event.error

    @property
    def _framed(self) -> Framed:
        """The screen on a digit that is shown, perhaps below a question."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, Framed)), self.lab)

    # What a person asks for

    @on(LabScreen.GuideWanted)
    def _read_guide(self, event: LabScreen.GuideWanted) -> None:
        self.lesson_reader.open(event.entry)

    @on(LabScreen.RunWanted)
    def _start(self, event: LabScreen.RunWanted) -> None:
        root, wish = self.root, event.wish
        workers.in_thread(self.post_message, lambda: workers.start_run(root, wish), must_finish=True)

    @on(LabScreen.FormWanted)
    def _read_last(self, event: LabScreen.FormWanted) -> None:
        newest = RunFolder(self.root / event.newest) if event.newest else None
        workers.in_thread(self.post_message, lambda: workers.read_last(event.wish, newest))

    @on(LastRead)
    def _open_form(self, event: LastRead) -> None:
        if self.screen is self.lab:
            self.lab.open_form(event.wish, event.gpus, event.last)

    @on(LabScreen.PlanWanted)
    def _plan(self, event: LabScreen.PlanWanted) -> None:
        workers.in_thread(self.post_message, lambda: workers.plan(self.root, event.wish))

    @on(Planned)
    def _show_plan(self, event: Planned) -> None:
        if self.screen is self.lab:
            self.lab.show_plan(event.wish, event.command)

    @on(LabScreen.ProgressMade)
    def _keep_progress(self, event: LabScreen.ProgressMade) -> None:
        self.progress_keeper.keep(event.name, event.progress)
        self.lesson_reader.follow(event.name, event.progress.runs)

    @on(LabScreen.RunOpened)
    @on(RunsScreen.Opened)
    def _look_at(self, event: LabScreen.RunOpened | RunsScreen.Opened) -> None:
        self._open(RunFolder(self.root / event.id))
        self._go("run")

    @on(RunsScreen.AgainWanted)
    def _run_again(self, event: RunsScreen.AgainWanted) -> None:
        self._rerun(RunFolder(self.root / event.id))

    @on(RunScreen.AgainWanted)
    def _run_this_again(self) -> None:
        if self.run_screen.folder is not None:
            self._rerun(self.run_screen.folder)

    def _rerun(self, folder: RunFolder) -> None:
        workers.in_thread(self.post_message, lambda: workers.run_again(self.root, folder), must_finish=True)

    @on(RunsScreen.LabelsWanted)
    def _label(self, event: RunsScreen.LabelsWanted) -> None:
        folder, change = RunFolder(self.root / event.id), event.change
        workers.in_thread(self.post_message, lambda: workers.label_run(folder, change), must_finish=True)

    @on(RunsScreen.GroupWanted)
    def _find_group(self, event: RunsScreen.GroupWanted) -> None:
        folder = RunFolder(self.root / event.id)
        workers.in_thread(self.post_message, lambda: workers.find_group(folder))

    @on(LabScreen.CompareWanted)
    @on(RunsScreen.CompareWanted)
    @on(GroupFound)
    def _compare(self, event: LabScreen.CompareWanted | RunsScreen.CompareWanted | GroupFound) -> None:
        self._go("compare")
        self.compare.open(event.ids)

    @on(CompareScreen.ReadingWanted)
    def _read_side_by_side(self, event: CompareScreen.ReadingWanted) -> None:
        root, ids = self.root, event.ids
        workers.in_thread(self.post_message, lambda: workers.read_side_by_side(root, ids))

    def on_export_wanted(self, event: ExportWanted) -> None:
        """By name rather than by class: the question is imported when it is first asked."""
        folder, format = RunFolder(self.root / event.id), event.format
        workers.in_thread(self.post_message, lambda: workers.export_run(folder, format), must_finish=True)

    def on_machine_screen_examination_wanted(self) -> None:
        """By name rather than by class: the screen is imported when it is first shown."""
        workers.in_thread(self.post_message, lambda: workers.examine(self.root))

    @on(FirstStart)
    def _welcome_user(self) -> None:
        from labtui.tui.screens.welcome import WelcomeScreen

        self.push_screen(WelcomeScreen(self.root))

    @on(Examined)
    def _show_examined(self, event: Examined) -> None:
        if self.machine is not None:
            self.machine.show_examined(event)

    @on(SideBySideRead)
    def _show_side_by_side(self, event: SideBySideRead) -> None:
        self.compare.show(event.compared)

    @on(RunsScreen.QueryChanged)
    def _look_for_runs(self, event: RunsScreen.QueryChanged) -> None:
        self.history_watcher.limit = FIRST_ROWS
        self.history_watcher.ask(event.query)

    @on(RunScreen.StopWanted)
    def _stop(self) -> None:
        folder = self.run_screen.folder
        if folder is not None:
            wanted = lambda: self.is_running  # noqa: E731
            workers.in_thread(self.post_message, lambda: stopping.stop(folder, self.post_message, wanted))

    @on(RunScreen.StacksWanted)
    def _take_stacks(self) -> None:
        folder = self.run_screen.folder
        if folder is not None:
            workers.in_thread(self.post_message, lambda: workers.take_stacks(folder))

    @on(LogPane.Chosen)
    def _follow_log(self, event: LogPane.Chosen) -> None:
        self._read_log_named(event.name)

    def _read_log_named(self, name: str) -> None:
        snapshot = self.run_screen.snapshot
        logs = snapshot.logs if snapshot else ()
        paths = {log.name: log.path for log in logs}
        self.log_reader.open(name, merged_parts(logs) if name == MERGED else paths.get(name))

    @on(LogPane.Scrolled)
    def _read_log(self, event: LogPane.Scrolled) -> None:
        self.log_reader.show(event.first, event.count)

    @on(LogPane.Filtered)
    def _filter_log(self, event: LogPane.Filtered) -> None:
        self.log_reader.filter(event.wanted)

    @on(LogPane.Searched)
    def _search_log(self, event: LogPane.Searched) -> None:
        self.log_reader.find(event.wanted, event.line, event.step)

    @on(RunScreen.TracebackWanted)
    def _find_traceback(self, event: RunScreen.TracebackWanted) -> None:
        self.log_reader.find_traceback(event.logs)

    @on(RunScreen.PagerWanted)
    def _open_in_pager(self, event: RunScreen.PagerWanted) -> None:
        from labtui.tui import pager

        try:
            pager.show(self, event.path)
        except pager.PagerError as error:
            self._notice(Noticed(str(error), bad=True))
        self._leave_on_signals()  # ctrl+c is ours again

    @on(HistoryTable.EndNeared)
    def _read_further_back(self) -> None:
        if len(self.history.listing.rows) >= self.history_watcher.limit:
            self.history_watcher.limit = max(2 * self.history_watcher.limit, self.runs.table.wanted)
            self.history_watcher.resume()

    # Going about

    def _open(self, folder: RunFolder) -> None:
        if self.run_screen.folder != folder:
            self.run_screen.open(folder)
            self.run_watcher.follow(folder)

    def _go(self, mode: str) -> None:
        if mode == self.current_mode:
            return
        if self.current_mode in ("lab", "runs"):
            self._came_from = self.current_mode
        self.switch_mode(mode)
        # Nobody sees what a hidden screen would show.
        for poller in (self.run_watcher, self.log_reader):
            poller.resume() if mode == "run" else poller.pause()
        self.machine_watcher.show(mode in MACHINE_SHOWN)
        self.lesson_reader.resume() if mode == "lab" else self.lesson_reader.pause()

    def action_show_lab(self) -> None:
        self._go("lab")

    def _open_newest(self) -> None:
        """Where no run was chosen yet, the live or the newest one is shown."""
        rows = self.history.live or self.history.rows
        if self.run_screen.folder is None and rows:
            self._open(RunFolder(self.root / rows[0].id))

    def action_show_run(self) -> None:
        self._open_newest()
        self._go("run")

    def action_show_runs(self) -> None:
        self._go("runs")

    def action_show_compare(self) -> None:
        self._go("compare")

    def action_show_simulate(self) -> None:
        self._go("simulate")

    def action_show_this_machine(self) -> None:
        self._go("machine")

    def action_go_back(self) -> None:
        """Back from the Run to where it was opened, from the Runs to the Lab."""
        came_from = {"run": self._came_from, "compare": "runs"}
        self._go(came_from.get(self.current_mode, "lab"))

    def action_show_help(self) -> None:
        framed = self._framed
        self.push_screen(HelpScreen(framed.places, framed.general, framed.focused))

    def action_save_picture(self) -> None:
        svg, mode = self.export_screenshot(), self.current_mode
        workers.in_thread(self.post_message, lambda: workers.save_picture(svg, mode), must_finish=True)

    def action_leave(self) -> None:
        """Ends the screens, and no run."""
        self.exit()


def _collect_garbage_again() -> None:
    # What was made until the first paint lives as long as the app.
    gc.freeze()
    gc.enable()


def main(run: RunFolder | None = None, *, ascii: bool = False, mouse: bool = True, slow: bool = False) -> int:
    """Shows the terminal UI (on one run, if given) until it is left; returns the exit code.

    `slow`: for a line that can't keep up, what changes is shown less often.
    """
    # `labtui.cli.main` has stopped garbage collection until the first paint.
    if slow:
        watcher.slow_down()
        sampling.slow_down()
    app = LabApp(logs_root(), run, ascii=ascii or plain.needs_ascii(), welcome=run is None)
    app.run(mouse=mouse)
    if not app.return_code:  # a signal is no wish to delete
        delete_runs(app.root, app.runs.to_delete)
    for line in words.goodbye(app.history.live, time.time()):
        print(line)
    return app.return_code or 0


def delete_runs(root: Path, ids: Sequence[str]) -> None:
    """Deletes the runs that were given up in the Runs, now that nobody can bring them back; says which can't be."""
    from labtui.runs.control import ControlError, remove

    for id in ids:
        try:
            remove(RunFolder(root / id))
        except ControlError as error:
            print(f"labtui: {error}", file=sys.stderr)
