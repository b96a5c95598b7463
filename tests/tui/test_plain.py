"""Terminals that can do less."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from textual.color import Color

from labtui.tui import plain, theme
from labtui.tui.plain import SixteenFilter, to_ascii


@given(st.text("ab─│├█▌·…›漢🙂é⣿▔", max_size=20))
def test_ascii_is_ascii_and_as_wide(text: str) -> None:
    assert to_ascii(text).isascii()
    assert cell_len(to_ascii(text)) == cell_len(text)


def test_what_we_draw_with_has_a_likeness() -> None:
    assert to_ascii("─ Title ─┬│├┼ ›·… ████▌ ━━") == "- Title -+|++ >.. ####| --"


def test_with_16_colours_those_that_mean_something_stay_apart() -> None:
    names = ("good", "bad", "warn", "live", "accent", "dim")
    segments = SixteenFilter().apply([Segment("x", theme.ROLES[name]) for name in names], Color(0, 0, 0))
    numbers = [segment.style.color.downgrade(ColorSystem.STANDARD).number for segment in segments]  # type: ignore[union-attr]
    assert len(set(numbers)) == len(names)


def test_the_encoding_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, expected in (("latin-1", True), ("UTF-8", False), ("utf8", False), (None, True)):
        monkeypatch.setattr(sys, "__stdout__", SimpleNamespace(encoding=encoding))
        assert plain.needs_ascii() is expected
