"""The command that would be started: what `start` would do, with nothing made."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from labtui.catalog import sources
from labtui.catalog.reading import CatalogError
from labtui.runs import start
from labtui.runs.start import Options


def test_the_command_is_the_one_that_start_would_write_down(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_interpreter", lambda asked, **_: sys.executable)
    monkeypatch.setattr(start.spawn, "spawn", lambda *arguments: None)
    experiment = sources.find("ddp_by_hand")
    options = Options(device="cpu", nproc=3)
    words = shlex.split(start.planned(own_folders, experiment, "float64", {"steps": "7"}, options))
    assert not list(own_folders.iterdir()), "nothing is made"
    (folder,) = start.start(own_folders, experiment, ["float64"], {"steps": "7"}, options)
    command = json.loads(folder.request_file.read_text())["command"]
    command[command.index("--log-dir") + 1] = "ranks"
    assert words[-len(command) :] == command
    settings = words[: -len(command)]
    assert settings[0] == "env" and "LABTUI_DEVICE=cpu" in settings and "OMP_NUM_THREADS=1" in settings
    assert not any(word.startswith(("LABTUI_RUN", "LABTUI_AGENT", "NCCL_DEBUG")) for word in settings)


def test_what_cannot_be_started_has_no_command(own_folders: Path) -> None:
    with pytest.raises(CatalogError, match="steps is"):
        start.planned(own_folders, sources.find("ddp_by_hand"), "", {"steps": "x"}, Options(device="cpu"))
