"""`labtui show`: one run, with what was predicted before what was measured."""

from __future__ import annotations

import argparse
from typing import Any

from labtui.cli import output, report
from labtui.cli.review import RUN_HELP, resolve
from labtui.runs import state
from labtui.runs.document import run_document
from labtui.runs.folder import RunFolder, read_json
from labtui.runs.records import EXIT_CODES, LOST, Status


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--wait", action="store_true", help="wait until the run has ended; return its exit code")
    parser.add_argument("--stacks", action="store_true", help="ask its ranks where they are, and who waits for whom")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def main(arguments: argparse.Namespace) -> int:
    folder = resolve(arguments.run)
    summary = _stacks(folder) if arguments.stacks else None
    status = _wait(folder) if arguments.wait else _observe(folder)
    document = run_document(folder, status)
    if arguments.json:
        output.print_json({**document, "stacks": summary} if arguments.stacks else document)
    else:
        lines = report.head(document) if summary is not None else report.whole(document)
        summary = summary if summary is not None else _last_stacks(folder)
        if summary is not None:
            lines += report.stacks(summary)
        output.print_lines(lines)
    return EXIT_CODES[status.state] if arguments.wait else 0


def _wait(folder: RunFolder) -> Status:
    from labtui.runs import control

    return control.wait(folder)


def _observe(folder: RunFolder) -> Status:
    """The status; if the run is lost, what it left behind is ended first. Raises RecordError."""
    status = state.observe(folder)
    if status.state == LOST and status.ended is None:
        from labtui.runs import lost

        return lost.bury(folder)
    return status


def _stacks(folder: RunFolder) -> dict[str, Any]:
    """The stacks of a running run, asked for now; those of one that has ended, as they were last seen.

    Raises ControlError where there are neither.
    """
    from labtui.runs import control

    last = None if folder.status().live else _last_stacks(folder)
    return last if last is not None else control.request_stacks(folder)


def _last_stacks(folder: RunFolder) -> dict[str, Any] | None:
    if not folder.stacks_summary.exists():
        return None
    summary = read_json(folder.stacks_summary)
    return summary if isinstance(summary, dict) else None
