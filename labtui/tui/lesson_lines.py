"""A page of a guide as lines: text, and each live block beside a bar, with what it says and which keys it takes. Pure.

A number that the reader should guess first stands nowhere: not in a verdict, and not in a table (see `lesson.hiding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labtui.catalog.guide import Compare, Expect, Predict, Quiz, Run
from labtui.charts import label
from labtui.runs.lesson import GOOD, HIGH, LOW, UNKNOWN, Known, Missing, guess_words, verdict
from labtui.runs.records import SUCCEEDED
from labtui.tui import words
from labtui.tui.lesson import (
    Lesson,
    Live,
    Look,
    Page,
    Prose,
    changed_settings,
    hiding,
    is_open,
    is_right,
    may_guess,
    measured,
)
from labtui.tui.lesson_table import compare_lines, present
from labtui.tui.lesson_words import pair, plain, said, told, where, with_spread
from labtui.tui.lines import Line, Piece, cells, crop, fit
from labtui.tui.markdown import Span, flow, lay_out
from labtui.tui.wish import of_block

BAR = "▎"
TEXT_WIDTH = 88
"""Longer lines are hard to read."""


@dataclass(frozen=True)
class Placed:
    """Where a live block stands among a page's lines."""

    first: int
    after: int
    part: Live


def page_lines(
    lesson: Lesson, width: int, chosen: int | None = None, now: float = 0.0
) -> tuple[list[Line], list[Placed]]:
    """The lesson's page, and where its live blocks are; `chosen` counts these, from 0."""
    page = lesson.page
    lines: list[Line] = []
    placed: list[Placed] = []
    if page.title and not _has_own_heading(page):
        lines += flow(((page.title, ""),), width, "title")
    for part in page.parts:
        lines += [()] if lines else []
        if isinstance(part, Prose):
            lines += lay_out(part.blocks, min(width, TEXT_WIDTH))
            continue
        is_chosen = chosen == len(placed)
        block = block_lines(lesson, part, min(width, TEXT_WIDTH) - 2, chosen=is_chosen, now=now)
        placed.append(Placed(len(lines), len(lines) + len(block), part))
        lines += [((f"{BAR} ", "accent" if is_chosen else "rule"), *line) for line in block]
    if len(lesson.pages) > 1:
        lines += [(), *_way_on(lesson, width)]
    return lines, placed


def _has_own_heading(page: Page) -> bool:
    """The first page begins with the guide's title; its step's heading follows that."""
    return len(page.parts) > 1 and isinstance(page.parts[0], Prose) and isinstance(page.parts[1], Prose)


def _way_on(lesson: Lesson, width: int) -> list[Line]:
    if lesson.step + 1 == len(lesson.pages):
        return [(("This was the last step.", "dim"),)]
    following = lesson.pages[lesson.step + 1].title
    return [crop((("n", "accent"), (" next: ", "dim"), (fit(following, max(width - 8, 1)).rstrip(), "dim")), width)]


def block_lines(lesson: Lesson, part: Live, width: int, *, chosen: bool, now: float) -> list[Line]:
    """One live block."""
    if isinstance(part, Run):
        lines = _run(lesson, part, width, now)
    elif isinstance(part, Predict):
        lines = _predict(lesson, part, width)
    elif isinstance(part, Expect):
        lines = _expect(lesson, part, width)
    elif isinstance(part, Compare):
        lines = compare_lines(lesson, part, width)
    else:
        lines = _quiz(lesson, part, width)
    keys = hints(lesson, part)
    return [*lines, _keys(keys, width, bright=chosen)] if keys else lines


def hints(lesson: Lesson, part: Live) -> list[tuple[str, str]]:
    """The keys that do something with a block, and what."""
    if isinstance(part, Run):
        look = lesson.looks.get(part.id)
        if look is None or look.run is None:
            return [("enter", "run it"), ("e", "edit"), ("c", "command")]
        return [("o", "watch it")] if look.live else [("o", "open it"), ("enter", "run it again"), ("e", "edit")]
    if isinstance(part, Predict):
        if is_open(lesson, part):
            unit = {"": "", "B": ", in bytes"}.get(part.unit, f", in {part.unit}")
            return [("enter", f"guess{unit}"), ("s", "show it without")]
        change = [("enter", "change your guess")] if may_guess(lesson, part) else []
        return change if part.of in lesson.looks else [*change, ("r", f"run {part.of}")]
    if isinstance(part, Expect):
        if hiding(lesson, part, part.of, part.result, part.where):
            return []
        return [("o", "open the run")] if part.of in lesson.looks else [("r", f"run {part.of}")]
    if isinstance(part, Compare):
        return [("enter", "lay them side by side")] if len(present(lesson, part)) > 1 else []
    answer = lesson.progress.answers.get(part.question)
    if part.question in lesson.progress.skipped or (answer is not None and is_right(part, answer)):
        return []
    return [("enter", "answer" if answer is None else "answer again"), ("s", "show the answer")]


