"""A run as a report in Markdown: what was run, on what, what was predicted, measured and concluded, charts as text.

For a lab notebook, an issue or a mail. Everything in it comes from the run's folder; Markdown in names and notes is
shown, not obeyed.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labtui import charts
from labtui.catalog.manifest import Experiment
from labtui.runs.clean import clean_line
from labtui.runs.document import run_document
from labtui.runs.folder import RunFolder
from labtui.runs.json_text import objects
from labtui.runs.plots import plots
from labtui.runs.watch import Snapshot, read_whole

MOST_ROWS = 200
"""Rows of a table; a report is for reading, csv and json have all."""
_WIDTH = 76
_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
"""What Markdown may take for markup; an underscore inside a word it doesn't."""


def text(folder: RunFolder, experiment: Experiment | None) -> str:
    """The report. `experiment` gives title, question and charts; None where it isn't known here.

    Raises RecordError where the run can't be read.
    """
    document = run_document(folder)
    snapshot = read_whole(folder)
    title = experiment.title if experiment else document["experiment"]
    parts = [f"# {_safe(title)}{', ' if document['variant'] else ''}{_safe(document['variant'])}"]
    if experiment:
        parts.append(_safe(experiment.question))
    parts += [
        _section("What came of it", _conclusion(document)),
        _section("What was run", _asked(document)),
        _section("On what", _machine(document, snapshot)),
        _section("Checks", _checks(document["checks"])),
        _section("Predicted, then measured", _predictions(document["predictions"])),
        _section("Charts", _charts(snapshot, experiment)),
        _section("Results", _results(document["results"])),
        _section("Notes of the run", "\n".join(f"- {_safe(str(note.get('text')))}" for note in snapshot.notes)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _conclusion(document: Mapping[str, Any]) -> str:
    said = [f"**{document['state']}**" + (f": {_safe(document['reason'])}" if document["reason"] else "")]
    if document["note"]:
        said.append(f"Note: {_safe(document['note'])}")
    return "\n\n".join(said)


def _asked(document: Mapping[str, Any]) -> str:
    rows = [
        ("run", document["id"]),
        ("when", _moment(document["created"])),
        ("took", f"{document['seconds']:.1f} s" if document["seconds"] is not None else "unknown"),
        ("processes", document["nproc"]),
        ("device", document["device"]),
        ("link", json.dumps(document["link"]) if document["link"] else None),
        *((f"parameter {name}", value) for name, value in document["parameters"].items()),
        *((f"environment {name}", value) for name, value in document["environment"].items()),
    ]
    listed = _table(("", ""), [(name, value) for name, value in rows if value is not None])
    return f"{listed}\n\n{_code(clean_line(shlex.join(map(str, document['command']))))}"


def _machine(document: Mapping[str, Any], snapshot: Snapshot) -> str:
    machine = snapshot.machine or {}
    versions = {**_dict(machine.get("versions")), **snapshot.versions}
    gpus = objects(machine.get("gpus"))
    nccl = snapshot.nccl or {}
    memory = charts.number(machine.get("memory"))
    rows = [
        ("host", document["host"]),
        ("CPU", machine.get("cpu")),
        ("cores", machine.get("cores")),
        ("memory", f"{memory / 1e9:.1f} GB" if memory is not None else None),
        *((f"GPU {gpu.get('index')}", gpu.get("name")) for gpu in gpus),
        ("driver", machine.get("driver")),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items()) or None),
        ("paths of NCCL", nccl.get("diagnosis")),
    ]
    return _table(("", ""), [(name, value) for name, value in rows if value is not None])


def _checks(checks: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for check in checks:
        verdict = "passed" if check.get("passed") is True else "FAILED"
        if check.get("expected") is False:
            verdict = "failed as intended"
        signs = (("at_most", "at most"), ("at_least", "at least"), ("equal", "must be"))
        bound = " and ".join(f"{words} {_number(check[key])}" for key, words in signs if key in check)
        rows.append((check.get("name"), verdict, _measured(check, "value"), bound))
    return _table(("check", "verdict", "value", "bound"), rows)


def _predictions(predictions: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for prediction in predictions:
        predicted, measured = charts.number(prediction.get("predicted")), charts.number(prediction.get("measured"))
        ratio = f"{measured / predicted:.3f}" if predicted and measured is not None else "-"
        rows.append(
            (
                prediction.get("name"), _measured(prediction, "predicted"), _measured(prediction, "measured"),
                prediction.get("unit"), ratio, prediction.get("why"),
            )
        )  # fmt: skip
    return _table(("what", "predicted", "measured", "unit", "measured / predicted", "rests on"), rows)


def _results(results: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for result in results:
        labels = " ".join(f"{name}={_number(value)}" for name, value in _dict(result.get("labels")).items())
        rows.append((result.get("name"), labels, _measured(result, "value"), result.get("unit")))
    return _table(("result", "of", "value", "unit"), rows)


def _charts(snapshot: Snapshot, experiment: Experiment | None) -> str:
    drawn = plots(snapshot, experiment.charts if experiment else ())
    return "\n\n".join(_code(plot.text(_WIDTH, charts.TALL)) for plot in drawn)


# Markdown -----------------------------------------------------------------------------------------------------------


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *([_cell(value) for value in row] for row in rows[:MOST_ROWS])]
    more = [f"\n{len(rows) - MOST_ROWS:,} further rows are left out."] if len(rows) > MOST_ROWS else []
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), *more])


def _cell(value: Any) -> str:
    return "" if value is None else _safe(value if isinstance(value, str) else _number(value))


def _safe(text: str) -> str:
    """The text as Markdown shows it unchanged, on one line."""
    return _SPECIAL.sub(r"\\\g<0>", clean_line(text))


def _code(text: str) -> str:
    """A block of code; the fence is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _measured(event: Mapping[str, Any], key: str) -> str:
    """A value, or why there is none."""
    value = event.get(key)
    return _number(value) if value is not None else str(event.get("why") or "unknown")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _moment(t: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(t))
    except (OverflowError, ValueError, OSError):
        return "unknown"
