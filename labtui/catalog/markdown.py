"""Cuts a guide's Markdown into steps' headings, live blocks and the text between.

Knows Markdown's fences, comments and headings, and not what a live block means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from labtui.catalog.reading import CatalogError, control_in, shown


@dataclass(frozen=True)
class Piece:
    """Part of a guide before its meaning: kind is "text", "heading" or a live block's word."""

    line: int
    """Its first line, counted from 1."""
    kind: str
    content: str


# As CommonMark has it: up to three spaces before, no backtick after backticks.
FENCE = re.compile(r"(?P<indent> {0,3})(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
HEADING = re.compile(r" {0,3}##(?=[ \t]|$)")
COMMENT = re.compile(r" {0,3}<!--")


def cut(text: str, file: str, words: Sequence[str]) -> Iterator[Piece]:
    """Text in whole stretches, headings, live blocks (their info string is one of `words`), in order.

    What stands in other fences and in HTML comments is text. `file` is what errors call it. Raises CatalogError where
    a fence or comment is never closed, a heading is empty, or there are control characters.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if control := control_in(text):
        line = text.count("\n", 0, control.start()) + 1
        found = f"a control character (U+{ord(control[0]):04X})"
        raise CatalogError(f"{file}, line {line}: the text holds {found}, plain Markdown expected")
    return _pieces(text.split("\n"), file, words)


def _pieces(lines: list[str], file: str, words: Sequence[str]) -> Iterator[Piece]:
    text_from = here = 0
    while here < len(lines):
        line, place = lines[here], f"{file}, line {here + 1}"
        kind, content, after = "text", "", here + 1
        if fence := FENCE.match(line):
            error = f"{place}: the fence {fence['fence'][:20]} is never closed, its end expected"
            after = _after(lines, here + 1, _closing(fence), error)
            kind = _kind(fence["info"].strip(), words, place)
            indent = re.compile(f" {{0,{len(fence['indent'])}}}")
            content = "\n".join(indent.sub("", below, count=1) for below in lines[here + 1 : after - 1])
        elif COMMENT.match(line):
            error = f"{place}: the comment <!-- is never closed, --> expected"
            after = _after(lines, here, re.compile("-->").search, error)
        elif HEADING.match(line):
            kind, content = "heading", _title(line)
            if not content:
                raise CatalogError(f"{place}: the heading ## is empty, a step's title expected")
        if kind != "text":
            yield from _text(lines, text_from, here)
            yield Piece(here + 1, kind, content)
            text_from = after
        here = after
    yield from _text(lines, text_from, here)


def _text(lines: list[str], first: int, end: int) -> Iterator[Piece]:
    """The text of lines[first:end], if there is any."""
    together = "\n".join(lines[first:end]).strip("\n")
    if together.strip():
        yield Piece(first + 1, "text", together)


def _title(line: str) -> str:
    """What a heading says, without a closing row of #."""
    title = line.strip().removeprefix("##").strip()
    bare = title.rstrip("#")
    return title if bare and not bare[-1].isspace() else bare.rstrip()


def _after(lines: list[str], first: int, ends: Callable[[str], object], error: str) -> int:
    """Index behind the first line from `first` on that ends something; CatalogError(error) where none does."""
    for index in range(first, len(lines)):
        if ends(lines[index]):
            return index + 1
    raise CatalogError(error)


def _closing(fence: re.Match[str]) -> Callable[[str], object]:
    """What finds the end of that fence: the same character, as often or oftener, nothing after it."""
    mark = fence["fence"]
    return re.compile(f" {{0,3}}{mark[0]}{{{len(mark)},}}[ \\t]*$").match


def _kind(info: str, words: Sequence[str], place: str) -> str:
    """The kind of a fenced block by its info string."""
    word = info.split()[0].lower() if info else ""
    if word not in words:
        return "text"
    if info != word:
        raise CatalogError(f"{place}: a block is called {shown(info)}, {word} alone expected")
    return word