def _keys(keys: Sequence[tuple[str, str]], width: int, *, bright: bool) -> Line:
    pieces: list[Piece] = []
    for key, what in keys:
        more: list[Piece] = [("   " if pieces else "", ""), (key, "accent" if bright else "dim"), (f" {what}", "dim")]
        if cells(pieces) + cells(more) <= width:
            pieces += more
    return tuple(pieces)


# Runs ---------------------------------------------------------------------------------------------------------------


def _run(lesson: Lesson, part: Run, width: int, now: float) -> list[Line]:
    look = lesson.looks.get(part.id)
    letters, role = words.mark(look.run.status.state if look and look.run else None)
    head: list[Span] = [(letters.strip() or "·", role), (" Run ", "strong"), (part.id, "strong")]
    lines: list[Line] = []
    if lesson.experiment is not None:
        title = next((v.title for v in lesson.experiment.variants if v.name == part.variant), "")
        head += [(f" · {title}", "dim")] if title and title != part.id else []
        lines += flow(((of_block(lesson.experiment, part).command(), "code"),), width)
    return [*flow(head, width), *lines, *_state(lesson, part, look, width, now)]


def _state(lesson: Lesson, part: Run, look: Look | None, width: int, now: float) -> list[Line]:
    if look is None:
        minutes = lesson.experiment.minutes if lesson.experiment else 0.0
        about = f"{minutes:g} min" if minutes >= 1 else f"{minutes * 60:.0f} s"
        takes = f"; with the defaults it takes about {about}" if minutes else ""
        return plain(f"not run yet{takes}", width, "dim")
    if look.run is None:
        return plain(look.trouble, width, "warn")
    status = look.run.status
    took = words.clock(status.seconds(now))
    lines: list[Line] = []
    if look.live:
        lines.append(_bar(look, words.state_name(status.state), took, width))
    else:
        told = [words.state_name(status.state), words.when(status.ended, now), took, status.reason]
        lines += plain(" · ".join(text for text in told if text), width)
    changed = changed_settings(part, look.run)
    if changed:
        lines += plain(f"set otherwise than the guide has it: {', '.join(changed)}", width, "warn")
    return lines


def _bar(look: Look, state: str, took: str, width: int) -> Line:
    told: list[Piece] = [(state, "live"), (f" {took}", "")]
    if look.done is None or not look.total:
        return crop(told, width)
    share = max(0.0, min(look.done / look.total, 1.0))
    count = f" {label(look.done)} of {label(look.total)}"
    size = max(min(24, width - cells(told) - len(count) - 2), 0)
    full = round(size * share)
    return crop((*told, ("  ", ""), ("█" * full, "live"), ("░" * (size - full), "rule"), (count, "dim")), width)


# Guesses ------------------------------------------------------------------------------------------------------------


def _predict(lesson: Lesson, part: Predict, width: int) -> list[Line]:
    head = "Your guess first" if is_open(lesson, part) else "Guess"
    lines = [*flow(((head, "strong"),), width), *said(part.ask, width)]
    guess = lesson.progress.guesses.get(part.ask)
    found = measured(lesson, part)
    if guess is not None:
        lines += pair("your guess", told(guess, part.unit), width)
    if is_open(lesson, part):
        return lines
    look = lesson.looks.get(part.of)
    if found is None:
        wait = "when the run has measured it" if look else f"when {part.of} has run"
        return [*lines, *plain(f"the number comes {wait}", width, "dim")]
    if isinstance(found, Missing):
        return [*lines, *plain(f"nothing to set beside it: {found.why}", width, "warn")]
    unit = found.unit or part.unit
    lines += pair("measured", with_spread(found, unit), width)
    if guess is None:
        lines += plain("shown without a guess", width, "dim")
    else:
        how = guess_words(guess, found.value)
        near = how in ("exactly", "within 10 %")
        lines += flow((("your guess was ", ""), (how, "good" if near else "warn")), width)
    return lines + _reserved(look, width)


