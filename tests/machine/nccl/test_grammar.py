"""How single messages look through the versions: connections, transports, versions, settings, heads."""

# ruff: noqa: E501 (lines of logs are as long as they are)

from __future__ import annotations

import pytest

from labtui.machine.nccl import Reader, Report
from labtui.machine.nccl.grammar import transport_name, version_of_code, version_tuple
from labtui.machine.nccl.styles import style


def read(*lines: str) -> Report:
    reader = Reader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    reader.finish()
    return reader.report()


def info(text: str, rank: int = 0, host: str = "node-a") -> str:
    return f"{host}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO {text}"


CONNECTIONS = [
    # 2.2, 2.3, 2.4: host device or nothing in brackets
    ("3 -> 1 via P2P/IPC", (3, 1, "P2P/IPC"), ()),
    ("3 [3] -> 1 [1] via P2P/direct pointer", (3, 1, "P2P/direct pointer"), ()),
    ("Ring 00 : 3[3] -> 1[1] via P2P/IPC", (3, 1, "P2P/IPC"), (0,)),
    ("Ring 12 : 7 -> 8 via NET/Socket/0", (7, 8, "NET/Socket"), (12,)),
    ("Ring 00 : 7 -> 8 via NET/IB/0/GDRDMA/GDCopy", (7, 8, "NET/IB/GDRDMA/GDCopy"), (0,)),
    ("Ring 00 : 7 -> 8 [receive] via NET/AWS Libfabric/0/GDRDMA", (7, 8, "NET/AWS Libfabric/GDRDMA"), (0,)),
    ("Ring 01 : 0[1a000] -> 1[1b000] via direct shared memory", (0, 1, "direct shared memory"), (1,)),
    # 2.7 to 2.12
    ("Channel 00 : 0[1a000] -> 1[1b000] via P2P/IPC/read", (0, 1, "P2P/IPC/read"), (0,)),
    ("Channel 01 : 2[89000] -> 4[b0000] via P2P/indirect/3[8a000]", (2, 4, "P2P/indirect"), (1,)),
    ("Channel 01/0 : 2[89000] -> 4[b0000] via P2P/indirect/3[8a000]/read", (2, 4, "P2P/indirect/read"), (1,)),
    ("Channel 00 : 1[5000] -> 0[5000] [receive] via NET/IB/0/GDRDMA", (1, 0, "NET/IB/GDRDMA"), (0,)),
    # 2.13 to 2.31
    ("Channel 14/1 : 0[0] -> 8[0] [send] via NET/IB/9(3)/GDRDMA/Shared", (0, 8, "NET/IB/GDRDMA/Shared"), (14,)),
    ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/11/GDRDMA", (0, 8, "NET/IBext_v8/GDRDMA"), (0,)),
    ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/3/GDRDMA(PCI)", (0, 8, "NET/IB/GDRDMA(PCI)"), (0,)),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", (0, 1, "P2P/CUMEM/read"), (0,)),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/CE", (0, 1, "P2P/CUMEM/CE"), (0,)),
    ("Channel 00/0 : 0[0] -> 9[1] via P2P/MNNVL", (0, 9, "P2P/MNNVL"), (0,)),
    ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", (0, 1, "SHM/direct/direct"), (0,)),
    ("Channel 00 : 0[0] -> 1[1] via SHM/CE/direct", (0, 1, "SHM/CE/direct"), (0,)),
    # 2.32 tells how data is flushed
    ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA/flush=Always", (1, 0, "NET/IB/GDRDMA"), (0,)),
    # RCCL
    ("Channel 03/0 : 3[ce000] -> 6[c9000] [send] via NET/Socket/2 comm 0x9a09f20 nRanks 08", (3, 6, "NET/Socket"), (3,)),
    # Ray
    ("Channel 02/0 : 6[6] -> 7[7] via P2P/IPC [repeated 15x across cluster]", (6, 7, "P2P/IPC"), (2,)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "pair", "channels"), CONNECTIONS)
