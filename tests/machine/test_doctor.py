"""The doctor as a whole, on machines that are made up: folders that look like /proc, /sys, /etc and /dev."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from fake_nvml import fixture

from labtui.machine import doctor
from labtui.machine.doctor import Finding, network, pairing, seen, software
from labtui.machine.doctor.software import Nccl, Torch
from labtui.machine.gpu import Unavailable

CHECKOUT = Path(__file__).resolve().parents[2]
fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml

TORCH = Torch(True, "2.8.0+cu128", "12.8", None, True, Nccl("2.27.3", {"nvidia-nccl-cu12": "2.27.3"}, "2.27.3"))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def a_machine(root: Path, gpus: int = 0) -> Path:
    (root / "dev/shm").mkdir(parents=True)
    for number in range(gpus):
        (root / f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0").mkdir(parents=True)
    write(root / "proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    return root


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    findings = list(findings)
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: finding for finding in findings}


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(root: Path) -> None:
        raise Unavailable("no NVIDIA driver is installed (libnvidia-ml.so.1 is missing)")

    monkeypatch.setattr("labtui.machine.gpus.open_library", refuse)


@pytest.fixture(autouse=True)
def host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name server is asked."""
    monkeypatch.setattr(network, "host_name", lambda environ: Finding("host name", "ok", "lab is 192.0.2.7"))


