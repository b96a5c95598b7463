"""What is looked for in logs, and where it is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.tui.log_search import PatternError, pattern, shown_text


def test_plain_text_is_meant_as_it_stands() -> None:
    assert pattern("[rank0]").matches("a [rank0] b")
    assert not pattern("[rank0]").matches("r")
    assert pattern("loss").matches("LOSS 2.3") and not pattern("Loss").matches("LOSS 2.3")
    assert pattern("ab").spans("abxAB") == [(0, 2), (3, 5)]


def test_an_expression_stands_between_slashes() -> None:
    found = pattern(r"/loss: (nan|inf)$/")
    assert found.matches("the Loss: NaN") and not found.matches("loss: nan, again")
    assert pattern("/home/ann").matches("in /home/ann/x"), "one slash is a path"
    assert pattern("//").matches("a//b")


@pytest.mark.parametrize(
    "text", [r"/(a+)+$/", r"/(a|aa)*b/", r"/(.*)*x/", r"/.*a.*b.*c.*d/", r"/(a)\1/", r"/((a{2,})?)+/"]
)
def test_what_could_take_for_ever_is_refused(text: str) -> None:
    with pytest.raises(PatternError, match="for ever"):
        pattern(text)


@pytest.mark.parametrize("text", ["/[/", "/(/", "/a{9999999999}/"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(PatternError, match="no regular expression"):
        pattern(text)


@pytest.mark.parametrize("text", [r"/rank \d+/", r"/(one|two) x*/", r"/^step\s+[0-9]+ .*ms/", r"/(ab)+c/", r"/a{1,3}/"])
def test_what_people_look_for_is_accepted(text: str) -> None:
    pattern(text)


def test_lines_are_found_as_they_are_shown() -> None:
    raw = b"10 %\r50 %\r100 % done\n\x1b[31mer\x1b[0mror\nerror\n\nlast"
    assert pattern("error").lines(raw) == [1, 2]
    assert pattern("50 %").lines(raw) == [], "overwritten: nobody sees it"
    assert pattern("done").lines(raw) == [0]
    assert pattern("/^$/").lines(raw) == [3]
    assert pattern("last").lines(raw) == [4]


LINES = st.lists(st.text("abAB.[]\x1b31m\r\t漢\x00", max_size=12), max_size=6)


@given(LINES, st.text("abAB.[", min_size=1, max_size=3))
def test_searching_many_lines_finds_what_searching_each_does(lines: list[str], text: str) -> None:
    wanted = pattern(text)
    found = wanted.lines("\n".join(lines).encode())
    for n in found:
        assert wanted.matches(shown_text(lines[n]))
    for n, line in enumerate(lines):
        if "\x1b" not in line and wanted.matches(shown_text(line)) and "\x00" not in line:
            assert n in found


@given(st.text(max_size=40), st.text(min_size=1, max_size=3))
def test_marks_lie_within_the_line(shown: str, text: str) -> None:
    for start, end in pattern(text).spans(shown):
        assert 0 <= start < end <= len(shown)
