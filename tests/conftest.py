"""What every test gets: logs, cache, configuration and runtime folders of its own, and a plain terminal."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from labtui.runs import process

# Machines that test are busy ones: how long an example takes says nothing.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keeps a test out of the user's files and the user's settings out of the test; gives the logs folder.

    A test that fails may leave a run behind, which would go on for ever: it is ended.
    """
    for name in list(os.environ):
        if name.startswith(("NCCL_", "GLOO_", "TORCH_", "OMP_", "PET_", "TEXTUAL_", "LABTUI_")):
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "COLORTERM", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.setenv("LABTUI_LOGS", str(logs))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    yield logs
    gc.enable()  # the command line stops collecting while a screen opens, and the screens of tests aren't real
    # By os.scandir: tests make other ways of listing fail on purpose.
    if next(os.scandir(logs), None) is not None:
        for left in process.carrying("LABTUI_LOGS", str(logs)):
            process.send(left.pid, left.start, signal.SIGKILL)
