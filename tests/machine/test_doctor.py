"""The doctor, on machines that are made up: a few folders that look like /proc, /etc and /dev."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from labtui.machine import doctor
from labtui.machine.doctor import Finding

CHECKOUT = Path(__file__).resolve().parents[2]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def a_machine(root: Path, gpus: int = 0) -> Path:
    (root / "dev/shm").mkdir(parents=True)
    for number in range(gpus):
        (root / f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0").mkdir(parents=True)
    write(root / "proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    return root


def by_name(findings: tuple[Finding, ...] | list[Finding]) -> dict[str, Finding]:
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: finding for finding in findings}


def test_a_healthy_machine_without_a_gpu(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    found = by_name(doctor.examine(logs, {"PATH": ""}, a_machine(tmp_path / "root")))
    assert found["devices"].level == "note"
    assert "CPU" in found["devices"].why
    for name in ("system", "Python", "ports", "log-out", "logs", "environment"):
        assert found[name].level == "ok", found[name]
    assert not any(finding.level == "fail" for finding in found.values() if finding.name not in ("torch", "disk"))
    assert list(logs.iterdir()) == [], "it leaves nothing behind"


def test_whatever_needs_doing_says_how(tmp_path: Path) -> None:
    root = a_machine(tmp_path / "root", gpus=2)
    write(root / "proc/sys/net/ipv4/ip_local_port_range", "40000 40010")
    (root / "run/systemd/system").mkdir(parents=True)
    write(root / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n")
    environ = {"PATH": "", "CUDA_VISIBLE_DEVICES": "", "TORCH_DISTRIBUTED_DEBUG": "detail"}
    findings = doctor.examine(tmp_path / "missing" / "logs", environ, root)
    warned = [finding for finding in findings if finding.level in ("warn", "fail")]
    assert {"devices", "ports", "log-out", "TORCH_DISTRIBUTED_DEBUG"} <= {finding.name for finding in warned}
    assert all(finding.found and finding.why and finding.advice for finding in warned)
    assert all("\n" not in finding.found for finding in findings)


def test_without_a_logs_folder_nothing_is_said_about_one(tmp_path: Path) -> None:
    found = by_name(doctor.examine(None, {"PATH": ""}, a_machine(tmp_path)))
    assert "logs" not in found and "disk" not in found


def test_oldest_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    (torch,) = (line for line in project["dependencies"] if line.startswith("torch"))
    assert torch == f"torch>={'.'.join(map(str, doctor.OLDEST_TORCH))}"
    assert project["requires-python"] == f">={'.'.join(map(str, doctor.OLDEST_PYTHON))}"


@pytest.mark.parametrize(
    ("there", "version", "gpus", "level"),
    [
        (False, None, 0, "fail"),
        (True, "2.13.0+cpu", 0, "ok"),
        (True, "2.13.0+cpu", 2, "warn"),
        (True, "2.13.0", 2, "ok"),
        (True, "3.0.0+cu140", 2, "ok"),
        (True, "2.5.1+cu124", 2, "note"),
        (True, None, 0, "note"),
    ],
)
def test_torch(there: bool, version: str | None, gpus: int, level: str) -> None:
    assert doctor.torch(there, version, gpus).level == level


def test_missing_torch_says_what_to_install_and_what_works_without() -> None:
    finding = doctor.torch(False, None, 0)
    assert "pip install torch" in finding.advice
    assert "looking at runs works" in finding.why


def test_torch_is_found_without_being_imported() -> None:
    code = (
        "import sys; from labtui.machine import doctor; found = doctor.examine()\n"
        "loaded = {'torch', 'textual', 'rich', 'asyncio', 'psutil', 'pynvml'} & set(sys.modules)\n"
        "print(doctor.installed_torch()[0], sorted(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert done.stdout.split()[1:] == ["[]"]


def test_other_systems_and_old_pythons_fail() -> None:
    assert doctor.system("darwin").level == "fail"
    assert doctor.python((3, 10, 12)).level == "fail"
    assert doctor.python((3, 11, 0)).level == "ok"


def test_hidden_gpus_are_named(tmp_path: Path) -> None:
    root = a_machine(tmp_path, gpus=4)
    assert doctor.devices({}, root) == Finding("devices", "ok", "4 GPUs")
    some = doctor.devices({"CUDA_VISIBLE_DEVICES": "2,3"}, root)
    assert (some.level, some.found) == ("note", "2 of 4 GPUs, CUDA_VISIBLE_DEVICES=2,3")
    assert doctor.devices({"CUDA_VISIBLE_DEVICES": "-1"}, root).level == "warn"


def a_file_system(monkeypatch: pytest.MonkeyPatch, size: float, free: float, free_files: int = 10**6) -> None:
    block = 4096
    blocks, left = int(size / block), int(free / block)
    values = os.statvfs_result((block, block, blocks, left, left, 10**6, free_files, free_files, 0, 255))
    monkeypatch.setattr(doctor.os, "statvfs", lambda path: values)


@pytest.mark.parametrize(
    ("size", "free", "level"), [(64 << 20, 64 << 20, "warn"), (64e9, 60e9, "ok"), (64e9, 1e6, "warn")]
)
def test_shared_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: float, free: float, level: str) -> None:
    a_file_system(monkeypatch, size, free)
    assert doctor.shared_memory(tmp_path).level == level


def test_no_shared_memory_at_all(tmp_path: Path) -> None:
    finding = doctor.shared_memory(tmp_path)
    assert finding.level == "warn" and "No such file" in finding.found


@pytest.mark.parametrize(
    ("free", "files", "level"), [(50e9, 10**6, "ok"), (1e9, 10**6, "warn"), (1e6, 10**6, "fail"), (50e9, 3, "warn")]
)
def test_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: float, files: int, level: str) -> None:
    a_file_system(monkeypatch, 100e9, free, files)
    assert doctor.disk(tmp_path).level == level


@pytest.mark.parametrize(("limit", "level"), [(256, "warn"), (1024, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_open_files(limit: int, level: str) -> None:
    assert doctor.open_files(limit).level == level


def test_no_port_can_be_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Refusing:
        def __enter__(self) -> Refusing:
            return self

        def __exit__(self, *_: object) -> None: ...

        def bind(self, address: object) -> None:
            raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(doctor.socket, "socket", Refusing)
    finding = doctor.ports(tmp_path)
    assert finding.level == "fail" and "Cannot assign" in finding.found


def test_an_unreadable_port_range_is_no_fault(tmp_path: Path) -> None:
    assert doctor.ports(tmp_path).level == "ok"


def test_log_out(tmp_path: Path) -> None:
    assert doctor.log_out("ann", tmp_path).level == "ok", "no systemd"
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert doctor.log_out("ann", tmp_path).level == "note", "systemd, but no word about it"
    write(tmp_path / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\n")
    assert doctor.log_out("ann", tmp_path).level == "ok"
    write(tmp_path / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n")
    warned = doctor.log_out("ann", tmp_path)
    assert warned.level == "warn"
    assert "loginctl enable-linger" in warned.advice and "systemd-run --user --scope" in warned.advice
    write(tmp_path / "var/lib/systemd/linger/ann", "")
    assert "enable-linger" not in doctor.log_out("ann", tmp_path).advice


def test_logs_that_cannot_be_written(tmp_path: Path) -> None:
    write(tmp_path / "file", "")
    finding = doctor.writable(tmp_path / "file")
    assert finding.level == "fail" and "LABTUI_LOGS" in finding.advice
    assert doctor.writable(tmp_path / "file" / "logs").level == "fail"
    missing = doctor.writable(tmp_path / "a" / "b")
    assert missing.level == "ok" and "will make" in missing.found
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_logs_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert doctor.writable(tmp_path / "logs").level == "fail"


def test_leftover_variables_are_listed_and_secrets_masked() -> None:
    environ = {
        "NCCL_DEBUG": "INFO",
        "PET_NPROC_PER_NODE": "4",
        "TORCH_HUB_TOKEN": "hf_x",
        "GLOO_X": "a\x1b[31m",
        "A": "b",
    }
    (finding,) = doctor.inherited(environ)
    assert finding.level == "note"
    assert finding.found == r"GLOO_X='a\x1b[31m', NCCL_DEBUG=INFO, PET_NPROC_PER_NODE=4, TORCH_HUB_TOKEN=***"


@pytest.mark.parametrize(("value", "warned"), [("DETAIL", True), ("detail", True), ("INFO", False), ("", False)])
def test_detailed_debugging_is_warned_of(value: str, warned: bool) -> None:
    found = by_name(doctor.inherited({"TORCH_DISTRIBUTED_DEBUG": value}))
    assert ("TORCH_DISTRIBUTED_DEBUG" in found) is warned


def test_tools_are_looked_for_on_the_given_path(tmp_path: Path) -> None:
    assert [finding.level for finding in doctor.tools({"PATH": ""})] == ["note", "note"]
    for name in ("tmux", "py-spy"):
        write(tmp_path / "bin" / name, "#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    found = doctor.tools({"PATH": str(tmp_path / "bin")}, tmp_path)
    assert [finding.level for finding in found] == ["ok", "ok"]


def test_py_spy_that_may_not_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "bin/py-spy", "#!/bin/sh\n")
    (tmp_path / "bin/py-spy").chmod(0o755)
    write(tmp_path / "proc/sys/kernel/yama/ptrace_scope", "1\n")
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    finding = by_name(doctor.tools({"PATH": str(tmp_path / "bin")}, tmp_path))["py-spy"]
    assert finding.level == "note" and re.search(r"ptrace_scope = 1", finding.found)
