"""What holds for every log: cut anywhere, interleaved, prefixed, in any bites, or no log at all."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.machine.nccl import Reader, Report

CORPUS = Path(__file__).resolve().parents[2] / "data" / "nccl"
LOGS = {path.stem: path.read_bytes() for path in sorted(CORPUS.glob("*.log"))}
HEALTHY = (
    "nccl-2.20-h20-two-nodes",
    "nccl-direct-pointer-trees",
    "nccl-2.18-ray-joined-lines",
    "nccl-2.4-efa-libfabric",
)

names = st.sampled_from(sorted(LOGS))
few = settings(max_examples=60, deadline=None)


def read(*bites: bytes, finish: bool = True) -> Report:
    reader = Reader()
    for bite in bites:
        reader.feed(bite)
    if finish:
        reader.finish()
    return reader.report()


def whole(log: bytes) -> bytes:
    return log[: log.rfind(b"\n") + 1]


@few
@given(names, st.data())
def test_a_log_that_is_cut_has_the_links_of_its_whole_lines(name: str, data: st.DataObject) -> None:
    cut = LOGS[name][: data.draw(st.integers(0, len(LOGS[name])))]
    report, expected = read(cut), read(whole(cut))
    assert (report.links, report.transports) == (expected.links, expected.transports)
    if report.kind == expected.kind:
        assert (report.nccl_version, report.env_overrides) == (expected.nccl_version, expected.env_overrides)
    # What is only deduced, or told by PyTorch alone, gives way to what a line says.
    assert set(expected.warnings) - {"hang_suspected", "cuda_error", "other"} <= set(report.warnings)


@few
@given(names, st.data())
def test_the_end_of_a_log_is_read_as_well(name: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(LOGS[name])))
    log = LOGS[name]
    newline = log.find(b"\n", begin)
    report, rest = read(log[begin:]), read(log[newline + 1 :] if newline >= 0 else b"")
    # The first line has lost its beginning: its connection may still be whole.
    assert set(rest.pairs) <= set(report.pairs)


@few
@given(names, st.lists(st.integers(1, 4000), max_size=30))
def test_bites_do_not_matter(name: str, sizes: list[int]) -> None:
    log, bites = LOGS[name], []
    for size in sizes:
        bites.append(log[:size])
        log = log[size:]
    assert read(*bites, log) == read(LOGS[name])


@pytest.mark.parametrize("name", ["nccl-2.18-ray-joined-lines", "nccl-2.2-socket-timeout", "torch-child-sigkill"])
def test_bites_of_one_byte_do_not_matter(name: str) -> None:
    assert read(*(LOGS[name][place : place + 1] for place in range(len(LOGS[name])))) == read(LOGS[name])


@few
@given(names, names, st.integers(0, 1 << 32))
def test_interleaved_logs_have_the_links_of_both(one: str, other: str, seed: int) -> None:
    order = random.Random(seed)
    queues = [LOGS[one].splitlines(keepends=True), LOGS[other].splitlines(keepends=True)]
    mixed = []
    while any(queues):
        mixed.append(order.choice([queue for queue in queues if queue]).pop(0))
    report, first, second = read(b"".join(mixed)), read(LOGS[one]), read(LOGS[other])
    assert Counter(report.transports) == Counter(first.transports) + Counter(second.transports)
    assert set(report.pairs) == set(first.pairs) | set(second.pairs)
    assert report.nranks == max((size for size in (first.nranks, second.nranks) if size), default=None)


PREFIXES = (
    "[1,3]<stdout>:", "10.0.0.10: ", "(RayWorkerWrapper pid=795, ip=10.0.0.4) ", "(EngineCore pid=1) (Worker pid=2) ",
    "[rank3]: ", "[2025-11-30 06:09:16] ", "2025-11-12 20:41:43,851 - INFO - ", "  17  ", "\x1b[36m(w pid=1)\x1b[0m ",
    "Jul 21 19:22:29 head job[77]: ", "| ", "0: ",
)  # fmt: skip


@few
@given(names, st.one_of(st.sampled_from(PREFIXES), st.text(st.characters(exclude_characters="\n\r\x1b"), max_size=12)))
def test_a_prefix_before_every_line_changes_no_link(name: str, prefix: str) -> None:
    start = prefix.encode(errors="replace").rstrip(b"0123456789-")
    lines = LOGS[name].splitlines()
    report, plain = read(b"".join(start + line + b"\n" for line in lines)), read(LOGS[name])
    assert report.links == plain.links
    assert report.transports == plain.transports
    assert report.nranks == plain.nranks


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_launcher_s_prefix_hides_nothing(name: str, prefix: str) -> None:
    log = b"".join(prefix.encode() + line + b"\n" for line in LOGS[name].splitlines())
    report, plain = read(log), read(LOGS[name])
    for field in ("kind", "nccl_version", "nranks", "nnodes", "pairs", "channels", "network", "warnings", "placement"):
        assert getattr(report, field) == getattr(plain, field), field


PIECES = st.sampled_from(
    (
        b"NCCL INFO |NCCL WARN |node-a:1:2 [0] |Channel 00/0 : |0[0] -> 1[1]| via |P2P/IPC|NET/IB/0|/GDRDMA"
        b"|SHM/direct/direct|\n|\r|\x1b[0m|\x1b]0;x|\x00|Trees [0] |-1/|->|rank 0 nranks 8|Last error:|[rank0]:"
        b"|Cuda failure 2 '|exitcode: -9|WorkNCCL(| set by environment to |Init COMPLETE|AllReduce: opCount 1"
        b"|99999999999999999999|\xff\xfe|(|["
    ).split(b"|")
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=40), st.integers(1, 50))
def test_no_bytes_are_too_odd(pieces: list[bytes], bite: int) -> None:
    log = b"".join(pieces)
    report = read(*(log[place : place + bite] for place in range(0, len(log), bite)))
    assert report == read(log)
    assert report.diagnosis.endswith(".")
    report.document()


def test_a_line_without_an_end_is_passed_over() -> None:
    link = b"node-a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
    log = link + b"x" * (3 << 20) + link + link
    bites = [log[place : place + 100_000] for place in range(0, len(log), 100_000)]
    assert read(*bites) == read(log)
    assert read(log).transports == {"P2P/IPC": 2}


def test_lines_that_look_like_links_for_long_are_read_quickly() -> None:
    blank = b" " * 200_000
    long = [
        word * 60_000
        for word in (b"0[0] -> ", b"[0] ", b":1", b"via ", b"Channel ", b"connect ", b"Rank 0] ", b"rank ")
    ]
    for begin in (
        b"NCCL version",
        b"NCCL_X set by environment to",
        b"Using network a",
        b"ver",
        b"Channel 00/02 :",
        b"# Rank",
    ):
        long += [begin + blank + b"0", begin + blank + b"0" + blank + b"x"]
    long += [blank + b"x", b"a" * 500_000]
    begun = time.process_time()
    for text in long:
        report = read(b"NCCL INFO " + text + b"\n" + b"NCCL WARN " + text + b"\n" + text + b"\n")
        assert report.links == ()
    assert time.process_time() - begun < 20


def test_numbers_that_no_job_has_cost_nothing() -> None:
    odd = [b"rank 0 nranks 9999999", b"Channel 00/0 : 0[0] -> 9999999[0] via P2P/IPC", b"Channel 9999/9999 : 1 2 3",
           b"comm 0x1 rank 9999999 nRanks 9999999 nNodes 9999999", b"9999 coll channels"]  # fmt: skip
    report = read(b"".join(b"node-a:1:2 [0] NCCL INFO " + line + b"\n" for line in odd))
    assert report.nranks == 10_000_000
    begun = time.process_time()
    report.document()
    for number in range(20_000):
        odd.append(b"comm 0x1 rank 0 nranks %d - Init START" % number)
    read(b"".join(b"node-a:1:2 [0] NCCL INFO " + line + b"\n" for line in odd))
    assert time.process_time() - begun < 5


def test_memory_does_not_grow_with_the_log() -> None:
    log = b"".join(LOGS[name] for name in sorted(LOGS))
    reader = Reader()
    for _ in range(3):
        reader.feed(log)
    tracemalloc.start()
    for _ in range(20):
        reader.feed(log)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < len(log)
    assert reader.report().transports["P2P/direct pointer"] == 23 * read(log).transports["P2P/direct pointer"]


def test_the_rank_files_of_a_job_are_one_job() -> None:
    log = LOGS["nccl-2.20-h20-two-nodes"]
    files: dict[bytes, bytes] = {}
    for line in log.splitlines(keepends=True):
        files[line.split(b" ")[0]] = files.get(line.split(b" ")[0], b"") + line
    reader = Reader()
    # As a follower sees them: all grow at once, each may end in mid-line.
    for place in range(0, max(map(len, files.values())), 700):
        for name, text in files.items():
            reader.feed(text[place : place + 700], name.decode())
    reader.finish()
    report, together = reader.report(), read(log)
    for field in ("nranks", "nnodes", "links", "transports", "channels", "network", "warnings", "rings", "trees"):
        assert getattr(report, field) == getattr(together, field), field


def test_whole_lines_can_be_fed_without_their_newlines() -> None:
    log = LOGS["nccl-2.24-no-host-prefix"]
    reader = Reader()
    for line in log.splitlines():
        reader.feed_lines([line])
    reader.feed_lines([])
    reader.finish()
    assert reader.report().links == read(log).links
    assert reader.report().warnings == read(log).warnings


def test_a_report_can_be_had_at_any_time() -> None:
    reader, lines = Reader(), LOGS["nccl-2.20-h20-two-nodes"].splitlines(keepends=True)
    counts = []
    for line in lines:
        reader.feed(line)
        counts.append(len(reader.report().links))
    assert counts == sorted(counts)
    reader.finish()
    assert reader.report() == read(LOGS["nccl-2.20-h20-two-nodes"])
