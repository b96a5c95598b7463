"""`labtui nccl`: files, jobs of several files, stdin, and what isn't a log."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from labtui.cli import output

DATA = Path(__file__).resolve().parents[1] / "data/nccl"
TWO_NODES = DATA / "nccl-2.20-h20-two-nodes.log"
FULL = DATA / "nccl-2.18-shm-full-two-nodes.log"
FIELDS = (
    "kind", "library", "nccl_version", "nranks", "nnodes", "transports", "pairs", "channels", "env_overrides",
    "network",
)  # fmt: skip


@pytest.mark.parametrize("path", sorted(DATA.glob("*.log")), ids=lambda path: path.stem)
def test_the_fields_of_the_corpus(labtui, path: Path) -> None:
    wanted = json.loads(path.with_suffix(".json").read_text())
    told = labtui("nccl", str(path), "--json").json
    assert {field: told[field] for field in FIELDS} == {field: wanted[field] for field in FIELDS}
    assert set(told["warnings"]) == set(wanted["warnings"])
    assert told["files"] == [str(path)]


def test_for_people(labtui) -> None:
    lines = labtui("nccl", str(TWO_NODES)).out.splitlines()
    assert lines[0] == "NCCL 2.20.5, 4 ranks on 2 nodes, 8 channels, network IB"
    assert lines[2].startswith("4 ranks on 2 nodes, P2P/CUMEM inside a node")
    at = lines.index("from / to  0    1    2    3")
    assert lines[at + 1 : at + 5] == [
        "0               .    NET  .",
        "1          P2P       .    NET",
        "2          NET  .         .",
        "3          .    NET  P2P",
    ]


def test_warnings_settings_and_choices_are_shown(labtui) -> None:
    text = labtui("nccl", str(FULL)).out
    assert "shm_no_space" in text and "node-b:10253:10320 [3]" in text
    assert "NCCL_BUFFSIZE" in text and "524288" in text
    text = labtui("nccl", str(DATA / "nccl-2.24-no-host-prefix.log")).out
    assert "AllReduce" in text and "33,554,432" in text


def test_many_links_are_a_list(labtui, tmp_path: Path) -> None:
    log = tmp_path / "ring.log"
    lines = [
        f"node-a:1:1 [0] NCCL INFO Channel {channel:02}/0 : {rank}[0] -> {(rank + 1) % 64}[0] [send] via NET/IB/0\n"
        for rank in range(64)
        for channel in (0, 1, 2, 5)
    ]
    log.write_text("".join(lines))
    shown = labtui("nccl", str(log)).out.splitlines()
    assert "0     1   NET/IB     0-2, 5" in shown
    assert shown[-1] == "and 24 links more (--json has all)"


def test_everything_fits_the_terminal(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "line_width", lambda: 40)
    for path in sorted(DATA.glob("*.log")):
        assert all(len(line) <= 40 for line in labtui("nccl", str(path)).out.splitlines())


def test_the_rank_files_of_a_job_are_merged(labtui, tmp_path: Path) -> None:
    files: dict[str, list[str]] = {}
    for line in TWO_NODES.read_text().splitlines(keepends=True):
        files.setdefault(line.split(":")[1] if line.startswith("node") else "x", []).append(line)
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(lines))
    merged = labtui("nccl", *sorted(str(path) for path in tmp_path.iterdir() if path.is_file()), "--json").json
    whole = labtui("nccl", str(TWO_NODES), "--json").json
    for field in (*FIELDS, "links", "warnings"):
        assert merged[field] == whole[field]


def test_each_file_may_be_a_job_of_its_own(labtui, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text("hello\n")
    told = labtui("nccl", "--each", "--json", str(TWO_NODES), str(FULL), str(other)).json
    assert [(Path(one["file"]).name, one["nranks"], one["kind"]) for one in told] == [
        (TWO_NODES.name, 4, "nccl"), (FULL.name, 16, "nccl"), ("other.log", None, None)
    ]  # fmt: skip
    shown = labtui("nccl", "--each", str(TWO_NODES), str(other)).out
    assert f"== {TWO_NODES}" in shown and f"== {other}" in shown


def test_stdin(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TWO_NODES.read_bytes())))
    assert labtui("nccl", "-", "--json").json["nranks"] == 4
    assert "once" in labtui("nccl", "-", "-").sentence


def test_a_pipe_is_a_file_too(labtui, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(TWO_NODES.read_bytes(),))
    writer.start()
    assert labtui("nccl", str(pipe), "--json").json["nranks"] == 4
    writer.join()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x02\x01\x01\x00" * 999 + b"\n", "no text"),
        (b"\x00" * 3_000_000, "no text"),
        (b"step 1 loss 2.4\nstep 2 loss 2.3\n", "2 lines, none of NCCL, gloo or torchrun"),
        (b"no newline", "no whole line"),
        (b"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-31\n", "labtui topo"),
        (gzip.compress(b"x"), "zcat"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_what_is_no_log_gets_a_sentence(labtui, tmp_path: Path, content: bytes, word: str, flags: tuple[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    sentence = labtui("nccl", str(path), *flags).sentence
    assert word in sentence and str(path) in sentence


def test_what_is_no_file_gets_a_sentence(labtui, tmp_path: Path) -> None:
    assert "is a folder" in labtui("nccl", str(tmp_path)).sentence
    assert "No such file" in labtui("nccl", str(tmp_path / "missing")).sentence
    assert "is a device" in labtui("nccl", "/dev/zero").sentence
    locked = tmp_path / "locked"
    locked.write_text("x")
    locked.chmod(0)
    if os.getuid():
        assert "ermission denied" in labtui("nccl", str(locked)).sentence


def test_escapes_in_a_log_never_reach_the_terminal(labtui, tmp_path: Path) -> None:
    path = tmp_path / "evil.log"
    evil = "\x1b]0;owned\x07\x9b31m\u202e"
    path.write_text(
        f"node{evil}-a:1:1 [0] NCCL INFO NCCL_X set by environment to a{evil}b\n"
        f"node-a:1:1 [0] a.cc:1 NCCL WARN odd {evil} warning\n"
        f"node-a:1:1 [0] NCCL INFO Strange {evil} message\n"
        f"node-a:1:1 [0] NCCL INFO Using network {evil}IB\n"
        f"node-a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/I\x9bB/0\n"
    )
    for arguments in (["nccl", str(path)], ["nccl", "--each", str(path)], ["nccl", "--json", str(path)]):
        done = labtui(*arguments)
        assert done.code == 0
        assert not [character for character in done.out + done.err if character in "\x1b\x07\x9b\u202e"]


@pytest.mark.slow
def test_a_log_of_a_gigabyte(labtui, tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    with path.open("wb") as file:
        file.write(TWO_NODES.read_bytes())
        file.truncate(1 << 30)
    told = labtui("nccl", str(path), "--json").json
    assert (told["nranks"], told["nnodes"]) == (4, 2)
