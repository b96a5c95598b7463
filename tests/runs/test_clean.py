from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.runs.clean import clean, clean_line

# Characters that matter come often enough to meet.
HOSTILE = st.text(
    st.one_of(st.sampled_from("\x1b[]m;0123\x07\\\r\n\t\x9b\x9dP^_KJ\u202e\x00\x7f é漢"), st.characters()), max_size=60
)
SGR = re.compile(r"\x1b\[[0-9;:]*m")
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@given(HOSTILE)
def test_no_control_character_gets_through(text: str) -> None:
    assert not FORBIDDEN.search(clean(text))


@given(HOSTILE)
def test_with_colours_only_whole_sgr_sequences_get_through(text: str) -> None:
    assert not FORBIDDEN.search(SGR.sub("", clean(text, colours=True)))


@given(HOSTILE)
def test_colours_are_all_that_differs(text: str) -> None:
    assert SGR.sub("", clean(text, colours=True)) == clean(text)


@given(HOSTILE, st.booleans())
def test_cleaning_twice_changes_nothing(text: str, colours: bool) -> None:
    once = clean(text, colours=colours)
    assert clean(once, colours=colours) == once


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@given(HOSTILE)
def test_a_cleaned_line_is_one_line(text: str) -> None:
    line = clean_line(text)
    assert line == line.strip() and not re.search(r"[\n\t]|  ", line)
    assert not FORBIDDEN.search(line)


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x1b]52;c;cGFzdGU=\nnext line", "\nnext line"),
        ("\x1b[>4;2mkeys", "keys"),
        ("\x9b31mred", "red"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("torn \x1b[3", "torn "),
        ("torn \x1b", "torn "),
        ("a\tb\x07\x08c", "a\tbc"),
        ("if admin\u202e\u2066: ok", "if admin: ok"),
        ("half \ud800", "half \ufffd"),
    ],
)
def test_known_tricks(raw: str, plain: str) -> None:
    assert clean(raw) == plain


def test_colours_are_kept_and_nothing_else() -> None:
    assert clean("\x1b[1;31mred\x1b[K\x1b[0m \x1b[?25lx", colours=True) == "\x1b[1;31mred\x1b[0m x"
