"""`labtui export`: a run in a form that other programs, or people elsewhere, can read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from labtui.cli.review import RUN_HELP, resolve
from labtui.export.formats import FORMATS, exported


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
