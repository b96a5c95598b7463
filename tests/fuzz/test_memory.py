"""No reader takes more memory than 50 MB plus ten times what it reads, nor for ever, whatever it reads."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from fuzz.hostile import write_lines
from made import make_run

from labtui.catalog.guide import read_guide
from labtui.catalog.manifest import read_experiment
from labtui.catalog.reading import CatalogError
from labtui.cli.logs import Log
from labtui.export import formats, table
from labtui.machine import topology_text
from labtui.machine.nccl import Reader
from labtui.runs import closing
from labtui.runs.folder import LARGEST_RECORD, RunFolder
from labtui.runs.merged_log import Looks, MergedLog
from labtui.runs.records import RecordError
from labtui.runs.rows import look
from labtui.runs.tail import LogIndex
from labtui.runs.watch import read_whole
from labtui.theory.pipeline import pytorch_csv
from labtui.theory.pipeline.order import OrderError

__all__ = ["make_run"]

MB = 1_000_000
SIZE = 3 * MB
SECONDS = 100.0
"""A reader that takes longer on so much hangs: pytest's own limit would say the same with less words."""


def assert_modest(size: int, read: Callable[[], object]) -> None:
    """Raises where reading those `size` bytes takes more memory than it may. A sentence in answer is fine."""
    gc.collect()
    tracemalloc.start()
    began = time.monotonic()
    try:
        read()
    except (RecordError, CatalogError, OrderError) as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak <= 50 * MB + 10 * size, f"{peak / MB:.0f} MB for {size / MB:.1f} MB"
    assert time.monotonic() - began < SECONDS


def consumed(pieces: Iterable[str]) -> None:
    for _ in pieces:
        pass


LINES = {
    "tiny events": lambda n: b'{"kind":""}',
    "metrics": lambda n: b'{"kind":"metric","name":"loss","value":1,"step":%d,"t":%d.5}' % (n, n),
    "many curves": lambda n: b'{"kind":"metric","name":"%d","value":1}' % n,
    "labels": lambda n: b'{"kind":"metric","name":"m","value":1,"labels":{"l%d":1}}' % n,
    "results": lambda n: b'{"kind":"result","name":"%d","value":1,"labels":{"a":%d,"b":{}}}' % (n, n),
    "spans": lambda n: b'{"kind":"span","name":"%d","lane":"l","start":%d,"end":%d}' % (n, n, n + 1),
    "lanes": lambda n: b'{"kind":"span","name":"s","lane":"l%d","start":%d,"end":%d}' % (n, n, n + 1),
    "large results": lambda n: b'{"kind":"result","name":"r","labels":{"x":[' + b"{}," * 30000 + b"1]}}",
    "large notes": lambda n: b'{"kind":"note","text":["' + b'ab","' * 100000 + b'"]}',
    "no newline": lambda n: b"x" * (1 << 20),
    "deep": lambda n: b"[" * 500_000,
    "versions": lambda n: b'{"kind":"hello","versions":{"v%d":"1"}}' % n,
    "binary": lambda n: bytes(range(256)).replace(b"\n", b""),
    "nothing": lambda n: b"",
    "samples": lambda n: b'{"t":%d,"gpus":[{"index":0,"util":1}],"host":{"net":{"n%d":{"rx":1}}}}' % (n, n),
    "fields": lambda n: b'{"t":%d,"gpus":[{"index":%d,"f%d":1}],"ranks":[{"rank":%d}]}' % (n, n, n, n),
}  # fmt: skip
READ_RUNS: dict[str, Callable[[RunFolder], object]] = {
    "snapshot": read_whole,
    "last word": lambda folder: closing.gather(folder, folder.status(), ()),
    "csv": lambda folder: consumed(table.events([folder])),
    "csv of telemetry": lambda folder: consumed(table.samples([folder])),
    **{name: (lambda folder, name=name: consumed(formats.exported([folder], name))) for name in ("json", "md",
    "perfetto")},
}  # fmt: skip


def lines_of(kind: str, size: int) -> list[bytes]:
    made, length = [], 0
    while length < size:
        made.append(LINES[kind](len(made)))
        length += len(made[-1]) + 1
        if kind == "nothing" and length > size // 20:
            break
    return made


HEAVY = [
    ("last word", "tiny events"), ("last word", "results"), ("last word", "large results"), ("csv", "metrics"),
    ("csv", "labels"), ("csv of telemetry", "fields"), ("csv of telemetry", "samples"), ("json", "large results"),
    ("json", "samples"), ("md", "many curves"), ("md", "labels"), ("perfetto", "lanes"), ("perfetto", "spans"),
    ("perfetto", "many curves"), ("perfetto", "metrics"),
]  # fmt: skip
"""What costs most, beside everything for a snapshot."""


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "kind"), [*(("snapshot", kind) for kind in LINES), *HEAVY])
def test_events_and_telemetry(make_run, kind: str, reader: str) -> None:
    folder = make_run()
    lines = lines_of(kind, SIZE)
    write_lines(folder.rank_events(0), lines)
    write_lines(folder.telemetry / "host.jsonl", lines)
    size = folder.rank_events(0).stat().st_size + (folder.telemetry / "host.jsonl").stat().st_size
    del lines
    assert_modest(size, lambda: READ_RUNS[reader](folder))


