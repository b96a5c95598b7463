"""Versions of torch, CUDA and NCCL, read from files that look like installed packages, and judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labtui.machine.doctor import software
from labtui.machine.doctor.seen import Seen
from labtui.machine.doctor.software import Nccl, Torch
from labtui.machine.reading import Gpu

CUDA_TORCH = Torch(True, "2.8.0+cu128", "12.8", None, True, Nccl("2.27.3", {"nvidia-nccl-cu12": "2.27.3"}, "2.27.3"))
VERSION_PY = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'
hip: Optional[str] = {hip}
"""


def packages(folder: Path, version: str, cuda: str = "None", hip: str = "None") -> Path:
    """A site-packages with a torch in it; returns torch's folder."""
    torch = folder / "torch"
    torch.mkdir(parents=True)
    (torch / "version.py").write_text(VERSION_PY.format(version=version, cuda=cuda, hip=hip))
    return torch


def header(torch: Path, version: str) -> None:
    """The header that NVIDIA's packages put beside the library."""
    path = torch.parent / "nvidia/nccl/include/nccl.h"
    path.parent.mkdir(parents=True)
    names = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    path.write_text("/* NCCL */\n" + "".join(f"#define NCCL_{name} {number}\n" for name, number in names))


# Reading ------------------------------------------------------------------------------------------------------------


def test_torch_is_found_without_being_imported() -> None:
    build = software.installed()
    assert build.there and build.version is not None
    assert build.told, "this interpreter's torch has a version.py"


def test_what_a_build_says_of_itself(tmp_path: Path) -> None:
    torch = packages(tmp_path, "2.8.0+cu128", "'12.8'")
    header(torch, "2.27.3")
    requirements = ["filelock", 'nvidia-nccl-cu12==2.27.3; platform_system == "Linux"', "nvidia-cudnn-cu12==9.10.2.21"]
    build = software.read(torch, "2.8.0", requirements, {"nvidia-nccl-cu12": "2.27.3"}, tmp_path)
    assert build == CUDA_TORCH
    assert build.official and build.numbers == (2, 8, 0)


def test_a_rocm_build_and_one_for_cpus(tmp_path: Path) -> None:
    rocm = software.read(packages(tmp_path / "r", "2.8.0+rocm6.4", hip="'6.4.43482'"), "2.8.0", [], {}, tmp_path)
    assert (rocm.cuda, rocm.hip, rocm.official) == (None, "6.4.43482", False)
    cpu = software.read(packages(tmp_path / "c", "2.8.0"), "2.8.0", [], {}, tmp_path)
    assert (cpu.cuda, cpu.hip, cpu.told) == (None, None, True)


def test_without_its_files_the_package_tells_the_version(tmp_path: Path) -> None:
    assert software.read(tmp_path / "torch", "2.8.0", [], {}, tmp_path) == Torch(True, "2.8.0")
    assert software.read(None, None, [], {}, tmp_path) == Torch(True)


def test_the_header_beside_the_library_wins_over_packages(tmp_path: Path) -> None:
    torch = packages(tmp_path, "2.11.0+cu130", "'13.0'")
    header(torch, "2.14.3")
    both = {"nvidia-nccl-cu11": "2.14.3", "nvidia-nccl-cu13": "2.28.9"}
    assert software.read(torch, None, [], both, tmp_path).nccl.version == "2.14.3"


def test_a_library_of_the_system(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libnccl.so.2.18.3").write_bytes(b"")
    (folder / "libnccl.so.2").symlink_to("libnccl.so.2.18.3")
    build = software.read(packages(tmp_path / "s", "2.1.0a0+nv23.10", "'12.2'"), None, [], {}, tmp_path)
    assert (build.nccl.version, build.official) == ("2.18.3", False)


@pytest.mark.parametrize(
    "text", ["", "\x00\xff", "cuda = 12.8\n__version__ = torch_version\n", "cuda: Optional[str] ="]
)
def test_a_version_file_of_another_kind_tells_nothing(tmp_path: Path, text: str) -> None:
    torch = packages(tmp_path, "1")
    (torch / "version.py").write_text(text)
    assert software.read(torch, "2.8.0", [], {}, tmp_path) == Torch(True, "2.8.0")


# torch --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "gpus", "level"),
    [
        (Torch(), 0, "fail"),
        (Torch(True, "2.13.0+cpu", told=True), 0, "ok"),
        (Torch(True, "2.13.0+cpu", told=True), 2, "warn"),
        (Torch(True, "2.13.0", told=True), 2, "warn"),
        (Torch(True, "2.13.0", hip="6.4", told=True), 2, "warn"),
        (Torch(True, "2.13.0"), 2, "ok"),
        (CUDA_TORCH, 2, "ok"),
        (replace(CUDA_TORCH, version="2.5.1+cu124"), 2, "note"),
        (Torch(True), 0, "note"),
    ],
)
def test_torch(build: Torch, gpus: int, level: str) -> None:
    assert software.torch(build, gpus).level == level