def test_a_connection_is_found_however_its_line_is_mangled(text: str, pair: tuple, channels: tuple[int, ...]) -> None:
    lines = [
        info(text),
        text,
        f"   16777216     float    none      -1{info(text)}",
        info(text) + "      (w pid=5) " + info("Connected all rings"),
        info("Connected all rings") + info(text),
    ]
    for line in lines:
        report = read(line)
        assert report.pairs == (pair,), line
        assert report.transports == {pair[2]: 1}, line
        assert report.links[0].channels == channels, line
    assert read(*lines).transports == {pair[2]: len(lines)}


@pytest.mark.parametrize(("text", "pair", "channels"), CONNECTIONS)
def test_a_connection_that_is_cut_counts_only_if_what_is_left_is_whole(text: str, pair: tuple, channels: tuple) -> None:
    via = text.index(" via ") + 5
    for end in range(via):
        assert read(info(text[:end])).links == ()
    known = {pair[2], pair[2].removesuffix("/read"), pair[2].removesuffix("/CE"), pair[2].removesuffix("/Shared")}
    for end in range(via, len(text)):
        for transport in read(info(text[:end])).transports:
            # Some beginnings are whole transports too: NET/IB/0 of NET/IB/0/GDRDMA, SHM/direct since 2.32.
            shorter = pair[2].startswith(transport) and pair[2][len(transport) :][:1] in ("/", "(")
            assert transport in known or shorter


def test_both_ends_of_a_link_are_one_pair_and_two_lines() -> None:
    report = read(
        info("Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0"),
        info("Channel 00/0 : 0[0] -> 1[1] [receive] via NET/IB/3", 1, "node-b"),
    )
    assert (report.transports, report.pairs) == ({"NET/IB": 2}, ((0, 1, "NET/IB"),))


def test_collnet_counts_as_a_transport_without_a_pair() -> None:
    report = read(
        info("CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA"),
        info("CollNet 00/1 : 3 [receive] via COLLNET/SHARP/0/GDRDMA"),
        info("Coll 00 : 3 [receive] via COLLNET/SHARP/0"),
    )
    assert (report.transports, report.pairs) == ({"COLLNET/SHARP/GDRDMA": 2, "COLLNET/SHARP": 1}, ())


def test_half_a_shared_memory_transport_is_whole_since_2_32_only() -> None:
    cut = info("Channel 00 : 0[0] -> 1[1] via SHM/direct")
    full = info("Channel 00 : 1[1] -> 0[0] via SHM/direct/direct", 1)
    assert read(info("NCCL version 2.31.2+cuda13.3"), cut).transports == {}
    assert read(info("NCCL version 2.32.3+cuda12.9"), cut).transports == {"SHM/direct": 1}
    assert read(cut).transports == {"SHM/direct": 1}
    assert read(cut, full).transports == {"SHM/direct/direct": 1}


def test_what_a_transport_is_called() -> None:
    assert transport_name(b"NET/IB/0(1)/GDRDMA/Shared") == "NET/IB/GDRDMA/Shared"
    assert transport_name(b"P2P/indirect/1[1b000]") == "P2P/indirect"
    assert transport_name(b"NET/AWS Libfabric/2") == "NET/AWS Libfabric"


@pytest.mark.parametrize(
    ("line", "library", "version"),
    [
        ("NCCL version 2.2.13+cuda9.0", "NCCL", "2.2.13"),
        ("NCCL version 2.5.7+cudaCUDA_MAJOR.CUDA_MINOR", "NCCL", "2.5.7"),
        (info("NCCL version 2.32.3+cuda12.9"), "NCCL", "2.32.3"),
        ("RCCL version 2.17.1+hip5.7 HEAD:2c1a4b7+", "RCCL", "2.17.1"),
        (info("RCCL version : 2.22.3-HEAD:271856d"), "RCCL", "2.22.3"),
    ],
)
def test_versions(line: str, library: str, version: str) -> None:
    report = read(line, info("Using network Socket"))
    assert (report.library, report.nccl_version, report.kind) == (library, version, "nccl")


