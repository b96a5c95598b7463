"""A small disk that fills up, and a libc with faults."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_nvml import fixture
from made import make_run

__all__ = ["fake_nvml", "fake_nvml_library", "make_run"]

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """small_disk("2m") -> a logs folder on a disk of that size, which $LABTUI_LOGS names."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        if os.getuid() != 0:
            pytest.skip("only root may mount a small disk")
        place = tmp_path / "small"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("a small disk can't be mounted here")
        mounted.append(place)
        (place / "logs").mkdir()
        monkeypatch.setenv("LABTUI_LOGS", str(place / "logs"))
        return place / "logs"

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="session")
def strange_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that strange_libc.c describes. Skips where nothing can be compiled."""
    if shutil.which("cc") is None:
        pytest.skip("a libc with faults is built with cc, and there is none")
    built = tmp_path_factory.mktemp("strange") / "strange_libc.so"
    source = Path(__file__).with_name("strange_libc.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", str(built), str(source), "-ldl"], check=True)
    return built
