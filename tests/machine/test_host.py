"""The host, as read from a made-up /proc and /sys, and from the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine import host

NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo: {lo}      10    0    0    0     0          0         0     {lo}      10    0    0    0     0       0
  eth0: {rx}      10    0    0    0     0          0         0     {tx}      10    0    0    0     0       0
 dummy0: 0       0    0    0    0     0          0         0     0       0    0    0    0     0
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def a_process(root: Path, pid: str, *, lo: int, rx: int, tx: int, namespace: str = "net:[1]") -> None:
    write(root / f"proc/{pid}/net/dev", NET_DEV.format(lo=lo, rx=rx, tx=tx))
    link = root / f"proc/{pid}/ns/net"
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(namespace)


@pytest.fixture
def four_gpus(tmp_path: Path) -> Path:
    for bus_id in ("0000:17:00.0", "0000:31:00.0", "0000:b1:00.0", "0000:ca:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / bus_id).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 4),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("3, 1", 2),
        ("0,1,2,3,4", 4),
        ("0,9,1", 1),
        ("0,-1,1", 1),
        ("1,1", 0),
        ("GPU-8a3f,GPU-77b1", 2),
        ("MIG-1a", 1),
        ("none", 0),
    ],
)
def test_gpus_are_counted_as_cuda_would_see_them(four_gpus: Path, visible: str | None, count: int) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert host.gpu_count(environ, four_gpus) == count


def test_without_a_driver_there_is_no_gpu(tmp_path: Path) -> None:
    assert host.gpu_count({"CUDA_VISIBLE_DEVICES": "0,1"}, tmp_path) == 0


def test_describes_another_machine(tmp_path: Path) -> None:
    write(tmp_path / "proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\n")
    write(tmp_path / "proc/meminfo", "MemTotal:       1056462000 kB\nMemAvailable:    1000000 kB\n")
    for node, cpus in ((0, "0-2,8"), (1, "3-7"), (10, "")):
        write(tmp_path / f"sys/devices/system/node/node{node}/cpulist", cpus + "\n")
    write(
        tmp_path / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (dvs-builder)\n"
        "GCC version:  gcc version 12.2.0\n",
    )
    described = host.describe(tmp_path)
    assert described["cpu"] == "AMD EPYC 9654 96-Core Processor"
    assert described["memory"] == 1056462000 * 1024
    assert described["numa"] == [
        {"node": 0, "cpus": [0, 1, 2, 8]},
        {"node": 1, "cpus": [3, 4, 5, 6, 7]},
        {"node": 10, "cpus": []},
    ]
    assert described["driver"] == "550.54.14"
    assert described["gpus"] == []
    assert described["topology"] is None


def test_older_driver_lines_are_understood(tmp_path: Path) -> None:
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
    write(tmp_path / "proc/driver/nvidia/version", line)
    assert host.describe(tmp_path)["driver"] == "535.129.03"


def test_what_cannot_be_read_is_unknown_not_zero(tmp_path: Path) -> None:
    described = host.describe(tmp_path)
    assert (described["cpu"], described["memory"], described["driver"]) == (None, None, None)
    assert described["numa"] == []
    counters = host.read_counters(root=tmp_path)
    assert (counters.cpu, counters.net) == (None, {})
    busyness = host.busyness(counters, host.read_counters(root=tmp_path), tmp_path)
    assert "cpu" not in busyness
    assert (busyness["load1"], busyness["mem_available"], busyness["shm_used"]) == (None, None, None)


def test_this_machine() -> None:
    described = host.describe()
    assert described["host"] == os.uname().nodename
    assert described["cores"] >= 1
    assert described["memory"] > 1 << 20
    first = host.read_counters()
    assert "cpu" not in host.busyness(None, first)
    assert "net" not in host.busyness(None, first)
    second = host.read_counters()
    busyness = host.busyness(first, second)
    assert 0 < busyness["mem_available"] < described["memory"]
    assert set(busyness["net"]) == set(first.net) & set(second.net)


def counted(t: float, cpu: tuple[int, int] | None = None, namespace: str = "net:[1]", **net: tuple[int, int]):
    return host.Counters(t, cpu, net, namespace)


def test_rates_are_differences_over_time(tmp_path: Path) -> None:
    before = counted(10.0, (500, 1000), lo=(0, 0), eth0=(7_000_000_000, 0))
    now = counted(12.0, (650, 1200), lo=(5_000_000_000, 5_000_000_000), eth0=(7_000_000_000, 1_000_000))
    busyness = host.busyness(before, now, tmp_path)
    assert busyness["cpu"] == 75.0
    assert busyness["net"] == {"lo": {"rx": 2.5, "tx": 2.5}, "eth0": {"rx": 0.0, "tx": 0.0005}}


def test_an_interface_made_anew_has_no_rate(tmp_path: Path) -> None:
    before = counted(1.0, lo=(10, 10), veth1=(9_000, 9_000))
    now = counted(2.0, lo=(20, 20), veth1=(5, 5), veth2=(100, 100))
    assert set(host.busyness(before, now, tmp_path)["net"]) == {"lo"}


def test_rates_are_not_taken_across_network_namespaces(tmp_path: Path) -> None:
    now = counted(2.0, namespace="net:[2]", lo=(20, 20))
    assert "net" not in host.busyness(counted(1.0, lo=(10, 10)), now, tmp_path)


def test_interfaces_are_those_of_torchruns_namespace(tmp_path: Path) -> None:
    a_process(tmp_path, "self", lo=1, rx=2, tx=3)
    a_process(tmp_path, "412", lo=4, rx=5, tx=6, namespace="net:[2]")
    inside = host.read_counters(412, tmp_path)
    assert inside.net == {"lo": (4, 4), "eth0": (5, 6)}  # dummy0 has never moved a byte
    assert inside.namespace == "net:[2]"
    assert host.read_counters(None, tmp_path).net["eth0"] == (2, 3)
    assert host.read_counters(999, tmp_path).net["eth0"] == (2, 3), "gone: ours instead"


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r")))
def test_a_garbled_proc_never_raises(text: str) -> None:
    host._interfaces(text)
    host._cpu_ticks(text)
    host._cpu_ticks("cpu " + text)


def test_shared_memory_in_use(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    used = host.shm_used(tmp_path)
    assert used is not None and used > 0, "the folder stands for the file system it lies on"
