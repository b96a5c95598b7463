"""1 Lab: the experiments by topic, the guide of the chosen one, and what enter would start."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

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
from labtui.tui.widgets.guide import GuideHeading, GuideText
from labtui.tui.widgets.strip import MachineStrip

REST_S = 0.08
"""The guide follows the cursor when it has rested so long."""


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

    class RunWanted(Message):
        """An experiment should be started."""

        def __init__(self, experiment: Experiment, variant: str) -> None:
            super().__init__()
            self.experiment = experiment
            self.variant = variant

    class RunOpened(Message):
        """A run should be looked at."""

        def __init__(self, id: str) -> None:
            super().__init__()
            self.id = id

    def __init__(self) -> None:
        super().__init__()
        self.experiments = ExperimentList()
        self.heading = GuideHeading()
        self.guide = GuideText()
        self.facts = ExperimentFacts(joint="├")
        self.strip = MachineStrip()
        self._variants: dict[str, str] = {}
        """The variant chosen for each experiment, while the app runs."""
        self._resting: Timer | None = None

    def compose_body(self) -> Iterable[Widget]:
        with Horizontal():
            yield self.experiments
            with Vertical(id="guide-side"):
                yield self.heading
                yield self.guide
                yield self.facts
        yield self.strip

    def on_mount(self) -> None:
        self.experiments.focus()

    # News

    def show_catalog(self, entries: Sequence[Entry]) -> None:
        """Shows what can be run."""
        self.experiments.entries = tuple(entries)
        self._follow_cursor()

    def show_history(self, history: History) -> None:
        """Shows how the experiments' runs stand."""
        self.experiments.tallies = tallies(history.rows, history.total)
        self.experiments.redraw()
        self._show_facts()
        self.show_live(len(history.live))

    def show_machine(self, machine: Machine) -> None:
        """Shows how this machine is."""
        before = self.strip.machine
        self.strip.machine = machine
        if before is None or len(before.gauges.gpus) != len(machine.gauges.gpus):
            self._lay_out()
        self.strip.redraw()

    def show_guide(self, name: str, markdown: str) -> None:
        """Shows a guide that was read, if its experiment is still the chosen one."""
        chosen = self.experiments.chosen
        if chosen is not None and chosen.name == name:
            self.guide.show(markdown)

    # The cursor

    @on(ExperimentList.Moved)
    def _follow_cursor(self) -> None:
        self._show_facts()
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(REST_S, self._rest)

    def _rest(self) -> None:
        chosen = self.experiments.chosen
        if chosen is not None:
            self.post_message(self.GuideWanted(chosen))

    def _show_facts(self) -> None:
        chosen = self.experiments.chosen
        if chosen is not None:
            self.heading.title = chosen.title if isinstance(chosen, Experiment) else chosen.name
            self.facts.entry = chosen
            self.facts.variant = self._variants.get(chosen.name, "")
            self.facts.tally = self.experiments.tallies.get(chosen.name)
            self.facts.now = time.time()
        self.heading.redraw()
        self.facts.redraw()

    # Room

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        small = self.is_small
        self.set_class(small, "-narrow")
        on_list = self.focused is not self.guide
        self.experiments.display = not small or on_list
        self.query_one("#guide-side").display = not small or not on_list
        self.facts.display = not small or self.size.height >= LOW
        self.facts.alone = small
        self.strip.styles.height = self.strip.lines_wanted(self.size.width, 1 if small else self.size.height // 4 + 1)
        self.strip.joint_at = None if small else self.experiments.size.width
        self.heading.joint = "─" if small else "┬"
        self.heading.focused_below = not on_list
        self.heading.redraw()
        self.facts.redraw()

    def action_next_pane(self) -> None:
        # In a small terminal the other pane is hidden, and what is hidden can't be focused.
        other = self.guide if self.focused is not self.guide else self.experiments
        for widget in (self.experiments, self.query_one("#guide-side")):
            widget.display = True
        other.focus()

    action_previous_pane = action_next_pane

    # Actions

    def action_start_run(self) -> None:
        chosen = self.experiments.chosen
        if isinstance(chosen, BrokenExperiment):
            self.notice.say(f"{chosen.name} can't be run: {chosen.error}", bad=True)
        elif chosen is not None:
            self.notice.say(f"{chosen.title} is being started")
            self.post_message(self.RunWanted(chosen, self._variants.get(chosen.name, "")))

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
                self._show_facts()

        self.app.push_screen(ChooseVariant(chosen, self._variants.get(chosen.name, "")), take)

    def action_open_newest(self) -> None:
        chosen = self.experiments.chosen
        tally = self.experiments.tallies.get(chosen.name) if chosen is not None else None
        if tally is None:
            self.notice.say("it has not been run yet: enter runs it")
        else:
            self.post_message(self.RunOpened(tally.newest.id))
