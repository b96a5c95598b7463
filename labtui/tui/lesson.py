"""A guide with one reader's place in it: its pages, what is known of its runs, and what must not be shown yet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from labtui.catalog.guide import Compare, Expect, Guide, Predict, Quiz, Run
from labtui.catalog.guide import Part as GuidePart
from labtui.catalog.manifest import Experiment
from labtui.runs import lesson as runs_lesson
from labtui.runs.compare import Compared
from labtui.runs.lesson import Known, Missing
from labtui.runs.progress import Progress
from labtui.tui import markdown
from labtui.tui.markdown import Block
from labtui.tui.wish import text_of

Live = Run | Predict | Expect | Compare | Quiz
"""What a reader can act on."""


@dataclass(frozen=True)
class Prose:
    """Text between live blocks."""

    blocks: tuple[Block, ...]


Part = Prose | Live


@dataclass(frozen=True)
class Page:
    """A step as it is shown."""

    title: str
    """Empty where a guide has no steps."""
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Look:
    """What is known of a block's run."""

    id: str
    run: Compared | None
    """None where it can't be read, or is gone."""
    trouble: str = ""
    """Why it can't be read."""
    done: float | None = None
    """How far a live run is, of `total`; None where it has not said so."""
    total: float | None = None

    @property
    def live(self) -> bool:
        return self.run is not None and self.run.status.live


@dataclass(frozen=True)
class Lesson:
    """A guide as one reader has it before them."""

    name: str
    """The experiment's."""
    pages: tuple[Page, ...]
    experiment: Experiment | None = None
    """None where the experiment is broken: then there is only a text."""
    progress: Progress = field(default_factory=Progress)
    looks: Mapping[str, Look] = field(default_factory=dict)
    """Run block's id -> its newest run, where it has one."""

    @property
    def step(self) -> int:
        """The page that is shown; a guide that became shorter is shown at its end."""
        return max(0, min(self.progress.step, len(self.pages) - 1))

    @property
    def page(self) -> Page:
        return self.pages[self.step]

    def with_progress(self, progress: Progress) -> Lesson:
        """The same with another progress; runs that it no longer names are forgotten."""
        looks = {block: look for block, look in self.looks.items() if progress.runs.get(block) == look.id}
        return replace(self, progress=progress, looks=looks)

    def parts(self) -> Iterator[Live]:
        """All live blocks of the guide."""
        for page in self.pages:
            yield from (part for part in page.parts if not isinstance(part, Prose))

    def run_block(self, id: str) -> Run | None:
        return next((part for part in self.parts() if isinstance(part, Run) and part.id == id), None)

    @property
    def step_run(self) -> Run | None:
        """The step's run: the first one that was not started yet, or the first one."""
        runs = [part for part in self.page.parts if isinstance(part, Run)]
        return next((run for run in runs if run.id not in self.looks), runs[0] if runs else None)


def pages(guide: Guide) -> tuple[Page, ...]:
    """A guide's steps, what stands above all of them on the first one's page. At least one page."""
    above = markdown.parse(guide.title_text) if guide.title_text.strip() else ()
    if not guide.steps:
        return (Page("", (Prose(above),) if above else ()),)
    made = [Page(step.title, tuple(map(_part, step.parts))) for step in guide.steps]
    if above:
        made[0] = replace(made[0], parts=(Prose(above), Prose(_heading(made[0].title)), *made[0].parts))
    return tuple(made)


def _part(part: GuidePart) -> Part:
    return part if isinstance(part, Live) else Prose(markdown.parse(part.markdown))


def _heading(title: str) -> tuple[Block, ...]:
    return (markdown.Heading(((title, ""),), 2),)


def plain_page(*sentences: str) -> tuple[Page, ...]:
    """Sentences in place of a guide."""
    return (Page("", tuple(Prose(markdown.literal(sentence)) for sentence in sentences if sentence)),)


# Whose run a block is about -----------------------------------------------------------------------------------------


def run_of(part: Live) -> str:
    """The id of the run block that a block is about; empty where there is none, or several."""
    if isinstance(part, Run):
        return part.id
    return part.of if isinstance(part, Predict | Expect) else ""


def changed_settings(block: Run, run: Compared) -> list[str]:
    """Where a block's run isn't as the guide has it: someone has set it otherwise."""
    request = run.request
    told = []
    if request.variant != block.variant:
        told.append(f"variant {request.variant or 'default'}")
    told += [
        f"{name}={text_of(request.parameters[name])}"
        for name, value in block.parameters.items()
        if name in request.parameters and request.parameters[name] != value
    ]
    if block.processes is not None and request.nproc != block.processes:
        told.append(f"{request.nproc} processes")
    if block.device is not None and request.device != block.device:
        told.append(f"on {request.device}")
    if block.link is not None and request.link is None:
        told.append("no shaped link")
    return told


# What must not be shown yet -----------------------------------------------------------------------------------------


def is_open(lesson: Lesson, predict: Predict) -> bool:
    """Whether a guess is still wanted: none was given, and the reader has not asked to see the number without."""
    return predict.ask not in lesson.progress.guesses and predict.ask not in lesson.progress.skipped


def may_guess(lesson: Lesson, predict: Predict) -> bool:
    """Whether a guess can be given, or changed: until the number is there to be seen."""
    return is_open(lesson, predict) or (predict.ask in lesson.progress.guesses and measured(lesson, predict) is None)


def hiding(lesson: Lesson, below: Live, of: str, result: str, labels: Mapping[str, Any]) -> Predict | None:
    """The open question for whose sake a number of the run `of` isn't shown in the block `below`; None if there's none.

    That is one about this very number, wherever it stands, and any about this run that stands above the block in its
    step: what is asked there may be told by another number's name. `labels` may be those that a block asks for, or
    those of a result.
    """
    above = True
    for part in lesson.page.parts:
        above = above and part is not below
        if above and isinstance(part, Predict) and part.of == of and is_open(lesson, part):
            return part
    for part in lesson.parts():
        if (
            isinstance(part, Predict)
            and part.of == of
            and part.result == result
            and is_open(lesson, part)
            and not any(key in labels and labels[key] != value for key, value in part.where.items())
        ):
            return part
    return None


# Guesses and answers ------------------------------------------------------------------------------------------------


def measured(lesson: Lesson, predict: Predict) -> Known | Missing | None:
    """What a predict block asks for; None while its run wasn't started."""
    look = lesson.looks.get(predict.of)
    if look is None:
        return None
    if look.run is None:
        return Missing(look.trouble)
    found = runs_lesson.result(look.run, predict.result, predict.where)
    if isinstance(found, Missing) and look.live:
        return None
    return found


def parse_guess(text: str, unit: str) -> float | None:
    """A number as typed, perhaps with the unit that was asked for behind it; None for anything else."""
    text = text.strip()
    # "7 GB" where GB are asked for is 7; where bytes are, it is 7e9.
    if unit and unit != "B" and text.lower().endswith(unit.lower()):
        text = text[: -len(unit)]
    return runs_lesson.parse_number(text)


def is_right(quiz: Quiz, answer: float | Sequence[int]) -> bool:
    return runs_lesson.is_right(quiz, answer)


def waits(lesson: Lesson, part: Live) -> bool:
    """Whether a block still wants something of the reader."""
    if isinstance(part, Run):
        return part.id not in lesson.looks
    if isinstance(part, Predict):
        return is_open(lesson, part)
    if isinstance(part, Quiz):
        return part.question not in lesson.progress.answers and part.question not in lesson.progress.skipped
    return False
