"""What a person types finds the same runs whether SQLite is asked or every folder is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import MakeRun, make_run

from labtui.runs import query
from labtui.runs.index import Index, _Folders, open_index
from labtui.runs.query import ORDERS, Query, Term
from labtui.runs.records import Labels

make_run = make_run


@pytest.fixture
def both(make_run: MakeRun, own_folders: Path) -> tuple[Index, _Folders]:
    """Ten runs, and two ways to ask for them."""
    make_run(experiment="ring_allreduce", request={"variant": "wide", "parameters": {"width": 512, "dtype": "bf16"}})
    make_run(state="failed", status={"reason": "rank 1: ValueError"}, request={"parameters": {"width": 512.0}})
    make_run(labels=Labels(tags=("Paper", "Größe"), note="The BEST one", star=True), request={"nproc": 4})
    make_run(labels=Labels(tags=("paperback",)), request={"user": "Ölaf", "group": "g1", "nproc": None})
    make_run(state="stopped", request={"parameters": {"split": True, "rate": 0.5, "name": "it's 50%_"}})
    make_run(state="failed", request={"device": "cuda", "host": "box"}, status={"started": None, "ended": None})
    make_run(experiment="command", request={"parameters": {}, "variant": ""}, status={"ended": 1.8e9})
    for number in range(3):
        make_run(request={"variant": f"v{number}", "parameters": {"width": number}})
    opened = open_index(own_folders)
    assert not opened.trouble
    return opened, _Folders(own_folders)


FOUND = {
    "": 10, "ring": 1, "RING wide": 1, "ring failed": 0, "valueerror": 1, "best": 1, "paper": 2, "tag:paper": 1,
    "tag:größe": 1, "größe": 1, "user:ölaf": 1, "ölaf": 1, "state:fail": 2, "-state:fail": 8, "experiment:ring": 1,
    "nproc:4": 1, "-nproc:2": 2, "width=512": 2, "width=512.0": 2, "-width=512": 8, "split=true": 1, "split=1": 0,
    "rate=5e-1": 1, "dtype=BF16": 1, "star:": 1, "is:star": 1, "-star:": 9, "host:box device:cuda": 1, "group:g1": 1,
    "note:best -tag:other": 1, "variant:": 10, "name=it's": 0, "nosuch=1": 0, "unknown:field": 0, "%": 0, "_": 9,
    "'": 0, "-": 10, "v1": 1, "  v1   nproc:2 ": 1,
}  # fmt: skip


def test_both_ways_find_the_same(both: tuple[Index, _Folders]) -> None:
    opened, folders = both
    for text, count in FOUND.items():
        wanted = query.parse(text)
        found = [row.id for row in opened.newest(query=wanted)]
        assert found == [row.id for row in folders.newest(None, wanted)], text
        assert len(found) == count == opened.matching(wanted) == folders.matching(wanted), text


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("descending", [True, False])
def test_both_ways_sort_alike(both: tuple[Index, _Folders], order: str, descending: bool) -> None:
    opened, folders = both
    wanted = query.parse("", order, descending)
    found = [row.id for row in opened.newest(query=wanted)]
    assert found == [row.id for row in folders.newest(None, wanted)] and len(found) == 10
    assert found[:3] == [row.id for row in opened.newest(3, query=wanted)]


def test_what_has_no_value_comes_last(both: tuple[Index, _Folders]) -> None:
    for descending in (True, False):
        last = both[0].newest(query=query.parse("", "nproc", descending))[-1]
        assert last.nproc is None


def test_terms() -> None:
    assert query.parse("a -b x:y State:FAILED").terms == (
        Term("word", "a"), Term("word", "b", "", True), Term("word", "x:y"), Term("field", "failed", "state"),
    )  # fmt: skip
    assert query.parse("nproc:x").terms == (Term("word", "nproc:x"),)
    assert query.parse("a", "nothing").order == "created"
    assert query.of(experiment="x", state=None) == Query((Term("exact", "x", "experiment"),))


@given(st.text(max_size=40))
def test_nothing_that_is_typed_is_an_error(text: str) -> None:
    parsed = query.parse(text)
    assert all(term.kind != "exact" for term in parsed.terms)
    assert replace(parsed, terms=()).terms == ()


def test_nothing_that_is_typed_is_sql(both: tuple[Index, _Folders]) -> None:
    for text in ("'; DROP TABLE runs; --", 'experiment:"', "a=b' OR 1=1", "tag:')", "\x00", "nproc:999999999999999999"):
        assert both[0].newest(query=query.parse(text)) == []
    assert both[0].count() == 10
