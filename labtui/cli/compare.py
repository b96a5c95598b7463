"""`labtui compare`: runs side by side, what differed and what came of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from labtui.cli import output
from labtui.cli.review import RUN_HELP, ReviewError, resolve
from labtui.runs import compare
from labtui.runs.clean import clean_line
from labtui.runs.compare import Compared
from labtui.runs.folder import RunFolder
from labtui.runs.overlay import letter
from labtui.runs.side_by_side import group_of, read

MOST = 26
NOISE = "~: from the 10th to the 90th percentile both scatter over the same values, so this is no clear difference"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--group", action="store_true", help="all runs of the one run's group")
    parser.add_argument("--baseline", metavar="RUN", help="one of them to compare with (default: the first)")
    parser.add_argument("--charts", action="store_true", help="their charts over each other, too")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def main(arguments: argparse.Namespace) -> int:
    folders = [resolve(text) for text in arguments.runs]
    if arguments.group:
        if len(folders) != 1:
            raise ReviewError("--group takes one run, whose group is meant")
        folders = group_of(folders[0])
    if not 2 <= len(folders) <= MOST:
        raise ReviewError(f"2 to {MOST} runs can be compared, not {len(folders)}")
    baseline = 0
    if arguments.baseline is not None:
        wanted = resolve(arguments.baseline)
        if wanted not in folders:
            raise ReviewError(f"--baseline {wanted.id} is none of the runs that are compared")
        baseline = folders.index(wanted)
    runs = [read(folder) for folder in folders]
    ids = [folder.id for folder in folders]
    if arguments.json:
        output.print_json(compare.document(ids, runs, baseline))
        return 0
    lines = _lines(ids, runs, baseline)
    if arguments.charts:
        lines += _charts(folders)
    output.print_lines(lines)
    return 0


def _lines(ids: Sequence[str], runs: Sequence[Compared], baseline: int) -> list[str]:
    letters = [letter(place) for place in range(len(runs))]
    lines = [
        f"{name}  {clean_line(id)}" + ("  (baseline)" if place == baseline else "")
        for place, (name, id) in enumerate(zip(letters, ids, strict=True))
    ]
    different = [(clean_line(key), *map(_value, values)) for key, values in compare.differs(runs).items()]
    if different:
        lines += ["", *output.table(("differs", *letters), different, output.UNLIMITED)]
    rows = compare.results(runs, baseline)
    if rows:
        lines += ["", *_table("result", letters, rows, baseline)]
        if any(row.apart(place) is False for row in rows for place in range(len(runs)) if place != baseline):
            lines += [NOISE]
    else:
        lines += ["", "none of them reported a result"]
    verdicts = [(clean_line(row.name), *(verdict or "-" for verdict in row.verdicts)) for row in compare.checks(runs)]
    if verdicts:
        lines += ["", *output.table(("check", *letters), verdicts, output.UNLIMITED)]
    told = compare.predictions(runs, baseline)
    if told:
        header = ("measured / predicted", *letters)
        lines += ["", *output.table(header, [(clean_line(row.name), *map(_ratio, row.values)) for row in told],
                                    output.UNLIMITED)]  # fmt: skip
    return lines


def _table(title: str, letters: Sequence[str], rows: Sequence[compare.Row], baseline: int) -> list[str]:
    """The baseline first, then each other run with its difference and ratio."""
    others = [place for place in range(len(letters)) if place != baseline]
    header = [title, letters[baseline]]
    for place in others:
        header += [letters[place], f"{letters[place]}-{letters[baseline]}", f"{letters[place]}/{letters[baseline]}"]
    lines = []
    for row in rows:
        labels = " ".join(f"{key}={_value(value)}" for key, value in row.labels.items() if (key, value) != _MEDIAN)
        unit = f", {row.unit}" if row.unit else ""
        cells = [clean_line(f"{row.name}{' ' + labels if labels else ''}{unit}"), _measured(row, baseline)]
        for place in others:
            noise = "~" if row.apart(place) is False else ""
            cells += [
                _measured(row, place),
                _difference(row.difference[place]),
                f"{_ratio(row.relative[place])}{noise}",
            ]
        lines.append(cells)
    return output.table(header, lines, output.UNLIMITED)


_MEDIAN = ("stat", "median")
"""What a number with a spread is, so that it need not be said."""


def _measured(row: compare.Row, place: int) -> str:
    value, spread = row.values[place], row.spreads[place] if row.spreads else None
    if value is None or spread is None:
        return _short(value)
    return f"{_short(value)} ({_short(spread[0])} to {_short(spread[1])})"


def _short(value: float | None) -> str:
    """Four digits of what was measured; whole numbers are counted, and stay whole."""
    if value is None:
        return "-"
    return output.number(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


def _difference(value: float | None) -> str:
    return "-" if value is None else f"+{_short(value)}" if value > 0 else _short(value)


def _ratio(value: float | None) -> str:
    return f"{value:.3f}" if value is not None else "-"


def _charts(folders: Sequence[RunFolder]) -> list[str]:
    from labtui import charts
    from labtui.catalog import sources
    from labtui.catalog.reading import CatalogError
    from labtui.runs import overlay
    from labtui.runs.watch import read_whole

    snapshots = [read_whole(folder) for folder in folders]
    specified = {}
    for name in dict.fromkeys(snapshot.request.experiment for snapshot in snapshots if snapshot.request):
        try:
            specified.update({chart.title: chart for chart in sources.find(name).charts})
        except CatalogError:
            continue  # a command of one's own, or an experiment that isn't here
    width = min(output.line_width(), 100)
    lines = []
    for plot in (*overlay.overlaid(snapshots, tuple(specified.values())), *overlay.telemetry(snapshots)):
        lines += ["", *plot.text(width, charts.TALL).splitlines()]
    return lines


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return clean_line(value if isinstance(value, str) else json.dumps(value))
