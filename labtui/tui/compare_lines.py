"""Runs side by side as lines: which they are, what differs, results, checks, how well theory did. Pure.

The runs are a, b, c ...; each number stands beside the baseline's with difference and ratio. An arrow says up or down,
`~` that both scatter over the same values, so that the difference may be none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labtui.catalog.manifest import Chart
from labtui.charts import LETTERS
from labtui.runs import compare
from labtui.runs.compare import Compared, Row
from labtui.runs.watch import Snapshot
from labtui.tui import words
from labtui.tui.lines import Line, Piece, fit, fit_middle

NOISE = "~ both scatter over the same values, from their 10th to their 90th percentile"
_VERDICTS: dict[str | None, Piece] = {
    "ok": ("ok", "good"), "failed": ("!! failed", "bad"), "expected": ("failed as meant", "warn"), None: ("-", "dim"),
}  # fmt: skip
EQUAL = 0.005
"""Ratios so close to 1 are called equal."""


@dataclass(frozen=True)
class SideBySide:
    """What was read of the runs that are compared."""

    ids: tuple[str, ...]
    runs: tuple[Compared, ...]
    snapshots: tuple[Snapshot, ...] = ()
    charts: tuple[Chart, ...] = ()
    """Those of their experiments' manifests."""
    baseline: int = 0
    missing: tuple[str, ...] = field(default=())
    """Why a run is not among them, in sentences."""


def lines(compared: SideBySide, width: int) -> list[Line]:
    """All of it, at most `width` cells wide."""
    found = [*_runs(compared, width), *_differs(compared, width)]
    rows = compare.results(compared.runs, compared.baseline)
    found += _numbers("result", rows, compared, width, nothing="none of them reported a result")
    if any(row.apart(place) is False for row in rows for place in _others(compared)):
        found.append(((fit(NOISE, width), "dim"),))
    found += _checks(compared, width)
    return found + _predictions(compared, width)


def _others(compared: SideBySide) -> list[int]:
    return [place for place in range(len(compared.runs)) if place != compared.baseline]


def _runs(compared: SideBySide, width: int) -> list[Line]:
    found: list[Line] = []
    for place, (id, run) in enumerate(zip(compared.ids, compared.runs, strict=True)):
        base = place == compared.baseline
        state, role = words.mark(run.status.state)
        told = f"{run.request.experiment}, {run.request.variant or 'default'}"
        note = "  baseline" if base else ""
        room = max(width - 8 - len(note), 10)
        name = fit_middle(f"{told}  {id}", room)
        found.append(((f" {LETTERS[place]} ", "title" if base else "strong"), (state, role), ("  ", ""), (name, ""),
                      (note, "accent")))  # fmt: skip
    return found + [((fit(why, width), "bad"),) for why in compared.missing]


def _differs(compared: SideBySide, width: int) -> list[Line]:
    different = compare.differs(compared.runs)
    if not different:
        return [(), (("nothing differs in what was asked for, nor in the machine", "dim"),)]
    rows = [(name, [_value(value) for value in values]) for name, values in different.items()]
    names, each = _columns("differs", [name for name, _ in rows], len(compared.runs), width)
    found: list[Line] = [(), _header("differs", compared, names, [each] * len(compared.runs))]
    for name, values in rows:
        cells: list[Piece] = [(fit_middle(name, names), "")]
        for place, text in enumerate(values):
            same = place != compared.baseline and text == values[compared.baseline]
            cells += [("  ", ""), (fit(text, each), "dim" if same or text == "-" else "strong")]
        found.append(tuple(cells))
    return found


