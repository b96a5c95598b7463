"""The doctor: looks at what a run needs before a run trips over it.

Each finding says what is there, why it matters and what to do. Loads neither torch nor NVML, starts nothing, and
leaves nothing behind. Knows no runs: where their folders lie is told to it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labtui.machine import host, logind
from labtui.machine.host import GB, ROOT, read_text

Level = Literal["ok", "note", "warn", "fail"]

OLDEST_PYTHON, OLDEST_TORCH = (3, 11), (2, 6)
"""As pyproject.toml says; for torch the oldest version that was tried."""
LEAST_SHM = 1e9
LEAST_FILES = 1024
LEAST_PORTS = 1000
LEAST_DISK, LITTLE_DISK = 0.1e9, 2e9

_INHERITED = ("NCCL_", "GLOO_", "TORCH_", "PET_")
_SECRET = re.compile(r"(?i)(^|_)(key|token|secret|passw(or)?d|passwd|pwd|credentials?|auth)($|_)")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    level: Level
    """ok; note: worth knowing; warn: something will go wrong; fail: runs can't start."""
    found: str
    why: str = ""
    """Why it matters."""
    advice: str = ""
    """What to do, where something is to be done."""


def examine(
    logs: Path | None = None, environ: Mapping[str, str] | None = None, root: Path = ROOT
) -> tuple[Finding, ...]:
    """All findings, in the order in which a person would want to read them.

    `logs` is where run folders go (None: not looked at), `environ` what runs would inherit (default: our environment),
    `root` stands for the file system that /proc, /sys, /etc and /dev are read from.
    """
    environ = os.environ if environ is None else environ
    findings = [system(), python(), torch(*installed_torch(), host.gpu_count({}, root)), devices(environ, root)]
    findings += [shared_memory(root), open_files(), ports(root), log_out(_user(environ), root)]
    if logs is not None:
        findings += [writable(logs), disk(logs)]
    findings += [*inherited(environ), *tools(environ, root)]
    return tuple(findings)


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


def installed_torch() -> tuple[bool, str | None]:
    """Whether this interpreter would find torch, and its version; imports nothing of it."""
    try:
        there = importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):
        there = False
    try:
        return there, importlib.metadata.version("torch") if there else None
    except importlib.metadata.PackageNotFoundError:
        return there, None


def torch(there: bool, version: str | None, gpus: int) -> Finding:
    """`gpus` is what the machine has, whatever CUDA_VISIBLE_DEVICES hides."""
    if not there:
        return Finding(
            "torch",
            "fail",
            "not installed for this Python",
            "experiments run on it; looking at runs works without",
            "pip install torch, or name an interpreter that has it: labtui run NAME --python PATH",
        )
    if gpus and version is not None and version.endswith("+cpu"):
        return Finding(
            "torch",
            "warn",
            version,
            f"this build can't use the {_count(gpus, 'GPU')} of this machine",
            "install a CUDA build of torch, or name an interpreter that has one: labtui run NAME --python PATH",
        )
    if version is None:
        return Finding("torch", "note", "installed, of an unknown version")
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        return Finding("torch", "note", version, f"{oldest} is the oldest version that experiments were tried with")
    return Finding("torch", "ok", version)


def devices(environ: Mapping[str, str], root: Path = ROOT) -> Finding:
    present, usable = host.gpu_count({}, root), host.gpu_count(environ, root)
    if not present:
        return Finding("devices", "note", "no NVIDIA GPU", "everything runs on CPU processes")
    if usable < present:
        return Finding(
            "devices",
            "note" if usable else "warn",
            f"{usable} of {_count(present, 'GPU')}, CUDA_VISIBLE_DEVICES={environ.get('CUDA_VISIBLE_DEVICES', '')}",
            "runs use what CUDA_VISIBLE_DEVICES lets them see",
            "" if usable else "unset CUDA_VISIBLE_DEVICES",
        )
    return Finding("devices", "ok", _count(present, "GPU"))


def shared_memory(root: Path = ROOT) -> Finding:
    try:
        shm = os.statvfs(root / "dev/shm")
    except OSError as error:
        found, size, free = f"/dev/shm can't be looked at ({error.strerror})", 0, 0
    else:
        size, free = shm.f_blocks * shm.f_frsize, shm.f_bavail * shm.f_frsize
        found = f"{_size(free)} free of {_size(size)} in /dev/shm"
    why = "NCCL within one machine and DataLoader workers pass their data there"
    if size < LEAST_SHM:
        advice = "in a container: docker run --shm-size=8g, or --ipc=host; else: mount -o remount,size=50% /dev/shm"
        return Finding("shared memory", "warn", found, why, advice)
    if free < LEAST_SHM / 10:
        advice = "something fills it: ls -l /dev/shm (what killed jobs left there may be deleted)"
        return Finding("shared memory", "warn", found, why, advice)
    return Finding("shared memory", "ok", found, why)


