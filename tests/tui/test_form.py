"""The form of a run: rows from the manifest, sentences as it is typed, and the wish that comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_lab import HOSTILE, NOW, made_experiment

from labtui.catalog.guide import Quiz
from labtui.catalog.manifest import Limits, Parameter, Processes, Variant
from labtui.runs.records import Request
from labtui.tui import fields
from labtui.tui.fields import DEVICE, LINK, PROCESSES, SHARE, TIMEOUT, Form, as_last_time, form_of, rows, wish_of, wrong
from labtui.tui.lines import cells
from labtui.tui.screens.answer import Answers, shell_lines
from labtui.tui.screens.form import FormRows
from labtui.tui.wish import Wish, of_block

PARAMETERS = (
    Parameter("width", "int", 1024, cpu_default=256, minimum=1, maximum=4096, help="neurons"),
    Parameter("size", "int", 1 << 20, minimum=1, unit="B", help="message"),
    Parameter("rate", "float", 0.5, minimum=0),
    Parameter("dtype", "choice", "float32", choices=("float32", "float64")),
    Parameter("weighted", "bool", False),
    Parameter("name", "str", "a b"),
)
EXPERIMENT = made_experiment(
    Path("lab_test"), devices=("cuda", "cpu"), parameters=PARAMETERS, processes=Processes(None, 2, 1, 8),
    limits=Limits(600, 120),
    variants=(Variant("wide", "wider", ("cuda", "cpu"), parameters={"width": 512}, link="1gbit"),),
)  # fmt: skip
FORM = Form(EXPERIMENT)


def row(form: Form, key: str) -> fields.Row:
    return next(one for one in rows(form) if one.key == key)


def test_what_nobody_typed_is_the_default_on_the_device() -> None:
    texts = {one.key: one.text for one in rows(FORM)}
    assert texts == {
        "width": "256", "size": "1048576", "rate": "0.5", "dtype": "float32", "weighted": "false", "name": "a b",
        DEVICE: "cpu", PROCESSES: "2", LINK: "none", TIMEOUT: "600", SHARE: "false",
    }  # fmt: skip
    assert not any(one.changed or one.error for one in rows(FORM))
    on_gpus = Form(EXPERIMENT, gpus=4)
    assert row(on_gpus, "width").text == "1024" and row(on_gpus, PROCESSES).text == "4"
    assert row(on_gpus.with_text(DEVICE, "cpu"), "width").text == "256", "the device changes what is the default"
    wide = Form(EXPERIMENT, "wide")
    assert row(wide, "width").text == "512" and row(wide, LINK).text == "1gbit"


@pytest.mark.parametrize(("key", "text", "sentence"), [
    ("width", "0", 'width is "0", a whole number from 1 to 4096 expected'),
    ("width", "", 'width is "", a whole number from 1 to 4096 expected'),
    ("size", "1MB", 'size is "1MB", a whole number of at least 1 B, or a size such as 64M expected'),
    ("rate", "-1", 'rate is "-1", a number of at least 0 expected'),
    (DEVICE, "cuda", "lab_test"),
    (PROCESSES, "9", "lab_test takes 1 to 8 processes, not 9"),
    (PROCESSES, "two", "processes is two, a whole number from 1 to 8 expected"),
    (LINK, "fast", "link 'fast': a rate in bits per second from 1mbit to 100gbit expected, such as 1gbit"),
    (TIMEOUT, "0", "timeout is 0, a number of seconds above 0 expected"),
    (TIMEOUT, "inf", "timeout is inf, a number of seconds above 0 expected"),
])  # fmt: skip
def test_what_cannot_be_is_told_in_the_manifests_sentence(key: str, text: str, sentence: str) -> None:
    form = FORM.with_text(key, text)
    bad = wrong(form)
    assert bad is not None and bad.key == key
    assert bad.error == sentence if " " in sentence else bad.error.startswith(sentence)


def test_a_link_needs_the_cpu() -> None:
    form = Form(EXPERIMENT, gpus=4).with_text(LINK, "1gbit")
    assert row(form, LINK).error == "a link of 1gbit can be had on cpu only"
    assert not row(form.with_text(DEVICE, "cpu"), LINK).error


def test_one_process_has_neither_ranks_nor_links() -> None:
    alone = made_experiment(Path("x"), launch="python", processes=Processes(1, 1, 1, 1))
    assert [one.key for one in rows(Form(alone))] == [DEVICE, TIMEOUT, SHARE]


def test_what_was_typed_becomes_a_wish() -> None:
    form = FORM
    for key, text in (("size", "64M"), (PROCESSES, "4"), (LINK, "1gbit"), (TIMEOUT, "30"), (SHARE, "true")):
        form = form.with_text(key, text)
    form = form.with_text("width", "999").with_text("width", "256")
    wish = wish_of(form)
    assert wish == Wish(EXPERIMENT, "", {"size": "64M"}, None, 4, "1gbit", 30.0, True)
    assert wish.command() == "labtui run lab_test --set size=64M --nproc 4 --link 1gbit --timeout 30 --share"
    assert form_of(wish, 0) == form, "and a wish fills a form"
    options = wish.options()
    assert (options.nproc, options.link, options.timeout_s, options.share) == (4, "1gbit", 30.0, True)


def test_as_last_time_takes_what_there_still_is() -> None:
    last = Request(
        "r", "lab_test", (), "p", "h", "u", 0, NOW, variant="wide", nproc=3, device="cpu", launch="torchrun",
        parameters={"width": 64, "gone": 1, "dtype": "float64", "weighted": True}, link={"rate_bits": 1e9},
    )  # fmt: skip
    form = as_last_time(FORM.with_text("rate", "9"), last)
    assert form.variant == "wide"
    assert dict(form.typed) == {"width": "64", "dtype": "float64", "weighted": "true", PROCESSES: "3"}
    other = Request("r", "lab_test", (), "p", "h", "u", 0, NOW, variant="gone", nproc=2, launch="torchrun")
    assert as_last_time(FORM, other) == FORM


def test_a_run_block_is_a_wish() -> None:
    from labtui.catalog.guide import Run

    block = Run("base", 1, "wide", {"weighted": True, "name": "c d"}, 4, "cpu", "2gbit")
    wish = of_block(EXPERIMENT, block)
    assert wish.command() == (
        "labtui run lab_test --variant wide --set weighted=true --set 'name=c d' --nproc 4 --device cpu --link 2gbit"
    )
    assert wish.block == "base"


def test_no_row_is_too_wide_or_harmful() -> None:
    hostile = made_experiment(
        Path("x"), title=HOSTILE,
        parameters=(Parameter(HOSTILE, "str", HOSTILE, unit=HOSTILE, help=HOSTILE), Parameter("b", "bool", False)),
    )  # fmt: skip
    form = Form(hostile).with_text(PROCESSES, HOSTILE).with_text(HOSTILE, "\x1b[2J" * 30)
    shown = FormRows(form)
    for width in (20, 40, 68, 106):
        for index in range(shown.length()):
            shown.cursor, shown.caret = index, 60
            line = shown.row(index, width, chosen=True)
            assert all(piece.isprintable() for piece, _ in line)
            assert cells(line) <= max(width, 40)
    quiz = Quiz(HOSTILE, 1, choices=(HOSTILE, "b"), correct=(0, 1), why=HOSTILE)
    answers = Answers(quiz, 40)
    for index in range(answers.length()):
        assert all(piece.isprintable() for piece, _ in answers.row(index, 40, chosen=True))
    assert all(line.isprintable() and len(line) <= 40 for line in shell_lines(f"{HOSTILE} {'x' * 90}", 40))
