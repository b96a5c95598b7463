"""Ceilings of links, and the GPUs' figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import hardware


@pytest.mark.parametrize(
    ("generation", "width", "gb_per_s"),
    [(1, 16, 4.0), (2, 16, 8.0), (3, 16, 15.754), (3, 8, 7.877), (4, 16, 31.508), (5, 16, 63.015), (6, 16, 118.0)],
)
def test_pcie(generation: int, width: int, gb_per_s: float) -> None:
    found = hardware.pcie(generation, width)
    assert found is not None
    assert found.gb_per_s == pytest.approx(gb_per_s, abs=0.001)
    assert found.what == f"PCIe {generation}.0 x{width}"
    assert "Base Specification" in found.source


@pytest.mark.parametrize(("generation", "width"), [(0, 16), (9, 16), (4, 0), (4, -1), (4, 64)])
def test_no_such_pcie(generation: int, width: int) -> None:
    assert hardware.pcie(generation, width) is None


@pytest.mark.parametrize(
    ("links", "generation", "told", "gb_per_s"),
    [
        (12, 3, None, 300),
        (18, 4, None, 450),
        (18, 4, 26.562, 450),
        (18, 5, 53.125, 900),
        (8, 4, 26.562, 200),
        (4, 3, 14.062, 56.248),
        (4, None, 14.062, 56.248),
        (6, 2, 25.781, 150),
    ],
)
def test_nvlink(links: int, generation: int | None, told: float | None, gb_per_s: float) -> None:
    found = hardware.nvlink(links, generation, told)
    assert found is not None and found.gb_per_s == pytest.approx(gb_per_s)
    assert found.source


def test_nvlinks_of_which_nothing_is_known() -> None:
    assert hardware.nvlink(18, None) is None
    assert hardware.nvlink(18, 99) is None
    assert hardware.nvlink(0, 4) is None
    assert hardware.nvlink(18, None, 0.0) is None


def test_what_a_number_of_nvlinks_may_be() -> None:
    assert [each.gb_per_s for each in hardware.nvlink_candidates(18)] == [450, 900]
    assert [each.what for each in hardware.nvlink_candidates(12)] == [f"12 x NVLink {n}" for n in (3, 4, 5)]
    assert hardware.nvlink_candidates(99) == []


@given(st.integers(-5, 40), st.integers(-1, 9) | st.none(), st.floats(allow_nan=True) | st.none())
def test_a_ceiling_is_positive_and_has_a_source(links: int, generation: int | None, told: float | None) -> None:
    found = hardware.nvlink(links, generation, told)
    assert found is None or (found.gb_per_s > 0 and found.source and found.what)


# The reference's figures for whole links: pcie4_x16 31, pcie5_x16 63, nvlink3 300, nvlink4 450, nvlink5 900.
@pytest.mark.parametrize(
    ("ceiling", "published"),
    [
        (hardware.pcie(4, 16), 31),
        (hardware.pcie(5, 16), 63),
        (hardware.nvlink(12, 3), 300),
        (hardware.nvlink(18, 4), 450),
        (hardware.nvlink(18, 5), 900),
    ],
)
def test_ceilings_are_the_published_ones(ceiling: hardware.Ceiling, published: float) -> None:
    assert ceiling.gb_per_s == pytest.approx(published, rel=0.02)


def test_the_gpus_own_links_agree_with_the_tables_of_links() -> None:
    links = {hardware.pcie(4, 16), hardware.pcie(5, 16), hardware.nvlink(12, 3), hardware.nvlink(18, 4)}
    links |= {hardware.nvlink(18, 5), hardware.nvlink(8, 4)}
    for gpu in hardware.GPUS:
        if gpu.name != "MI300X":  # xGMI is in no table here
            assert any(link and link.gb_per_s == pytest.approx(gpu.link_gb_per_s, rel=0.02) for link in links), gpu.name


def test_every_gpu_has_a_source_and_figures() -> None:
    assert len({gpu.name for gpu in hardware.GPUS}) == len(hardware.GPUS) == 14
    for gpu in hardware.GPUS:
        assert min(gpu.bf16_tflops, gpu.memory_gb, gpu.memory_tb_per_s, gpu.link_gb_per_s) > 0
        assert gpu.source and gpu.status in (hardware.PUBLISHED, hardware.UNVERIFIED)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("RTX 4080", "RTX 4080"),
        ("h100 sxm", "H100 SXM"),
    ],
)
def test_finds_a_gpu_by_its_drivers_name(told: str, name: str) -> None:
    found = hardware.gpu_model(told)
    assert found is not None and found.name == name


@pytest.mark.parametrize(
    "told",
    [
        "",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4080 SUPER",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA RTX 6000 Ada Generation",
        "Tesla T4",
    ],
)
def test_relatives_are_other_gpus(told: str) -> None:
    assert hardware.gpu_model(told) is None
