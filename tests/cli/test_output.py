from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.cli import output
from labtui.runs.clean import strict
from labtui.runs.document import run_document
from labtui.runs.folder import write_json

TEXT = st.text(
    st.one_of(st.sampled_from("ab 漢é\u0301😀"), st.characters(categories=("L", "N", "P", "Zs"))), max_size=30
)


@given(TEXT, st.integers(0, 40))
def test_a_cut_text_fits(text: str, width: int) -> None:
    short = output.cut(text, width)
    assert output.cells(short) <= width
    assert short == text or short.endswith("..."[:width])


@given(
    st.integers(1, 5).flatmap(lambda columns: st.lists(st.lists(TEXT, min_size=columns, max_size=columns), max_size=4)),
    st.integers(1, 100),
    st.integers(0, 4),
)
def test_every_line_of_a_table_fits(rows: list[list[str]], width: int, dropped: int) -> None:
    header = [f"h{number}" for number in range(len(rows[0]) if rows else 3)]
    lines = output.table(header, rows, width, drop=header[:-1][:dropped])
    assert len(lines) == len(rows) + 1
    assert all(output.cells(line) <= width for line in lines)


def test_a_table_that_nobody_cuts_is_whole() -> None:
    lines = output.table(("a", "bb"), [("1", "a long reason"), ("漢字", "")], output.UNLIMITED)
    assert lines == ["a     bb", "1     a long reason", "漢字"]


def test_the_last_column_shrinks_before_others_go() -> None:
    rows = [("x" * 10, "y" * 10, "z" * 30)]
    assert (
        output.table(("a", "b", "c"), rows, 42, drop=("b",))[1] == "x" * 10 + "  " + "y" * 10 + "  " + "z" * 15 + "..."
    )
    assert output.table(("a", "b", "c"), rows, 36, drop=("b",))[1] == "x" * 10 + "  " + "z" * 21 + "..."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (True, "true"), (0, "0"), (6442450, "6,442,450"), (-12345, "-12,345"), (3e-8, "3e-08"),
        (0.123456789, "0.123457"), (math.nan, "nan"), (math.inf, "inf"), (10**30, "1e+30"),
        ("text\x1b[2J", "text"), ([1, 2], "[1, 2]"),
    ],
)  # fmt: skip
def test_numbers_for_people(value: object, text: str) -> None:
    assert output.number(value) == text


def test_a_number_beyond_all_floats() -> None:
    assert output.number(10**400) == "inf"
    assert output.number(-(10**400)) == "-inf"


def test_units_stand_beside_numbers_only() -> None:
    assert output.with_unit(2.5, "GB/s") == "2.5 GB/s"
    assert output.with_unit(0, "B") == "0 B"
    assert output.with_unit(None, "GB/s") == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0, "0.0 s"), (9.64, "9.6 s"), (99.96, "1 min 40 s"), (725, "12 min 5 s"), (11520, "3 h 12 min")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert output.duration(seconds) == text


@given(st.one_of(st.none(), st.floats()))
def test_any_number_is_some_moment(t: float | None) -> None:
    assert output.moment(t)


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.floats() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_what_every_reader_takes(value: object) -> None:
    json.dumps(strict(value), allow_nan=False)


def test_printed_json_holds_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"text": "\x1b]0;title\x07\x9b2J\u202e", "nan": math.nan})
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable() and printed.isascii()
    assert json.loads(printed) == {"text": "\x1b]0;title\x07\x9b2J\u202e", "nan": None}


def event(kind: str, rank: int = 0, **fields: object) -> str:
    return json.dumps({"t": 1.0, "rank": rank, "kind": kind, **fields}) + "\n"


def test_the_document_of_an_ended_run_comes_from_its_last_word(make_run) -> None:
    checks = ({"kind": "check", "name": "same", "value": 0, "passed": True},)
    folder = make_run(
        request={"parameters": {"n": 3}, "environment": {"A": "b"}, "group": "g", "link": {"rate_bits": 1e9}},
        status={"checks": checks, "reason": "fine", "events": {"rank0": 1, "bad_lines": 2}},
    )
    folder.rank_events(0).write_text(event("check", name="never read", passed=False))
    document = run_document(folder)
    assert document["checks"] == list(checks)
    assert (document["bad_lines"], document["error"]) == (2, None)
    for key, value in {
        "id": folder.id, "experiment": "ddp_by_hand", "variant": "", "group": "g", "state": "succeeded",
        "reason": "fine", "exit_code": 0, "seconds": 9.5, "parameters": {"n": 3}, "environment": {"A": "b"},
        "nproc": 2, "device": "cpu", "link": {"rate_bits": 1e9}, "folder": str(folder.path), "predictions": [],
        "results": [],
    }.items():  # fmt: skip
        assert document[key] == value
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("state", ["running", "lost"])
def test_without_a_last_word_the_events_are_read(make_run, state: str) -> None:
    folder = make_run(state, status={"ended": None}, request={"expect_failure": ("b",)})
    folder.rank_events(0).write_text(
        event("check", name="a", passed=True)
        + "no event\n"
        + event("metric", name="loss", value=1)
        + event("result", name="r", value=2)
    )
    folder.rank_events(1).write_text(
        event("check", 1, name="b", passed=False) + event("prediction", name="p") + '{"torn'
    )
    document = run_document(folder)
    assert [(check["name"], check.get("expected")) for check in document["checks"]] == [("a", None), ("b", False)]
    assert [result["name"] for result in document["results"]] == ["r"]
    assert [prediction["name"] for prediction in document["predictions"]] == ["p"]
    assert document["bad_lines"] == 1


def test_unreadable_labels_hide_no_run(make_run) -> None:
    folder = make_run()
    folder.labels_file.write_text("{")
    document = run_document(folder)
    assert document["error"].startswith("labels.json is no JSON")
    assert (document["tags"], document["note"]) == ([], "")
    write_json(folder.labels_file, {"tags": ["t"]})
    assert run_document(folder)["tags"] == ["t"]


def test_a_report_is_cleaned_and_says_what_is_unknown(make_run) -> None:
    folder = make_run(
        request={"nproc": None, "device": None, "variant": "v\x1b[2J"},
        status={
            "predictions": ({"name": "p", "predicted": 2, "measured": None, "why": "not on cpu"},),
            "exit_code": None,
        },
    )
    lines = output.run_report(folder).splitlines()
    assert f"ran as      ann at {os.uname().nodename}" in lines
    assert "experiment  ddp_by_hand, variant v" in lines
    assert "exit code   -" in lines
    (line,) = (line for line in lines if line.startswith("  p "))
    assert line.split("  ")[-1].strip() == "-"
    assert "not on cpu" in line
    assert all(line.isprintable() for line in lines)


def test_the_width_of_what_is_no_terminal_is_not_limited(tmp_path: Path) -> None:
    assert output.line_width() == output.UNLIMITED
