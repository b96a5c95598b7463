"""Every log of the corpus, against what was noted by hand beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labtui.machine.nccl import Reader, Report

CORPUS = Path(__file__).resolve().parents[2] / "data" / "nccl"
CASES = sorted(path.stem for path in CORPUS.glob("*.json"))
FIELDS = (
    "kind", "library", "prefix", "nccl_version", "nranks", "nnodes", "transports", "pairs", "channels", "env_overrides",
    "network",
)  # fmt: skip
TELLS = {
    "gloo-full-mesh-two-nodes": ("GLOO_SOCKET_IFNAME",),
    "nccl-2.10-p2p-hang": ("peer access", "IOMMU", "NCCL_P2P_DISABLE=1", "harmless"),
    "nccl-2.11-collnet-ignored": ("CollNet", "SHARP"),
    "nccl-2.14-collective-mismatch": ("492544", "65536", "same collective"),
    "nccl-2.18-duplicate-gpu": ("same GPU", "4 and 6 on 31000", "5 and 7 on 4b000", "LOCAL_RANK"),
    "nccl-2.18-mixed-p2p-shm": ("5 of 8", "IOMMU"),
    "nccl-2.18-out-of-memory": ("GPU 3", "out of memory", "follows"),
    "nccl-2.18-ray-joined-lines": ("nothing wrong", "12 channels"),
    "nccl-2.18-shm-full-two-nodes": ("/dev/shm", "node-b", "--shm-size", "follow"),
    "nccl-2.18-socket-fallback": ("No InfiniBand", "rank 11", "NCCL_SOCKET_IFNAME"),
    "nccl-2.18-wsl2-cuda-failure": ("WSL2", "invalid argument"),
    "nccl-2.19-fabric-manager-802": ("802", "Fabric Manager"),
    "nccl-2.2-socket-timeout": ("ens3", "timed out", "NCCL_SOCKET_IFNAME"),
    "nccl-2.20-h20-two-nodes": ("4 ranks on 2 nodes", "nothing wrong"),
    "nccl-2.21-ray-repeated": ("nothing wrong", "lower bounds"),
    "nccl-2.22-nvls-segfault": ("segmentation fault", "NCCL_IB_ROCE_VERSION_NUM"),
    "nccl-2.24-no-host-prefix": ("nothing wrong", "NVLS"),
    "nccl-2.25-rtx5090-shm": ("82,240", "79,856", "newer NCCL"),
    "nccl-2.25-shm-attach": ("could not be opened", "/dev/shm"),
    "nccl-2.26-nvls-multicast-401": ("NVLS", "401", "Fabric Manager", "NCCL_NVLS_ENABLE=0"),
    "nccl-2.27-mpirun-interleaved": ("4 ranks on 2 nodes", "nothing wrong"),
    "nccl-2.28-gb200-imex": ("IMEX", "/dev/nvidia-caps-imex-channels", "NCCL_MNNVL_ENABLE=0"),
    "nccl-2.28-shm-no-space": ("/dev/shm", "9.6 MB", "--shm-size"),
    "nccl-2.29-empty-hostname-plugin": ("NET/Mesh", "without GPUDirect RDMA (GDR 0)"),
    "nccl-2.31-single-gpu": ("one GPU", "CUDA_VISIBLE_DEVICES"),
    "nccl-2.4-coll-trace": ("same calls in the same order",),
    "nccl-2.4-efa-libfabric": ("AWS Libfabric", "without GPUDirect RDMA"),
    "nccl-2.4-socket-64ranks": ("nothing failed", "TCP sockets"),
    "nccl-2.5-shm-no-space": ("/dev/shm", "--shm-size"),
    "nccl-2.5-tensorflow-graph-dump": ("nothing wrong", "harmless"),
    "nccl-2.7-ipc-peer-access": ("217", "peer access", "CUDA_VISIBLE_DEVICES"),
    "nccl-2.7-many-veth": ("virtual interfaces", "NCCL_SOCKET_IFNAME=enp7s0"),
    "nccl-2.7-roce-create-cq": ("completion queue", "ulimit -l", "GPUDirect RDMA is not in use"),
    "nccl-2.8-ibext-create-qp": ("queue pair", "ulimit -l"),
    "nccl-could-not-enable-p2p": ("peer access", "0-3, 1-2", "slower, but correct"),
    "nccl-direct-pointer-trees": ("nothing wrong", "8 channels"),
    "rccl-mi250x-two-nodes": ("8 ranks on 2 nodes", "TCP sockets", "libfabric"),
    "torch-address-in-use": ("29500", "another port"),
    "torch-child-sigkill": ("Rank 3", "SIGKILL", "out of memory"),
    "torch-watchdog-allreduce": ("Ranks 0, 1 and 2", "allreduce number 812", "600 s", "never joined"),
}
"""What each diagnosis has to name."""


def read(log: bytes) -> Report:
    reader = Reader()
    reader.feed(log)
    reader.finish()
    return reader.report()


def found(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads((CORPUS / f"{case}.json").read_text()), read((CORPUS / f"{case}.log").read_bytes()).document()


@pytest.mark.parametrize("case", CASES)
def test_all_that_the_text_shows_is_found(case: str) -> None:
    wanted, document = found(case)
    if case == "nccl-2.28-shm-no-space":
        # Three of its lines, NCCL's own warnings, begin with a time; two other cases with as many are noted as plain.
        wanted["prefix"] = "plain"
    assert {name: document[name] for name in FIELDS} == {name: wanted[name] for name in FIELDS}
    assert sorted(document["warnings"]) == sorted(wanted["warnings"])


@pytest.mark.parametrize("case", CASES)
def test_the_diagnosis_is_one_sentence_that_names_the_cause(case: str) -> None:
    _, document = found(case)
    sentence = document["diagnosis"]
    assert sentence.endswith(".") and "\n" not in sentence
    for word in TELLS[case]:
        assert word in sentence


@pytest.mark.parametrize("case", CASES)
def test_every_message_is_known(case: str) -> None:
    _, document = found(case)
    assert document["unknown_lines"] == []


def test_links_are_told_by_channel() -> None:
    links = {tuple(link[:3]): link[3] for link in found("nccl-2.20-h20-two-nodes")[1]["links"]}
    assert links[0, 2, "NET/IB/GDRDMA"] == [1, 3, 5, 7]
    assert links[3, 1, "NET/IB/GDRDMA"] == [1, 3, 5, 7]
    assert links[2, 0, "NET/IB/GDRDMA"] == [0]


def test_rings_trees_and_choices_are_told() -> None:
    document = found("nccl-2.20-h20-two-nodes")[1]
    assert document["rings"]["1"] == [0, 2, 3, 1]
    trees = {(channel, rank): (up, downs) for channel, rank, up, downs in document["trees"]}
    assert trees[1, 1] == (-1, [0, 3])
    assert trees[0, 0] == (-1, [1, 2])
    chosen = found("nccl-2.24-no-host-prefix")[1]["algorithms"]
    assert {"collective": "AllReduce", "algorithm": "NVLS", "protocol": "SIMPLE", "count": 1,
            "smallest": 33554432, "largest": 33554432} in chosen  # fmt: skip


def test_trees_of_2_4_print_the_parent_first() -> None:
    trees = {(channel, rank): (up, downs) for channel, rank, up, downs in found("nccl-2.4-socket-64ranks")[1]["trees"]}
    assert trees[0, 24] == (16, [20, 28])
    assert trees[0, 33] == (34, [])


def test_ranks_are_placed_on_hosts() -> None:
    assert found("nccl-2.27-mpirun-interleaved")[1]["placement"] == {
        "0": "node-a", "1": "node-a", "2": "node-b", "3": "node-b"
    }  # fmt: skip


def test_evidence_says_where_and_shows_the_first_line() -> None:
    (first, *_) = found("nccl-2.18-shm-full-two-nodes")[1]["evidence"]
    assert (first["kind"], first["count"], first["hosts"]) == ("shm_no_space", 4, ["node-b"])
    assert "failed to extend /dev/shm/nccl-QWxVyt" in first["line"]
