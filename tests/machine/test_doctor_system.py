"""What labtui itself stands on: system, Python, log-out, tools."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from labtui.machine import logind
from labtui.machine.doctor import software, system

CHECKOUT = Path(__file__).resolve().parents[2]
USER = 1000


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_oldest_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    (torch,) = (line for line in project["dependencies"] if line.startswith("torch"))
    assert torch == f"torch>={'.'.join(map(str, software.OLDEST_TORCH))}"
    assert project["requires-python"] == f">={'.'.join(map(str, system.OLDEST_PYTHON))}"


def test_other_systems_and_old_pythons_fail() -> None:
    assert system.system("darwin").level == "fail"
    assert system.python((3, 10, 12)).level == "fail"
    assert system.python((3, 11, 0)).level == "ok"


def test_log_out(tmp_path: Path) -> None:
    assert system.log_out("ann", tmp_path, USER).level == "ok", "no systemd"
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert system.log_out("ann", tmp_path, USER).level == "note", "systemd, but no word about it"
    write(tmp_path / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\n")
    assert system.log_out("ann", tmp_path, USER).level == "ok"
    write(tmp_path / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n")
    warned = system.log_out("ann", tmp_path, USER)
    assert warned.level == "warn"
    assert "loginctl enable-linger" in warned.advice and "systemd-run --user --scope" in warned.advice
    write(tmp_path / "var/lib/systemd/linger/ann", "")
    assert "enable-linger" not in system.log_out("ann", tmp_path, USER).advice


def test_shared_memory_that_goes_at_log_out(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    write(tmp_path / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\n#RemoveIPC=yes\n")
    finding = system.log_out("ann", tmp_path, USER)
    assert finding.level == "note" and "RemoveIPC" in finding.found and "enable-linger" in finding.advice
    assert system.log_out("root", tmp_path, 0).level == "ok", "users of the system keep theirs"
    write(tmp_path / "var/lib/systemd/linger/ann", "")
    assert system.log_out("ann", tmp_path, USER).level == "ok", "who lingers never logs out"


@pytest.mark.parametrize(
    ("setting", "removes"),
    [("RemoveIPC=no", False), ("RemoveIPC=yes", True), ("#RemoveIPC=yes", True), ("NAutoVTs=6", None)],
)
def test_whether_logind_removes_ipc(tmp_path: Path, setting: str, removes: bool | None) -> None:
    write(tmp_path / "etc/systemd/logind.conf", f"[Login]\n{setting}\n")
    assert logind.removes_ipc(USER, tmp_path) is removes
    write(tmp_path / "etc/systemd/logind.conf.d/50.conf", "[Login]\nRemoveIPC=no\n")
    assert logind.removes_ipc(USER, tmp_path) is False, "drop-ins come last"


def test_tools_are_looked_for_on_the_given_path(tmp_path: Path) -> None:
    assert [finding.level for finding in system.tools({"PATH": ""})] == ["note", "note"]
    for name in ("tmux", "py-spy"):
        write(tmp_path / "bin" / name, "#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    found = system.tools({"PATH": str(tmp_path / "bin")}, tmp_path)
    assert [finding.level for finding in found] == ["ok", "ok"]


def test_py_spy_that_may_not_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "bin/py-spy", "#!/bin/sh\n")
    (tmp_path / "bin/py-spy").chmod(0o755)
    write(tmp_path / "proc/sys/kernel/yama/ptrace_scope", "1\n")
    monkeypatch.setattr(system.os, "geteuid", lambda: 1000)
    _, finding = system.tools({"PATH": str(tmp_path / "bin")}, tmp_path)
    assert finding.level == "note" and re.search(r"ptrace_scope = 1", finding.found)
