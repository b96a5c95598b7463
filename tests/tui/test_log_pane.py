"""The log pane: following and new lines, wrapping, hits, merged logs; as functions of the window it was given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from small_lab import HOSTILE
from test_widgets import check_harmless, text

from labtui.tui.lines import cells
from labtui.tui.log_lines import FOUND, HIT, MERGED, log_rows, marked, pieces_of, prefix, wrapped
from labtui.tui.log_search import pattern
from labtui.tui.messages import LogFound, LogWindow
from labtui.tui.widgets.log import LogPane

ANY = st.text("ab\x1b[]0;31mH\x07\r\t\x00漢🙂[rank", max_size=60)


@given(ANY, st.integers(1, 50), st.booleans(), st.text("ab[", min_size=1, max_size=2))
def test_rows_are_harmless_and_fit_marked_or_wrapped(raw: str, width: int, wrap: bool, wanted: str) -> None:
    rows = log_rows(raw, width, prefix=("[0] ", "dim"), wanted=pattern(wanted), hit=True, wrap=wrap)
    check_harmless(rows, max(width, 6))  # a prefix of four cells, and a wide character


@given(ANY, st.integers(2, 30))
def test_wrapping_loses_nothing(raw: str, width: int) -> None:
    pieces = pieces_of(raw)
    rows = wrapped(pieces, width)
    assert text(rows).replace("\n", "").replace(" ", "") == text([pieces]).replace(" ", "")
    assert all(cells(row) <= width for row in rows)


@given(st.lists(st.tuples(st.text("abc", max_size=5), st.sampled_from(["", "dim"])), max_size=4), st.data())
def test_marking_changes_no_text(pieces: list[Any], data: st.DataObject) -> None:
    whole = "".join(piece for piece, _ in pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    spans = [(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False) if a < b]
    line = marked(pieces, spans, FOUND)
    assert "".join(piece for piece, _ in line) == whole
    assert sum(len(piece) for piece, style in line if isinstance(style, Style)) == sum(b - a for a, b in spans)


def test_a_prefix_says_whose_line_it_is() -> None:
    assert prefix("3", 1) == ("[3]  ", "dim")
    assert prefix("3 stderr", 2) == ("[ 3!] ", "warn")


def pane(count: int = 100, **fields: Any) -> LogPane:
    one = LogPane()
    one.logs, one.name_shown = [("0", 10), ("0 stderr", 3), ("1", 0), ("output", 0)], "0"
    one.window = LogWindow("0", 0, tuple(f"line {n}" for n in range(count)), count, **fields)
    one.post_message = lambda message: True  # type: ignore[method-assign]
    return one


def facts(one: LogPane) -> str:
    return "".join(piece for piece, _ in one.facts())


def test_scrolling_up_ends_following_and_counts_what_comes() -> None:
    one = pane()
    one.scroll_rows(-3)
    assert not one.following and "f follows" in facts(one) and "new" not in facts(one)
    one.show(replace(one.window, total=140, whole=140))
    assert "+40 new · f follows" in facts(one)
    one.scroll_rows(1 << 40)
    assert one.following and "following" in facts(one)


def test_what_an_index_forgets_moves_nothing_on_the_screen() -> None:
    one = pane()
    one.scroll_rows(-20)
    top = one._top
    one.hit = top + 1
    one.show(replace(one.window, forgotten=50, first=0, lines=one.window.lines[50:], total=50))
    assert one._top == top - 50 and one.hit == top - 49


def test_wrapped_lines_are_followed_to_their_end() -> None:
    one = pane()
    one.wrapped = True
    one.window = LogWindow("0", 0, ("short", "x" * 50), 2)
    assert text([tuple(line) for line in one.shown_lines(20, 5)]).split("\n")[1:] == [
        "short", "x" * 20, "x" * 20, "x" * 10,
    ]  # fmt: skip
    assert text([tuple(line) for line in one.shown_lines(20, 3)]).split("\n")[1:] == ["x" * 20, "x" * 10]


def test_a_search_marks_what_it_found_and_where_it_stands() -> None:
    one = pane()
    one.search(pattern("line 5"))
    one.found(LogFound("0", 5, "line 5"))
    one._top = 4
    styles = {style for line in one.shown_lines(60, 4) for piece, style in line if piece == "line 5"}
    assert styles == {HIT}
    assert not one.following and one.copied() == ("line 5", "line 6")
    assert "/line 5" in facts(one)
    assert one.take_back() and one.wanted is None and not one.take_back()


def test_a_filter_says_how_many_match() -> None:
    one = pane()
    one.show_only(pattern("9"))
    assert "looking" in text([tuple(line) for line in one.shown_lines(60, 4)])
    one.show(LogWindow("0", filtered="other", total=9, whole=10))
    assert one.window.total == 0, "a window of before"
    one.show(LogWindow("0", filtered="9", total=0, whole=100))
    assert "no line of 100 has it" in text([tuple(line) for line in one.shown_lines(60, 4)])
    one.show(LogWindow("0", 0, ("9", "19"), 2, filtered="9", whole=100))
    assert facts(one) == "& 9 2 of 100 · following"
    assert one.take_back() and one.filter is None


def test_all_ranks_as_one_are_told_apart() -> None:
    one = pane()
    assert one.tabs == ["0", "1", MERGED, "output"]
    one.name_shown = MERGED
    one.window = LogWindow(MERGED, 0, ("a", "b"), 2, sources=("0", "1 stderr"), since=0.0)
    one.following = False
    lines = text([tuple(line) for line in one.shown_lines(70, 5)]).split("\n")
    assert "before that by file; ! is stderr" in lines[1]
    assert lines[2:] == ["[0]  a", "[1!] b"]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize(("width", "height"), [(3, 4), (38, 8), (100, 12)])
def test_whatever_a_rank_prints_the_pane_is_whole_and_harmless(width: int, height: int, wrap: bool) -> None:
    one = pane()
    one.name_shown, one.wrapped = MERGED, wrap
    one.window = LogWindow(MERGED, 0, (HOSTILE,) * 30, 30, sources=("0", "1 stderr") * 15)
    one.search(pattern("red"))
    for following in (True, False):
        one.following = following
        lines = [tuple(line) for line in one.build(width, height)]
        check_harmless(lines, width)
        assert len(lines) == height
    assert all(line.isprintable() for line in one.copied()[0].replace("\t", " ").split("\n"))
