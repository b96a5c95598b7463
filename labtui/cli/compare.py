"""`labtui compare`: runs side by side, what differed and what came of it. The first run is the baseline."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from labtui.cli import output
from labtui.cli.review import RUN_HELP, ReviewError, resolve
from labtui.runs import closing, compare, lost
from labtui.runs.clean import clean_line
from labtui.runs.compare import Compared
from labtui.runs.folder import RunFolder

MOST = 26


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--group", action="store_true", help="all runs of the one run's group, the first as baseline")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def main(arguments: argparse.Namespace) -> int:
    folders = [resolve(text) for text in arguments.runs]
    if arguments.group:
        if len(folders) != 1:
            raise ReviewError("--group takes one run, whose group is meant")
        folders = _group(folders[0])
    if not 2 <= len(folders) <= MOST:
        raise ReviewError(f"2 to {MOST} runs can be compared, not {len(folders)}")
    runs = [_read(folder) for folder in folders]
    if arguments.json:
        output.print_json(compare.document([folder.id for folder in folders], runs))
    else:
        output.print_lines(_lines([folder.id for folder in folders], runs))
    return 0


def _group(folder: RunFolder) -> list[RunFolder]:
    """The runs of the folder's group in their order. Raises ReviewError, RecordError."""
    group = folder.request().group
    if group is None:
        raise ReviewError(f"{folder.id} is in no group")
    members: list[RunFolder] = []
    following: str | None = group
    while following is not None and len(members) < MOST:
        member = RunFolder(folder.path.parent / following)
        if member.path.is_dir():  # else somebody removed it, and what came after is not known any more
            members.append(member)
            following = member.request().next
        else:
            following = None
    return members


def _read(folder: RunFolder) -> Compared:
    """The run with its results, those so far if it still lives."""
    request, status = folder.request(), lost.bury(folder)
    if status.live:
        status = closing.gather(folder, status, request.expect_failure)
    return Compared(request, status)


def _lines(ids: Sequence[str], runs: Sequence[Compared]) -> list[str]:
    letters = [chr(ord("a") + number) for number in range(len(runs))]
    lines = [f"{letter}  {clean_line(name)}" + ("  (baseline)" if letter == "a" else "") for letter, name in
             zip(letters, ids, strict=True)]  # fmt: skip
    different = [(clean_line(key), *map(_value, values)) for key, values in compare.differs(runs).items()]
    if different:
        lines += ["", *output.table(("differs", *letters), different, output.UNLIMITED)]
    rows = compare.results(runs)
    if rows:
        header = ["result", "a"]
        for letter in letters[1:]:
            header += [letter, f"{letter}/a"]
        lines += ["", *output.table(header, [_row(row) for row in rows], output.UNLIMITED)]
    else:
        lines += ["", "none of them reported a result"]
    return lines


def _row(row: compare.Row) -> list[str]:
    labels = " ".join(f"{key}={_value(value)}" for key, value in row.labels.items())
    unit = f", {row.unit}" if row.unit else ""
    cells = [clean_line(f"{row.name}{' ' + labels if labels else ''}{unit}"), output.number(row.values[0])]
    for value, ratio in zip(row.values[1:], row.relative[1:], strict=True):
        cells += [output.number(value), f"{ratio:.3f}" if ratio is not None else "-"]
    return cells


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return clean_line(value if isinstance(value, str) else json.dumps(value))
