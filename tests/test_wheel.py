"""The wheel: built, installed into an environment of its own, it knows its experiments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]


def call(*command: str | Path, cwd: Path) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_CONSTRAINT"))}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what belongs to it, so that a build leaves nothing in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("labtui", "experiments"):
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / name, source / name)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
    call(*build, source, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel, which borrows what labtui needs from ours."""
    folder = tmp_path_factory.mktemp("fresh")
    call(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    call(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    # Paths from .pth files come last, and .pth files in them (our editable checkout) are not read.
    own = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(own) / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(ours)))
    return folder / "venv/bin"


def test_experiments_are_found_in_an_installed_wheel(environment: Path, tmp_path: Path) -> None:
    imported = call(environment / "python", "-c", "import labtui; print(labtui.__file__)", cwd=tmp_path).strip()
    assert Path(imported).is_relative_to(environment.parent), "another labtui was imported"
    experiments = {
        one["name"]: one for one in json.loads(call(environment / "labtui", "experiments", "--json", cwd=tmp_path))
    }
    assert all(one["error"] is None for one in experiments.values())
    assert set(experiments) == {path.parent.name for path in CHECKOUT.glob("experiments/*/experiment.toml")}
    folder = Path(experiments["ddp_by_hand"]["folder"])
    assert folder.is_relative_to(environment.parent)
    for name in ("main.py", "experiment.toml", "guide.md"):
        assert (folder / name).read_bytes() == (CHECKOUT / "experiments/ddp_by_hand" / name).read_bytes()


def test_the_wheel_holds_all_of_the_package_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = {
        path.relative_to(CHECKOUT)
        for path in (*CHECKOUT.glob("labtui/**/*"), *CHECKOUT.glob("experiments/**/*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected = {
        str(path).replace("experiments/", "labtui/_experiments/", 1) if path.parts[0] == "experiments" else str(path)
        for path in ours
    }
    assert held == expected


def test_version_and_entry_point(environment: Path, tmp_path: Path) -> None:
    import labtui

    assert call(environment / "labtui", "--version", cwd=tmp_path).split() == ["labtui", labtui.__version__]
