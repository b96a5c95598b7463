"""`labtui nccl`: what NCCL's, RCCL's, gloo's or torchrun's logs say of a job: links, network, trouble and its cause."""

from __future__ import annotations

import argparse
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from labtui.cli import output
from labtui.runs.clean import clean_line

if TYPE_CHECKING:
    from labtui.machine.nccl import Reader, Report

BITE = 1 << 20
"""Bytes read from a file at once."""
STDIN = "-"
WIDEST = 110
"""Cells of a line of prose."""
MATRIX_RANKS = 16
"""Up to so many ranks are shown as a matrix."""
MOST_ROWS = 40
"""Links that are listed where there is no matrix."""

_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")


class NcclError(ValueError):
    """A file can't be read as a log. The message is one sentence."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="logs; several are the ranks of one job; - is stdin")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--each", action="store_true", help="each file is a job of its own")
    parser.epilog = "A log with NCCL_DEBUG=INFO tells most. Exit code 2 if no line is one of NCCL, gloo or torchrun."


def main(arguments: argparse.Namespace) -> int:
    if arguments.files.count(STDIN) > 1:
        raise NcclError("stdin (-) can be read once only")
    if arguments.each:
        reports = [(name, _read([name])) for name in arguments.files]
        if arguments.json:
            output.print_json([{"file": name, **report.document()} for name, report in reports])
        else:
            for place, (name, report) in enumerate(reports):
                _print(["", f"== {clean_line(name)}"][place == 0 :])
                _print(_lines(report))
        return 0
    report = _read(arguments.files)
    if report.kind in (None, "topo"):
        raise NcclError(_refusal(arguments.files, report))
    if arguments.json:
        output.print_json({"files": arguments.files, **report.document()})
    else:
        _print(_lines(report))
    return 0


# Reading ------------------------------------------------------------------------------------------------------------


def _read(names: list[str]) -> Report:
    from labtui.machine.nccl import Reader

    reader = Reader()
    for name in names:
        _feed(reader, name)
    reader.finish()
    return reader.report()


def _feed(reader: Reader, name: str) -> None:
    """Raises NcclError where it is no file to read, OSError."""
    if name == STDIN:
        if sys.stdin is None:
            raise NcclError("there is no stdin to read from")
        for bite in _bites(sys.stdin.buffer):
            reader.feed(bite, name)
        return
    path = Path(name)
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise NcclError(f"{name} is a folder: name the log files in it")
    if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):
        raise NcclError(f"{name} is a device, no log file")
    with path.open("rb") as file:
        for number, bite in enumerate(_bites(file)):
            if number == 0 and bite.startswith(_COMPRESSED):
                raise NcclError(f"{name} is compressed: unpack it first, as in `zcat {name} | labtui nccl -`")
            reader.feed(bite, name)


def _bites(file: BinaryIO) -> Iterator[bytes]:
    while bite := file.read(BITE):
        yield bite


def _refusal(names: list[str], report: Report) -> str:
    """Why there is nothing to report, in one sentence."""
    what = "stdin" if names == [STDIN] else names[0] if len(names) == 1 else f"these {len(names)} files"
    plural = len(names) > 1
    if report.kind == "topo":
        return f"{what} hold{'' if plural else 's'} a topology matrix of nvidia-smi, no log: `labtui topo` reads it"
    if report.no_text:
        return f"{what} {'are' if plural else 'is'} no text: NUL bytes, and no line of NCCL in it"
    if not report.size:
        return f"{what} {'are' if plural else 'is'} empty"
    if not report.lines:
        return f"{what} {'have' if plural else 'has'} no whole line of text"
    return f"{what} {'have' if plural else 'has'} {output.plural(report.lines, 'line')}, none of NCCL, gloo or torchrun"


# For people -----------------------------------------------------------------------------------------------------------


def _print(lines: list[str]) -> None:
    if lines:
        output.print_lines(lines)


def _lines(report: Report) -> list[str]:
    """All of the report; every text that came from a log is cleaned."""
    import textwrap

    width = min(output.line_width(), WIDEST)
    lines = [_headline(report), ""] if report.kind == "nccl" else []
    lines += textwrap.wrap(clean_line(report.diagnosis), width)
    for part in (_transports(report), _paths(report), _warnings(report), _settings(report), _unknown(report)):
        if part:
            lines += ["", *part]
    return lines


def _headline(report: Report) -> str:
    parts = [f"{report.library} {report.nccl_version or '(version not told)'}"]
    if report.nranks:
        where = f" on {output.plural(report.nnodes, 'node')}" if report.nnodes else ""
        parts.append(f"{output.plural(report.nranks, 'rank')}{where}")
    if report.channels:
        parts.append(output.plural(report.channels, "channel"))
    if report.network:
        parts.append(f"network {report.network}")
    return clean_line(", ".join(parts))


def _transports(report: Report) -> list[str]:
    if not report.transports:
        return []
    pairs: dict[str, int] = {}
    for _, _, transport in report.pairs:
        pairs[transport] = pairs.get(transport, 0) + 1
    rows = [
        (clean_line(name), output.number(count), output.number(pairs.get(name)))
        for name, count in sorted(report.transports.items(), key=lambda item: -item[1])
    ]
    return output.table(("transport", "lines", "pairs"), rows, output.line_width())


def _paths(report: Report) -> list[str]:
    """The links by rank: a matrix where it fits, else a list."""
    if not report.links:
        return []
    size = max(max(link.source, link.target) for link in report.links) + 1
    if size <= MATRIX_RANKS and len(report.links) * 2 >= size:
        cells: dict[tuple[int, int], str] = {}
        for link in report.links:
            short = "SHM" if link.transport == "direct shared memory" else link.transport.split("/")[0]
            known = cells.get((link.source, link.target))
            cells[link.source, link.target] = short if known in (None, short) else f"{known}+"
        header = ("from / to", *map(str, range(size)))
        rows = [
            (str(source), *(cells.get((source, target), "." if source != target else "") for target in range(size)))
            for source in range(size)
        ]
        return output.table(header, rows, output.line_width(), least=3)
    rows_ = [
        (str(link.source), str(link.target), clean_line(link.transport), _numbers(link.channels))
        for link in report.links[:MOST_ROWS]
    ]
    lines = output.table(("from", "to", "transport", "channels"), rows_, output.line_width())
    more = len(report.links) - MOST_ROWS
    return [*lines, f"and {output.plural(more, 'link')} more (--json has all)"] if more > 0 else lines


def _numbers(numbers: tuple[int, ...]) -> str:
    """0-3, 5: runs of numbers in short."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs) or "-"


