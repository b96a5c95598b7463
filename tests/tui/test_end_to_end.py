"""From an empty logs folder to a run that is looked at again, as a person would: keys into tmux, texts out of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.runs import process
from labtui.runs.find import run_names
from labtui.runs.folder import RunFolder

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
    # A machine with two busy cores takes minutes for what an idle one does in 20 seconds.
    pytest.mark.timeout(600),
]
PATIENCE_S = 240.0


class Tmux:
    """A shell in a terminal of 120 x 36 of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        # A socket in the test's own folder would have too long a path for some.
        self._name = f"labtui-test-{os.getpid()}-{time.monotonic_ns()}"
        self._environment = {**environment, "LC_ALL": "C.UTF-8"}
        self.run("new-session", "-d", "-x", "120", "-y", "36", "-c", str(folder), "sh")

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._name, "-f", "/dev/null", *arguments]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True).stdout

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def until(self, *texts: str) -> str:
        """Waits until the screen shows all of these."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen()
            if all(text in screen for text in texts):
                return screen
            assert time.monotonic() < deadline, f"never shown: {texts}\n{screen}"
            time.sleep(0.1)

    def modes(self) -> str:
        """Whether the alternate screen, mouse reports and the cursor are on."""
        return self.run("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").strip()


@pytest.fixture
def tmux(tmp_path: Path, own_folders: Path) -> Iterator[Tmux]:
    terminal = Tmux(tmp_path, {**os.environ, "LABTUI_LOGS": str(own_folders)})
    try:
        yield terminal
    finally:
        terminal.run("kill-server")


def test_a_first_run_is_started_watched_left_and_found_again(tmux: Tmux, own_folders: Path) -> None:
    labtui = f"'{sys.executable}' -c 'import sys; from labtui.cli.main import main; sys.exit(main([]))'; echo code=$?"
    tmux.keys(labtui, "Enter")
    tmux.until("Experiments", "DDP by hand", "labtui run ddp_by_hand")
    assert tmux.modes().startswith("1")

    tmux.keys("Enter")
    tmux.until("Findings", "DDP by hand · default", "live")
    tmux.keys("C-z")  # back to the shell while it runs, and into the lab again
    tmux.until("Stopped")
    assert tmux.modes() == "0 0 1"
    tmux.keys("clear; fg; echo code=$?", "Enter")
    tmux.until("succeeded", "gradients eq", "Step time, ms")

    tmux.keys("q")
    tmux.until("code=0")
    assert tmux.modes() == "0 0 1", "the terminal is as it was"
    (name,) = run_names(own_folders)
    assert RunFolder(own_folders / name).status().state == "succeeded"

    tmux.keys("clear", "Enter")
    tmux.keys(labtui, "Enter")
    tmux.until("ok DDP by hand", "1 run")
    tmux.keys("3")
    tmux.until("ok ddp_by_hand", "checks passed")
    tmux.keys("Enter")
    tmux.until(name, "gradients eq", "Step time, ms")
    tmux.keys("q")
    tmux.until("code=0")
    assert not process.carrying("LABTUI_RUN_ID", name), "nothing of the run is left"