@pytest.mark.parametrize(
    "line",
    [
        info("NET/Plugin: Could not find: librccl-net.so. Using internal network plugin."),
        info("ROCr version 1.1"),
        "node-a:1:2 [0] /usr/src/debug/rccl/build/hipify/src/init.cc:136 NCCL WARN Cuda failure 'out of memory'",
    ],
)
def test_the_library_is_amd_s_where_the_text_says_so(line: str) -> None:
    assert read(line).library == "RCCL"
    assert read(line.replace("rccl", "nccl").replace("ROCr", "NCCL").replace("hipify", "x")).library == "NCCL"


def test_the_first_version_that_is_named_counts() -> None:
    lines = ["NCCL version 2.18.3+cuda12.2", info("NCCL version 2.24.3+cuda12.2"), "NCCL version 2.7.8+cuda11.0"]
    assert read(*lines).nccl_version == "2.18.3"
    assert read(*lines[1:]).nccl_version == "2.24.3"


def test_the_code_of_nccl_tests_stands_in_where_nothing_else_names_a_version() -> None:
    header = "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809"
    assert read(header, info("Using network IB")).nccl_version == "2.28.9"
    assert read(header, info("NCCL version 2.28.7+cuda13.0")).nccl_version == "2.28.7"
    assert (version_of_code(2708), version_of_code(21803), version_tuple("2.18.3")) == ("2.7.8", "2.18.3", (2, 18, 3))


def test_settings_are_those_of_the_environment_without_their_full_stop() -> None:
    report = read(
        info("NCCL_IB_DISABLE set by environment to 1."),
        info("NCCL_SOCKET_IFNAME set by environment to ^docker0,lo"),
        info("NCCL_IB_HCA set to mlx5"),
        info("NCCL_NET_PLUGIN set by environment to /opt/x.so [repeated 3x across cluster]"),
        info("NCCL_DEBUG_FILE set by environment to a b.log.") + "   (w pid=3) " + info("Connected all rings"),
        info("NCCL_IB_DISABLE set by environment to 0.", 1),
    )
    assert report.env_overrides == {
        "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "^docker0,lo", "NCCL_NET_PLUGIN": "/opt/x.so",
        "NCCL_DEBUG_FILE": "a b.log",
    }  # fmt: skip
    assert "NCCL_IB_DISABLE" in report.diagnosis


@pytest.mark.parametrize(
    ("lines", "network"),
    [
        ([info("Using internal Network IB")], "IB"),
        ([info("Using network AWS Libfabric")], "AWS Libfabric"),
        ([info("Channel 00 : 0[0] -> 1[1] [send] via NET/Mesh/0"), info("NET/Socket : Using [0]eth0:10.0.0.1<0>")], "Mesh"),
        ([info("NET/IB : No device found."), info("NET/Socket : Using [0]eth0:10.0.0.1<0>")], "Socket"),
        ([info("NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>"), info("NET/Socket : Using [0]eth0:1.1.1.1<0>")], "IB"),
        ([info("Initialized NET plugin Libfabric")], "Libfabric"),
        ([info("Connected all rings")], None),
    ],
)  # fmt: skip
def test_the_network(lines: list[str], network: str | None) -> None:
    assert read(*lines).network == network


def test_channels_are_those_of_the_largest_communicator() -> None:
    world = [info("Channel 00/08 :    0   1   2   3"), info("Channel 07/08 :    0   1   2   3")]
    small = [info("Channel 00/24 : 0 1"), info("comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Init START")]
    counted = [info("24 coll channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer")]
    assert read(*small, *counted, *world).channels == 8
    assert read(*world, *small, *counted).channels == 8
    assert read(*small, *counted).channels == 24
    assert read(info("Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 [2] 1/-1/-1->0->-1")).channels == 3
    assert read(info("Connected all rings")).channels is None


