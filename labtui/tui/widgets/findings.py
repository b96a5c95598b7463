"""What a run has found so far: checks, predictions, results, notes; and what is wrong with its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from labtui.charts import number
from labtui.runs.clean import clean, clean_line
from labtui.runs.records import Document
from labtui.runs.watch import Snapshot
from labtui.tui import words
from labtui.tui.lines import Line, Piece, fit, fit_middle, with_role, wrap
from labtui.tui.widgets.pane import Choice

BRIEF = 60
"""In fewer columns than this, only what was measured is shown, without bounds and predictions."""
HEADLINE = 40
"""Characters of a reason that the headline above the panes has room for, even in 80 columns."""


Told = tuple[Line, str]
"""A line, and what `y` copies of it; empty where there is nothing to copy."""


class Findings(Choice):
    """Checks first: whether the run can be believed. Then what theory said, then what was measured."""

    title = "Findings"

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.snapshot: Snapshot | None = None
        self._told: list[Told] = []

    def facts(self) -> Sequence[Piece]:
        return check_facts(self.snapshot.checks) if self.snapshot else ()

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        self._told = told(self.snapshot, width) if self.snapshot else []
        return super().shown_lines(width, height)

    def length(self) -> int:
        return len(self._told)

    def choosable(self, index: int) -> bool:
        return bool(self._told[index][1])

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        line = self._told[index][0]
        return with_role(line, "cursor") if chosen and self.has_focus else line

    def copied(self) -> tuple[str, str]:
        """The finding under the cursor, with all its figures."""
        text = self._told[self.cursor][1] if 0 <= self.cursor < len(self._told) else ""
        return text, fit(text, min(len(text), 40)).rstrip()


def check_facts(checks: Sequence[Document]) -> list[Piece]:
    """How many checks came out in which way: `6 ok · 1 failed`."""
    passed = sum(check.get("passed") is True for check in checks)
    expected = sum(check.get("passed") is not True and check.get("expected") is False for check in checks)
    failed = len(checks) - passed - expected
    parts: list[Piece] = []
    for many, text, role in (
        (failed, "failed", "bad"),
        (passed, "ok", "good"),
        (expected, "failed as meant", "warn"),
    ):
        if many:
            parts += [(" · ", "dim")] if parts else []
            parts.append((f"{many} {text}", role))
    return parts


def findings(snapshot: Snapshot, width: int) -> list[Line]:
    """All findings as lines of at most `width` cells."""
    return [line for line, _ in told(snapshot, width)]


def told(snapshot: Snapshot, width: int) -> list[Told]:
    """All findings as lines of at most `width` cells, each with what can be copied of it."""
    lines: list[Told] = []
    for error in snapshot.errors:
        lines += _wrapped(error, width, "bad")
    status = snapshot.status
    # A short one stands in the headline already.
    if status is not None and len(status.reason) > HEADLINE and status.state not in ("succeeded", "running"):
        lines += _wrapped(status.reason, width, words.mark(status.state)[1])
    if snapshot.checks:
        lines += _section("checks", lines)
        lines += [(_check(check, ranks, width), copy_text(check)) for check, ranks in _by_name(snapshot.checks)]
    if snapshot.predictions:
        lines += _section("predictions", lines)
        if width >= BRIEF:
            heading = (("predictions", "dim"), (" " * (width - 42) + " predicted   measured         ", "dim"))
            lines[-1] = heading, ""
        lines += [(_prediction(event, width), copy_text(event)) for event, _ in _by_name(snapshot.predictions)]
    if snapshot.results:
        lines += _section("results", lines)
        lines += [(_result(event, width), copy_text(event)) for event in snapshot.results]
    if snapshot.notes:
        lines += _section("notes", lines)
        for note in snapshot.notes:
            lines += _wrapped(f"rank {note['rank']}: {note.get('text')}", width, "", "dim")
    small = []
    if snapshot.bad_lines:
        small.append(f"{words.count(snapshot.bad_lines, 'line')} of the event files could not be read")
    if snapshot.dropped:
        small.append(f"{words.count(snapshot.dropped, 'event')} more than are kept here")
    if small:
        lines += [((), "")] if lines else []
        for sentence in small:
            lines += _wrapped(sentence, width, "warn")
    if not lines:
        lines = [((("nothing has been reported yet" if snapshot.live else "nothing was reported", "dim"),), "")]
    return lines


def _wrapped(sentence: str, width: int, role: str, further: str | None = None) -> list[Told]:
    further = role if further is None else further
    copied = clean_line(sentence)
    return [(((text, role if n == 0 else further),), copied) for n, text in enumerate(wrap(sentence, width))]


def copy_text(event: Document) -> str:
    """A finding with all its figures, as they were reported: `busbw size_bytes=1024: 11.234567 GB/s`."""
    labels = event.get("labels")
    told = " ".join(f"{key}={value}" for key, value in labels.items()) if isinstance(labels, dict) else ""
    figures = [
        f"{key} {event[key]}" for key in ("predicted", "measured", "at_most", "at_least", "equal") if key in event
    ]
    value = [f"{event['value']} {event.get('unit') or ''}".strip()] if "value" in event else []
    unit = f" {event['unit']}" if figures and not value and event.get("unit") else ""
    name = " ".join(filter(None, (str(event.get("name")), told)))
    return clean_line(f"{name}: {', '.join([*value, *figures])}{unit}")


def _section(name: str, above: Sequence[Told]) -> list[Told]:
    heading: Told = (((name, "dim"),), "")
    return [((), ""), heading] if above else [heading]


def _by_name(events: Sequence[Document]) -> list[tuple[Document, int]]:
    """Events of one name (and labels) as one: the worst of them, and how many there are. Ranks often say the same."""
    groups: dict[str, list[Document]] = {}
    for event in events:
        groups.setdefault(f"{event.get('name')}\0{event.get('labels')}", []).append(event)
    return [(max(group, key=_badness), len(group)) for group in groups.values()]


def _badness(event: Document) -> tuple[bool, float]:
    value = number(event.get("value"))
    size = 0.0 if value is None else -value if "at_least" in event else value
    return event.get("passed") is False, size


def _check(check: Document, times: int, width: int) -> Line:
    passed = check.get("passed") is True
    meant = check.get("expected") is False
    letters, role = ("ok", "good") if passed else ("ok", "warn") if meant else ("!!", "bad")
    told = _verdict(check, brief=passed and width < BRIEF) + (" (meant to fail)" if meant else "")
    if times > 1:
        told += f"  x{times}"
    return _pair((letters, role), str(check.get("name")), told, width, "" if passed else role)


def _verdict(check: Mapping[str, Any], *, brief: bool) -> str:
    """The value and the bound that it kept or broke; only the value where that must do."""
    value = words.quantity(check.get("value"), str(check.get("unit") or ""))
    passed = check.get("passed") is True
    for bound, holds, broken in (("at_most", "<=", ">"), ("at_least", ">=", "<"), ("equal", "=", "is not")):
        if bound in check and not brief:
            return f"{value} {holds if passed else broken} {words.quantity(check[bound])}"
    return "" if isinstance(check.get("value"), bool) or check.get("value") is None else value


def _prediction(event: Document, width: int) -> Line:
    unit = str(event.get("unit") or "")
    predicted, measured = number(event.get("predicted")), number(event.get("measured"))
    off = ""
    if predicted is not None and measured is not None and predicted:
        share = measured / predicted - 1
        off = "=" if abs(share) < 5e-4 else f"{100 * share:+.1f} %" if abs(share) < 9.995 else f"x{share + 1:.3g}"
    said, found = words.quantity(event.get("predicted"), unit), words.quantity(event.get("measured"), unit)
    if width < BRIEF:
        return _pair(("  ", ""), str(event.get("name")), f"{found} {off}", width)
    columns = f" {fit(said, 10, right=True)} {fit(found, 10, right=True)} {fit(off, 8, right=True)}"
    return _pair(("  ", ""), str(event.get("name")), columns, width)


def _result(event: Document, width: int) -> Line:
    labels = event.get("labels")
    name = str(event.get("name"))
    if isinstance(labels, dict) and labels:
        name += "  " + " ".join(f"{key}={value}" for key, value in labels.items())
    return _pair(("  ", ""), name, words.quantity(event.get("value"), str(event.get("unit") or "")), width)


def _pair(mark: Piece, name: str, value: str, width: int, role: str = "") -> Line:
    """A name at the left and its value at the right; where room is short, the name is cut first, in its middle."""
    room = width - 3
    value = clean(value).translate({ord("\t"): " ", ord("\n"): " "})
    if cell_len(value) > max(room - 8, 0):
        value = fit(value, max(room - 8, 0))
    name_room = room - cell_len(value) - 1
    return mark, (" ", ""), (fit_middle(name, name_room), role), (" ", ""), (value, role or "strong")
