"""What no line says: hangs by where a log stops, calls that don't match, ranks that are alone."""

from __future__ import annotations

from labtui.machine.nccl import Reader, Report

RINGS = "Connected all rings"


def read(*lines: str) -> Report:
    reader = Reader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    reader.finish()
    return reader.report()


def info(rank: int, text: str) -> str:
    return f"node-a:{100 + rank}:{200 + rank} [{rank}] NCCL INFO {text}"


VERSION = info(0, "NCCL version 2.21.5+cuda12.4")
ORDER = [info(0, f"Channel {channel:02}/02 :    0   1   2") for channel in range(2)]
LINKS = [
    info(rank, f"Channel {channel:02}/0 : {rank}[{rank}] -> {(rank + 1) % 3}[{(rank + 1) % 3}] via P2P/CUMEM")
    for channel in range(2)
    for rank in range(3)
]


def test_a_log_that_stops_before_all_rings_are_connected_tells_of_a_hang() -> None:
    report = read(VERSION, *ORDER, *LINKS)
    assert report.warnings == ("hang_suspected",)
    assert "no rank reports" in report.diagnosis and "IOMMU" in report.diagnosis
    report = read(*ORDER, *LINKS, info(0, RINGS), info(2, RINGS))
    assert report.warnings == ("hang_suspected",)
    assert "2 of 3" in report.diagnosis


def test_what_came_after_rules_a_hang_out() -> None:
    for later in (
        *("Connected all trees", "2 coll channels, 2 p2p channels, 2 p2p channels per peer"),
        "comm 0x1 rank 0 nranks 3 cudaDev 0 busId 1 - Init COMPLETE",
        "AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}",
    ):
        assert read(VERSION, *ORDER, *LINKS, info(0, later)).warnings == ()
    assert read(VERSION, *ORDER, *LINKS, *(info(rank, RINGS) for rank in range(3))).warnings == ()


def test_without_all_links_or_in_old_versions_nothing_is_suspected() -> None:
    assert read(VERSION, *ORDER, *LINKS[1:]).warnings == ()
    assert read(*ORDER, *LINKS).warnings == ()
    assert read(info(0, "NCCL version 2.7.8+cuda10.1"), *ORDER, *LINKS).warnings == ()


def test_an_error_explains_the_stop() -> None:
    error = "node-a:100:200 [0] a.cc:1 NCCL WARN Cuda failure 2 'out of memory'"
    assert read(VERSION, *ORDER, *LINKS, error).warnings == ("cuda_oom",)


def test_ranks_that_all_began_and_never_went_on() -> None:
    starts = [
        info(rank, f"ncclCommInitRank comm 0x{rank} rank {rank} nranks 2 cudaDev {rank} - Init START")
        for rank in range(2)
    ]
    report = read(*starts)
    assert report.warnings == ("hang_suspected",)
    assert "all 2 ranks began" in report.diagnosis
    assert read(starts[0]).warnings == ()
    assert read(*starts, ORDER[0]).warnings == ()


CALL = "{}: opCount {:x} sendbuff 0x1 recvbuff 0x2 count {} datatype 7 op 0 root 0 comm 0x{} [nranks=2] stream 0x3"


def calls(rank: int, *made: tuple[str, int], communicator: int = 0) -> list[str]:
    return [
        info(rank, CALL.format(name, 26 + place, count, communicator or rank + 1))
        for place, (name, count) in enumerate(made)
    ]


def test_calls_that_do_not_match_are_found_in_any_order() -> None:
    one, other = calls(0, ("AllReduce", 64), ("AllReduce", 99)), calls(1, ("AllReduce", 64), ("Broadcast", 99))
    for lines in ([*one, *other], [other[0], one[0], other[1], one[1]]):
        report = read(*lines)
        assert report.warnings == ("collective_mismatch",)
        assert "0x1b" in report.diagnosis
    assert read(*one, *one, *calls(1, ("AllReduce", 64))).warnings == ()


def test_calls_of_several_communicators_of_a_size_are_not_compared() -> None:
    lines = [*calls(0, ("AllReduce", 64)), *calls(1, ("AllReduce", 64)), *calls(2, ("Broadcast", 7), communicator=9)]
    assert read(*lines).warnings == ()


def test_sends_and_receives_need_not_be_alike() -> None:
    assert read(*calls(0, ("Send", 64)), *calls(1, ("Recv", 64))).warnings == ()


def test_processes_that_each_are_alone_are_told() -> None:
    alone = [
        f"node-a:{pid}:{pid} [0] NCCL INFO comm 0x7f rank 0 nranks 1 cudaDev 0 busId 1000 - Init COMPLETE"
        for pid in (71, 72, 73)
    ]
    report = read(*alone)
    assert (report.warnings, report.nranks) == (("lone_ranks",), 1)
    assert "3 processes" in report.diagnosis
    assert read(alone[0]).warnings == ()
    assert read(*alone, info(0, "comm 0x8 rank 0 nranks 3 cudaDev 0 busId 1000 - Init COMPLETE")).warnings == ()
    table = "#   Rank  0 Pid  {} on node-a device  0 [0x00] Tesla V100"
    assert read(table.format(71), table.format(72)).warnings == ("lone_ranks",)
