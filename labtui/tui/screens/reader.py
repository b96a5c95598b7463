"""What the Lab's keys do in a guide: steps, runs of blocks, guesses, answers; and the reader's progress in all guides.

Imported when the first guide has been read: the first screen needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from labtui.catalog.guide import Compare, Predict, Quiz, Run
from labtui.catalog.manifest import Experiment
from labtui.runs.progress import Progress
from labtui.tui import lesson, wish
from labtui.tui.lesson import Lesson, Live, Look
from labtui.tui.lesson_table import compared_ids
from labtui.tui.screens.answer import AnswerScreen
from labtui.tui.screens.ask import Ask
from labtui.tui.wish import Wish

if TYPE_CHECKING:
    from labtui.tui.screens.lab import LabScreen


class Reader:
    """Who reads the guide that the Lab shows. It starts nothing itself: the screen posts what is wanted."""

    def __init__(self, lab: LabScreen) -> None:
        self._lab = lab
        self._pane = lab.guide
        self._progress: dict[str, Progress] = {}
        """Of all guides that were looked at, by experiment; newer than what is written."""

    # What is known

    def open(self, read: Lesson) -> None:
        """Shows a guide that was read."""
        self._progress.setdefault(read.name, read.progress)
        self._pane.show(read.with_progress(self._progress[read.name]))

    def show_looks(self, name: str, looks: Mapping[str, Look]) -> None:
        """Shows how the runs of that experiment's blocks stand, if its guide is the one that is shown."""
        shown = self._pane.lesson
        if shown is not None and shown.name == name:
            self._pane.show(replace(shown, looks=dict(looks)).with_progress(shown.progress))

    def remember(self, started: Wish, id: str) -> bool:
        """Remembers a run that was started for a block; False where it is for none."""
        name = started.experiment.name
        if not started.block or name not in self._progress:
            return False
        self._go_on(name, self._progress[name].with_run(started.block, id))
        return True

    def _go_on(self, name: str, reached: Progress) -> None:
        self._progress[name] = reached
        shown = self._pane.lesson
        if shown is not None and shown.name == name:
            self._pane.show(shown.with_progress(reached))
            self._lab.show_facts()
        self._lab.post_message(self._lab.ProgressMade(name, reached))

    @property
    def lesson(self) -> Lesson:
        """The guide that is shown; there is one wherever these keys are pressed."""
        assert self._pane.lesson is not None
        return self._pane.lesson

    @property
    def _now(self) -> Progress:
        return self._progress[self.lesson.name]

    # Runs

    def step_wish(self, experiment: Experiment) -> Wish | None:
        """What the step offers to run."""
        block = self.lesson.step_run
        return wish.of_block(experiment, block) if block is not None else None

    def block_wish(self) -> Wish | None:
        """The run that the chosen block is about; it is looked at from the guide, not on its own screen."""
        block, experiment = self._pane.chosen, self.lesson.experiment
        run = self.lesson.run_block(lesson.run_of(block)) if block is not None else None
        if run is None or experiment is None:
            return None
        return replace(wish.of_block(experiment, run), watch=False)

    def look(self, block: Live) -> Look | None:
        """The run that a block is about, where it is there to be looked at."""
        found = self.lesson.looks.get(lesson.run_of(block))
        return found if found is not None and found.run is not None else None

    # Keys

    def labels(self) -> dict[str, str]:
        """What the footer should call the actions, with the chosen block before one."""
        block = self._pane.chosen
        labels = {"choose_variant": "", "act": ""}
        if block is not None:
            labels["act"] = self._label(block)
            if isinstance(block, Predict | Quiz) and lesson.waits(self.lesson, block):
                labels["show_anyway"] = "show"
        return labels

    def _label(self, block: Live) -> str:
        if isinstance(block, Predict) and lesson.may_guess(self.lesson, block):
            return "guess"
        if isinstance(block, Quiz | Compare):
            return "answer" if isinstance(block, Quiz) else "compare"
        look = self.look(block)
        if look is None:
            return "run"
        return "run again" if isinstance(block, Run) and not look.live else "open run"

    def act(self, block: Live) -> None:
        """enter: what the block is there for."""
        look = self.look(block)
        if isinstance(block, Compare):
            self._compare(block)
        elif isinstance(block, Quiz):
            self._answer(block)
        elif isinstance(block, Predict) and lesson.may_guess(self.lesson, block):
            self._guess(block)
        elif look is not None and (look.live or not isinstance(block, Run)):
            self._lab.post_message(self._lab.RunOpened(look.id))
        else:
            self._lab.start(self.block_wish())

    def open_run(self, block: Live) -> bool:
        """o: the run that the block is about; False where it is about none, or about several."""
        name, look = lesson.run_of(block), self.look(block)
        if look is not None:
            self._lab.post_message(self._lab.RunOpened(look.id))
        elif name:
            self._lab.notice.say(f"{name} has not been run yet: r runs it")
        return bool(name)

    def turn(self, by: int) -> bool:
        """To another step; False where there is none."""
        shown, step = self.lesson, self.lesson.step + by
        if len(shown.pages) < 2:
            return False
        if not 0 <= step < len(shown.pages):
            self._lab.notice.say("this is the guide's last step" if by > 0 else "this is the guide's first step")
            return False
        self._lab.notice.say("")
        self._go_on(shown.name, self._now.at(step))
        return True

    def show_anyway(self) -> None:
        """s: shows what was to be guessed or answered."""
        block = self._pane.chosen
        if isinstance(block, Predict | Quiz):
            text = block.ask if isinstance(block, Predict) else block.question
            self._go_on(self.lesson.name, self._now.with_skipped(text))

    # Questions

    def _guess(self, block: Predict) -> None:
        question = f"{block.ask} ({block.unit})" if block.unit else block.ask
        self._ask_number(question, block.unit, lambda number: self._now.with_guess(block.ask, number))

    def _answer(self, block: Quiz) -> None:
        if block.number is not None:
            self._ask_number(block.question, "", lambda number: self._now.with_answer(block.question, number))
            return

        def answered(picked: list[int] | None) -> None:
            if picked is not None:
                self._go_on(self.lesson.name, self._now.with_answer(block.question, picked))

        self._lab.app.push_screen(AnswerScreen(block), answered)

    def _ask_number(self, question: str, unit: str, reached: Callable[[float], Progress]) -> None:
        def answered(text: str | None) -> None:
            if text is None or not text.strip():
                return
            number = lesson.parse_guess(text, unit)
            if number is None:
                self._lab.notice.say(f"{text.strip()} is no number: 12, 1.5e9, 3/11, 27 % or 64 MiB are", bad=True)
                return
            self._lab.notice.say("")
            self._go_on(self.lesson.name, reached(number))

        self._lab.app.push_screen(Ask(question, hint="a number"), answered)

    def _compare(self, block: Compare) -> None:
        ids = compared_ids(self.lesson, block)
        if len(ids) < 2:
            self._lab.notice.say("two of these runs must be there before they can be laid side by side")
        else:
            self._lab.post_message(self._lab.CompareWanted(ids))
