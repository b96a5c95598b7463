"""Peer access, NVLinks, PCIe lanes and NVSwitches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from labtui.machine.doctor import gpu_links
from labtui.machine.doctor.finding import Finding
from labtui.machine.doctor.seen import Seen
from labtui.machine.reading import Gpu, NvLinks, Reading
from labtui.machine.topology import Topology


def machine(name: str, count: int, kind: str, refused: Mapping[tuple[int, int], str] | str | None = None) -> Seen:
    """GPUs joined all alike; `refused` are statuses other than OK, of some pairs or of all."""
    pairs = list(itertools.permutations(range(count), 2))
    statuses = (
        dict.fromkeys(pairs, refused)
        if isinstance(refused, str)
        else {pair: (refused or {}).get(pair, "OK") for pair in pairs}
    )
    topology = Topology(
        tuple(range(count)),
        {(f"GPU{one}", f"GPU{other}"): kind for one, other in itertools.combinations(range(count), 2)},
        p2p={"read": statuses},
    )
    gpus = tuple(Gpu(index, name=name) for index in range(count))
    readings = tuple(Reading(index) for index in range(count))
    return Seen(gpus, readings, topology, used=frozenset(range(count)))


def told(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


# Peer access --------------------------------------------------------------------------------------------------------


def test_peer_access_everywhere() -> None:
    finding = told(gpu_links.peer_access(machine("NVIDIA H100 80GB HBM3", 8, "NV18")))
    assert (finding.level, finding.found) == ("ok", "allowed between all pairs")


def test_geforce_has_none_and_nothing_is_broken() -> None:
    finding = told(gpu_links.peer_access(machine("NVIDIA GeForce RTX 4090", 4, "PHB", "CNS")))
    assert finding.level == "note"
    assert finding.found == "not between any two (CNS: the chipset doesn't support it)"
    assert "host memory there (transport SHM)" in finding.why and "nothing is broken" in finding.advice


@pytest.mark.parametrize(("status", "advice"), [("CNS", "BIOS"), ("DR", "NVreg_RegistryDwords"), ("TNS", "topo -p2p")])
def test_other_gpus_should_have_it(status: str, advice: str) -> None:
    finding = told(gpu_links.peer_access(machine("NVIDIA RTX A6000", 2, "PHB", status)))
    assert finding.level == "warn" and advice in finding.advice
    assert finding.found.startswith(f"not between GPU 0 and 1 ({status}: ")


def test_pairs_are_named() -> None:
    refused = {(0, 1): "CNS", (1, 0): "CNS", (2, 3): "TNS"}
    finding = told(gpu_links.peer_access(machine("NVIDIA RTX A6000", 4, "PHB", refused)))
    assert "not between GPU 0-1 (CNS: " in finding.found and "not between GPU 2-3 (TNS: " in finding.found


@pytest.mark.parametrize(("name", "kind"), [("NVIDIA GeForce RTX 3090", "NV4"), ("NVIDIA GeForce GTX 1080 Ti", "PHB")])
def test_geforce_cards_that_should_have_it(name: str, kind: str) -> None:
    assert told(gpu_links.peer_access(machine(name, 2, kind, "CNS"))).level == "warn"


@pytest.mark.parametrize(
    ("name", "kind", "level"),
    [
        ("NVIDIA GeForce RTX 4090", "PHB", "warn"),
        ("NVIDIA GeForce RTX 5090", "NODE", "warn"),
        ("NVIDIA GeForce RTX 3090", "PHB", "warn"),
        ("NVIDIA GeForce RTX 3090", "NV4", "ok"),
        ("NVIDIA GeForce GTX 1080 Ti", "PHB", "ok"),
        ("NVIDIA RTX 6000 Ada Generation", "PHB", "ok"),
    ],
)
def test_peer_access_that_nvidia_does_not_offer(name: str, kind: str, level: str) -> None:
    finding = told(gpu_links.peer_access(machine(name, 2, kind)))
    assert finding.level == level
    assert ("NCCL_P2P_DISABLE=1" in finding.advice) == (level == "warn")


def test_one_gpu_or_none_used_has_no_peers() -> None:
    assert gpu_links.peer_access(machine("NVIDIA H100", 1, "PHB")) is None
    assert gpu_links.peer_access(replace(machine("NVIDIA H100", 4, "PHB"), used=frozenset({2}))) is None
    assert gpu_links.peer_access(Seen()) is None


def test_only_pairs_that_runs_would_use_matter() -> None:
    refused = {(0, 1): "CNS", (1, 0): "CNS"}
    seen = replace(machine("NVIDIA RTX A6000", 4, "PHB", refused), used=frozenset({2, 3}))
    assert told(gpu_links.peer_access(seen)).level == "ok"


def test_a_driver_that_does_not_tell() -> None:
    seen = machine("NVIDIA H100", 2, "PHB")
    assert told(gpu_links.peer_access(replace(seen, topology=Topology((0, 1))))).level == "note"


# Links --------------------------------------------------------------------------------------------------------------


def with_nvlinks(*up: int) -> Seen:
    gpus = tuple(
        Gpu(index, name="NVIDIA A100", nvlinks=NvLinks(tuple(range(count)), 12 - count, 3, 25.0))
        for index, count in enumerate(up)
    )
    return Seen(gpus, tuple(Reading(index) for index in range(len(up))))


def test_a_gpu_with_fewer_nvlinks_than_its_kind() -> None:
    assert gpu_links.links(with_nvlinks(12, 12, 12)) == []
    assert gpu_links.links(with_nvlinks(4, 4)) == [], "one bridge of three: so it was built"
    (finding,) = gpu_links.links(with_nvlinks(12, 10, 12))
    assert (finding.level, finding.found) == ("warn", "GPU 1 has 10, others have 12")


def test_fewer_pcie_lanes_than_there_could_be() -> None:
    gpus = tuple(Gpu(index, name="NVIDIA L4", pcie_width=16) for index in range(3))
    seen = Seen(gpus, (Reading(0, pcie_width=16), Reading(1, pcie_width=4), Reading(2)))
    (finding,) = gpu_links.links(seen)
    assert (finding.level, finding.found) == ("warn", "GPU 1 has 4 of 16 lanes")


# NVSwitch -----------------------------------------------------------------------------------------------------------


def test_the_fabric_manager_has_to_run(tmp_path: Path) -> None:
    for folder in ("dev", "proc/1", "proc/77", "proc/self/ns"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/1/comm").write_text("systemd\n")
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
    assert gpu_links.fabric_manager(tmp_path) is None
    for name in ("nvidia-nvswitch0", "nvidia-nvswitch1", "nvidia-nvswitchctl"):
        (tmp_path / "dev" / name).touch()
    finding = told(gpu_links.fabric_manager(tmp_path))
    assert (finding.level, finding.found) == ("fail", "2 NVSwitches, and it doesn't run")
    (tmp_path / "proc/77/comm").write_text("nv-fabricmanage\n")
    assert told(gpu_links.fabric_manager(tmp_path)).level == "ok"


def test_from_a_container_the_fabric_manager_cannot_be_seen(tmp_path: Path) -> None:
    for folder in ("dev", "proc/1", "proc/self/ns"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "dev/nvidia-nvswitch0").touch()
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532555]")
    assert told(gpu_links.fabric_manager(tmp_path)).level == "note"