def _warnings(report: Report) -> list[str]:
    rows = [
        (found.kind, output.number(found.count), clean_line(" ".join(found.hosts)), clean_line(found.line))
        for found in report.evidence
    ]
    return (
        output.table(("warning", "times", "hosts", "first line"), rows, output.line_width(), ("hosts",)) if rows else []
    )


def _settings(report: Report) -> list[str]:
    rows: list[Any] = [(clean_line(name), clean_line(value)) for name, value in report.env_overrides.items()]
    rows = output.table(("set by environment", "to"), rows, output.line_width()) if rows else []
    if report.algorithms:
        chosen = [
            (
                clean_line(name) or "-", clean_line(algorithm), clean_line(protocol), output.number(count),
                f"{output.number(least)} to {output.number(most)}",
            )
            for name, algorithm, protocol, count, least, most in report.algorithms
        ]  # fmt: skip
        table = output.table(("collective", "algorithm", "protocol", "times", "bytes"), chosen, output.line_width())
        rows = [*rows, *([""] if rows else []), *table]
    return rows


def _unknown(report: Report) -> list[str]:
    if not report.unknown:
        return []
    lines = [f"{output.plural(report.unknown, 'message')} unknown to this reader, such as:"]
    return [*lines, *(f"  {clean_line(line)}" for line in report.unknown_lines)]
