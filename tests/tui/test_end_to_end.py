"""A newcomer's first hour, as a person would have it: keys into tmux, texts out of it.

From the first start through the first guide (question, runs, guess, verdict, runs side by side) to leaving and coming
back. The two runs are real, and go on beside each other; the first one has its parameters set in the form.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.runs import process, welcome
from labtui.runs.find import run_names
from labtui.runs.folder import RunFolder

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
    # A machine with two busy cores takes minutes for what an idle one does in 20 seconds.
    pytest.mark.timeout(600),
]
PATIENCE_S = 240.0


class Tmux:
    """A shell in a terminal of 80 x 24 of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        # A socket in the test's own folder would have too long a path for some.
        self._name = f"labtui-test-{os.getpid()}-{time.monotonic_ns()}"
        self._environment = {**environment, "LC_ALL": "C.UTF-8"}
        self.run("new-session", "-d", "-x", "80", "-y", "24", "-c", str(folder), "sh")

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


@pytest.mark.slow
def test_the_first_guide_is_followed_left_and_taken_up_again(tmux: Tmux, own_folders: Path) -> None:
    welcome.marker().unlink()
    labtui = f"clear; '{sys.executable}' -c 'import sys; from labtui.cli.main import main; sys.exit(main([]))'"
    tmux.keys(f"{labtui}; echo code=$?", "Enter")
    tmux.until("Welcome to labtui")
    tmux.keys("Space")
    tmux.until("DDP by hand", "step 1 of 7", "One batch, many replicas")
    assert tmux.modes().startswith("1")

    # The first step: a question, and a run with less to do than usual.
    tmux.keys("Tab")
    tmux.until("losses. A derivative passes through a sum")
    tmux.keys("Tab")
    tmux.until("Question", "enter answer   n next step")
    tmux.keys("Enter")
    tmux.until("a number")
    tmux.keys("5", "Enter")
    tmux.until("your answer 5", "ok right")
    tmux.keys("Tab")
    tmux.until("Run base", "not run yet")
    tmux.keys("e")
    tmux.until("hidden layers of the model", "steps")
    tmux.keys(*["Down"] * 7, "C-u", "2")
    tmux.until("*  steps           2 ")
    tmux.keys("Enter")
    tmux.until("base has been started")

    # The second one: another run, while the first one goes on. The third one: a guess before the number is shown.
    tmux.keys("n")
    tmux.until("step 2 of 7", "Run float64")
    tmux.keys("Enter")
    tmux.until("float64 has been started")
    tmux.keys("n")
    screen = tmux.until("step 3 of 7", "Your guess first", "enter guess")
    assert "measured" not in screen
    tmux.keys("Enter")
    tmux.until("a number")
    tmux.keys("8407044", "Enter")
    tmux.until("your guess 8.41 MB (8,407,044 B)")

    tmux.keys("C-z")  # back to the shell while they run, and into the lab again
    tmux.until("Stopped")
    assert tmux.modes() == "0 0 1"
    tmux.keys("clear; fg; echo code=$?", "Enter")
    tmux.until("step 3 of 7")
    tmux.keys("o")  # the run that the guess is about
    tmux.until("DDP by hand · default", "succeeded", "checks 8 ok", "ok gradients eq", "Step time, ms")
    tmux.keys("Escape")
    tmux.until("step 3 of 7", "your guess was within 10 %")
    tmux.keys("Tab")
    tmux.until("ok Verdict on bytes_sent", "Theory and the kernel's count agree")

    # Back to the second step, whose run has ended, and both of them side by side.
    tmux.keys("p")
    tmux.until("step 2 of 7", "ok Run float64")
    tmux.keys("Tab")
    tmux.until("It shrank with the bits: all of it was")
    tmux.keys("Tab")
    tmux.until("Side by side", "enter compare")
    tmux.keys("Enter")
    tmux.until("2 runs · baseline a", "parameters.dtype  float32", "float64", "gradient_difference per_parameter")

    tmux.keys("q")
    tmux.until("code=0")
    assert tmux.modes() == "0 0 1", "the terminal is as it was"
    names = run_names(own_folders)
    requests = [RunFolder(own_folders / name).request() for name in names]
    assert {(request.variant, request.parameters["steps"]) for request in requests} == {("", 2), ("float64", 20)}
    assert all(RunFolder(own_folders / name).status().state == "succeeded" for name in names)

    # Where one was in the guide, what was guessed and what was run are still there.
    tmux.keys(f"{labtui}; echo code=$?", "Enter")
    tmux.until("ok DDP by hand", "step 2 of 7", "ok Run float64")
    tmux.keys("n")
    tmux.until("step 3 of 7")
    tmux.keys("Tab", *["Down"] * 8)
    tmux.until("your guess 8.41 MB (8,407,044 B)", "measured 8.41 MB")
    tmux.keys("3")
    tmux.until("1 of 2", "ok ddp_by_hand", "all 8 checks")
    tmux.keys("q")
    tmux.until("code=0")
    assert not any(process.carrying("LABTUI_RUN_ID", name) for name in names), "nothing of the runs is left"
