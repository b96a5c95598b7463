"""`labtui topo`: how GPUs hang together, on this machine or in what `nvidia-smi topo` printed on another."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cli import output
from labtui.runs.clean import clean_line

if TYPE_CHECKING:
    from labtui.machine.topology import Topology

LARGEST = 1 << 20
"""Bytes: hundreds of times what nvidia-smi prints."""


class TopoError(ValueError):
    """What was given is no topology. The message is one sentence."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="what `nvidia-smi topo -m` or `topo -p2p` printed; - is stdin"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = "Without FILE: this machine. Ceilings are GB/s (1e9 bytes) in one direction."


def main(arguments: argparse.Namespace) -> int:
    from labtui.machine import topology, topology_words

    paths = _here() if arguments.file is None else _read(arguments.file)
    words = topology_words.diagnosis(paths)
    if arguments.json:
        output.print_json(topology.report(paths, words))
    else:
        output.print_lines([*_lines(paths), clean_line(words)])
    return 0


def _here() -> Topology:
    from labtui.machine.gpus import Gpus
    from labtui.machine.topology import Topology

    gpus = Gpus.open(os.environ)
    try:
        return gpus.topology() or Topology(gpus=(), why=gpus.why)
    finally:
        gpus.close()


def _read(name: str) -> Topology:
    """The topology that a file shows. Raises TopoError, OSError."""
    from labtui.machine import topology_text

    data, shown = _bytes(name), "stdin" if name == "-" else name
    if len(data) > LARGEST:
        raise TopoError(f"{shown} has more than {LARGEST >> 20} MiB, and a topology has a few kilobytes: give it alone")
    if not data.strip():
        raise TopoError(f"{shown} is empty")
    text = _text(data)
    if text is None:
        raise TopoError(f"{shown} is no text")
    paths = topology_text.read(text)
    if paths is None:
        hint = " (it looks like a log of NCCL: try labtui nccl)" if "NCCL INFO" in text or "NCCL WARN" in text else ""
        raise TopoError(f"{shown} holds no table of nvidia-smi topo -m{hint}")
    return paths


def _bytes(name: str) -> bytes:
    """At most a little more than LARGEST of the file."""
    if name == "-":
        if sys.stdin is None:
            raise TopoError("stdin is closed")
        return sys.stdin.buffer.read(LARGEST + 1)
    path = Path(name)
    if path.is_dir():
        raise TopoError(f"{name} is a folder, and the output of nvidia-smi topo -m is needed")
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def _text(data: bytes) -> str | None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # a PowerShell wrote it
        return data.decode("utf-16", errors="replace")
    return None if b"\0" in data else data.decode("utf-8", errors="replace")


# For people ---------------------------------------------------------------------------------------------------------


def _lines(paths: Topology) -> list[str]:
    from labtui.machine import topology_lines

    lines = []
    if len(paths.gpus) > 1:
        names = [f"GPU{gpu}" for gpu in paths.gpus]
        rows = [
            [f"GPU{one}", *("X" if one == other else paths.kind(one, other) or "?" for other in paths.gpus)]
            for one in paths.gpus
        ]
        lines += [*output.table(["from", *names], rows, output.line_width(), least=4), ""]
        lines += [*topology_lines.kinds(paths), ""]
    lines += [clean_line(line) for line in topology_lines.near(paths)]
    return [*lines, ""] if lines and lines[-1] else lines
