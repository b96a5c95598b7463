"""Limits and room, on file systems and with limits that are made up."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from labtui.machine.doctor import limits


def a_file_system(monkeypatch: pytest.MonkeyPatch, size: float, free: float, free_files: int = 10**6) -> None:
    block = 4096
    blocks, left = int(size / block), int(free / block)
    values = os.statvfs_result((block, block, blocks, left, left, 10**6, free_files, free_files, 0, 255))
    monkeypatch.setattr(limits.os, "statvfs", lambda path: values)


@pytest.mark.parametrize(
    ("size", "free", "gpus", "level", "advice"),
    [
        (64 << 20, 64 << 20, 8, "warn", "--shm-size"),
        (64e9, 60e9, 8, "ok", ""),
        (64e9, 1e6, 0, "warn", "ls -l"),
        (64e9, 1e6, 8, "fail", "ls -l"),
        (64 << 20, 4096, 8, "fail", "--shm-size"),
        (64 << 20, 4096, 1, "warn", "--shm-size"),
    ],
)
def test_shared_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: float, free: float, gpus: int, level: str, advice: str
) -> None:
    a_file_system(monkeypatch, size, free)
    finding = limits.shared_memory(tmp_path, gpus)
    assert finding.level == level and advice in finding.advice


def test_no_shared_memory_at_all(tmp_path: Path) -> None:
    finding = limits.shared_memory(tmp_path)
    assert finding.level == "warn" and "No such file" in finding.found
    assert limits.shared_memory(tmp_path, gpus=2).level == "fail"


@pytest.mark.parametrize(
    ("free", "files", "level"), [(50e9, 10**6, "ok"), (1e9, 10**6, "warn"), (1e6, 10**6, "fail"), (50e9, 3, "warn")]
)
def test_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: float, files: int, level: str) -> None:
    a_file_system(monkeypatch, 100e9, free, files)
    assert limits.disk(tmp_path).level == level


@pytest.mark.parametrize(("limit", "level"), [(256, "warn"), (1024, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_open_files(limit: int, level: str) -> None:
    assert limits.open_files(limit).level == level


@pytest.mark.parametrize(
    ("rdma", "limit", "level"),
    [
        ([], 8 << 20, "note"),
        (["mlx5_0", "mlx5_1"], 8 << 20, "warn"),
        (["mlx5_0"], resource.RLIM_INFINITY, "ok"),
        ([], resource.RLIM_INFINITY, "ok"),
    ],
)
def test_locked_memory_matters_to_rdma(rdma: list[str], limit: int, level: str) -> None:
    finding = limits.locked_memory(rdma, limit)
    assert finding.level == level
    assert ("ibv_reg_mr" in finding.why) == (level == "warn")


def test_no_port_can_be_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Refusing:
        def __enter__(self) -> Refusing:
            return self

        def __exit__(self, *_: object) -> None: ...

        def bind(self, address: object) -> None:
            raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(limits.socket, "socket", Refusing)
    finding = limits.ports(tmp_path)
    assert finding.level == "fail" and "Cannot assign" in finding.found


def test_an_unreadable_port_range_is_no_fault(tmp_path: Path) -> None:
    assert limits.ports(tmp_path).level == "ok"


def test_logs_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = limits.writable(tmp_path / "file")
    assert finding.level == "fail" and "LABTUI_LOGS" in finding.advice
    assert limits.writable(tmp_path / "file" / "logs").level == "fail"
    missing = limits.writable(tmp_path / "a" / "b")
    assert missing.level == "ok" and "will make" in missing.found
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_logs_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert limits.writable(tmp_path / "logs").level == "fail"