@pytest.mark.usefixtures("no_nvml")
def test_a_healthy_machine_without_a_gpu(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    found = by_name(doctor.examine(logs, {"PATH": ""}, a_machine(tmp_path / "root")))
    assert found["devices"].level == "note"
    assert "CPU" in found["devices"].why
    for name in ("system", "Python", "ports", "log-out", "logs", "environment"):
        assert found[name].level == "ok", found[name]
    assert not any(finding.level == "fail" for finding in found.values() if finding.name not in ("torch", "disk"))
    assert not {"driver", "CUDA", "NCCL", "known faults", "GPU health", "peer access", "IOMMU", "NUMA"} & set(found)
    assert list(logs.iterdir()) == [], "it leaves nothing behind"


@pytest.mark.usefixtures("no_nvml")
def test_whatever_needs_doing_says_how(tmp_path: Path) -> None:
    root = a_machine(tmp_path / "root", gpus=2)
    write(root / "proc/sys/net/ipv4/ip_local_port_range", "40000 40010")
    (root / "run/systemd/system").mkdir(parents=True)
    write(root / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n")
    environ = {"PATH": "", "CUDA_VISIBLE_DEVICES": "", "TORCH_DISTRIBUTED_DEBUG": "detail"}
    findings = doctor.examine(tmp_path / "missing" / "logs", environ, root)
    warned = [finding for finding in findings if finding.level in ("warn", "fail")]
    assert {"driver", "devices", "ports", "log-out", "TORCH_DISTRIBUTED_DEBUG"} <= {finding.name for finding in warned}
    assert all(finding.found and finding.why and finding.advice for finding in warned)
    assert all("\n" not in finding.found for finding in findings)


@pytest.mark.usefixtures("no_nvml")
def test_without_a_logs_folder_nothing_is_said_about_one(tmp_path: Path) -> None:
    found = by_name(doctor.examine(None, {"PATH": ""}, a_machine(tmp_path)))
    assert "logs" not in found and "disk" not in found


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from labtui.machine import doctor; found = doctor.examine()\n"
        "loaded = {'torch', 'textual', 'rich', 'asyncio', 'psutil', 'sqlite3'} & set(sys.modules)\n"
        "print(len(found) > 10, sorted(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert done.stdout.split() == ["True", "[]"]


# With GPUs ----------------------------------------------------------------------------------------------------------


def test_eight_healthy_gpus_need_nothing(
    fake_nvml: fixture.FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software, "installed", lambda root: TORCH)
    fake_nvml.script("gpus 8", "driver 580.95.05", "cuda 13000", "gpu * name NVIDIA H100 80GB HBM3", "gpu * throttle 1")
    found = by_name(doctor.examine(None, {"PATH": ""}, a_machine(tmp_path / "root", gpus=8)))
    told = {
        "driver": "580.95.05, runs CUDA up to 13.0",
        "devices": "8 x NVIDIA H100 80GB HBM3",
        "torch": "2.8.0+cu128, built for CUDA 12.8",
        "CUDA": "torch needs 12.8; driver 580.95.05 runs up to 13.0",
        "NCCL": "2.27.3, of nvidia-nccl-cu12 2.27.3",
        "GPU health": "8 GPUs, and each answers",
        "GPU processes": "nobody else is on the GPUs",
        "persistence": "on",
        "clocks": "nothing holds them back now",
        "peer access": "allowed between all pairs",
        "IOMMU": "off",
    }
    assert {name: found[name].found for name in told} == told
    assert {found[name].level for name in told} == {"ok"}
    assert found["known faults"].found.startswith(
        "none known for torch 2.8.0+cu128, CUDA 12.8, NCCL 2.27.3, driver 580.95.05, as of "
    )


def test_a_machine_with_many_troubles(
    fake_nvml: fixture.FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software, "installed", lambda root: TORCH)
    fake_nvml.script(
        "gpus 4",
        "driver 470.57.02",
        "cuda 11040",
        "topology pcie",
        "gpu * name NVIDIA RTX A6000",
        "gpu 0 throttle 0x48",
        "gpu 1 persistence 0",
        "gpu 1 ecc_uncorrected 2",
        "gpu 2 proc 999999999 C 4000",
        "gpu 2 pcie_width 4",
        "lost 3 0",
    )
    root = a_machine(tmp_path / "root", gpus=4)
    (root / "proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
    (root / "sys/kernel/iommu_groups/7").mkdir(parents=True)
    found = by_name(doctor.examine(None, {"PATH": "", "NCCL_P2P_DISABLE": "1"}, root))
    levels = {
        "CUDA": "fail",
        "GPU health": "fail",
        "GPU memory": "warn",
        "persistence": "note",
        "clocks": "warn",
        "GPU processes": "warn",
        "PCIe lanes": "warn",
        "IOMMU": "note",
        "NCCL_P2P_DISABLE": "warn",
    }
    assert {name: found[name].level for name in levels} == levels
    for name in levels:
        assert found[name].found and found[name].why, name
    assert "GPU 3: GPU is lost" in found["GPU health"].found
    assert "GPU 1: 2 errors" in found["GPU memory"].found
    assert found["GPU processes"].found == "1 process outside this namespace on GPU 2"
    assert found["PCIe lanes"].found == "GPU 2 has 4 of 16 lanes"


def test_a_gpu_that_hangs_holds_up_nothing(
    fake_nvml: fixture.FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "READING_S", 0.2)
    fake_nvml.script("gpus 2", "hang nvmlDeviceGetUtilizationRates 1 0 99")
    found = by_name(doctor.examine(None, {"PATH": ""}, a_machine(tmp_path / "root", gpus=2)))
    fake_nvml.tick(100)
    assert found["GPU health"].level == "warn"
    assert found["GPU health"].found.startswith("GPU 1: the driver has not answered")
    assert found["persistence"].level == "ok", "what it is, it told before"


def test_a_driver_that_does_not_open_is_not_waited_for(
    fake_nvml: fixture.FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "OPENING_S", 0.2)
    fake_nvml.script("gpus 2", "hang nvmlInit * 0 99")
    found = by_name(doctor.examine(None, {"PATH": ""}, a_machine(tmp_path / "root", gpus=2)))
    fake_nvml.tick(100)
    assert (found["driver"].level, found["driver"].found) == ("warn", "2 NVIDIA GPUs, and NVML did not open in time")
    assert "GPU health" not in found


@pytest.mark.parametrize(
    ("environ", "used"),
    [
        ({}, {0, 1, 2}),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, {0, 2}),
        ({"CUDA_VISIBLE_DEVICES": "1"}, {1}),
        ({"CUDA_VISIBLE_DEVICES": ""}, set()),
    ],
)
def test_which_gpus_runs_would_use(
    fake_nvml: fixture.FakeNvml, tmp_path: Path, environ: dict[str, str], used: set[int]
) -> None:
    fake_nvml.script("gpus 3", "lost 1 0", "cuda 12080")
    machine = seen.take(seen.begin(environ, tmp_path), environ, tmp_path)
    assert (machine.used, machine.cuda, machine.count) == (used, (12, 8), 3)
    assert machine.silent() == {1: "GPU is lost"}


def test_what_the_table_of_known_faults_is_asked(fake_nvml: fixture.FakeNvml, tmp_path: Path) -> None:
    fake_nvml.script(
        "gpus 2", "driver 560.35.03", "cuda 12060", "gpu * cc_major 8", "gpu * cc_minor 9", "topology pcie"
    )
    machine = seen.take(seen.begin({}, tmp_path), {}, tmp_path)
    pair = pairing(TORCH, machine, tmp_path)
    assert (pair.torch, pair.official, pair.cuda, pair.nccl) == ((2, 8, 0), True, (12, 8), (2, 27, 3))
    assert (pair.driver, pair.driver_cuda, pair.capabilities) == ((560, 35, 3), (12, 6), {(8, 9)})
    assert pair.said == "torch 2.8.0+cu128, CUDA 12.8, NCCL 2.27.3, driver 560.35.03"
    assert not pair.contained
