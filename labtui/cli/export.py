"""`labtui export`: a run in a form that other programs, or people elsewhere, can read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from labtui.cli.review import RUN_HELP, resolve
from labtui.runs.folder import RunFolder

FORMATS = {
    "csv": "a row per number",
    "json": "everything in one document",
    "md": "a report to read",
    "perfetto": "a trace for ui.perfetto.dev",
}


class ExportError(ValueError):
    """What was asked for can't be exported so. The message is one sentence."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP + "; several make one table (csv only)")
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        required=True,
        help="; ".join(f"{name}: {what}" for name, what in FORMATS.items()),
    )
    parser.add_argument("--telemetry", action="store_true", help="csv: the samples of GPUs, ranks and host instead")
    parser.add_argument("--output", metavar="FILE", help="where to write (default: stdout); must not exist yet")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def main(arguments: argparse.Namespace) -> int:
    folders = [resolve(text) for text in arguments.runs]
    if len(folders) > 1 and arguments.format != "csv":
        raise ExportError(f"{arguments.format} takes one run, not {len(folders)}")
    if arguments.telemetry and arguments.format != "csv":
        raise ExportError("--telemetry is for csv: json and perfetto hold telemetry in any case")
    pieces = exported(folders, arguments.format, telemetry=arguments.telemetry)
    if arguments.output is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return 0
    path = Path(arguments.output).expanduser()
    try:
        with path.open("w" if arguments.force else "x", encoding="utf-8") as file:
            file.writelines(pieces)
    except FileExistsError:
        raise ExportError(f"{path} exists already: --force replaces it") from None
    return 0


def exported(folders: Sequence[RunFolder], format: str, *, telemetry: bool = False) -> Iterable[str]:
    """The text of an export, in pieces. Raises RecordError where a run can't be read."""
    if format == "csv":
        from labtui.export import table

        return table.samples(folders) if telemetry else table.events(folders)
    if format == "json":
        from labtui.export import whole

        return whole.text(folders[0])
    if format == "md":
        return [_report(folders[0])]
    from labtui.export import trace

    return [trace.text(folders[0])]


def _report(folder: RunFolder) -> str:
    from labtui.catalog import sources
    from labtui.catalog.reading import CatalogError
    from labtui.export import report

    try:
        experiment = sources.find(folder.request().experiment)
    except CatalogError:
        experiment = None  # a command of one's own, or an experiment that isn't here
    return report.text(folder, experiment)
