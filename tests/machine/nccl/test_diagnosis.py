"""The one sentence, where nothing failed: what a healthy job is said to be, and what makes it slow."""

from __future__ import annotations

from labtui.machine.nccl import Reader


def diagnosis(*lines: str) -> str:
    reader = Reader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    reader.finish()
    return reader.report().diagnosis


def info(text: str, rank: int = 0) -> str:
    return f"node-a:{100 + rank}:{200 + rank} [{rank}] NCCL INFO {text}"


DONE = [
    info(f"comm 0x{rank + 1} rank {rank} nranks 2 cudaDev {rank} busId 1 - Init COMPLETE", rank) for rank in range(2)
]


def ring(transport: str) -> list[str]:
    return [info(f"Channel {channel:02}/0 : 0[0] -> 1[1] via {transport}") for channel in range(4)] + [
        info(f"Channel {channel:02}/0 : 1[1] -> 0[0] via {transport}", 1) for channel in range(4)
    ]


def test_a_healthy_job_gets_a_healthy_sentence() -> None:
    channels = info("4 coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer")
    assert diagnosis(*ring("P2P/CUMEM"), channels, *DONE) == (
        "2 ranks on 1 node, all links P2P/CUMEM over 4 channels; nothing wrong was logged."
    )


def test_sockets_although_there_is_infiniband() -> None:
    lines = [
        info("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"),
        info("Using network Socket"),
        info("Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"),
    ]
    assert "although an InfiniBand/RoCE card is there" in diagnosis(*lines, *DONE)
    assert "although" not in diagnosis(*lines[1:], *DONE)


def test_shared_memory_because_a_setting_forbids_peer_access() -> None:
    sentence = diagnosis(info("NCCL_P2P_DISABLE set by environment to 1"), *ring("SHM/direct/direct"), *DONE)
    assert "switched off by a setting" in sentence
    assert "no peer access (GeForce, virtual machines)" in diagnosis(*ring("SHM/direct/direct"), *DONE)


def test_geforce_cards_have_no_peer_access_by_their_driver() -> None:
    card = "#  Rank  {0} Group  0 Pid   8756 on node-a device  {0} [0x0{0}] NVIDIA GeForce RTX 4090"
    refused = info(
        "P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1."
    )
    sentence = diagnosis(card.format(0), card.format(1), refused, *ring("SHM/direct/direct"), *DONE)
    assert "the driver switches it off on GeForce cards" in sentence and "between ranks 0-1" in sentence


def test_virtual_interfaces_and_differing_settings_are_noted() -> None:
    lines = [
        info(
            "Bootstrap : Using [0]lo:127.0.0.1<0> [1]eno1:10.0.0.1<0> [2]docker0:10.1.0.1<0> [3]veth1:fe80::1%veth1<0>"
        ),
        info("NCCL_ALGO set by environment to Ring"),
        info("NCCL_ALGO set by environment to Tree", 1),
    ]
    sentence = diagnosis(*lines, *ring("P2P/IPC"), *DONE)
    assert "2 virtual interfaces (such as docker0)" in sentence and "NCCL_SOCKET_IFNAME=eno1" in sentence
    assert "the ranks differ in NCCL_ALGO" in sentence


def test_a_harmless_warning_is_called_harmless() -> None:
    warning = "node-a:100:200 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]"
    assert "libibverbs is harmless" in diagnosis(warning, *ring("P2P/IPC"), *DONE)


def test_a_log_of_warnings_only_says_how_to_see_more() -> None:
    assert "NCCL_DEBUG=INFO" in diagnosis("NCCL version 2.18.3+cuda12.2")
