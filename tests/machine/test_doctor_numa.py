"""CPUs near the GPUs, and whether runs may use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.machine.doctor import numa
from labtui.machine.doctor.finding import Finding
from labtui.machine.doctor.seen import Seen
from labtui.machine.reading import Gpu, Reading
from labtui.machine.topology import Topology


def nodes(root: Path, *cpus: str) -> Path:
    for number, listed in enumerate(cpus):
        folder = root / f"sys/devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{listed}\n")
    return root


def seen(*near: tuple[str | None, str | None]) -> Seen:
    """GPUs with the CPUs near each and its node."""
    indices = tuple(range(len(near)))
    topology = Topology(indices, cpu_affinity=tuple(c for c, _ in near), numa_affinity=tuple(n for _, n in near))
    return Seen(tuple(map(Gpu, indices)), tuple(map(Reading, indices)), topology, used=frozenset(indices))


TWO = (("0-31,64-95", "0"), ("0-31,64-95", "0"), ("32-63,96-127", "1"))


def told(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


def test_gpus_and_their_nodes(tmp_path: Path) -> None:
    nodes(tmp_path, "0-31,64-95", "32-63,96-127")
    finding = told(numa.affinity(seen(*TWO), tmp_path, set(range(128))))
    assert (finding.level, finding.found) == ("ok", "2 nodes; GPU 0 and 1 at node 0 and GPU 2 at node 1")


@pytest.mark.parametrize("allowed", [set(range(32)), {0}, {95, 64}])
def test_gpus_with_no_cpu_near_that_runs_may_use(tmp_path: Path, allowed: set[int]) -> None:
    nodes(tmp_path, "0-31,64-95", "32-63,96-127")
    finding = told(numa.affinity(seen(*TWO), tmp_path, allowed))
    assert finding.level == "warn" and finding.found.endswith("runs may use no CPU near GPU 2")


def test_a_firmware_that_does_not_tell(tmp_path: Path) -> None:
    nodes(tmp_path, "0-7", "8-15")
    finding = told(numa.affinity(seen(("0-15", None), ("0-15", None)), tmp_path, set(range(16))))
    assert finding.level == "note" and "no node that is told" in finding.found


def test_a_kernel_that_moves_memory(tmp_path: Path) -> None:
    nodes(tmp_path, "0-31,64-95", "32-63,96-127")
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/numa_balancing").write_text("1\n")
    finding = told(numa.affinity(seen(*TWO), tmp_path, set(range(128))))
    assert finding.level == "note" and "numa_balancing" in finding.found


def test_one_node_or_no_gpu_is_nothing_to_speak_of(tmp_path: Path) -> None:
    assert numa.affinity(Seen(), nodes(tmp_path / "two", "0-7", "8-15")) is None
    assert numa.affinity(seen(("0-7", "0")), nodes(tmp_path / "one", "0-7")) is None
    assert numa.affinity(seen(("0-7", "0")), tmp_path / "none") is None
