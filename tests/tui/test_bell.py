"""The bell and the terminal's title: once, for a run that was watched, and nothing in it that a terminal obeys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labtui.tui.bell import LONGEST, Watched, has_title, title_sequence


@given(st.text(max_size=100), st.booleans())
def test_no_title_ends_its_own_sequence(title: str, ascii: bool) -> None:
    sequence = title_sequence(title, ascii=ascii)
    inside = sequence.removeprefix("\x1b]2;").removesuffix("\x07")
    assert all(32 <= ord(c) < 127 or ord(c) >= 160 for c in inside)
    assert len(inside) <= LONGEST and (not ascii or inside.isascii())


def test_it_rings_once_at_the_end_of_a_watched_run() -> None:
    watched = Watched()
    assert watched.tell("a", "ddp", "running", live=True) == ("R ddp running - labtui", False)
    assert watched.tell("a", "ddp", "running", live=True) == ("", False)
    assert watched.tell("a", "ddp", "timed_out", live=False) == ("!! ddp timed out - labtui", True)
    assert watched.tell("a", "ddp", "timed_out", live=False) == ("", False)


def test_a_run_that_was_over_before_rings_nothing() -> None:
    watched = Watched()
    assert watched.tell("a", "ddp", "succeeded", live=False) == ("", False)
    watched.tell("b", "ddp", "running", live=True)
    assert watched.tell("a", "ddp", "succeeded", live=False) == ("ok ddp succeeded - labtui", False)


def test_terminals_without_a_title_are_left_alone() -> None:
    assert has_title({"TERM": "tmux-256color"}) and has_title({"TERM": "xterm"})
    assert not has_title({"TERM": "linux"}) and not has_title({}) and not has_title({"TERM": "vt100"})
