"""Which runs a list shows, in which order: what a person types, as data. Pure; `store` makes SQL of it.

    ddp failed                     plain words: each in the id, experiment, variant, reason, note, a tag or the user
    experiment:ring state:failed   a field holds this text; nproc:2 and star: are exact; tag:x is a whole tag
    width=512                      a parameter has this value
    -word  -tag:x  -width=512      all but those

Case does not matter. What names no field is a plain word, so nothing that is typed is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labtui.runs.rows import Row

TEXTS = ("experiment", "variant", "state", "device", "user", "host", "group", "note", "reason")
"""Fields that are searched for a part."""
WORDS_IN = ("id", "experiment", "variant", "reason", "note", "user")
"""Fields in which plain words are looked for; tags are searched, too."""
ORDERS = ("created", "experiment", "variant", "state", "took", "nproc", "tags", "note")
"""Columns by which runs can be sorted."""

MOST = 100
"""Conditions. SQLite takes about a thousand; nobody types so many, but a paste may hold them."""

_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Term:
    """One condition. `kind` is "word", "field", "nproc", "star", "tag" or "parameter"."""

    kind: str
    text: str
    name: str = ""
    """Of the field or parameter."""
    negated: bool = False


@dataclass(frozen=True)
class Query:
    """All conditions must hold; the order is that of one column, newest first where it says nothing."""

    terms: tuple[Term, ...] = ()
    order: str = "created"
    descending: bool = True

    def matches(self, row: Row, parameters: Mapping[str, Any]) -> bool:
        """Whether the run belongs to the list."""
        return all(_holds(term, row, parameters) != term.negated for term in self.terms)


def parse(text: str, order: str = "created", descending: bool = True) -> Query:
    """What was typed, its first MOST conditions. Never raises; an unknown order is that of age."""
    words = list(dict.fromkeys(text.split()))[:MOST]
    terms = (_term(word) for word in words)
    return Query(tuple(term for term in terms if term), order if order in ORDERS else "created", descending)


def of(**fields: str | None) -> Query:
    """The runs whose fields are exactly these; None leaves a field open."""
    return Query(tuple(Term("exact", text, name) for name, text in fields.items() if text is not None))


def _term(word: str) -> Term | None:
    negated = len(word) > 1 and word.startswith("-")
    body = word[negated:]
    field, colon, text = body.partition(":")
    field = field.lower()
    if colon and field in TEXTS:
        return Term("field", text.lower(), field, negated) if text else None
    if colon and field == "tag":
        return Term("tag", text.lower(), "", negated) if text else None
    if colon and field == "nproc" and text.isdecimal() and text.isascii():
        return Term("nproc", str(int(text[:18])), "", negated)
    if field in ("star", "is") and colon and text in ("", "yes", "star"):
        return Term("star", "", "", negated)
    parameter = _PARAMETER.fullmatch(body)
    if parameter is not None:
        return Term("parameter", parameter[2].lower(), parameter[1], negated) if parameter[2] else None
    return Term("word", body.lower(), "", negated)


def _holds(term: Term, row: Row, parameters: Mapping[str, Any]) -> bool:
    if term.kind == "word":
        return any(term.text in str(getattr(row, name)).lower() for name in WORDS_IN) or any(
            term.text in tag.lower() for tag in row.tags
        )
    if term.kind == "field":
        return term.text in (getattr(row, term.name) or "").lower()
    if term.kind == "exact":
        return bool(getattr(row, term.name) == term.text)
    if term.kind == "tag":
        return term.text in (tag.lower() for tag in row.tags)
    if term.kind == "nproc":
        return row.nproc == int(term.text)
    if term.kind == "star":
        return row.star
    return term.name in parameters and same_value(parameters[term.name], term.text)


def same_value(value: Any, typed: str) -> bool:
    """Whether a parameter has the value that was typed: 0.5 is 5e-1, true is True, a text is itself."""
    if isinstance(value, str):
        return value.lower() == typed
    if json.dumps(value).lower() == typed:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float(value) == float(typed)
    except (ValueError, OverflowError):
        return False


def in_order(query: Query, rows: Iterable[Row], now: float) -> list[Row]:
    """Runs in the query's order; those for which its column says nothing last, the rest of equals newest first."""

    def key(row: Row) -> Any:
        if query.order == "took":
            return row.seconds(now)
        if query.order == "tags":
            return json.dumps(row.tags, ensure_ascii=False)
        return getattr(row, query.order)

    newest_first = sorted(rows, key=lambda row: (row.created, row.id), reverse=True)
    if query.order == "created":
        return newest_first if query.descending else newest_first[::-1]
    known = [row for row in newest_first if key(row) is not None]
    return sorted(known, key=key, reverse=query.descending) + [row for row in newest_first if key(row) is None]
