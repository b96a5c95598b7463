"""IOMMU and ACS, in /sys trees that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.machine.doctor import pci
from labtui.machine.doctor.finding import Finding
from labtui.machine.doctor.seen import Seen
from labtui.machine.reading import Gpu, Reading

BUS_IDS = ("00000000:1B:00.0", "00000000:3D:00.0")
ROOT_PORT, UPSTREAM, DOWNSTREAM = "0000:18:01.0", "0000:19:00.0", "0000:1a:{:02x}.0"


def seen(count: int = 2) -> Seen:
    gpus = tuple(Gpu(index, bus_id=BUS_IDS[index], name="NVIDIA L40S") for index in range(count))
    return Seen(gpus, tuple(Reading(index) for index in range(count)), used=frozenset(range(count)))


def config(control: int | None, size: int = 4096) -> bytes:
    """A PCIe configuration space: AER first, then ACS with this control register, or none."""
    data = bytearray(4096)
    data[0x100:0x104] = (0x0001 | 2 << 16 | (0x148 if control is not None else 0) << 20).to_bytes(4, "little")
    if control is not None:
        data[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        data[0x14E:0x150] = control.to_bytes(2, "little")
    return bytes(data[:size])


def behind_a_switch(root: Path, *configs: bytes) -> Path:
    """Two GPUs below the downstream ports of one switch; a configuration space for each port."""
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    upstream = root / "sys/devices/pci0000:18" / ROOT_PORT / UPSTREAM
    for number, (bus_id, data) in enumerate(zip(BUS_IDS, configs, strict=True)):
        address = bus_id[4:].lower()
        gpu = upstream / DOWNSTREAM.format(number) / address
        gpu.mkdir(parents=True)
        (devices / address).symlink_to(gpu)
        (devices / DOWNSTREAM.format(number)).symlink_to(gpu.parent)
        (gpu.parent / "config").write_bytes(data)
    (devices / UPSTREAM).symlink_to(upstream)
    (upstream / "config").write_bytes(config(None))
    return root


def groups(root: Path, *kinds: str | None) -> Path:
    for bus_id, kind in zip(BUS_IDS, kinds, strict=False):
        group = root / "sys/kernel/iommu_groups" / bus_id[9:11]
        group.mkdir(parents=True)
        if kind is not None:
            (group / "type").write_text(f"{kind}\n")
        device = root / "sys/bus/pci/devices" / bus_id[4:].lower()
        device.mkdir(parents=True)
        (device / "iommu_group").symlink_to(group)
    return root


def told(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


# IOMMU --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "level", "words"),
    [
        (("DMA-FQ", "DMA-FQ"), "warn", "translates: DMA-FQ for GPU 0 and 1"),
        (("identity", "DMA"), "warn", "identity for GPU 0 and DMA for GPU 1"),
        (("identity", "identity"), "ok", "untranslated (identity)"),
        ((None, None), "note", "isn't told"),
        ((), "ok", "off"),
    ],
)
def test_an_iommu_that_translates(tmp_path: Path, kinds: tuple[str | None, ...], level: str, words: str) -> None:
    finding = told(pci.iommu(seen(), [], groups(tmp_path, *kinds)))
    assert finding.level == level and words in finding.found
    assert ("iommu=pt" in finding.advice) == (level == "warn")


def test_what_the_kernel_was_started_with_is_shown(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("root=/dev/sda1 quiet intel_iommu=on iommu.passthrough=0 noiommu_like=1\n")
    finding = told(pci.iommu(seen(), [], groups(tmp_path, "DMA", "DMA")))
    assert finding.found.endswith("the kernel was started with intel_iommu=on and iommu.passthrough=0")


def test_an_iommu_matters_where_devices_talk_to_each_other(tmp_path: Path) -> None:
    groups(tmp_path, "DMA", "DMA")
    assert pci.iommu(seen(1), [], tmp_path) is None
    assert told(pci.iommu(seen(1), ["mlx5_0"], tmp_path)).level == "warn"
    assert pci.iommu(Seen(), ["mlx5_0"], tmp_path) is None


def test_a_virtual_machine_does_not_see_its_hosts_iommu(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("model name\t: Xeon\nflags\t\t: fpu sse2 hypervisor avx\n")
    assert "virtual machine" in told(pci.iommu(seen(), [], tmp_path)).found


# ACS ----------------------------------------------------------------------------------------------------------------


def test_a_switch_with_acs(tmp_path: Path) -> None:
    finding = told(pci.acs(seen(), behind_a_switch(tmp_path, config(0x1D), config(0))))
    assert (finding.level, finding.found) == (
        "warn",
        "on at 0000:1a:00.0, of 3 ports of PCIe switches above the GPUs",
    )
    assert "setpci" in finding.advice


def test_a_switch_without_acs(tmp_path: Path) -> None:
    finding = told(pci.acs(seen(), behind_a_switch(tmp_path, config(0), config(None))))
    assert (finding.level, finding.found) == ("ok", "off at 3 ports of PCIe switches above the GPUs")


def test_what_only_root_may_see_is_not_guessed(tmp_path: Path) -> None:
    finding = told(pci.acs(seen(), behind_a_switch(tmp_path, config(0x1D, size=64), config(0x1D, size=64))))
    assert finding.level == "note" and "only root" in finding.found and "lspci" in finding.advice


def test_a_virtual_machine_needs_acs(tmp_path: Path) -> None:
    behind_a_switch(tmp_path, config(0x1D), config(0x1D))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("flags\t\t: fpu hypervisor\n")
    assert "ATS" in told(pci.acs(seen(), tmp_path)).advice


def test_without_a_switch_there_is_no_acs_to_speak_of(tmp_path: Path) -> None:
    assert pci.acs(seen(), tmp_path) is None
    assert pci.acs(seen(1), behind_a_switch(tmp_path, config(0x1D), config(0x1D))) is None


@pytest.mark.parametrize("data", [b"", b"\xff" * 4096, bytes(4096), config(None)[:0x104] + b"\x01"])
def test_any_configuration_space_is_read_to_its_end(tmp_path: Path, data: bytes) -> None:
    assert told(pci.acs(seen(), behind_a_switch(tmp_path, data, data))).level in ("ok", "note")
