"""`labtui validate`: every published value that the project knows, ours beside it, the error."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labtui.cli import output

if TYPE_CHECKING:
    from labtui.theory.published import Value

OUTSIDE = 1
"""Exit code where a value is out of its tolerance."""
_WHAT = 36


class TopicError(ValueError):
    """There is no such topic. The message is one sentence."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("topic", nargs="?", help="only values of this topic, such as memory (default: all)")
    parser.add_argument("--bad", action="store_true", help="only those that are out of their tolerance")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = f"Exit code {OUTSIDE} where a value is out of its stated tolerance."


def main(arguments: argparse.Namespace) -> int:
    found = [_compared(value) for value in _chosen(arguments.topic)]
    outside = [row for row in found if not row["agrees"]]
    shown = outside if arguments.bad else found
    if arguments.json:
        output.print_json({"count": len(found), "outside": len(outside), "values": shown})
    else:
        output.print_lines(_lines(shown, len(found), len(outside)))
    return OUTSIDE if outside else 0


def _chosen(topic: str | None) -> Sequence[Value]:
    """Raises TopicError."""
    from labtui.theory import published

    values = published.everything()
    if topic is None:
        return values
    chosen = [value for value in values if value.topic == topic]
    if not chosen:
        topics = ", ".join(dict.fromkeys(value.topic for value in values))
        raise TopicError(f"there is no topic {topic!r}: {topics}")
    return chosen


def _compared(value: Value) -> dict[str, Any]:
    from labtui.theory.published import agrees

    ours, error, refused = None, None, None
    try:
        ours = float(value.ours())
        error = ours - value.printed
    except ValueError as refusal:  # one that theory refuses must not hide all others
        refused = str(refusal)
    return {
        "topic": value.topic,
        "what": value.what,
        "source": value.source,
        "printed": value.printed,
        "ours": ours,
        "unit": value.unit,
        "error": error,
        "relative_error": error / value.printed if error is not None and value.printed else None,
        "tolerance": value.tolerance,
        "why": value.why,
        "agrees": ours is not None and agrees(value, ours),
        "refused": refused,
    }


def _lines(rows: Sequence[dict[str, Any]], count: int, outside: int) -> list[str]:
    """A block for each topic and source: its values, then how far ours are off at most."""
    lines: list[str] = []
    topic = source = None
    for row in rows:
        if row["topic"] != topic:
            topic, source = row["topic"], None
            lines += ["", f"{topic.upper()}"]
        if row["source"] != source:
            source = row["source"]
            lines += ["", *_wrapped(source), _row("", "printed", "ours", "error")]
        printed = f"{_number(row['printed'])} {row['unit']}".rstrip()
        line = _row(output.cut(row["what"], _WHAT), printed, _near(row), _error(row))
        lines.append(line + ("" if row["agrees"] else " !"))
        if row["refused"]:
            lines += [f"    {part}" for part in _wrapped(row["refused"], 74)]
    lines += ["", f"{count} published values, {output.plural(outside, 'is', 'are')} out of tolerance"]
    if outside:
        lines.append("! marks them; --json says why each tolerance is what it is")
    return lines[1:]


def _wrapped(text: str, width: int = 78) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def _row(what: str, printed: str, ours: str, error: str) -> str:
    return f"  {what:<{_WHAT}} {printed:>15} {ours:>14} {error:>8}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 and value == int(value) else f"{value:.9g}"


def _near(row: dict[str, Any]) -> str:
    """Ours, with two digits more than the printed figure has; "-" where there is none."""
    if row["ours"] is None:
        return "-"
    if row["error"] == 0:
        return _number(row["ours"])
    digits = len(f"{row['printed']:.9g}".partition(".")[2])
    return f"{row['ours']:,.{min(digits + 2, 6)}f}" if abs(row["printed"]) < 1e4 else f"{row['ours']:,.6g}"


def _error(row: dict[str, Any]) -> str:
    if row["error"] is None:
        return "-"
    if row["error"] == 0:
        return "exact"
    relative = row["relative_error"]
    return f"{row['error']:+.2g}" if relative is None else f"{relative:+.2%}"
