"""What labtui itself stands on: the system, Python, tools beside it, and whether runs outlive a log-out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from labtui.machine import logind
from labtui.machine.doctor.finding import Finding
from labtui.machine.host import ROOT, read_text

OLDEST_PYTHON = (3, 11)
"""As pyproject.toml says."""


def system(platform: str = sys.platform) -> Finding:
    if platform.startswith("linux"):
        kernel = os.uname()
        return Finding("system", "ok", f"Linux {kernel.release}, {kernel.machine}")
    return Finding(
        "system",
        "fail",
        platform,
        "labtui reads /proc and ends processes by Linux's own means",
        "run it on the Linux machine that trains",
    )


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    found = f"{'.'.join(map(str, version))}, {sys.executable}"
    if version >= OLDEST_PYTHON:
        return Finding("Python", "ok", found)
    return Finding("Python", "fail", found, "labtui needs Python 3.11 or newer", "make lab PYTHON=python3.11")


def log_out(user: str, root: Path = ROOT, uid: int | None = None) -> Finding:
    """Whether runs of `user` (whose number is `uid`, default: ours) outlive an SSH session that ends."""
    why = "a run goes on when the SSH session that started it drops, unless the system ends it"
    uid = os.getuid() if uid is None else uid
    if not logind.runs(root):
        return Finding("log-out", "ok", "systemd does not run here: nothing ends processes at log-out", why)
    kills = logind.kills_at_logout(user, root)
    if kills is None:
        return Finding("log-out", "note", "logind's KillUserProcesses is not known", why)
    lingers = logind.lingers(user, root)
    if kills:
        linger = "" if lingers else "loginctl enable-linger; then "
        return Finding(
            "log-out",
            "warn",
            f"logind ends the processes of {user} at log-out (KillUserProcesses=yes), runs too",
            why,
            f"{linger}start labtui by: systemd-run --user --scope labtui",
        )
    if logind.removes_ipc(uid, root) and not lingers:
        return Finding(
            "log-out",
            "note",
            f"logind leaves the processes of {user} alone, but deletes their files in /dev/shm (RemoveIPC)",
            "a run that just sets up NCCL or DataLoader workers when the last session closes may fail for it",
            "loginctl enable-linger",
        )
    return Finding("log-out", "ok", f"logind leaves the processes of {user} alone (KillUserProcesses)", why)


def tools(environ: Mapping[str, str], root: Path = ROOT) -> list[Finding]:
    """Programs that labtui does without, and is better with."""
    path = environ.get("PATH", os.defpath)
    tmux = shutil.which("tmux", path=path)
    py_spy = shutil.which("py-spy", path=path)
    findings = [
        Finding("tmux", "ok" if tmux else "note", tmux or "not installed", "keeps the TUI itself open when SSH drops")
    ]
    why = "shows the Python stacks of ranks that can't write them themselves"
    scope = (read_text(root / "proc/sys/kernel/yama/ptrace_scope") or "0").strip()
    if py_spy and scope != "0" and os.geteuid() != 0:
        found = f"{py_spy}, but it may not look into other processes (kernel.yama.ptrace_scope = {scope})"
        findings.append(Finding("py-spy", "note", found, why, "sysctl kernel.yama.ptrace_scope=0, as root"))
    else:
        advice = "" if py_spy else "pip install py-spy"
        findings.append(Finding("py-spy", "ok" if py_spy else "note", py_spy or "not installed", why, advice))
    return findings


def user_name(environ: Mapping[str, str]) -> str:
    """The user's name, as logind knows it."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return environ.get("USER", str(os.getuid()))