def open_files(limit: int | None = None) -> Finding:
    """`limit` is the soft limit (default: ours); runs inherit it."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    unlimited = soft == resource.RLIM_INFINITY
    found = "no limit" if unlimited else f"up to {soft} per process"
    why = "each connection between two ranks, each DataLoader worker and each log is an open file"
    if not unlimited and soft < LEAST_FILES:
        return Finding("open files", "warn", found, why, "ulimit -n 4096, in the shell that starts labtui")
    return Finding("open files", "ok", found, why)


def ports(root: Path = ROOT) -> Finding:
    why = "ranks find each other through a free port of this machine"
    try:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
    except OSError as error:
        return Finding(
            "ports", "fail", f"no port can be opened on 127.0.0.1 ({error.strerror})", why, "ip link set lo up"
        )
    chosen_from = (read_text(root / "proc/sys/net/ipv4/ip_local_port_range") or "").split()
    if len(chosen_from) != 2 or not all(bound.isdecimal() for bound in chosen_from):
        return Finding("ports", "ok", "a port can be opened on 127.0.0.1", why)
    low, high = int(chosen_from[0]), int(chosen_from[1])
    found = f"free ports are taken from {low} to {high}"
    if high - low < LEAST_PORTS:
        return Finding("ports", "warn", found, why, "sysctl net.ipv4.ip_local_port_range='32768 60999'")
    return Finding("ports", "ok", found, why)


def log_out(user: str, root: Path = ROOT) -> Finding:
    """Whether runs of `user` outlive an SSH session that ends."""
    why = "a run goes on when the SSH session that started it drops, unless the system ends it"
    if not logind.runs(root):
        return Finding("log-out", "ok", "systemd does not run here: nothing ends processes at log-out", why)
    kills = logind.kills_at_logout(user, root)
    if kills is None:
        return Finding("log-out", "note", "logind's KillUserProcesses is not known", why)
    if not kills:
        return Finding("log-out", "ok", f"logind leaves the processes of {user} alone (KillUserProcesses)", why)
    linger = "" if logind.lingers(user, root) else "loginctl enable-linger; then "
    return Finding(
        "log-out",
        "warn",
        f"logind ends the processes of {user} at log-out (KillUserProcesses=yes), runs too",
        why,
        f"{linger}start labtui by: systemd-run --user --scope labtui",
    )


def writable(logs: Path) -> Finding:
    """Whether a run's folder can be made in `logs`, tried for real where `logs` exists."""
    why = "each run is a folder there"
    there = _nearest(logs)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\n")
            file.flush()
    except OSError as error:
        return Finding("logs", "fail", f"{logs} can't be written ({error.strerror})", why, "set LABTUI_LOGS")
    return Finding("logs", "ok", str(logs) if there == logs else f"{logs}, which the first run will make", why)


def disk(logs: Path) -> Finding:
    """The space left for what runs write."""
    why = "logs, telemetry and checkpoints of runs lie there"
    try:
        at = os.statvfs(_nearest(logs))
    except OSError as error:
        return Finding("disk", "warn", f"{logs} can't be looked at ({error.strerror})", why)
    free = at.f_bavail * at.f_frsize
    found = f"{_size(free)} free where logs lie"
    if at.f_files and at.f_favail < LEAST_FILES:
        return Finding("disk", "warn", f"{found}, but room for {at.f_favail} more files only", why, "delete old runs")
    if free < LITTLE_DISK:
        return Finding("disk", "fail" if free < LEAST_DISK else "warn", found, why, "delete old runs: labtui rm RUN")
    return Finding("disk", "ok", found, why)


def inherited(environ: Mapping[str, str]) -> list[Finding]:
    """Variables that change every run without anybody having asked for it in the run."""
    names = sorted(name for name in environ if name.startswith(_INHERITED))
    found = ", ".join(f"{name}={_shown(name, environ[name])}" for name in names)
    why = "what a shell or a job left behind changes every run: NCCL_ and GLOO_ paths, TORCH_ debugging, PET_ torchrun"
    if not names:
        return [Finding("environment", "ok", "no NCCL_, GLOO_, TORCH_ or PET_ variable is set", why)]
    advice = "unset what is not meant; for one run only: labtui run NAME --env NAME=VALUE"
    findings = [Finding("environment", "note", found, why, advice)]
    if environ.get("TORCH_DISTRIBUTED_DEBUG", "").strip().upper() == "DETAIL":
        findings.append(
            Finding(
                "TORCH_DISTRIBUTED_DEBUG",
                "warn",
                "DETAIL",
                "in torch 2.13 DistributedDataParallel crashes with it (a segmentation fault in its constructor)",
                "unset TORCH_DISTRIBUTED_DEBUG, or set it to INFO",
            )
        )
    return findings


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


def _user(environ: Mapping[str, str]) -> str:
    """The user's name, as logind knows it."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return environ.get("USER", str(os.getuid()))


def _nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that we can see."""
    for folder in (path, *path.parents):
        try:
            if folder.exists():
                return folder
        except OSError:
            continue
    return Path("/")


def _shown(name: str, value: str) -> str:
    if _SECRET.search(name):
        return "***"
    return value if value.isprintable() else ascii(value)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size(size: float) -> str:
    return f"{size / GB:.1f} GB"
