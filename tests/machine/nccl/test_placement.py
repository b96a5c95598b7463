"""On how many nodes a job was, as far as its lines show where the ranks are."""

from __future__ import annotations

import pytest

from labtui.machine.nccl import Reader, Report


def read(*lines: str) -> Report:
    reader = Reader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    reader.finish()
    return reader.report()


def info(host: str, rank: int, text: str, device: int | None = None) -> str:
    return f"{host}:{100 + rank}:{200 + rank} [{rank if device is None else device}] NCCL INFO {text}"


def start(host: str, rank: int, size: int, device: int | None = None) -> str:
    return info(
        host, rank, f"ncclCommInitRank comm 0x{rank:x} rank {rank} nranks {size} cudaDev 0 - Init START", device
    )


def test_the_number_that_nccl_prints_counts() -> None:
    line = info("node-a", 0, "comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0")
    assert read(line).nnodes == 2
    assert (
        read(line, info("node-a", 0, "comm 0x2 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0")).nnodes == 2
    )


def test_ranks_that_all_say_where_they_are() -> None:
    lines = [start("node-a" if rank < 2 else "node-b", rank, 4) for rank in range(4)]
    assert read(*lines).nnodes == 2
    assert read(*lines[:2]).nnodes is None
    assert read(*lines).placement == {0: "node-a", 1: "node-a", 2: "node-b", 3: "node-b"}


def test_peers_that_share_memory_are_on_the_same_node() -> None:
    lines = [info("node-a", 0, "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")]
    assert read(*lines).nnodes == 1
    assert read("NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC").nnodes == 1


def test_network_links_place_the_rank_that_prints_them() -> None:
    send = info("node-a", 0, "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0")
    receive = info("node-b", 1, "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0", 0)
    assert read(send).nnodes is None
    assert read(send, receive).nnodes == 2


def test_peer_access_across_nodes_places_nothing() -> None:
    lines = [
        info("node-a", 0, "comm 0x1 rank 0 nRanks 4 nNodes 0 localRanks 2 localRank 0 MNNVL 1").replace(
            "nNodes 0 ", ""
        ),
        *(info("node-a", 0, f"Channel 00/0 : 0[0] -> {peer}[0] via P2P/MNNVL") for peer in range(1, 4)),
    ]
    assert read(*lines).nnodes is None


def test_hosts_hold_blocks_of_ranks_where_ranks_count_up_with_gpus() -> None:
    block = [start("node-a", 0, 8, 0), start("node-a", 3, 8, 3), start("node-b", 4, 8, 0), start("node-b", 7, 8, 3)]
    assert read(*block).nnodes == 2
    round_robin = [start("node-a", 0, 8, 0), start("node-a", 6, 8, 3)]
    assert read(*round_robin).nnodes is None
    # One GPU per process: devices tell nothing, and ranks between are not filled in.
    assert read(start("node-a", 0, 8, 0), start("node-a", 7, 8, 0)).nnodes is None


def test_a_host_seen_whole_tells_of_others_like_it() -> None:
    whole = [start("node-b", rank, 8, rank - 4) for rank in range(4, 8)]
    assert read(start("node-a", 1, 8), *whole).nnodes == 2
    assert read(start("node-a", 1, 16), *whole).nnodes is None
    assert read(*whole).nnodes is None


def test_ranks_of_several_communicators_place_nothing_by_their_links() -> None:
    lines = [
        info("node-a", 0, "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0"),
        info("node-b", 2, "Channel 00/0 : 0[2] -> 1[3] [send] via NET/IB/0"),
    ]
    assert read(*lines).nnodes is None
    assert read(*lines).placement == {}


@pytest.mark.parametrize("broken", ["-1node-a", "0node-a", "ode-a"])
def test_a_mangled_host_name_is_that_of_its_process(broken: str) -> None:
    lines = [start("node-a", 0, 2), info("node-a", 0, "Connected all rings"), start("node-a", 1, 2)]
    lines.insert(1, info(broken, 0, "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"))
    lines.append(info("node-a", 0, "Channel 01/0 : 0[0] -> 1[1] via P2P/IPC"))
    assert read(*lines).nnodes == 1


def test_the_table_of_nccl_tests_places_ranks() -> None:
    table = [
        f"#  Rank  {rank} Group  0 Pid {60 + rank} on  node-{'ab'[rank // 2]} device  {rank % 2} [0008:01:00] GB200"
        for rank in range(4)
    ]
    report = read(*table)
    assert (report.kind, report.nranks, report.nnodes) == ("nccl", 4, 2)
    assert report.placement[3] == "node-b"


def test_processes_that_never_tell_their_rank_are_counted() -> None:
    call = (
        "AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 count 6 datatype 7 op 0 root 0 comm 0x{} [nranks=2] stream 0x3"
    )
    assert read(info("node-a", 0, call.format(1)), info("node-b", 1, call.format(2))).nnodes == 2
    assert read(info("node-a", 0, call.format(1))).nnodes is None