def _numbers(title: str, rows: Sequence[Row], compared: SideBySide, width: int, nothing: str) -> list[Line]:
    if not rows:
        return [(), ((nothing, "dim"),)]
    others = _others(compared)
    each = 4 + _VALUE + _RATIO  # a value and its ratio
    at_once = max(1, (width - _LEAST_NAME - 2 - _VALUE) // each)
    found: list[Line] = []
    # Where not all runs fit beside the baseline, the rest follows below.
    for first in range(0, len(others), at_once):
        found += [(), *_block(title, rows, compared, others[first : first + at_once], width)]
    return found


def _block(title: str, rows: Sequence[Row], compared: SideBySide, others: Sequence[int], width: int) -> list[Line]:
    room = width - 2 - _VALUE - len(others) * (4 + _VALUE + _RATIO)
    names = max(min(max(len(_name(row)) for row in rows), room), 12)
    base = fit(LETTERS[compared.baseline], _VALUE, right=True)
    head: list[Piece] = [(fit(title, names), "dim"), ("  ", ""), (base, "title")]
    for place in others:
        ratio = f"{LETTERS[place]}/{LETTERS[compared.baseline]}"
        head += [
            ("  ", ""),
            (fit(LETTERS[place], _VALUE, right=True), "strong"),
            ("  ", ""),
            (fit(ratio, _RATIO), "dim"),
        ]
    found: list[Line] = [tuple(head)]
    for row in rows:
        cells: list[Piece] = [(fit_middle(_name(row), names), ""), ("  ", "")]
        cells.append((fit(_measured(row, compared.baseline), _VALUE, right=True), ""))
        for place in others:
            cells += [("  ", ""), (fit(_measured(row, place), _VALUE, right=True), ""), ("  ", ""), _ratio(row, place)]
        found.append(tuple(cells))
    return found


_LEAST_NAME = 24
_VALUE, _RATIO = 11, 9


def _name(row: Row) -> str:
    labels = " ".join(
        value if isinstance(value, str) else f"{key} {_value(value)}"
        for key, value in row.labels.items()
        if (key, value) != ("stat", "median")
    )
    unit = f", {row.unit}" if row.unit else ""
    return f"{row.name}{' ' + labels if labels else ''}{unit}"


def _measured(row: Row, place: int) -> str:
    value = row.values[place]
    if value is None:
        return "-"
    text = words.quantity(value, row.unit) if row.unit == "B" else words.quantity(value)
    spread = row.spreads[place] if row.spreads else None
    if spread is None:
        return text
    # As wide as the spread reaches on either side: one number that fits.
    reach = max(spread[1] - value, value - spread[0])
    return f"{text} ±{words.quantity(float(f'{reach:.1g}'))}" if reach > 0 else text


def _ratio(row: Row, place: int) -> Piece:
    ratio = row.relative[place]
    if ratio is None:
        return (fit("-", _RATIO), "dim")
    if row.apart(place) is False:
        return (fit(f"{ratio:.2f} ~", _RATIO), "dim")
    if abs(ratio - 1) <= EQUAL:
        return (fit(f"{ratio:.2f} =", _RATIO), "dim")
    text = f"{ratio:.2f}" if ratio == 0 or 0.01 <= abs(ratio) < 1000 else f"{ratio:.1e}"
    return (fit(f"{text} {'▲' if ratio > 1 else '▼'}", _RATIO), "accent")


def _checks(compared: SideBySide, width: int) -> list[Line]:
    rows = compare.checks(compared.runs)
    if not rows:
        return []
    names, each = _columns("check", [row.name for row in rows], len(compared.runs), width)
    found: list[Line] = [(), _header("check", compared, names, [each] * len(compared.runs))]
    for row in rows:
        cells: list[Piece] = [(fit_middle(row.name, names), "")]
        for verdict in row.verdicts:
            text, role = _VERDICTS[verdict]
            cells += [("  ", ""), (fit(text, each), role)]
        found.append(tuple(cells))
    return found


def _predictions(compared: SideBySide, width: int) -> list[Line]:
    rows = compare.predictions(compared.runs, compared.baseline)
    if not rows:
        return []
    names, each = _columns("measured / predicted", [row.name for row in rows], len(compared.runs), width)
    found: list[Line] = [(), _header("measured / predicted", compared, names, [each] * len(compared.runs))]
    for row in rows:
        cells: list[Piece] = [(fit_middle(row.name, names), "")]
        for value in row.values:
            cells += [("  ", ""), (fit("-" if value is None else f"{value:.3f}", each), "dim" if value is None else "")]
        found.append(tuple(cells))
    return found


def _columns(title: str, names: Sequence[str], runs: int, width: int) -> tuple[int, int]:
    """The width of the first column, and of each run's."""
    wanted = max(len(title), *(len(name) for name in names))
    first = max(min(wanted, width // 2, width - runs * 10), 12)
    return first, max((width - first) // runs - 2, 6)


def _header(title: str, compared: SideBySide, names: int, each: Sequence[int]) -> Line:
    cells: list[Piece] = [(fit(title, names), "dim")]
    for place, size in enumerate(each):
        cells += [("  ", ""), (fit(LETTERS[place], size), "title" if place == compared.baseline else "strong")]
    return tuple(cells)


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return words.quantity(value) if isinstance(value, float) else json.dumps(value)
