"""A guide's blocks as lines: what is known is said, what isn't is said too, and no number comes before its guess."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_lab import HOSTILE, NOW, made_experiment

from labtui.catalog.guide import Bound, Compare, Expect, Guide, Predict, Quiz, Run, Step, Text, parse_guide
from labtui.runs.compare import Compared
from labtui.runs.progress import Progress
from labtui.runs.records import FAILED, RUNNING, SUCCEEDED, Request, Status
from labtui.tui import lesson
from labtui.tui.lesson import Lesson, Look, pages, parse_guess
from labtui.tui.lesson_lines import page_lines
from labtui.tui.lesson_table import compared_ids
from labtui.tui.lines import cells

EXPERIMENT = made_experiment(Path("lab_test"))
RUN = Run("base", 1, variant="long", parameters={"size": 4})
OTHER = Run("other", 2)
PREDICT = Predict("base", "busbw", "How fast?", 3, {"size": 4}, unit="GB/s")
EXPECT = Expect("base", "busbw", 4, {"size": 4}, Bound(0.6, "link.ceiling"), Bound(20.0), "Fine `it` is.", "Slow.")
COMPARE = Compare(("base", "other"), 5)
NUMBER = Quiz("Which share?", 6, number=0.25, tolerance=0.001, why="1/4")
CHOICE = Quiz("Which two?", 7, choices=("one", "two", "three"), correct=(0, 2), why="Count.")
GUIDE = Guide("# Intro", (Step("First", (Text("Read."), RUN, PREDICT, EXPECT)), Step("Second", (OTHER, COMPARE))))


def compared(id: str = "r1", state: str = SUCCEEDED, busbw: float | None = 11.2, **asked: Any) -> Compared:
    request = Request(id, "lab_test", (), "p", "h", "u", 0, NOW, **{
        "nproc": 2, "device": "cpu", "variant": "long", "parameters": {"size": 4},
        "link": {"rate_bits": 120e9, "model": "per_rank"}, **asked,
    })  # fmt: skip
    results = [{"name": "busbw", "value": busbw, "unit": "GB/s", "labels": {"size": 4}}] if busbw is not None else []
    ended = None if state == RUNNING else NOW + 9
    status = Status(state, NOW, started=NOW, ended=ended, reason="as it was", results=tuple(results))
    return Compared(request, status)


def look(run: Compared | None = None, **more: Any) -> Look:
    run = run or compared()
    return Look(run.request.id, run, **more)


def shown(
    *, progress: Progress | None = None, width: int = 70, guide: Guide = GUIDE, chosen: int | None = None, **looks: Look
) -> str:
    progress = (progress or Progress()).at(progress.step if progress else 0)
    read = Lesson("lab_test", pages(guide), EXPERIMENT, progress, looks)
    lines, _ = page_lines(read, width, chosen, NOW + 9)
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def one(block: Any, **options: Any) -> str:
    """A block alone on its page."""
    return shown(guide=Guide("", (Step("Step", (block,)),)), **options)


# Pages


def test_the_first_page_has_the_introduction_and_its_own_heading() -> None:
    text = shown()
    assert text.startswith(
        "Intro\n\nFirst\n\nRead.\n\n▎ · Run base · it takes long\n▎ labtui run lab_test --variant long"
    )
    assert text.endswith("n next: Second")
    second = shown(progress=Progress(step=1))
    assert second.startswith("Second\n") and second.endswith("This was the last step.")


def test_a_guide_that_became_shorter_is_shown_at_its_end() -> None:
    assert Lesson("x", pages(GUIDE), progress=Progress(step=9)).step == 1
    assert Lesson("x", pages(Guide("", ()))).page == lesson.Page("", ())


def test_the_steps_run_is_the_first_that_was_not_started() -> None:
    guide = Guide("", (Step("Both", (RUN, OTHER)), Step("None", ())))
    read = Lesson("lab_test", pages(guide), EXPERIMENT)
    assert read.step_run == RUN
    assert Lesson("lab_test", pages(guide), EXPERIMENT, looks={"base": look()}).step_run == OTHER
    both = {"base": look(), "other": look()}
    assert Lesson("lab_test", pages(guide), EXPERIMENT, looks=both).step_run == RUN
    assert Lesson("lab_test", pages(guide), EXPERIMENT, Progress(step=1)).step_run is None


# Runs


def test_a_run_block_says_how_its_run_stands() -> None:
    assert "not run yet; with the defaults it takes about 1 min" in one(RUN)
    live = one(RUN, base=look(compared(state=RUNNING), done=3, total=12))
    assert "▎ R Run base" in live and "running 00:09  ██████░░░░░░░░░░░░░░░░░░ 3 of 12" in live and "o watch it" in live
    ended = one(RUN, base=look())
    assert (
        "▎ ok Run base" in ended and "succeeded" in ended and "00:09 · as it was" in ended and "run it again" in ended
    )
    assert "set otherwise" not in ended
    gone = one(RUN, base=Look("r1", None, "its run r1 is not there any more"))
    assert "not there any more" in gone and "enter run it" in gone


def test_a_run_that_was_set_otherwise_is_told() -> None:
    changed = look(compared(parameters={"size": 8}, variant="wrong", nproc=4))
    assert "set otherwise than the guide has it: variant wrong, size=8" in one(RUN, base=changed)


# Guesses


def test_no_number_is_shown_before_its_guess() -> None:
    text = shown(base=look())
    assert "11.2" not in text and "12 GB/s" not in text, "neither in the question nor in the verdict"
    assert "enter guess, in GB/s   s show it without" in text
    assert "Verdict on busbw (size 4)\n▎ it comes after your guess" in text
    table = shown(progress=Progress(step=1), base=look(), other=look(compared("r2", busbw=22.4)))
    assert "guess it  22.4 GB/s" in table and "11.2" not in table and "x 2" not in table


def test_what_a_question_asks_is_not_told_below_it_by_another_name() -> None:
    expect = Expect("base", "other_name", 9, at_least=Bound(1.0))
    below = Guide("", (Step("Step", (RUN, PREDICT, expect)),))
    assert "it comes after your guess" in shown(guide=below, base=look())
    above = Guide("", (Step("Step", (RUN, expect, PREDICT)),))
    assert "the run reported no other_name" in shown(guide=above, base=look())


def test_a_guess_is_set_beside_what_was_measured() -> None:
    guessed = Progress().with_guess("How fast?", 12.0)
    assert "your guess 12 GB/s\n▎ the number comes when base has run\n▎ enter change your guess   r run base" in shown(
        progress=guessed
    )
    text = shown(progress=guessed, base=look())
    assert "your guess 12 GB/s\n▎ measured 11.2 GB/s\n▎ your guess was within 10 %" in text
    assert "your guess was 4.46 times too high" in shown(progress=Progress().with_guess("How fast?", 50.0), base=look())
    live = look(compared(state=RUNNING, busbw=None))
    assert "the number comes when the run has measured it" in shown(progress=guessed, base=live)
    none = look(compared(busbw=None))
    assert "nothing to set beside it: the run reported no busbw with size 4" in shown(progress=guessed, base=none)
    failed = look(compared(state=FAILED))
    assert "of a run that failed" in shown(progress=guessed, base=failed)


def test_who_does_not_want_to_guess_sees_the_number() -> None:
    text = shown(progress=Progress().with_skipped("How fast?"), base=look())
    assert "measured 11.2 GB/s\n▎ shown without a guess" in text and "as expected" in text


def test_exact_bytes_are_told_to_the_byte() -> None:
    predict = Predict("base", "sent", "How much?", 3, unit="B")
    run = compared(busbw=None)
    run.status.__dict__["results"] = ({"name": "sent", "value": 12_582_909, "unit": "B", "labels": {}},)
    text = one(predict, progress=Progress().with_guess("How much?", 12_582_912.0), base=look(run))
    assert "your guess 12.6 MB (12,582,912 B)\n▎ measured 12.6 MB (12,582,909 B)" in text


@pytest.mark.parametrize(("text", "unit", "number"), [
    ("12", "GB/s", 12.0), ("12 GB/s", "GB/s", 12.0), ("12 gb/s", "GB/s", 12.0), ("7 GB", "GB", 7.0), ("7 GB", "B", 7e9),
    ("64 MiB", "B", 67108864.0), ("27 %", "", 0.27), ("27 %", "%", 27.0), ("3/11", "", 3 / 11), ("5 ms", "ms", 5.0),
    ("twelve", "GB/s", None), ("", "", None), ("nan", "", None),
])  # fmt: skip
def test_a_guess_may_carry_its_unit(text: str, unit: str, number: float | None) -> None:
    assert parse_guess(text, unit) == (pytest.approx(number) if number is not None else None)


# Verdicts


def test_a_verdict_has_number_range_and_reason() -> None:
    text = one(EXPECT, base=look())
    assert "▎ ok Verdict on busbw (size 4)\n▎ as expected\n▎ measured 11.2 GB/s\n▎ expected 9 GB/s to 20 GB/s" in text
    assert "at least 0.6 x link.ceiling (the shaped link's rate)" in text and "Fine it is." in text
    assert "lo Verdict on busbw (size 4)\n▎ less than expected" in one(EXPECT, base=look(compared(busbw=3.0)))
    high = one(EXPECT, base=look(compared(busbw=30.0)))
    assert "hi Verdict" in high and "more than expected" in high


def test_without_a_verdict_the_reason_stands_there() -> None:
    assert "it comes when base has run\n▎ r run base" in one(EXPECT)
    nowhere = one(EXPECT, base=look(compared(link=None)))
    assert "?? Verdict" in nowhere and "no verdict" in nowhere
    assert "at least what is not known: CPU processes talk through memory" in nowhere
    assert "the run reported no busbw" in one(EXPECT, base=look(compared(busbw=None)))
    assert "has not measured it yet" in one(EXPECT, base=look(compared(state=RUNNING, busbw=None)))


# Tables


def test_runs_are_laid_side_by_side() -> None:
    both = {"base": look(), "other": look(compared("r2", busbw=22.4))}
    text = one(COMPARE, **both)
    assert "busbw (size 4)" in text and "  11.2 GB/s  22.4 GB/s        x 2" in text and "enter lay them" in text
    read = Lesson("lab_test", pages(GUIDE), EXPERIMENT, looks=both)
    assert compared_ids(read, COMPARE) == ["r1", "r2"]
    half = one(COMPARE, base=look())
    assert "not run yet: other" in half and "enter" not in half
    assert "no results yet" in one(COMPARE, base=look(compared(busbw=None)))


# Questions


def test_a_question_is_answered_right_or_wrong() -> None:
    assert "enter answer   s show the answer" in one(NUMBER)
    right = one(NUMBER, progress=Progress().with_answer("Which share?", 0.2505))
    assert "your answer 0.2505\n▎ ok right\n▎ 1/4" in right and "enter" not in right
    wrong = one(NUMBER, progress=Progress().with_answer("Which share?", 0.3))
    assert "!! not right" in wrong and "1/4" not in wrong and "answer again" in wrong
    given_up = one(NUMBER, progress=Progress().with_answer("Which share?", 0.3).with_skipped("Which share?"))
    assert "the answer 0.25\n▎ 1/4" in given_up


def test_of_choices_all_must_be_right() -> None:
    assert "[ ] one\n▎ [ ] two" in one(CHOICE)
    assert "[x] one\n▎ [ ] two\n▎ [x] three\n▎ ok right\n▎ Count." in one(
        CHOICE, progress=Progress().with_answer("Which two?", [0, 2])
    )
    assert "not right" in one(CHOICE, progress=Progress().with_answer("Which two?", [0]))


# Texts from outside


@settings(max_examples=25, deadline=None)
@given(st.integers(10, 90), st.text(max_size=40))
def test_no_line_is_too_wide_or_harmful(width: int, text: str) -> None:
    dirty = f"{HOSTILE} {text}"
    parts = (
        Text("x"), RUN, Predict("base", dirty, dirty, 3, {dirty: 1}, unit=dirty),
        Expect("base", "busbw", 4, {}, Bound(1.0), good=dirty), COMPARE,
        Quiz(dirty, 6, choices=(dirty, "b"), correct=(1,), why=dirty),
    )  # fmt: skip
    run = compared(busbw=None)
    labels = {dirty: dirty}
    run.status.__dict__["results"] = ({"name": dirty, "value": 1, "unit": dirty, "labels": labels},)
    run.status.__dict__["reason"] = dirty
    progress = Progress(answers={dirty: [0]}, skipped=(dirty,))
    looks = {"base": look(run), "other": Look("r", None, dirty)}
    read = Lesson("lab_test", pages(Guide("", (Step("S", parts), Step(dirty, ())))), EXPERIMENT, progress, looks)
    lines, placed = page_lines(read, width, 2, NOW)
    assert len(placed) == 5
    for line in lines:
        assert cells(line) <= max(width, 20)
        assert not any(unicodedata.category(character) == "Cc" for piece, _ in line for character in piece)


def test_every_block_of_a_written_guide_is_placed_in_order() -> None:
    text = '## S\n```run\nid = "a"\n```\ntext\n```quiz\nquestion = "q"\nnumber = 1\ntolerance = 0\n```\n'
    read = Lesson("lab_test", pages(parse_guide(text)), EXPERIMENT)
    lines, placed = page_lines(read, 40, 1, NOW)
    assert [type(one.part) for one in placed] == [Run, Quiz]
    for n, one_placed in enumerate(placed):
        bars = {line[0] for line in lines[one_placed.first : one_placed.after]}
        assert bars == {("▎ ", "accent" if n == 1 else "rule")}