# Verdicts -----------------------------------------------------------------------------------------------------------

_VERDICTS = {
    GOOD: ("ok", "good", "as expected"),
    LOW: ("lo", "warn", "less than expected"),
    HIGH: ("hi", "warn", "more than expected"),
    UNKNOWN: ("??", "dim", "no verdict"),
}


def _expect(lesson: Lesson, part: Expect, width: int) -> list[Line]:
    which = f"{part.result}{where(part.where.items())}"
    question = hiding(lesson, part, part.of, part.result, part.where)
    if question is not None:
        return [*_verdict("· ", "dim", "", which, width), *plain("it comes after your guess", width, "dim")]
    look = lesson.looks.get(part.of)
    if look is None or look.run is None:
        why = look.trouble if look else f"it comes when {part.of} has run"
        return [*_verdict("· ", "dim", "", which, width), *plain(why, width, "dim")]
    found = verdict(part, look.run)
    if look.live and isinstance(found.measured, Missing):
        return [*_verdict("· ", "dim", "", which, width), *plain("the run has not measured it yet", width, "dim")]
    letters, role, phrase = _VERDICTS[found.word]
    lines = _verdict(letters, role, phrase, which, width)
    number = found.measured
    unit = number.unit if isinstance(number, Known) else ""
    if isinstance(number, Known):
        lines += pair("measured", with_spread(number, unit), width)
    else:
        lines += plain(number.why, width, "warn")
    lines += pair("expected", _range(found.low, found.high, unit), width)
    for bound, name in ((found.low, "at least"), (found.high, "at most")):
        if isinstance(bound, Missing):
            lines += plain(f"{name} what is not known: {bound.why}", width, "warn")
        elif bound is not None and bound.words:
            lines += plain(f"{name} {bound.words}", width, "dim")
    return [*lines, *said(found.sentence, width), *_reserved(look, width)] if found.sentence else lines


def _verdict(letters: str, role: str, phrase: str, which: str, width: int) -> list[Line]:
    head: list[Span] = [(letters.strip(), role), (" Verdict", "strong"), (f" on {which}", "dim")]
    return [*flow(head, width), *(plain(phrase, width, role) if phrase else ())]


def _range(low: Known | Missing | None, high: Known | Missing | None, unit: str) -> str:
    ends = [told(bound.value, unit or bound.unit) if isinstance(bound, Known) else None for bound in (low, high)]
    if ends[0] and ends[1]:
        return f"{ends[0]} to {ends[1]}"
    return f"at least {ends[0]}" if ends[0] else f"at most {ends[1]}" if ends[1] else words.UNKNOWN


def _reserved(look: Look | None, width: int) -> list[Line]:
    """What should be known of a run whose number is shown: that it did not end well, or has not ended."""
    if look is None or look.run is None or look.run.status.state == SUCCEEDED:
        return []
    state = words.state_name(look.run.status.state)
    return plain("of a run that still goes on" if look.live else f"of a run that {_ended(state)}", width, "warn")


def _ended(state: str) -> str:
    return {"stopped": "was stopped", "lost": "was lost"}.get(state, state)


# Questions ----------------------------------------------------------------------------------------------------------


def _quiz(lesson: Lesson, part: Quiz, width: int) -> list[Line]:
    lines = [*flow((("Question", "strong"),), width), *said(part.question, width)]
    answer = lesson.progress.answers.get(part.question)
    shown = part.question in lesson.progress.skipped
    right = answer is not None and is_right(part, answer)
    done = right or shown
    for number, choice in enumerate(part.choices):
        picked = isinstance(answer, list | tuple) and number in answer
        mark = "x" if picked else " "
        role = "good" if done and number in part.correct else "warn" if picked and answer is not None else ""
        head: Piece = (f"[{mark}] ", role or "dim")
        inside = said(choice, max(width - 4, 8), role if done else "")
        lines += [(head if n == 0 else ("    ", ""), *line) for n, line in enumerate(inside)]
    if isinstance(answer, int | float):
        lines += pair("your answer", label(answer), width)
    if answer is not None:
        lines += flow(((("ok right", "good") if right else ("!! not right", "warn")),), width)
    if done:
        if part.number is not None and not right:
            lines += pair("the answer", label(part.number), width)
        lines += said(part.why, width) if part.why else []
    return lines
