"""The table of known faults: each entry has a source, fits what it describes, and nothing beside it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from labtui.machine.doctor.known import KNOWN_BAD, Pairing, faults

H100, RTX_5090, V100, P100, B200 = (9, 0), (12, 0), (7, 0), (6, 0), (10, 0)
HEALTHY = Pairing(
    said="torch 2.9.0",
    torch=(2, 9, 0),
    official=True,
    cuda=(13, 0),
    nccl=(2, 28, 9),
    driver=(580, 95, 5),
    driver_cuda=(13, 0),
    capabilities=frozenset({H100}),
    peers=True,
)


def gpus(*capabilities: tuple[int, int]) -> frozenset[tuple[int, ...]]:
    return frozenset(capabilities)


FITTING = {
    "Blackwell GPUs and torch": replace(HEALTHY, torch=(2, 6, 0), cuda=(12, 6), capabilities=gpus(B200)),
    "older GPUs and CUDA 13": replace(HEALTHY, capabilities=gpus(V100, H100)),
    "older GPUs and torch": replace(HEALTHY, torch=(2, 8, 0), cuda=(12, 8), capabilities=gpus(P100)),
    "torch 2.7.0": replace(HEALTHY, torch=(2, 7, 0)),
    "torch and an old NCCL": replace(HEALTHY, nccl=(2, 12, 10)),
    "RTX 50 and NCCL 2.25": replace(HEALTHY, nccl=(2, 25, 1), capabilities=gpus(RTX_5090)),
    "NCCL 2.25.1": replace(HEALTHY, nccl=(2, 25, 1)),
    "NCCL 2.29.2 on ARM": replace(HEALTHY, nccl=(2, 29, 2), machine="aarch64"),
    "NVLS and driver": replace(HEALTHY, cuda=(12, 6), nccl=(2, 26, 2), driver=(535, 54, 3), driver_cuda=(12, 2)),
    "NCCL in this container": replace(HEALTHY, nccl=(2, 26, 2), contained=True),
    "NCCL without peer access": replace(HEALTHY, driver=(570, 86, 10), driver_cuda=(12, 8), peers=False),
    "NCCL and ulimit -s": replace(HEALTHY, nccl=(2, 27, 3), unlimited_stack=True),
    "driver 560": replace(HEALTHY, driver=(560, 35, 3), driver_cuda=(12, 6), pcie_peers=True),
}
BESIDE = {
    "Blackwell GPUs and torch": {"cuda": (12, 8)},
    "older GPUs and CUDA 13": {"cuda": (12, 6)},
    "older GPUs and torch": {"capabilities": gpus(V100)},
    "torch 2.7.0": {"torch": (2, 7, 1)},
    "torch and an old NCCL": {"nccl": (2, 13, 4)},
    "RTX 50 and NCCL 2.25": {"nccl": (2, 26, 2)},
    "NCCL 2.25.1": {"nccl": (2, 26, 2)},
    "NCCL 2.29.2 on ARM": {"machine": "x86_64"},
    "NVLS and driver": {"nccl": (2, 26, 5)},
    "NCCL in this container": {"contained": False},
    "NCCL without peer access": {"driver_cuda": (13, 0)},
    "NCCL and ulimit -s": {"nccl": (2, 28, 3)},
    "driver 560": {"driver": (570, 86, 10)},
}
"""What takes each of them away."""


def test_every_entry_has_a_source_and_says_what_to_do() -> None:
    assert len({known.name for known in KNOWN_BAD}) == len(KNOWN_BAD)
    for known in KNOWN_BAD:
        assert re.search(r"issue \d+|pull request \d+|user guide|release notes", known.source), known.name
        assert known.why and known.advice and known.level in ("warn", "fail")


def test_every_entry_is_tried_here() -> None:
    assert {known.name for known in KNOWN_BAD} == set(FITTING) == set(BESIDE)


@pytest.mark.parametrize("name", FITTING)
def test_an_entry_fits_what_it_describes_and_not_what_is_beside(name: str) -> None:
    assert name in {finding.name for finding in faults(FITTING[name])}
    assert name not in {finding.name for finding in faults(replace(FITTING[name], **BESIDE[name]))}


def test_a_fault_is_told_with_its_source() -> None:
    (finding,) = faults(replace(FITTING["torch 2.7.0"], said="torch 2.7.0+cu128"))
    assert (finding.level, finding.found) == ("warn", "torch 2.7.0+cu128")
    assert finding.why.endswith("(pytorch issue 153960)")
    assert "2.7.1" in finding.advice


def test_where_none_fits_that_is_said() -> None:
    (finding,) = faults(HEALTHY)
    assert (finding.name, finding.level) == ("known faults", "ok")
    assert finding.found.startswith("none known for torch 2.9.0, as of ")


def test_what_is_not_known_fits_nothing() -> None:
    (finding,) = faults(Pairing())
    assert finding.level == "ok"


def test_a_build_of_somebodys_own_may_hold_more() -> None:
    own = replace(FITTING["Blackwell GPUs and torch"], official=False)
    assert "Blackwell GPUs and torch" not in {finding.name for finding in faults(own)}
