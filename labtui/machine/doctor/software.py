"""torch, CUDA and NCCL as they are installed: versions by their files and packages, and whether they fit the driver.

Nothing of torch is imported. What a run gets by --python is another environment: the doctor looks at its own.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labtui.machine.doctor.finding import Finding, counted, dotted, listed, version
from labtui.machine.doctor.seen import Seen
from labtui.machine.host import ROOT, read_text

OLDEST_TORCH = (2, 6)
"""As pyproject.toml says: the oldest version that was tried."""
COMPATIBILITY = "NVIDIA's CUDA Compatibility guide"

_LIBRARY = "libnccl.so.2"
_SYSTEM_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib", "usr/lib")


@dataclass(frozen=True)
class Nccl:
    """The NCCL that torch would load."""

    version: str | None = None
    """Of the files themselves, where they tell it, else of the package."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The packages that bring it: `nvidia-nccl-cu12` -> `2.27.5`. Several write to the same files."""
    wanted: str | None = None
    """What torch was built with, by the versions that its package asks for."""


@dataclass(frozen=True)
class Torch:
    """The torch that this interpreter would import."""

    there: bool = False
    version: str | None = None
    """With the part behind the plus, where the build has one: `2.8.0+cu128`."""
    cuda: str | None = None
    """The CUDA that it was built for; None for other builds, or where that isn't told."""
    hip: str | None = None
    told: bool = False
    """Whether its version.py says what it was built for."""
    nccl: Nccl = Nccl()

    @property
    def numbers(self) -> tuple[int, ...] | None:
        return version(self.version)

    @property
    def official(self) -> bool:
        """Whether it looks like a wheel of the PyTorch project: a build of somebody's own may hold more."""
        return re.fullmatch(r"\d+\.\d+\.\d+\+cu\d+", self.version or "") is not None


# Looking ------------------------------------------------------------------------------------------------------------


def installed(root: Path = ROOT) -> Torch:
    """What is installed for this interpreter; imports nothing of it."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return Torch()
    folders = list(spec.submodule_search_locations or ())
    return read(
        Path(folders[0]) if folders else None, _package("torch"), _requirements("torch"), _nccl_packages(), root
    )


def read(
    folder: Path | None,
    package: str | None,
    requirements: list[str],
    nccl_packages: Mapping[str, str],
    root: Path = ROOT,
) -> Torch:
    """The torch in `folder`, whose package has this version and these requirements."""
    text = (read_text(folder / "version.py") if folder is not None else None) or ""
    built = _assigned(text, "__version__")
    asked = (re.match(r"nvidia-nccl-cu\d+==([\w.]+)", requirement) for requirement in requirements)
    wanted = next((match[1] for match in asked if match is not None), None)
    own = _header(folder.parent / "nvidia/nccl/include/nccl.h") if folder is not None else None
    return Torch(
        there=True,
        version=built or package,
        cuda=_assigned(text, "cuda"),
        hip=_assigned(text, "hip"),
        told=built is not None,
        nccl=Nccl(own or _newest(nccl_packages) or _system_nccl(root), nccl_packages, wanted),
    )


def _assigned(text: str, name: str) -> str | None:
    """What a line of version.py sets: `cuda: Optional[str] = '12.8'`."""
    found = re.search(rf"^{name}(?:\s*:[^=\n]+)?\s*=\s*['\"]([^'\"\n]+)['\"]", text, re.M)
    return found[1] if found is not None else None


def _package(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _requirements(name: str) -> list[str]:
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _nccl_packages() -> dict[str, str]:
    versions = {f"nvidia-nccl-cu{major}": _package(f"nvidia-nccl-cu{major}") for major in (11, 12, 13)}
    return {name: told for name, told in versions.items() if told is not None}


def _newest(packages: Mapping[str, str]) -> str | None:
    return max(packages.values(), key=lambda told: version(told) or (), default=None)


def _header(path: Path) -> str | None:
    """The version that nccl.h defines: it lies beside the library that the same package brought."""
    text = read_text(path) or ""
    numbers = [re.search(rf"^#define NCCL_{part}\s+(\d+)", text, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
    return dotted(int(number[1]) for number in numbers if number) if all(numbers) else None


def _system_nccl(root: Path) -> str | None:
    """The version of a library outside of Python, which builds of torch without such a package use."""
    return next((found for folder in _SYSTEM_FOLDERS if (found := _library(root / folder))), None)


def _library(folder: Path) -> str | None:
    """The version of the NCCL in a folder, by the name of the file that libnccl.so.2 points to."""
    try:
        name = (folder / _LIBRARY).resolve(strict=True).name
    except OSError:
        return None
    return name.removeprefix("libnccl.so.") if re.fullmatch(r"libnccl\.so\.\d+\.\d+[.\d]*", name) else None


# Judging ------------------------------------------------------------------------------------------------------------


def torch(build: Torch, gpus: int) -> Finding:
    """`gpus` is what the machine has, whatever CUDA_VISIBLE_DEVICES hides."""
    if not build.there:
        return Finding(
            "torch",
            "fail",
            "not installed for this Python",
            "experiments run on it; looking at runs works without",
            "pip install torch, or name an interpreter that has it: labtui run NAME --python PATH",
        )
    if build.version is None:
        return Finding("torch", "note", "installed, of an unknown version")
    found = build.version
    if build.cuda or build.hip:
        found += f", built for CUDA {build.cuda}" if build.cuda else f", built for ROCm {build.hip}"
    without_cuda = build.version.endswith("+cpu") or (build.told and build.cuda is None)
    if gpus and without_cuda:
        return Finding(
            "torch",
            "warn",
            found,
            f"this build can't use the {counted(gpus, 'GPU')} of this machine",
            "install a CUDA build of torch, or name an interpreter that has one: labtui run NAME --python PATH",
        )
    if build.numbers is not None and build.numbers[:2] < OLDEST_TORCH:
        return Finding(
            "torch", "note", found, f"{dotted(OLDEST_TORCH)} is the oldest version that experiments were tried with"
        )
    return Finding("torch", "ok", found)


def cuda(build: Torch, seen: Seen) -> Finding | None:
    """Whether the driver runs the CUDA that torch was built for; None where either isn't there."""
    built = version(build.cuda)
    if built is None or not seen.gpus:
        return None
    driver = f"driver {seen.driver}" if seen.driver else "the driver"
    if seen.cuda is None:
        return Finding("CUDA", "note", f"torch needs {build.cuda}; {driver} does not say which CUDA it runs")
    found = f"torch needs {build.cuda}; {driver} runs up to {dotted(seen.cuda)}"
    if built[0] > seen.cuda[0]:
        return Finding(
            "CUDA",
            "fail",
            found,
            "a driver runs no CUDA of a later major version: torch finds no GPU",
            f"update the driver, or install a torch built for CUDA {seen.cuda[0]} ({COMPATIBILITY})",
        )
    if built > seen.cuda:
        return Finding(
            "CUDA",
            "note",
            found,
            "it works within one major version, but for what is compiled for the GPU while running (PTX) and features "
            "of the later version",
            f"update the driver where something says so ({COMPATIBILITY})",
        )
    return Finding("CUDA", "ok", found)


