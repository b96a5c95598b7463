"""NCCL's logs of a run, read while they grow."""

from __future__ import annotations

from pathlib import Path

from labtui.runs.folder import publish, read_json, stage
from labtui.runs.nccl_log import NcclLog, bandwidths

LINE = b"host:11:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"


def test_half_a_line_is_no_link_yet(own_folders: Path) -> None:
    folder = publish(stage(own_folders, "x", 0.0))
    folder.nccl.mkdir()
    said: list[str] = []
    following = NcclLog(folder, said.append)
    following.poll(0.0)
    assert not folder.nccl_file.exists(), "no log, no paths"
    path = folder.nccl / "host.11.log"
    path.write_bytes(b"host:11:12 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n" + LINE[:40])
    following.poll(10.0)
    assert read_json(folder.nccl_file)["nccl_version"] == "2.27.5" and read_json(folder.nccl_file)["pairs"] == []
    with path.open("ab") as file:
        file.write(LINE[40:])
    following.poll(10.5)
    assert read_json(folder.nccl_file)["pairs"] == [], "written anew once a second at most"
    following.poll(11.5)
    assert read_json(folder.nccl_file)["pairs"] == [[0, 1, "P2P/CUMEM"]]
    (folder.nccl / "host.12.log").write_bytes(LINE.replace(b"0[0] -> 1[1]", b"1[1] -> 0[0]"))
    following.finish([{"unit": "GB/s", "value": 11.2, "labels": {"src": 0, "dst": 1}}])
    document = read_json(folder.nccl_file)
    assert sorted(document["pairs"]) == [[0, 1, "P2P/CUMEM"], [1, 0, "P2P/CUMEM"]], "the files of one job are one log"
    assert document["bandwidth"] == [[0, 1, 11.2]] and said == []


def test_only_results_between_two_ranks_are_bandwidths() -> None:
    results = [
        {"unit": "GB/s", "value": 1.0, "labels": {"src": 0, "dst": 1}},
        {"unit": "GB/s", "value": 2, "labels": {"src": 0, "dst": 1}},
        {"unit": "GB/s", "value": None, "labels": {"src": 1, "dst": 0}},
        {"unit": "us", "value": 3.0, "labels": {"src": 1, "dst": 0}},
        {"unit": "GB/s", "value": 4.0, "labels": {"src": "0", "dst": 1}},
        {"unit": "GB/s", "value": 5.0},
    ]
    assert bandwidths(results) == [[0, 1, 2.0]]
