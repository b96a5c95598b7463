"""`labtui runs`, `rm`, `note`, `tag` and `attach`: the runs there are, and what a person says about them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.cli import output
from labtui.runs.clean import clean_line
from labtui.runs.folder import RunFolder, logs_root

if TYPE_CHECKING:
    from labtui.runs.index import Index, Row
    from labtui.runs.records import Labels

RUN_HELP = "run id, a part of one, `last`, `last~1`, or a path"
STATES = ("queued", "starting", "running", "succeeded", "failed", "stopped", "timed_out", "lost")
NAMED = 5
"""How many unreadable folders are named."""
PROGRESS_FROM = 2000
"""New folders from which on reading them into the index takes long enough to say so."""


class ReviewError(ValueError):
    """What was asked for can't be. The message is one sentence."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "runs":
        parser.add_argument("--limit", type=count, default=50, metavar="N", help="the newest N (default 50; 0 for all)")
        parser.add_argument("--state", choices=STATES, help="only runs in this state")
        parser.add_argument("--experiment", metavar="NAME", help="only runs of this experiment")
        parser.add_argument("--ids", action="store_true", help="only their ids, one a line")
    elif command == "rm":
        parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    else:
        parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    if command == "note":
        parser.add_argument("text", nargs="+", metavar="TEXT", help='the new note; "" removes it')
    elif command == "tag":
        parser.add_argument("tags", nargs="+", metavar="TAG")
        parser.add_argument("--remove", action="store_true", help="take these tags away")
    if command == "attach":
        from labtui.cli.main import SCREEN_OPTIONS

        for name, purpose in SCREEN_OPTIONS.items():
            parser.add_argument(name, dest="options", action="append_const", const=name, default=[], help=purpose)
    else:
        parser.add_argument("--json", action="store_true", help="one JSON document")


def main(arguments: argparse.Namespace) -> int:
    return {"runs": runs, "rm": rm, "note": note, "tag": tag, "attach": attach}[arguments.command](arguments)


def count(text: str) -> int:
    """A whole number from 0 on, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text[:18])


# runs ---------------------------------------------------------------------------------------------------------------


def runs(arguments: argparse.Namespace) -> int:
    from labtui.runs.index import open_index

    index = open_index(logs_root(), _tell_progress if sys.stderr.isatty() else None)
    limit = arguments.limit or None
    wanted = (limit, arguments.experiment, arguments.state)
    rows = index.newest(*wanted)
    if _bury_lost(index.root, rows):
        rows = index.newest(*wanted)
    broken = index.broken()
    if arguments.ids:
        if rows:
            output.print_lines([row.id for row in rows])
        return 0
    if arguments.json:
        documents, vanished = _documents(index.root, rows)
        shown = [] if arguments.experiment or arguments.state else [*broken[:limit], *vanished]
        documents += [{"id": name, "folder": str(index.root / name), "error": error} for name, error in shown]
        output.print_json(documents)
    else:
        _print_rows(rows)
    _tell_rest(index, rows, arguments, broken)
    return 0


def _bury_lost(root: Path, rows: Sequence[Row]) -> bool:
    """Ends what lost runs left behind (whoever calls a run lost does); whether there were any."""
    unburied = [row for row in rows if row.state == "lost" and row.ended is None]
    if unburied:
        from labtui.runs import lost

        for row in unburied:
            lost.bury_quietly(RunFolder(root / row.id))
    return bool(unburied)


def _print_rows(rows: Sequence[Row]) -> None:
    if not rows:
        return
    now = time.time()
    shared = len({row.user for row in rows}) > 1
    header = ("state", "run", *(["user"] if shared else []), "experiment", "variant", "created", "took", "reason")
    lines = [
        (
            row.state,
            clean_line(row.id),
            *([clean_line(row.user) or "-"] if shared else []),
            clean_line(row.experiment),
            clean_line(row.variant) or "-",
            output.moment(row.created),
            output.duration(row.seconds(now)),
            clean_line(row.reason),
        )
        for row in rows
    ]
    # A run's id holds its experiment and its time.
    print(
        "\n".join(output.table(header, lines, output.line_width(), drop=("experiment", "created", "took", "variant")))
    )


def _documents(root: Path, rows: Sequence[Row]) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The rows as documents; and those whose folder changed in between so that it can't be read any more."""
    from labtui.runs.document import run_document
    from labtui.runs.records import RecordError

    documents, vanished = [], []
    for row in rows:
        try:
            documents.append(run_document(RunFolder(root / row.id)))
        except RecordError as error:
            vanished.append((row.id, str(error)))
    return documents, vanished


