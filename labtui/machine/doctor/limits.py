"""What the system grants each process, and the room for what runs write."""

from __future__ import annotations

import os
import resource
import socket
import tempfile
from pathlib import Path

from labtui.machine.doctor.finding import Finding, counted, size
from labtui.machine.host import ROOT, read_text

LEAST_SHM = 1e9
NCCL_SEGMENT = 9_637_888
"""Bytes that NCCL 2.28 asks /dev/shm for per connection, by the warnings in its logs."""
LEAST_FILES = 1024
LEAST_PORTS = 1000
LEAST_DISK, LITTLE_DISK = 0.1e9, 2e9


def shared_memory(root: Path = ROOT, gpus: int = 0) -> Finding:
    """`gpus` is how many GPUs runs may use: NCCL's ranks can't do without /dev/shm."""
    why = "NCCL within one machine and DataLoader workers pass their data there"
    try:
        shm = os.statvfs(root / "dev/shm")
    except OSError as error:
        found, total, free = f"/dev/shm can't be looked at ({error.strerror})", 0, 0
    else:
        total, free = shm.f_blocks * shm.f_frsize, shm.f_bavail * shm.f_frsize
        found = f"{size(free)} free of {size(total)} in /dev/shm"
    larger = "in a container: docker run --shm-size=8g, or --ipc=host; else: mount -o remount,size=50% /dev/shm"
    fuller = "something fills it: ls -l /dev/shm (what killed jobs left there may be deleted)"
    if gpus > 1 and free < NCCL_SEGMENT:
        why = f"NCCL asks for about {size(NCCL_SEGMENT)} per connection, and fails without"
        return Finding("shared memory", "fail", found, why, larger if total < LEAST_SHM else fuller)
    if total < LEAST_SHM:
        return Finding("shared memory", "warn", found, why, larger)
    if free < LEAST_SHM / 10:
        return Finding("shared memory", "warn", found, why, fuller)
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


def locked_memory(rdma: list[str], limit: int | None = None) -> Finding:
    """Whether RDMA may pin memory. `rdma` names the RDMA devices, `limit` is the soft limit (default: ours)."""
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] if limit is None else limit
    if soft == resource.RLIM_INFINITY:
        return Finding("locked memory", "ok", "no limit")
    found = f"up to {size(soft)} per process (ulimit -l)"
    if not rdma:
        return Finding("locked memory", "note", found, "only RDMA pins more, and there is no RDMA device here")
    return Finding(
        "locked memory",
        "warn",
        found,
        f"NCCL pins its buffers for {counted(len(rdma), 'RDMA device')}: with a limit, ibv_reg_mr or ibv_create_qp "
        "fails at the start of a run over several machines",
        "memlock unlimited, soft and hard, in /etc/security/limits.conf, then log in anew; docker run --ulimit "
        "memlock=-1; under Slurm or systemd: LimitMEMLOCK=infinity",
    )


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
    found = f"{size(free)} free where logs lie"
    if at.f_files and at.f_favail < LEAST_FILES:
        return Finding("disk", "warn", f"{found}, but room for {at.f_favail} more files only", why, "delete old runs")
    if free < LITTLE_DISK:
        return Finding("disk", "fail" if free < LEAST_DISK else "warn", found, why, "delete old runs: labtui rm RUN")
    return Finding("disk", "ok", found, why)


def _nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that we can see."""
    for folder in (path, *path.parents):
        try:
            if folder.exists():
                return folder
        except OSError:
            continue
    return Path("/")
