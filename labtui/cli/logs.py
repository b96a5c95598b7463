"""`labtui logs`: what the ranks of a run, and the command that started them, printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep as pause

from labtui.cli import output
from labtui.cli.review import RUN_HELP, ReviewError, count, resolve
from labtui.runs.clean import RESET, clean
from labtui.runs.folder import RunFolder
from labtui.runs.records import RecordError, RunProcess

BITE = 1 << 20
"""Bytes read from a log at once."""
LONGEST = 1 << 16
"""A line without an end is printed in pieces of so many bytes."""
LOOK_S = 0.2
"""How often --follow looks for more."""


@dataclass(frozen=True)
class Source:
    """One log of a run."""

    rank: int | None
    """None for what the command itself printed."""
    stream: str
    """"stdout", "stderr", or "both" where one file holds both."""
    path: Path

    @property
    def prefix(self) -> str:
        return "[-] " if self.rank is None else f"[{self.rank}] "


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--rank", type=count, metavar="N", help="only this rank, without the [rank] before each line")
    parser.add_argument("--stream", choices=("stdout", "stderr", "both"), default="both")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the run has ended")
    parser.add_argument(
        "--json", action="store_true", help="one JSON document: rank, stream, file and text of each log"
    )
    parser.epilog = "[-] stands before what the launching command printed itself."


def main(arguments: argparse.Namespace) -> int:
    if arguments.json and arguments.follow:
        raise ReviewError("--json is one document and --follow has no end: take one of them")
    folder = resolve(arguments.run)
    if arguments.json:
        output.print_json(
            {"id": folder.id, "logs": [_document(folder, source) for source in _checked(folder, arguments)]}
        )
        return 0
    prefixed = arguments.rank is None
    colours = sys.stdout.isatty()
    silent = True
    for source, line in _follow(folder, arguments) if arguments.follow else _read(folder, arguments):
        text = clean(line, colours=colours)
        if "\x1b" in text:
            text += RESET
        print(f"{source.prefix}{text}" if prefixed else text)
        silent = False
    if silent:
        output.say(f"{folder.id} is {folder.status().state} and has printed nothing")
    return 0


# Which files --------------------------------------------------------------------------------------------------------


def sources(folder: RunFolder, rank: int | None, stream: str) -> list[Source]:
    """The logs of the run as its status names them: by rank, then the command's own. Raises RecordError.

    A path that leaves the run's folder (a folder that somebody sent may say anything) is no log of the run.
    """
    found = []
    for process in _ranks(folder):
        if process.rank is None or rank not in (None, process.rank):
            continue
        files = {"stdout": process.stdout, "stderr": process.stderr}
        if process.stdout is not None and process.stdout == process.stderr:
            files = {"both": process.stdout}
        for name, relative in files.items():
            if relative and (stream in (name, "both") or name == "both") and (path := folder.inside(relative)):
                found.append(Source(process.rank, name, path))
    output = folder.inside(folder.output.name)
    if rank is None and output is not None:
        found.append(Source(None, "both", output))
    return found


def _ranks(folder: RunFolder) -> Sequence[RunProcess]:
    """The ranks with their logs. A status that can't be read hides none that torchrun wrote."""
    try:
        return folder.status().ranks
    except RecordError:
        from labtui.runs import ranks

        if not folder.request_file.is_file():
            raise
        return ranks.outputs(folder.path)


def _checked(folder: RunFolder, arguments: argparse.Namespace) -> list[Source]:
    """The sources; raises ReviewError where the rank that was asked for isn't there."""
    found = sources(folder, arguments.rank, arguments.stream)
    if found:
        return found
    status = folder.status()
    ranks = [str(process.rank) for process in status.ranks if process.rank is not None]
    if not ranks:
        raise ReviewError(f"{folder.id} is {status.state}: no rank has printed anything that is known of")
    if str(arguments.rank) in ranks:
        raise ReviewError(f"{folder.id} keeps no log of rank {arguments.rank}")
    raise ReviewError(f"{folder.id} has no rank {arguments.rank}, only {', '.join(ranks)}")


def _document(folder: RunFolder, source: Source) -> dict[str, object]:
    text = source.path.read_bytes().decode(errors="replace") if source.path.is_file() else ""
    relative = str(source.path.relative_to(folder.path))
    return {"rank": source.rank, "stream": source.stream, "file": relative, "text": text}


# Reading ------------------------------------------------------------------------------------------------------------


class Log:
    """The lines of a log that may still grow; of a progress bar (carriage returns) its last state."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self) -> Iterator[str]:
        """The whole lines that were added."""
        if not self._path.is_file():
            return  # not there yet: nothing was printed. Or a named pipe, which would never end
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while chunk := file.read(BITE):
                    self._offset += len(chunk)
                    yield from self._cut(chunk)
        except FileNotFoundError:
            return  # gone in between

    def rest(self) -> Iterator[str]:
        """What stands behind the last line's end, once nothing more will come."""
        if self._rest:
            yield _last_state(self._rest)
        self._rest = b""

    def _cut(self, chunk: bytes) -> Iterator[str]:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        yield from map(_last_state, whole)
        while len(self._rest) > LONGEST:
            piece, self._rest = self._rest[:LONGEST], self._rest[LONGEST:]
            yield _last_state(piece)


def _last_state(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")


def _read(folder: RunFolder, arguments: argparse.Namespace) -> Iterator[tuple[Source, str]]:
    for source in _checked(folder, arguments):
        log = Log(source.path)
        for line in log.lines():
            yield source, line
        for line in log.rest():
            yield source, line


def _follow(folder: RunFolder, arguments: argparse.Namespace) -> Iterator[tuple[Source, str]]:
    from labtui.runs import lost

    logs: dict[Source, Log] = {}
    while True:
        # First the state, then the logs: what was written before the end is there afterwards.
        live = lost.bury(folder).live
        for source in sources(folder, arguments.rank, arguments.stream):
            for line in logs.setdefault(source, Log(source.path)).lines():
                yield source, line
        sys.stdout.flush()
        if not live:
            break
        pause(LOOK_S)
    for source, log in logs.items():
        for line in log.rest():
            yield source, line
    if not logs:
        _checked(folder, arguments)
