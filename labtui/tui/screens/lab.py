"""1 Lab: the experiments by topic, the guide of the chosen one step by step, and what enter would start.

What the keys do depends on where the focus is: in the list they are about the experiment, in the guide about its chosen
block (see `reader`, which is imported with the first guide).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from labtui.catalog.manifest import Experiment
from labtui.catalog.sources import BrokenExperiment
from labtui.tui import actions
from labtui.tui.messages import History, Machine
from labtui.tui.screens.choose import ChooseVariant
from labtui.tui.screens.framed import LOW, Framed
from labtui.tui.widgets.catalog import Entry, ExperimentFacts, ExperimentList, tallies
from labtui.tui.widgets.lesson import LessonPane
from labtui.tui.widgets.pane import Choice
from labtui.tui.widgets.strip import MachineStrip
from labtui.tui.wish import Wish

if TYPE_CHECKING:
    from labtui.runs.progress import Progress
    from labtui.runs.records import Request
    from labtui.tui.lesson import Lesson, Look
    from labtui.tui.screens.reader import Reader

REST_S = 0.08
"""The guide follows the cursor when it has rested so long."""
HIGH = 34
"""From so many lines on, what enter would start is shown beside a guide that is being read."""


class LabScreen(Framed):
    """What can be run."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.LAB)]
    name_on_title = "lab"
    places = (actions.LAB, actions.SCREEN, actions.APP)

    class GuideWanted(Message):
        """The cursor rests on an entry whose guide should be read."""

        def __init__(self, entry: Entry) -> None:
            super().__init__()
            self.entry = entry

    class WishMessage(Message):
        """Something is wanted of what can be run."""

        def __init__(self, wish: Wish) -> None:
            super().__init__()
            self.wish = wish

    class RunWanted(WishMessage):
        """It should be started."""

    class FormWanted(WishMessage):
        """It should be set in a form first."""

        def __init__(self, wish: Wish, newest: str | None) -> None:
            super().__init__(wish)
            self.newest = newest
            """The id of the experiment's newest run."""

    class PlanWanted(WishMessage):
        """Its command should be shown."""

    class ProgressMade(Message):
        """The reader has come further in a guide, or back."""

        def __init__(self, name: str, progress: Progress) -> None:
            super().__init__()
            self.name = name
            self.progress = progress

    class CompareWanted(Message):
        """These runs should be laid side by side."""

        def __init__(self, ids: Iterable[str]) -> None:
            super().__init__()
            self.ids = tuple(ids)

    class RunOpened(Message):
        """A run should be looked at."""

        def __init__(self, id: str) -> None:
            super().__init__()
            self.id = id

    def __init__(self) -> None:
        super().__init__()
        self._guide_side = Vertical(id="guide-side")
        """Kept, since the first resize may come before what is composed is there."""
        self.experiments = ExperimentList()
        self.guide = LessonPane(joint="┬")
        self.facts = ExperimentFacts(joint="├")
        self.strip = MachineStrip()
        self._variants: dict[str, str] = {}
        """The variant chosen for each experiment, until another step is shown."""
        self._reader: Reader | None = None
        self._starting: Wish | None = None
        """What is being started: a key that is held down starts one run."""
        self._resting: Timer | None = None

    def compose_body(self) -> Iterable[Widget]:
        with Horizontal():
            yield self.experiments
            with self._guide_side:
                yield self.guide
                yield self.facts
        yield self.strip

    def on_mount(self) -> None:
        self.experiments.focus()

    # News

    def show_catalog(self, entries: Sequence[Entry]) -> None:
        """Shows what can be run."""
        self.experiments.entries = tuple(entries)
        self.show_facts()
        self._rest()

    def show_history(self, history: History) -> None:
        """Shows how the experiments' runs stand."""
        self.experiments.tallies = tallies(history.rows, history.total)
        self.experiments.redraw()
        self.show_facts()
        self.show_live(len(history.live))

    def show_machine(self, machine: Machine) -> None:
        """Shows how this machine is."""
        before = self.strip.machine
        self.strip.machine = machine
        if before is None or len(before.gauges.gpus) != len(machine.gauges.gpus):
            self._lay_out()
        self.strip.redraw()

    def show_lesson(self, read: Lesson) -> None:
        """Shows a guide that was read, if its experiment is still the chosen one."""
        chosen = self.experiments.chosen
        if chosen is not None and chosen.name == read.name:
            if self._reader is None:
                from labtui.tui.screens.reader import Reader

                self._reader = Reader(self)
            self._reader.open(read)
            self.show_facts()

    def show_looks(self, name: str, looks: Mapping[str, Look]) -> None:
        """Shows how the runs of a guide's blocks stand."""
        if self._reader is not None:
            self._reader.show_looks(name, looks)
            self.show_facts()

    def follow_started(self, started: Wish, id: str) -> None:
        """Remembers a run that was started from here."""
        self._starting = None
        remembered = self._reader is not None and self._reader.remember(started, id)
        self.notice.say(f"{started.block} has been started: o watches it" if remembered else "")

    def show_refusal(self) -> None:
        """Something that was asked for was refused: it may be asked for again."""
        self._starting = None

    # The cursor

    @on(ExperimentList.Moved)
    def _follow_cursor(self) -> None:
        self.show_facts()
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(REST_S, self._rest)

    def _rest(self) -> None:
        chosen = self.experiments.chosen
        if chosen is not None:
            self.post_message(self.GuideWanted(chosen))

    @property
    def reader(self) -> Reader | None:
        """Who reads the chosen experiment's guide; None until it has been read."""
        chosen, shown = self.experiments.chosen, self.guide.lesson
        is_shown = shown is not None and chosen is not None and chosen.name == shown.name
        return self._reader if is_shown else None

    @property
    def _in_guide(self) -> bool:
        return self.focused is self.guide

    @property
    def next_wish(self) -> Wish | None:
        """What enter would start from the list: the chosen variant, else the step's run, else the default."""
        chosen = self.experiments.chosen
        if not isinstance(chosen, Experiment):
            return None
        of_step = self.reader.step_wish(chosen) if self.reader is not None else None
        if chosen.name in self._variants or of_step is None:
            return Wish(chosen, self._variants.get(chosen.name, ""))
        return of_step

    @property
    def _at_hand(self) -> Wish | None:
        """What the keys are about: in the guide the run of the chosen block, where it has one."""
        of_block = self.reader.block_wish() if self._in_guide and self.reader is not None else None
        return of_block or self.next_wish

    def show_facts(self) -> None:
        """Shows what enter would start now, and what the keys do."""
        chosen = self.experiments.chosen
        if chosen is not None:
            self.guide.title = chosen.title if isinstance(chosen, Experiment) else chosen.name
            if self.reader is None and self.guide.lesson is not None:
                self.guide.show(None)
            self.facts.entry = chosen
            self.facts.wish = self.next_wish
            self.facts.tally = self.experiments.tallies.get(chosen.name)
            self.facts.now = time.time()
        self.guide.redraw()
        self.facts.redraw()
        self._label_keys()

    @on(LessonPane.Moved)
    def _label_keys(self) -> None:
        """The footer says what the keys do here and now."""
        labels = self.reader.labels() if self._in_guide and self.reader is not None else {}
        if self.footer.labels != labels:
            self.footer.labels = labels
            self.footer.redraw()

    # Room

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        small = self.is_small
        self.set_class(small, "-narrow")
        on_list = not self._in_guide
        self.experiments.display = not small or on_list
        self._guide_side.display = not small or not on_list
        # Who reads has the blocks' own commands before them, and needs the lines.
        self.facts.display = (not small or self.size.height >= LOW) and (on_list or self.size.height >= HIGH)
        self.facts.alone = small
        self.strip.styles.height = self.strip.lines_wanted(self.size.width, 1 if small else self.size.height // 4 + 1)
        self.strip.joint_at = None if small else self.experiments.size.width
        self.guide.alone = small
        self.guide.redraw()
        self.facts.redraw()
        self._label_keys()

    def action_next_pane(self, by: int = 1) -> None:
        """Through the blocks of the guide, and back to the list."""
        if self._in_guide and self.guide.choose_next(by):
            return
        # In a small terminal the other pane is hidden, and what is hidden can't be focused.
        other = self.experiments if self._in_guide else self.guide
        for widget in (self.experiments, self._guide_side):
            widget.display = True
        self.set_focus(other)  # at once: Widget.focus would let the next keys go to the old pane

    def action_previous_pane(self) -> None:
        self.action_next_pane(-1)

    def go_back(self) -> None:
        """esc: from the guide to the list."""
        if self._in_guide:
            self.experiments.focus()

    # Runs

    @on(Choice.Picked)
    @on(LessonPane.Picked)
    def action_act(self) -> None:
        """enter: what the chosen block of the guide offers; from the list, a run."""
        block, chosen = self.guide.chosen if self._in_guide else None, self.experiments.chosen
        if block is not None and self.reader is not None:
            self.reader.act(block)
        elif self._in_guide:
            self.notice.say("nothing to act on is in view here: tab goes to what comes next")
        elif isinstance(chosen, BrokenExperiment):
            self.notice.say(f"{chosen.name} can't be run: {chosen.error}", bad=True)
        else:
            self.start(self.next_wish)

    def action_run_block(self) -> None:
        """r: the run that the chosen block is about, whichever block that is."""
        self.start(self._at_hand)

    def start(self, wanted: Wish | None) -> None:
        """Has it started, once."""
        if wanted is not None and wanted != self._starting:
            self._starting = wanted
            self.notice.say(f"{wanted.block or wanted.experiment.title} is being started")
            self.post_message(self.RunWanted(wanted))

    def action_edit(self) -> None:
        wanted = self._at_hand
        if wanted is not None:
            tally = self.experiments.tallies.get(wanted.experiment.name)
            self.post_message(self.FormWanted(wanted, tally.newest.id if tally else None))

    def open_form(self, wanted: Wish, gpus: int, last: Request | None) -> None:
        """Shows the form; what it answers with is started."""
        from labtui.tui.fields import form_of
        from labtui.tui.screens.form import FormScreen

        def start(filled: Wish | None) -> None:
            if filled is not None:
                self.start(replace(filled, watch=wanted.watch))

        self.app.push_screen(FormScreen(form_of(wanted, gpus), last), start)

    def action_show_command(self) -> None:
        wanted = self._at_hand
        if wanted is not None:
            self.post_message(self.PlanWanted(wanted))

    def show_plan(self, wanted: Wish, command: str) -> None:
        """Shows the command that a wish would start."""
        from labtui.tui.screens.answer import CommandScreen

        self.app.push_screen(CommandScreen(command, wanted.command()))

    def action_choose_variant(self) -> None:
        chosen = self.experiments.chosen
        if not isinstance(chosen, Experiment):
            return
        if not chosen.variants:
            self.notice.say(f"{chosen.title} has no variants")
            return

        def take(variant: str | None) -> None:
            if variant is not None:
                self._variants[chosen.name] = variant
                self.show_facts()

        now = self.next_wish.variant if self.next_wish is not None else ""
        self.app.push_screen(ChooseVariant(chosen, now), take)

    # The guide

    def action_next_step(self) -> None:
        self._turn(1)

    def action_previous_step(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        chosen = self.experiments.chosen
        if chosen is not None and self.reader is not None and self.reader.turn(by):
            self._variants.pop(chosen.name, None)
            self.show_facts()

    def action_show_anyway(self) -> None:
        """s: shows what was to be guessed or answered."""
        if self._in_guide and self.guide.chosen is not None and self.reader is not None:
            self.reader.show_anyway()
        else:
            self.notice.say("choose a question of the guide first (tab), then s shows what it asks for")

    def action_open_newest(self) -> None:
        """o: the run of the chosen block; from the list, the experiment's newest run."""
        block, chosen = self.guide.chosen if self._in_guide else None, self.experiments.chosen
        if block is not None and self.reader is not None and self.reader.open_run(block):
            return
        tally = self.experiments.tallies.get(chosen.name) if chosen is not None else None
        if tally is None:
            self.notice.say("it has not been run yet: enter runs it")
        else:
            self.post_message(self.RunOpened(tally.newest.id))