def _tell_rest(
    index: Index, rows: Sequence[Row], arguments: argparse.Namespace, broken: Sequence[tuple[str, str]]
) -> None:
    filtered = arguments.experiment or arguments.state
    complete = filtered or not arguments.limit or len(rows) < arguments.limit
    if not rows and filtered:
        output.say("no run fits")
    elif not rows and not broken:
        output.say(f"there are no runs in {index.root} yet: `labtui run NAME` starts one")
    elif not complete and (known := index.count()) > len(rows) + len(broken):
        output.say(f"the newest {len(rows):,} of {output.plural(known, 'run')}; --limit 0 lists all")
    if index.trouble:
        output.say(f"{index.trouble}; the folders were read directly")
    for name, error in broken[:NAMED]:
        output.say(f"{name}: {error}")
    if len(broken) > NAMED:
        output.say(f"{output.plural(len(broken), 'run folder')} can't be read in all")


def _tell_progress(done: int, total: int) -> None:
    if total >= PROGRESS_FROM:
        end = "\n" if done == total else ""
        print(
            f"\rlabtui: reading run folders into the index: {done:,} of {total:,}", end=end, file=sys.stderr, flush=True
        )


# One run ------------------------------------------------------------------------------------------------------------


def resolve(text: str) -> RunFolder:
    """The run that RUN means. Raises FindError."""
    from labtui.runs import find

    return find.resolve(logs_root(), text)


def rm(arguments: argparse.Namespace) -> int:
    from labtui.runs import control

    # All are found before the first goes: a slip of the pen deletes nothing.
    folders = list(dict.fromkeys(map(resolve, arguments.runs)))
    removed: list[str] = []
    try:
        for folder in folders:
            control.remove(folder)
            removed.append(folder.id)
    finally:
        if arguments.json:
            output.print_json({"removed": removed})
        else:
            for name in removed:
                print(f"removed {clean_line(name)}")
    return 0


def note(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    folder = resolve(arguments.run)
    text = " ".join(arguments.text).strip()
    return _label(arguments, folder, replace(folder.labels(), note=text))


def tag(arguments: argparse.Namespace) -> int:
    from labtui.runs import labelling

    folder = resolve(arguments.run)
    labels = folder.labels()
    if not arguments.remove:
        return _label(arguments, folder, labelling.tagged(labels, arguments.tags))
    tags = [clean_line(text) for text in arguments.tags]
    missing = [text for text in tags if text not in labels.tags]
    if missing:
        has = f"it has {', '.join(labels.tags)}" if labels.tags else "it has none"
        raise ReviewError(f"{folder.id} has no tag {missing[0]!r}: {has}")
    return _label(arguments, folder, labelling.tagged(labels, fewer=tags))


def _label(arguments: argparse.Namespace, folder: RunFolder, labels: Labels) -> int:
    from labtui.runs import labelling

    labelling.write(folder, labels)
    if arguments.json:
        output.print_json({"id": folder.id, **labels.document()})
    else:
        words = [f"tags {', '.join(labels.tags)}"] * bool(labels.tags) + [f"note: {labels.note}"] * bool(labels.note)
        print(clean_line(f"{folder.id}: {'; '.join(words) or 'no tags, no note'}"))
    return 0


def attach(arguments: argparse.Namespace) -> int:
    from labtui.cli.main import open_tui

    folder = resolve(arguments.run)
    folder.request()
    return open_tui(folder, arguments.options)