RECORDS = {
    "empty objects": b"[" + b"{}," * 600_000 + b"1]", "lists": b'{"a":[' + b"[]," * 600_000 + b"1]}",
    "small objects": b'{"a":[' + b'{"":1},' * 250_000 + b"1]}", "strings": b'{"a":[' + b'"ab",' * 800_000 + b"1]}",
    "keys": b"{" + b",".join(b'"%x":1' % n for n in range(420_000)) + b"}", "deep": b"[" * 2_000_000,
    "checks": b'{"state":"failed","created":1,"checks":[' + b",".join([b'{"name":"n","value":1}'] * 180_000) + b"]}",
    "numbers": b"[" + b"1e9," * 1_000_000 + b"1]", "one number": b"[" + b"9" * 4_000_000 + b"]",
    "spaces": b" " * 4_100_000 + b"{}", "hole": b"\0" * LARGEST_RECORD,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECORDS)
def test_records(make_run, kind: str) -> None:
    folder = make_run()
    raw = RECORDS[kind]
    folder.status_file.write_bytes(raw)
    assert_modest(len(raw), lambda: look(folder.path.parent, folder.path.name))
    folder.machine_file.write_bytes(raw)
    assert_modest(2 * len(raw), lambda: read_whole(folder))


LOGS = {
    "newlines": b"\n" * SIZE, "no newline": b"x" * SIZE, "a bar": b"50%\r" * (SIZE // 4), "zeros": b"\0" * SIZE,
    "escapes": b"\x1b[" * (SIZE // 2), "no utf-8": b"\xff" * SIZE, "lines": b"step 1\n" * (SIZE // 7),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOGS)
def test_logs(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(LOGS[kind])

    def index() -> None:
        log = LogIndex(path)
        while log.poll() or log.behind:
            pass
        log.read(0, 100)
        log.read(len(log) - 100, 100)

    def merged() -> None:
        log = MergedLog({"0": path, "1": path}, Looks())
        while log.poll() or log.behind:
            pass
        log.read(0, 100)

    assert_modest(SIZE, index)
    assert_modest(2 * SIZE, merged)
    assert_modest(SIZE, lambda: consumed(Log(path).lines()))


NCCL = {
    "hosts": lambda n: b"host%d:1:1 [0] NCCL INFO NCCL version 2.27.5" % n,
    "heads": lambda n: b"host:%d:%d [0] NCCL INFO odd" % (n, n),
    "links": lambda n: b"host:1:%d [0] NCCL INFO Channel %d/0 : %d[0] -> %d[1] via P2P/IPC" % (n, n % 99, n, n + 1),
    "channels": lambda n: b"host:1:1 [0] NCCL INFO Channel %d/0 : 0[0] -> 1[1] via odd%d" % (n, n),
    "warnings": lambda n: b"host:1:%d [0] misc/socket.cc:%d NCCL WARN odd %d" % (n, n, n),
    "settings": lambda n: b"host:1:1 [0] NCCL INFO NCCL_ODD%d set by environment to %d." % (n, n),
    "trees": lambda n: b"host:1:1 [0] NCCL INFO Trees [%d] %d/-1/-1->0->-1" % (n, n),
    "rings": lambda n: b"host:1:1 [0] NCCL INFO Channel %d/99 : %s" % (n, b" ".join(b"%d" % i for i in range(n % 64))),
    "comms": lambda n: b"host:1:1 [0] NCCL INFO comm 0x%x rank %d nranks %d cudaDev 0 - Init COMPLETE" % (n, n, n),
    "torch": lambda n: b"[rank%d]: [Rank %d] Watchdog caught collective operation timeout: WorkNCCL(" % (n, n),
    "files": lambda n: b"odd%d NCCL WARN" % n,
    "no newline": lambda n: b"NCCL INFO " * 100_000,
    "binary": lambda n: bytes(range(256)),
    "marks": lambda n: b"NCCL INFO NCCL INFO NCCL WARN NCCL INFO " * 3000,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", NCCL)
def test_nccl(kind: str) -> None:
    made, length = [], 0
    while length < SIZE:
        made.append(NCCL[kind](len(made)))
        length += len(made[-1]) + 1
    data = b"\n".join(made)
    del made

    def read() -> None:
        reader = Reader()
        for start in range(0, len(data), 1 << 20):
            reader.feed(data[start : start + (1 << 20)])
        reader.finish()
        reader.report().document()

    assert_modest(len(data), read)


TEXTS = {
    "cells": "0F0," * 700_000, "lines": "0F0\n" * 700_000, "pairs": "(0F4;7B2)OVERLAP_F_B," * 100_000,
    "gap": "9999999F9999999", "no action": "x," * 900_000, "quotes": '"' * 2_000_000, "empty": "," * 2_000_000,
    "work": "\n".join(",".join(f"{r}{k}{m}" for k in "FB" for m in range(20_000)) for r in range(8)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXTS)
def test_schedules(kind: str) -> None:
    """An operation of four bytes becomes several objects, which the simulator needs: 60 to 105 times the file, the one
    exception. What bounds it is how many operations a schedule may have."""
    assert_modest(11 * len(TEXTS[kind]), lambda: pytorch_csv.read(TEXTS[kind]))


TABLE = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV1\t0-3\nGPU1\tNV1\t X \t0-3\n"
TOPOLOGIES = {
    "tables": TABLE * 17_000, "wide": "\t" + "\t".join(f"GPU{n}" for n in range(100_000)) + "\nGPU0\tX\tNV1\n",
    "long": "\tGPU0\tGPU1\n" + "".join(f"GPU{n}\tX\tNV1\n" for n in range(60_000)),
    "large": "\t" + "\t".join(f"GPU{n}" for n in range(500)) + "\n"
    + "".join(f"GPU{n}\t" + "\t".join(["NV1"] * 500) + "\n" for n in range(500)),
    "spaces": " " * 1_000_000, "newlines": "\n" * 1_000_000, "escapes": "\x1b[4m" * 250_000,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_topologies(kind: str) -> None:
    assert_modest(len(TOPOLOGIES[kind]), lambda: topology_text.read(TOPOLOGIES[kind]))


MANIFEST = 'format = 1\ntitle = "T"\nquestion = "Q?"\ntopic = "data"\ndevices = ["cpu"]\nminutes = 1\n'
MANIFESTS = {
    "dotted": "a." * 500_000 + "a = 1", "header": "[" + "a." * 500_000 + "a]", "quoted": '"".' * 300_000 + '"" = 1',
    "lists": "a = [" + "[]," * 300_000 + "]", "deep": "a = " + "[" * 900_000, "tables": "[[a]]\n" * 150_000,
    "keys": "".join(f"a{n}.b = 1\n" for n in range(60_000)), "digits": "a = " + "9" * 1_000_000,
    "string": 'a = "' + "\\u0041" * 150_000 + '"', "quotes": '"' * 1_000_000, "comment": "#" * 1_000_000,
    "variants": "".join(f"[variants.v{n}]\n" for n in range(40_000)), "inline": "a = " + "{a=" * 200_000,
    "devices": "devices = [" + '"cpu",' * 100_000 + "]",
}  # fmt: skip
BLOCK = '```run\nid = "a%d"\n```\n'
GUIDES = {
    "headings": "# G\n" + "## S\n" * 180_000, "fences": "# G\n\n## S\n" + "```run\n" * 120_000,
    "blocks": "# G\n\n## S\n" + "".join(BLOCK % n for n in range(40_000)), "text": "# G\n\n## S\n" + "word " * 180_000,
    "backticks": "# G\n\n## S\n" + "`" * 900_000, "newlines": "\n" * 1_000_000, "hashes": "#" * 1_000_000,
    "toml": "# G\n\n## S\n```run\n" + "a." * 400_000 + "a=1\n```\n", "zeros": "\0" * 1_000_000,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*MANIFESTS, *GUIDES])
def test_experiments(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "main.py").touch()
    manifest, guide = MANIFEST, "# G\n\n## S\n\nText.\n"
    if kind in MANIFESTS:
        manifest = MANIFESTS[kind] if kind == "devices" else MANIFEST + MANIFESTS[kind]
    else:
        guide = GUIDES[kind]
    (folder / "experiment.toml").write_text(manifest)
    (folder / "guide.md").write_text(guide)
    size = len(manifest) + len(guide)
    assert_modest(size, lambda: read_experiment(folder))
    assert_modest(size, lambda: read_guide(folder))


def test_a_large_record_and_a_long_line_in_a_moment(make_run) -> None:
    """The core of the above: what a folder costs that somebody made to hurt."""
    folder = make_run()
    raw = b"[" + b"{}," * 700_000 + b"1]"
    folder.status_file.write_bytes(raw)
    folder.rank_events(0).write_bytes(
        b'{"kind":"note","text":[' + b"{}," * 1_000_000 + b"1]}\n" + b"[" * 100_000 + b"\n"
    )
    assert_modest(len(raw), lambda: look(folder.path.parent, folder.path.name))
    assert look(folder.path.parent, folder.path.name).trouble == (
        "status.json is no JSON: more than 200,000 lists and objects"
    )
    snapshot = read_whole(folder)
    assert (snapshot.events, snapshot.bad_lines) == (0, 2)
    (folder.path.parent / "odd").mkdir()
    (folder.path.parent / "odd" / "experiment.toml").write_text("a." * 500_000 + "a = 1")
    with pytest.raises(CatalogError, match="a key has a hundred parts and more, a few expected"):
        read_experiment(folder.path.parent / "odd")
