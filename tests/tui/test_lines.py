"""Lines: exactly as wide as they should be, and nothing in them that a terminal would obey."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from labtui.runs.clean import clean_line
from labtui.tui.lines import cells, changed_span, crop, fit, fit_middle, heading, spread, wrap

TEXTS = st.text("ab \t\x00\x1b[]m;é漢字🙂\u202e", max_size=30)
LINES = st.lists(st.tuples(st.text("ab漢", max_size=5), st.sampled_from(["", "dim", "bad"])), max_size=5).map(tuple)


@given(text=TEXTS, width=st.integers(0, 40), right=st.booleans())
def test_fitted_text_has_exactly_its_width(text: str, width: int, right: bool) -> None:
    for fitted in (fit(text, width, right=right), fit_middle(text, width)):
        assert cell_len(fitted) == width
        assert fitted.isprintable()


@given(line=LINES, width=st.integers(0, 20))
def test_cropped_lines_have_exactly_their_width(line: tuple[tuple[str, str], ...], width: int) -> None:
    assert cells(crop(line, width)) == width


@given(left=LINES, right=LINES, width=st.integers(0, 40), title=st.text("ab", max_size=20))
def test_lines_with_two_ends_have_exactly_their_width(
    left: tuple[tuple[str, str], ...], right: tuple[tuple[str, str], ...], width: int, title: str
) -> None:
    assert cells(spread(left, right, width)) == width
    assert cells(heading(title, width, facts=right)) == width


def test_names_keep_both_ends() -> None:
    cut = fit_middle("gradients equal the full batch's (hooks)", 24)
    assert cut.startswith("gradients") and cut.endswith("(hooks)") and "…" in cut
    assert fit_middle("short", 24).rstrip() == "short"


@given(old=LINES, new=LINES)
def test_the_changed_span_covers_all_that_differs(
    old: tuple[tuple[str, str], ...], new: tuple[tuple[str, str], ...]
) -> None:
    width = 30
    before, after = crop(old, width), crop(new, width)
    span = changed_span(before, after)
    if span is None:
        assert before == after
        return
    start, end = span
    assert 0 <= start < end <= width

    def flat(line: tuple[tuple[str, object], ...]) -> list[tuple[str, object]]:
        return [(c, role) for text, role in line for character in text for c in character * cell_len(character)]

    a, b = flat(before), flat(after)
    assert a[:start] == b[:start] and a[end:] == b[end:]


def test_a_small_change_is_a_small_span() -> None:
    old = (("rank 0  ", "dim"), (" 50", ""), ("  812 MB", "dim"))
    new = (("rank 0  ", "dim"), (" 51", ""), ("  812 MB", "dim"))
    assert changed_span(old, new) == (8, 11)


def test_wrapping_keeps_every_word() -> None:
    text = "a sentence that is longer than the line"
    assert " ".join(wrap(text, 12)) == text
    assert wrap("", 12) == [""]


@given(st.text("ab 漢🙂\x1b-\u0301", max_size=60), st.integers(8, 30))
def test_wrapped_lines_have_their_width_and_lose_nothing(raw: str, width: int) -> None:
    lines = wrap(raw, width)
    assert lines and all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == clean_line(raw).replace(" ", "")
