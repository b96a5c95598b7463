"""Network interfaces as NCCL and gloo would choose them, the host's name, RDMA."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine.doctor import network
from labtui.machine.doctor.finding import Finding

IPV6 = "fe80000000000000021122fffe334455 {number:02x} 40 20 80 {name:>8}\n"


def interfaces(root: Path, *names: str, down: tuple[str, ...] = (), bare: tuple[str, ...] = ()) -> Path:
    """Interfaces with addresses, those without (bare), and those without a cable (down); eth0 has the default route."""
    devices = "Inter-|   Receive\n face |bytes\n"
    addresses, routes = "", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
    for number, name in enumerate((*names, *down, *bare), 1):
        folder = root / "sys/class/net" / name
        folder.mkdir(parents=True)
        devices += f"{name:>6}: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n"
        (folder / "flags").write_text("0x1003\n" if name not in bare else "0x1002\n")
        (folder / "ifindex").write_text(f"{number}\n")
        (folder / "operstate").write_text("down\n" if name in down else "unknown\n" if name == "lo" else "up\n")
        if name.startswith("veth"):
            addresses += IPV6.format(number=number, name=name)
        elif name not in bare and name != "lo":
            routes += f"{name}\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    routes += "eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\n"
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/net/dev").write_text(devices)
    (root / "proc/net/route").write_text(routes)
    (root / "proc/net/if_inet6").write_text(addresses)
    return root


def told(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


# Choosing -----------------------------------------------------------------------------------------------------------


def test_interfaces_that_are_up_and_have_an_address(tmp_path: Path) -> None:
    interfaces(tmp_path, "lo", "eth0", "veth12ab", down=("docker0",), bare=("ifb0",))
    assert network.interfaces(tmp_path) == ["lo", "eth0", "veth12ab"]
    assert network.existing(tmp_path) == ["lo", "eth0", "veth12ab", "docker0", "ifb0"]
    assert network.interfaces(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("setting", "taken"),
    [
        ("", ["eth0", "eth1", "br-1"]),
        ("eth", ["eth0", "eth1"]),
        ("=eth0", ["eth0"]),
        ("=eth", []),
        ("eth1,br", ["eth1", "br-1"]),
        ("^eth,br", ["lo", "docker0", "virbr0"]),
        ("^=eth0", ["lo", "eth1", "docker0", "br-1", "virbr0"]),
        ("lo", ["lo"]),
        ("wlan", []),
    ],
)
def test_nccls_rules(setting: str, taken: list[str]) -> None:
    assert network.chosen(["lo", "eth0", "eth1", "docker0", "br-1", "virbr0"], setting) == taken


@pytest.mark.parametrize(
    ("up", "taken"),
    [
        (["lo", "eth0", "ib0", "ib1"], ["ib0", "ib1"]),
        (["lo", "docker0"], ["docker0"]),
        (["lo", "virbr0"], ["lo"]),
        (["virbr0"], ["virbr0"]),
        ([], []),
    ],
)
def test_nccls_choice_without_a_setting(up: list[str], taken: list[str]) -> None:
    assert network.chosen(up) == taken


@given(st.lists(st.text("abeho0123-^=,", max_size=6), max_size=6), st.text("abeho0123-^=,", max_size=8))
def test_a_choice_is_a_part_of_what_is_up(up: list[str], setting: str) -> None:
    taken = network.chosen(up, setting)
    assert [name for name in up if name in taken] == taken


# NCCL ---------------------------------------------------------------------------------------------------------------


def test_one_real_interface_is_well_chosen(tmp_path: Path) -> None:
    interfaces(tmp_path, "lo", "eth0", "docker0")
    assert network.nccl_interfaces({}, 2, tmp_path) == Finding("NCCL's interfaces", "ok", "eth0")


def test_many_virtual_interfaces_are_risky_between_machines(tmp_path: Path) -> None:
    interfaces(tmp_path, "lo", "eth0", "br-5f3a", "veth12ab", "veth34cd")
    finding = told(network.nccl_interfaces({}, 2, tmp_path))
    assert finding.level == "warn"
    assert finding.found.startswith("eth0, br-5f3a, veth12ab and veth34cd: 3 of 4 look virtual")
    assert finding.advice.endswith("NCCL_SOCKET_IFNAME==eth0")
    assert "within one machine any will do" in finding.why


def test_one_virtual_interface_is_worth_a_note(tmp_path: Path) -> None:
    interfaces(tmp_path, "lo", "eth0", "tailscale0")
    assert told(network.nccl_interfaces({}, 2, tmp_path)).level == "note"


def test_a_setting_that_fits_no_interface_stops_nccl(tmp_path: Path) -> None:
    interfaces(tmp_path, "lo", "eth0")
    finding = told(network.nccl_interfaces({"NCCL_SOCKET_IFNAME": "ens5"}, 2, tmp_path))
    assert finding.level == "fail" and "ens5" in finding.found and "lo and eth0" in finding.found
    assert told(network.nccl_interfaces({"NCCL_SOCKET_IFNAME": "eth"}, 2, tmp_path)).level == "ok"


def test_a_setting_that_fits_an_interface_without_a_cable(tmp_path: Path) -> None:
    interfaces(tmp_path, "lo", "eth0", down=("ens5",))
    finding = told(network.nccl_interfaces({"NCCL_SOCKET_IFNAME": "ens"}, 2, tmp_path))
    assert finding.level == "warn" and "fits ens5, down" in finding.found
    assert told(network.gloo_interfaces({"GLOO_SOCKET_IFNAME": "ens5"}, tmp_path)).level == "warn"


def test_without_gpus_nccls_choice_is_no_matter(tmp_path: Path) -> None:
    assert network.nccl_interfaces({"NCCL_SOCKET_IFNAME": "ens5"}, 0, interfaces(tmp_path, "lo", "eth0")) is None
    assert network.nccl_interfaces({}, 2, tmp_path / "nowhere") is None


# gloo ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "level"), [("eth0", "ok"), ("lo,eth0", "ok"), ("nope", "fail"), ("=eth0", "fail"), ("^lo", "fail")]
)
def test_gloo_takes_whole_names_only(tmp_path: Path, setting: str, level: str) -> None:
    finding = network.gloo_interfaces({"GLOO_SOCKET_IFNAME": setting}, interfaces(tmp_path, "lo", "eth0"))
    assert told(finding).level == level


def test_without_a_setting_gloo_goes_by_the_hosts_name(tmp_path: Path) -> None:
    assert network.gloo_interfaces({}, tmp_path) is None


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (["192.0.2.7"], "ok"),
        (["127.0.1.1"], "note"),
        (["127.0.0.1", "::1"], "note"),
        (["fe80::1", "127.0.0.1"], "ok"),
        (socket.gaierror(-2, "Name or service not known"), "note"),
        (UnicodeError("label too long"), "note"),
        ([], "note"),
    ],
)
def test_where_the_hosts_name_leads(answer: list[str] | Exception, level: str) -> None:
    def resolve(name: str) -> list[str]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    finding = network.host_name({}, "lab", resolve, wait_s=20)
    assert finding.level == level and finding.found.startswith("lab ")
    assert network.host_name({"GLOO_SOCKET_IFNAME": "eth0"}, "lab", resolve, wait_s=20).level == "ok"


def test_a_name_server_that_is_away_is_not_waited_for() -> None:
    answered = threading.Event()

    def resolve(name: str) -> list[str]:
        answered.wait(20)
        return []

    finding = network.host_name({}, "lab", resolve, wait_s=0.01)
    answered.set()
    assert finding.level == "warn" and "not resolved within" in finding.found and "/etc/hosts" in finding.advice


# RDMA ---------------------------------------------------------------------------------------------------------------


def device(root: Path, name: str, *states: str) -> None:
    for port, state in enumerate(states, 1):
        folder = root / f"sys/class/infiniband/{name}/ports/{port}"
        folder.mkdir(parents=True)
        (folder / "state").write_text(f"{state}\n")


def test_no_rdma_is_nothing_to_speak_of(tmp_path: Path) -> None:
    assert network.rdma_devices(tmp_path) == []
    assert network.rdma({}, 8, tmp_path) == []


def test_rdma_with_gpus_that_may_use_it(tmp_path: Path) -> None:
    device(tmp_path, "mlx5_0", "4: ACTIVE")
    device(tmp_path, "mlx5_1", "1: DOWN", "4: ACTIVE")
    (tmp_path / "sys/module/nvidia_peermem").mkdir(parents=True)
    devices, direct = network.rdma({}, 8, tmp_path)
    assert (devices.level, devices.found) == ("ok", "mlx5_0 (ACTIVE) and mlx5_1 (DOWN, ACTIVE)")
    assert (direct.level, direct.found) == ("ok", "nvidia_peermem is loaded")


def test_rdma_that_gpus_may_not_use(tmp_path: Path) -> None:
    device(tmp_path, "mlx5_0", "4: ACTIVE")
    assert [finding.level for finding in network.rdma({}, 8, tmp_path)] == ["ok", "warn"]
    assert [finding.level for finding in network.rdma({}, 0, tmp_path)] == ["ok"], "there is no GPU"
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
    (tmp_path / "proc/driver/nvidia/version").write_text(version)
    assert [finding.level for finding in network.rdma({}, 8, tmp_path)] == ["ok", "ok"], "DMA-BUF"


@pytest.mark.parametrize(
    ("states", "environ"), [(("1: DOWN",), {}), (("4: ACTIVE",), {"NCCL_IB_DISABLE": "1"}), ((), {})]
)
def test_rdma_that_nccl_does_not_use(tmp_path: Path, states: tuple[str, ...], environ: dict[str, str]) -> None:
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    device(tmp_path, "mlx5_0", *states)
    finding, *_ = network.rdma(environ, 0, tmp_path)
    assert finding.level == "note" and "TCP" in finding.why