def nccl(build: Torch, environ: Mapping[str, str]) -> Finding | None:
    """Whether the NCCL that torch would load is the one it was built with; None for builds without CUDA."""
    if not build.there or build.cuda is None:
        return None
    own = build.nccl
    named = listed(f"{name} {told}" for name, told in own.packages.items())
    if len(set(own.packages.values())) > 1:
        return Finding(
            "NCCL",
            "warn",
            f"{named}; the files are those of {own.version}",
            "both packages write to the same folder: torch may find an NCCL older than the one it was built with, and "
            "fails at import with an undefined symbol (pytorch issue 186591)",
            f"pip uninstall both, then pip install torch=={(build.version or '').partition('+')[0]} again",
        )
    if own.version is None:
        return Finding(
            "NCCL",
            "note",
            "of an unknown version",
            "no package and no library tells it: it may be a part of torch itself",
            "NCCL_DEBUG=VERSION makes a run print it",
        )
    found = f"{own.version}, of {named}" if named else own.version
    first = _first_elsewhere(environ, own)
    if first is not None:
        folder, other = first
        return Finding(
            "NCCL",
            "warn",
            f"{found}; but {folder} in LD_LIBRARY_PATH has {other}",
            "what LD_LIBRARY_PATH names may be loaded first: an older NCCL lacks functions that torch was built with "
            "(undefined symbol), and ranks with different versions can't talk",
            "take that folder out of LD_LIBRARY_PATH",
        )
    wanted, has = version(own.wanted), version(own.version)
    if wanted is not None and has is not None and has < wanted:
        return Finding(
            "NCCL",
            "warn",
            f"{found}; torch was built with {own.wanted}",
            "an older NCCL may lack functions that torch calls (undefined symbol)",
            f"pip install the version that torch asks for: {own.wanted}",
        )
    return Finding("NCCL", "ok", found)


def _first_elsewhere(environ: Mapping[str, str], own: Nccl) -> tuple[str, str] | None:
    """The first folder of LD_LIBRARY_PATH with an NCCL, where that is another version."""
    for folder in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        other = _library(Path(folder)) if folder else None
        if other is not None:
            return (folder, other) if version(other) != version(own.version) else None
    return None