def test_missing_torch_says_what_to_install_and_what_works_without() -> None:
    finding = software.torch(Torch(), 0)
    assert "pip install torch" in finding.advice
    assert "looking at runs works" in finding.why


# CUDA ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "driver", "level"),
    [
        ("12.8", (12, 8), "ok"),
        ("12.6", (13, 0), "ok"),
        ("12.8", (12, 4), "note"),
        ("13.0", (12, 9), "fail"),
        ("12.8", (11, 4), "fail"),
        ("12.8", None, "note"),
    ],
)
def test_a_driver_runs_its_major_version_of_cuda_and_older_ones(
    cuda: str, driver: tuple[int, int] | None, level: str
) -> None:
    finding = software.cuda(replace(CUDA_TORCH, cuda=cuda), Seen((Gpu(0),), driver="550.54.14", cuda=driver))
    assert finding is not None and finding.level == level
    assert cuda in finding.found and "550.54.14" in finding.found
    assert level != "fail" or "update the driver" in finding.advice


def test_without_gpus_or_for_cpus_cuda_is_no_matter() -> None:
    assert software.cuda(CUDA_TORCH, Seen()) is None
    assert software.cuda(Torch(True, "2.13.0+cpu", told=True), Seen((Gpu(0),), cuda=(12, 8))) is None


# NCCL ---------------------------------------------------------------------------------------------------------------


def with_nccl(**changes: object) -> Torch:
    return replace(CUDA_TORCH, nccl=replace(CUDA_TORCH.nccl, **changes))  # type: ignore[arg-type]


def test_two_packages_that_write_to_the_same_files() -> None:
    both = with_nccl(version="2.14.3", packages={"nvidia-nccl-cu11": "2.14.3", "nvidia-nccl-cu12": "2.27.3"})
    finding = software.nccl(both, {})
    assert finding is not None and finding.level == "warn"
    assert finding.found == "nvidia-nccl-cu11 2.14.3 and nvidia-nccl-cu12 2.27.3; the files are those of 2.14.3"
    assert "undefined symbol" in finding.why and "torch==2.8.0" in finding.advice


@pytest.mark.parametrize(
    ("version", "wanted", "level"),
    [("2.27.3", "2.27.3", "ok"), ("2.28.9", "2.27.3", "ok"), ("2.21.5", "2.27.3", "warn"), ("2.27.3", None, "ok")],
)
def test_an_nccl_older_than_torch_was_built_with(version: str, wanted: str | None, level: str) -> None:
    finding = software.nccl(with_nccl(version=version, wanted=wanted, packages={}), {})
    assert finding is not None and finding.level == level


def test_an_nccl_that_nobody_names() -> None:
    finding = software.nccl(with_nccl(version=None, packages={}), {})
    assert finding is not None and finding.level == "note" and "NCCL_DEBUG=VERSION" in finding.advice


def test_another_nccl_first_in_the_search_path(tmp_path: Path) -> None:
    (tmp_path / "libnccl.so.2.14.3").write_bytes(b"")
    (tmp_path / "libnccl.so.2").symlink_to("libnccl.so.2.14.3")
    finding = software.nccl(CUDA_TORCH, {"LD_LIBRARY_PATH": f"/nowhere::{tmp_path}"})
    assert finding is not None and finding.level == "warn" and str(tmp_path) in finding.found
    same = with_nccl(version="2.14.3", wanted=None, packages={})
    told = software.nccl(same, {"LD_LIBRARY_PATH": str(tmp_path)})
    assert told is not None and told.level == "ok"


def test_a_torch_without_cuda_has_no_nccl() -> None:
    assert software.nccl(Torch(True, "2.13.0+cpu", told=True), {}) is None