def test_ranks_are_those_of_the_largest_communicator() -> None:
    assert (
        read(info("comm 0x1 rank 5 nranks 64 cudaDev 0 - Init COMPLETE"), info("comm 0x2 rank 0 nranks 8 x")).nranks
        == 64
    )
    assert read(info("[Rank 0] ncclCommInitRankConfig comm 0xc rank 0 nranks 4 cudaDev 0 - Init START")).nranks == 4
    assert read(info("rank 0 nranks 8")).nranks == 8
    assert read(info("Init timings - ncclCommInitRank: rank 0 nranks 8 total 1.63 (kernels 0.28)")).nranks == 8
    assert read(info("Channel 00/02 :    0   1   2")).nranks == 3
    assert read(info("Channel 00 : 15[7] -> 14[6] via P2P/IPC")).nranks == 16
    assert read(info("Connected all rings")).nranks is None


def test_a_ring_is_pieced_together_from_the_steps_of_all_ranks() -> None:
    steps = [
        info(f"Ring 00 : {before} -> {rank} -> {after}", rank)
        for before, rank, after in ((2, 0, 1), (0, 1, 2), (1, 2, 0))
    ]
    connection = info("Channel 00 : 2[0] -> 0[1] via P2P/IPC")
    assert read(*steps, connection).rings == {0: (0, 1, 2)}
    assert read(*steps[:2], connection).rings == {}


def test_choices_of_algorithm_are_summed_up() -> None:
    report = read(
        info("AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}"),
        info("AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}"),
        info("AllGather: 64 Bytes -> Algo 1 proto 0 time 9.30"),
        info("4194304 Bytes -> Algo 0 proto 2 time 75.3"),
    )
    assert report.algorithms == (
        ("", "TREE", "SIMPLE", 1, 4194304, 4194304),
        ("AllGather", "RING", "LL", 1, 64, 64),
        ("AllReduce", "RING", "LL", 2, 1024, 4096),
    )


def test_unknown_messages_are_counted_and_shown() -> None:
    report = read(*(info(f"Frobnicating buffer {number}") for number in range(9)))
    assert (report.unknown, len(report.unknown_lines)) == (9, 5)
    assert report.unknown_lines[0] == "Frobnicating buffer 0"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("node-a:1:2 [0] NCCL INFO x", "plain"),
        (":1:2 [0] NCCL INFO x", "nohost"),
        ("NCCL INFO x", "none"),
        ("[1,0]<stdout>:node-a:1:2 [0] NCCL INFO x", "mpirun"),
        ("10.0.0.10: node-a:1:2 [0] NCCL INFO x", "pdsh"),
        ("(RayWorker pid=7, ip=10.0.0.1) node-a:1:2 [0] NCCL INFO x", "ray"),
        ("(EngineCore pid=1) (RayWorkerProc pid=2) node-a:1:2 [0] NCCL INFO x", "ray-nested"),
        ("[rank3]:[E528 ProcessGroupGloo.cpp:145] x", "torchrun-rank"),
        ("[2026-04-22 21:46:20] node-a:1:2 [0] a.cc:1 NCCL WARN x", "timestamp"),
        ("2025-11-12 20:41:43,851 - INFO - node-a:1:2 [0] NCCL INFO x", "timestamp"),
        ("Jul 21 19:22:29 head train[3]: node-a:1:2 [0] NCCL INFO x", "timestamp"),
        ("  117 node-a:1:2 [0] NCCL INFO x", "lineno"),
        ("117: node-a:1:2 [0] NCCL INFO x", "lineno"),
        ("torch.distributed.DistNetworkError: The server socket", "plain"),
    ],
)
def test_how_lines_begin(line: str, name: str) -> None:
    assert style(line.encode()) == name
    assert read(line, line).prefix == name


def test_escapes_and_times_of_their_own_are_seen() -> None:
    line = info("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
    assert read(f"\x1b[36m{line}\x1b[0m").prefix == "ansi"
    assert read(*["2024-05-01T12:00:00.000Z", line] * 3).prefix == "cloudwatch"
    assert read(f"\x1b[36m{line[:40]}\x1b[31m{line[40:]}\x1b[0m\r").pairs == ((0, 1, "P2P/CUMEM"),)
