"""A run as CSV: a row per number, so that any spreadsheet or data frame takes it. Events, or telemetry.

RFC 4180, UTF-8, a header line. Unknown is an empty cell, never 0. Texts are as the run wrote them, but for control
characters.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from labtui.export.events import EventReader, telemetry
from labtui.runs.clean import clean_line, strict
from labtui.runs.folder import RunFolder
from labtui.runs.records import RecordError

NUMBERS = ("metric", "result", "check", "prediction")
"""Kinds of events that carry a number."""
_COLUMNS = ("run", "kind", "t", "rank", "step", "name", "value", "unit", "predicted", "bound", "passed", "expected")
_BOUNDS = (("at_most", "<="), ("at_least", ">="), ("equal", "=="))
MOST_COLUMNS = 512
"""Labels, or fields of telemetry, in one table. Each row has a cell for each."""
_SAMPLE = ("run", "t", "host", "of", "number")


def events(folders: Sequence[RunFolder]) -> Iterator[str]:
    """Lines of a table of all metrics, results, checks and predictions of these runs; labels have a column each.

    `value` is what was measured (of a prediction, too), `predicted` what theory said. Raises RecordError where
    they are too many.
    """
    labels = _columns("labels", (name for folder in folders for event in _numbers(folder) for name in _labels(event)))
    yield _line([*_COLUMNS, *(f"label.{name}" for name in labels)])
    for folder in folders:
        for event in _numbers(folder):
            own = _labels(event)
            measured = event.get("measured") if event["kind"] == "prediction" else event.get("value")
            yield _line(
                [
                    folder.id,
                    *(event.get(key) for key in ("kind", "t", "rank", "step", "name")),
                    measured,
                    *(event.get(key) for key in ("unit", "predicted")),
                    " ".join(f"{sign} {event[key]}" for key, sign in _BOUNDS if key in event),
                    *(event.get(key) for key in ("passed", "expected")),
                    *(own.get(name) for name in labels),
                ]
            )


def samples(folders: Sequence[RunFolder]) -> Iterator[str]:
    """Lines of a table of telemetry: a row for each GPU, rank and host in each sample, a column for each field.

    Raises RecordError where they are too many.
    """
    fields = _columns("fields", (name for folder in folders for row in _samples(folder) for name in row[1]))
    yield _line([*_SAMPLE, *fields])
    for folder in folders:
        for place, values in _samples(folder):
            yield _line([folder.id, *place, *(values.get(name) for name in fields)])


def _columns(what: str, names: Iterable[str]) -> list[str]:
    found: set[str] = set()
    for name in names:
        found.add(name)
        if len(found) > MOST_COLUMNS:
            raise RecordError(f"more than {MOST_COLUMNS} different {what} make no table: --format json holds them all")
    return sorted(found)


def _numbers(folder: RunFolder) -> Iterator[dict[str, Any]]:
    return (event for event in EventReader(folder) if event["kind"] in NUMBERS)


def _labels(event: Mapping[str, Any]) -> dict[str, Any]:
    labels = event.get("labels")
    return labels if isinstance(labels, dict) else {}


def _samples(folder: RunFolder) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for host, sample in telemetry(folder):
        t = sample.get("t")
        for of, key, entries in (("gpu", "index", sample.get("gpus")), ("rank", "rank", sample.get("ranks"))):
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict):
                    yield (t, host, of, entry.get(key)), {k: v for k, v in _flat(entry) if k not in (key, "why")}
        whole = sample.get("host")
        if isinstance(whole, dict):
            yield (t, host, "host", None), dict(_flat(whole))


def _flat(entry: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Fields of fields under joined names: net.lo.rx."""
    for name, value in entry.items():
        if isinstance(value, dict) and name != "why":
            yield from ((f"{name}.{inner}", its) for inner, its in _flat(value))
        else:
            yield name, value


def _line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return clean_line(value)
    value = strict(value)
    return json.dumps(value) if isinstance(value, list | dict) else "" if value is None else value
