"""A GPU machine without GPUs: the fake NVML library, built once per session, told by a script what to answer.

    from fake_nvml import fixture
    fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml

    def test_it(fake_nvml):
        fake_nvml.script("gpus 2", "gpu 0 util 10,20,30")
        fake_nvml.tick(1)

Time is the tick file's: nothing moves until the test says so, and a tick is a second unless the script says otherwise.
It works in the test's own process and, with `fake_nvml.environ`, in processes that the test starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class FakeNvml:
    """The machine that the library plays. `environ` is for other processes."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._script = folder / "script"
        self._tick = folder / "tick"
        self._written = time.time_ns()
        self.environ = {
            "LD_LIBRARY_PATH": str(library.parent),
            "FAKE_NVML_SCRIPT": str(self._script),
            "FAKE_NVML_TICK_FILE": str(self._tick),
        }
        self.script("gpus 1")
        self.tick(0)

    def script(self, *lines: str) -> None:
        """What is to be played from now on, see fake_nvml.c; takes the place of what was told before."""
        fresh = self._script.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n", errors="surrogateescape")
        # The library looks at the time of the file, which the kernel counts in steps of milliseconds.
        self._written += 1_000_000
        os.utime(fresh, ns=(self._written, self._written))
        fresh.replace(self._script)

    def play(self, name: str) -> None:
        """A script that lies beside the library's source: `8xh100`, `4xa100_faults`."""
        self.script((HERE / f"{name}.txt").read_text())

    def tick(self, number: int) -> None:
        """Moves time."""
        fresh = self._tick.with_suffix(".new")
        fresh.write_text(str(number))
        fresh.replace(self._tick)


_built: list[Path] = []
"""The library, once it is built: each module that takes over the fixtures makes them anew."""


@pytest.fixture(scope="session")
def fake_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's path; its folder is one for LD_LIBRARY_PATH. Skips where nothing can be compiled."""
    missing = next((tool for tool in ("make", "cc") if shutil.which(tool) is None), None)
    if missing is not None:
        pytest.skip(f"the fake NVML library is built with make and cc, and there is no {missing}")
    if not _built:
        build = tmp_path_factory.mktemp("fake_nvml")
        subprocess.run(["make", "-s", "-C", str(HERE), f"BUILD={build}", "CC=cc"], check=True)
        _built.append(build / "libnvidia-ml.so.1")
    return _built[0]


@pytest.fixture
def fake_nvml(fake_nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """The fake library in place of the machine's own, in this process and for those that inherit its environment."""
    import ctypes

    import pynvml

    folder = tmp_path / "fake_nvml"
    folder.mkdir()
    fake = FakeNvml(fake_nvml_library, folder)
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    # LD_LIBRARY_PATH counts when a process starts: in this one the package gets the library by hand.
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(fake_nvml_library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield fake
