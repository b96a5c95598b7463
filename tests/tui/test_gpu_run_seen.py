"""A whole run on GPUs that are not there, as the panes show it: while it goes on, and afterwards from its folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_nvml import fixture
from fake_nvml.fixture import FakeNvml
from gpu_play import play
from lab import end
from small_lab import screen_text, until_shown

from labtui.tui.app import LabApp

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml


async def test_panes_follow_a_run_and_say_the_same_afterwards(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_nvml: FakeNvml
) -> None:
    folder = play(own_folders, tmp_path, monkeypatch, fake_nvml)
    async with LabApp(own_folders, folder, ascii=False).run_test(size=(150, 45)) as pilot:
        await pilot.press("m")
        await until_shown(pilot, "GPU 0 · RTX 5090")
        fake_nvml.tick(1)
        await until_shown(pilot, "55")
        fake_nvml.tick(2)
        await pilot.press("right")
        await until_shown(pilot, "GPU 1 · RTX 5090")
        await until_shown(pilot, "power cap")
        await pilot.press("right")
        await until_shown(pilot, "GPU is lost since")
        await pilot.press("p")
        await until_shown(pilot, "P2P")
        (folder.path / "go").touch()
        await until_shown(pilot, "measured 11.2 GB/s")
        (folder.path / "done").touch()
        await until_shown(pilot, "succeeded")
    end(folder)
    app = LabApp(own_folders, folder, ascii=False)
    async with app.run_test(size=(150, 45)) as pilot:
        await pilot.press("m", "right", "right")
        await until_shown(pilot, "GPU is lost since")
        await pilot.press("p")
        await until_shown(pilot, "measured 11.2 GB/s")
        diagnosis = " ".join(screen_text(app).replace("│", " ").split())
        assert "NCCL" in diagnosis and "4 ranks" in diagnosis
