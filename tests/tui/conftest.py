"""The catalog of the small lab, and the way to its helpers."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_lab import made_experiment

from labtui.catalog import sources
from labtui.catalog.manifest import Experiment
from labtui.catalog.sources import BrokenExperiment
from labtui.runs import welcome
from labtui.tui import lessons, sampling, watcher


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The catalog holds this experiment, another one and a broken one."""
    folder = tmp_path / "experiments" / "lab_test"
    folder.mkdir(parents=True)
    (folder / "guide.md").write_text("# The guide\n\nIt says [rank0].\n\n## A step\n\nDo it.\n")
    experiment = made_experiment(folder)
    other = made_experiment(folder, "other_test", title="Another one", topic="pipeline", variants=(), charts=())
    broken = BrokenExperiment("odd", tmp_path, "experiment.toml: topic is [rank0], data expected")
    monkeypatch.setattr(sources, "catalog", lambda: (experiment, other, broken))
    return experiment


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading threads look often, so that a test waits for what it waits for, and not for the next look."""
    for name, seconds in (("LIVE_S", 0.1), ("ENDED_S", 0.1), ("LOG_S", 0.05), ("HISTORY_S", 0.1)):
        monkeypatch.setattr(watcher, name, seconds)
    for name in ("LIVE_S", "ENDED_S"):
        monkeypatch.setattr(lessons, name, 0.1)
    for name in ("INTERVAL_S", "HOST_S"):
        monkeypatch.setattr(sampling, name, 0.1)


@pytest.fixture(autouse=True)
def no_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a Python that measures this machine, a program that says nothing and ends with its stdin."""
    monkeypatch.setattr(sampling, "COMMAND", ("cat",))


@pytest.fixture(autouse=True)
def welcomed(own_folders: Path) -> None:
    """The first start's page has been seen, but where a test is about it."""
    welcome.marker().parent.mkdir(parents=True, exist_ok=True)
    welcome.marker().touch()
