"""Sentences and numbers of a guide as lines. Pure; whatever comes from outside is made harmless by `markdown.flow`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from labtui.runs.clean import clean_line
from labtui.runs.lesson import Known
from labtui.tui import words
from labtui.tui.lines import Line
from labtui.tui.markdown import flow


def said(text: str, width: int, role: str = "") -> list[Line]:
    """A guide's sentence, in which `backticks` mark code."""
    spans = [
        (piece[1:-1], f"{role} code".strip()) if len(piece) > 2 and piece.startswith("`") else (piece, role)
        for piece in re.split(r"(`[^`]+`)", clean_line(text))
    ]
    return flow(spans, width)


def plain(text: str, width: int, role: str = "") -> list[Line]:
    """A sentence of ours, perhaps with names from outside in it."""
    return flow(((clean_line(text), role),), width)


def pair(name: str, value: str, width: int) -> list[Line]:
    """A name and what it is."""
    return flow(((f"{name} ", "dim"), (value, "strong")), width)


def told(value: float, unit: str) -> str:
    """A number with its unit; of bytes also the exact count, since guides ask for it."""
    text = words.quantity(value, unit)
    return f"{text} ({value:,.0f} B)" if unit == "B" and abs(value) >= 1000 else text


def with_spread(known: Known, unit: str) -> str:
    """A measured number, with how it scattered where the run said so."""
    text = told(known.value, unit)
    if known.spread is not None:
        low, high = (words.quantity(end, unit) for end in known.spread)
        text += f" (from {low} to {high})"
    return text


def where(labels: Iterable[tuple[str, object]]) -> str:
    """Labels behind a result's name, or nothing."""
    told_labels = ", ".join(f"{key} {value}" for key, value in labels)
    return f" ({told_labels})" if told_labels else ""
