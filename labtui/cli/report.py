"""A run as text for people: what kind of run, how it went, what was predicted, then what was measured.

Turns a run's document (`output.run_document`) into lines; everything in it is cleaned here. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labtui.cli import output
from labtui.cli.output import number, with_unit
from labtui.runs.clean import clean_line
from labtui.runs.json_text import objects

MOST_LINES = 40
"""Lines of one list that people get to see; --json has all."""


def whole(document: Mapping[str, Any]) -> list[str]:
    """The lines of a run's whole document."""
    lines = head(document)
    for title, values in (("parameters", document["parameters"]), ("environment", document["environment"])):
        if values:
            lines += ["", title, *_pairs((clean_line(str(key)), _value(value)) for key, value in values.items())]
    lines += _section("ranks", _ranks(document["processes"]))
    lines += _section("checks", _checks(document["checks"]))
    lines += _section("predicted, then measured", _predictions(document["predictions"]))
    lines += _section("results", _results(document["results"]))
    if document["bad_lines"]:
        lines += ["", f"{output.plural(document['bad_lines'], 'line')} of its events can't be read"]
    if document["error"]:
        lines += ["", clean_line(document["error"])]
    return lines


def head(document: Mapping[str, Any]) -> list[str]:
    """What kind of run it is and how it went."""
    took = f", {output.duration(document['seconds'])}" if document["seconds"] is not None else ""
    ran = [f"{document['user']} at {document['host']}"]
    if document["device"] is not None:
        ran.insert(0, f"on {document['device']}")
    if document["nproc"] is not None:
        ran.insert(0, output.plural(document["nproc"], "process", "processes"))
    words = [
        ("run", document["id"]),
        ("state", f"{document['state']}{': ' if document['reason'] else ''}{document['reason']}"),
        ("experiment", f"{document['experiment']}{', variant ' if document['variant'] else ''}{document['variant']}"),
        ("created", f"{output.moment(document['created'])}{took}"),
        ("ran as", ", ".join(ran)),
        ("exit code", number(document["exit_code"])),
        ("link", _value(document["link"]) if document["link"] else ""),
        ("group", document["group"] or ""),
        ("tags", ", ".join(document["tags"])),
        ("note", document["note"]),
        ("command", _command(document["command"])),
        ("folder", document["folder"]),
    ]
    return [f"{name:<12}{clean_line(text)}" for name, text in words if text]


def stacks(summary: Mapping[str, Any]) -> list[str]:
    """The lines of stacks/summary.json: where each rank is, then who waits for whom."""
    rows = []
    for rank in objects(summary.get("ranks")):
        where = rank.get("line") or f"unknown: {rank.get('why') or 'no way to ask it'}"
        collective = rank.get("collective")
        rows.append((number(rank.get("rank")), clean_line(str(where)), clean_line(str(collective or "-"))))
    lines = ["", f"stacks of {output.moment(summary.get('t'))}"]
    if rows:
        lines += [
            f"  {line}"
            for line in _capped(output.table(("rank", "at", "collective not ended"), rows, output.UNLIMITED))
        ]
    return [*lines, f"  {clean_line(str(summary.get('sentence') or 'nothing is known'))}"]


def _ranks(processes: Sequence[Mapping[str, Any]]) -> list[str]:
    ranks = sorted(
        (process for process in processes if process["role"] == "rank"), key=lambda process: process["rank"] or 0
    )
    rows = [
        (number(rank["rank"]), str(rank["pid"]), clean_line(rank["stacks"] or "-"), clean_line(rank["stdout"] or "-"))
        for rank in ranks
    ]
    return output.table(("rank", "pid", "stacks by", "output"), rows, output.UNLIMITED) if rows else []


def _checks(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for check in checks:
        if check.get("passed") is True:
            word = "ok"
        else:
            word = "failed as intended" if check.get("expected") is False else "FAILED"
        bounds = [
            f"{words} {number(check[key])}"
            for key, words in (("at_most", "at most"), ("at_least", "at least"), ("equal", "must be"))
            if key in check
        ]
        rows.append((word, _rank(check), _text(check.get("name")), _measured(check, "value"), " and ".join(bounds)))
    return output.table(("verdict", "rank", "check", "value", "bound"), rows, output.UNLIMITED) if rows else []


def _predictions(predictions: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            _text(prediction.get("name")),
            with_unit(prediction.get("predicted"), prediction.get("unit")),
            _measured(prediction, "measured", prediction.get("unit")),
            _difference(prediction),
        )
        for prediction in predictions
    ]
    header = ("prediction", "predicted", "measured", "measured / predicted")
    return output.table(header, rows, output.UNLIMITED) if rows else []


def _results(results: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for result in results:
        labels = result.get("labels")
        said = labels.items() if isinstance(labels, dict) else ()
        words = ", ".join(f"{clean_line(str(key))}={_value(value)}" for key, value in said)
        rows.append((_text(result.get("name")), _measured(result, "value", result.get("unit")), words))
    return output.table(("result", "value", "of"), rows, output.UNLIMITED) if rows else []


def _difference(prediction: Mapping[str, Any]) -> str:
    predicted, measured = prediction.get("predicted"), prediction.get("measured")
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (predicted, measured))
    if not numbers or not predicted:
        return "-"
    try:
        return f"{measured / predicted:.3f}"
    except OverflowError:
        return "-"


def _measured(event: Mapping[str, Any], key: str, unit: Any = "") -> str:
    """A value, or why there is none (`nan`, `inf`, a sentence)."""
    value = event.get(key)
    return with_unit(value, unit) if value is not None else _text(event.get("why") or "-")


def _rank(event: Mapping[str, Any]) -> str:
    return number(event.get("rank"))


def _text(value: Any) -> str:
    return clean_line(str(value)) if value is not None else "-"


def _value(value: Any) -> str:
    """A parameter, label or setting as it would be typed."""
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean_line(text)


def _command(words: Iterable[str]) -> str:
    import shlex

    return shlex.join(map(str, words))


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    pairs = list(pairs)
    width = max(output.cells(key) for key, _ in pairs)
    return _capped([f"  {key}{' ' * (width - output.cells(key))}  {value}" for key, value in pairs])


def _section(title: str, lines: Sequence[str]) -> list[str]:
    """A titled list, its lines indented; nothing where there is nothing."""
    return ["", title, *_capped([f"  {line}" for line in lines])] if lines else []


def _capped(lines: Sequence[str]) -> list[str]:
    if len(lines) <= MOST_LINES + 1:
        return list(lines)
    return [*lines[:MOST_LINES], f"  ... and {len(lines) - MOST_LINES:,} more (--json has all)"]
