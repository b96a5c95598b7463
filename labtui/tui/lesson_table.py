"""Runs of a guide side by side in a small table, without the numbers that are still to be guessed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labtui.catalog.guide import Compare, Expect, Predict
from labtui.runs.compare import Compared, Row, results
from labtui.tui import words
from labtui.tui.lesson import Lesson, hiding
from labtui.tui.lesson_words import plain, where
from labtui.tui.lines import Line, Piece, crop, fit
from labtui.tui.markdown import flow

MOST_ROWS = 6
"""Results that a guide's table shows; the Compare screen has them all."""
NUMBER = 11
"""Cells of a column of numbers."""
NAME = 18
"""Cells of their names, at least."""


def present(lesson: Lesson, part: Compare) -> list[tuple[str, Compared]]:
    found = [(id, lesson.looks[id].run) for id in part.runs if id in lesson.looks]
    return [(id, run) for id, run in found if run is not None]


def compared_ids(lesson: Lesson, part: Compare) -> list[str]:
    """The runs' own ids, for the Compare screen."""
    return [lesson.looks[id].id for id, _ in present(lesson, part)]


def compare_lines(lesson: Lesson, part: Compare, width: int) -> list[Line]:
    there = present(lesson, part)
    missing = [id for id in part.runs if id not in {known for known, _ in there}]
    lines: list[Line] = [(("Side by side", "strong"),)]
    if there:
        lines += _table(lesson, part, there, width)
    if missing:
        lines += plain(f"not run yet: {', '.join(missing)}", width, "dim")
    return lines


def _table(lesson: Lesson, part: Compare, there: Sequence[tuple[str, Compared]], width: int) -> list[Line]:
    ids, runs = [id for id, _ in there], [run for _, run in there]
    rows = results(runs)
    if not rows:
        return plain("no results yet", width, "dim")
    shown = sorted(rows, key=lambda row: not _asked_for(lesson, ids, row))[:MOST_ROWS]
    columns = list(range(min(len(ids), max((width - NAME) // NUMBER, 1))))
    with_ratio = len(ids) == 2 and width >= NAME + 3 * NUMBER
    names = width - NUMBER * (len(columns) + with_ratio)
    head: list[Piece] = [(fit("", names), "")]
    head += [(" " + fit(ids[n], NUMBER - 1, right=True), "strong") for n in columns]
    head += [(fit("ratio", NUMBER, right=True), "dim")] if with_ratio else []
    lines: list[Line] = [tuple(head)]
    for row in shown:
        lines += _row(lesson, part, [ids[n] for n in columns], row, names, with_ratio=with_ratio)
    left = [f"{len(rows) - len(shown)} more results"] if len(rows) > len(shown) else []
    left += [f"{len(ids) - len(columns)} more runs"] if len(ids) > len(columns) else []
    return [*lines, *plain(f"and {' and '.join(left)}", width, "dim")] if left else lines


def _row(lesson: Lesson, part: Compare, ids: Sequence[str], row: Row, names: int, *, with_ratio: bool) -> list[Line]:
    name = flow(((row.name, ""), (where(row.labels.items()), "dim")), max(names - 1, 8))
    hidden = [hiding(lesson, part, id, row.name, row.labels) is not None for id in ids]
    values = [
        ("guess it", "dim") if is_hidden else _cell(words.quantity(value, row.unit), value)
        for is_hidden, value in zip(hidden, row.values, strict=False)
    ]
    if with_ratio:
        ratio = row.relative[1]
        values.append(("", "") if ratio is None or any(hidden) else (f"x {ratio:.3g}", "dim"))
    first: Line = (*crop(name[0], names), *((" " + fit(text, NUMBER - 1, right=True), role) for text, role in values))
    return [first, *name[1:]]


def _cell(text: str, value: float | None) -> tuple[str, str]:
    return text, "dim" if value is None else ""


def _asked_for(lesson: Lesson, ids: Iterable[str], row: Row) -> bool:
    """Whether the guide speaks of the number."""
    return any(
        isinstance(part, Predict | Expect)
        and part.of in ids
        and part.result == row.name
        and not any(key in row.labels and row.labels[key] != value for key, value in part.where.items())
        for part in lesson.parts()
    )
