"""Shells complete commands, options, experiments and runs; a terminal that was left in a bad state is repaired."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from made import MakeRun, make_run

from labtui.cli import completion
from labtui.cli import main as cli

make_run = make_run

ASK = """
source "$1"
labtui() { "$LABTUI_PYTHON" -m labtui "$@"; }
COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2))
_shtab_labtui labtui "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(script: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", str(script), *words],
        env={**os.environ, "LABTUI_PYTHON": sys.executable}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return [word.strip() for word in done.stdout.split()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_what_there_is(tmp_path, make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run()
    assert cli.main(["completion", "bash"]) == 0
    script = tmp_path / "labtui"
    script.write_text(capsys.readouterr().out)
    assert completed(script, "labtui", "experi") == ["experiments"]
    assert "--detach" in completed(script, "labtui", "run", "--de")
    assert completed(script, "labtui", "run", "ddp_by") == ["ddp_by_hand"]
    assert completed(script, "labtui", "show", folder.id[:10]) == [folder.id]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_command_is_known_to_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)


def test_ids_and_names_are_bare(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", "--ids"]) == 0
    assert capsys.readouterr().out == ""
    older, newer = make_run(), make_run()
    assert cli.main(["runs", "--ids"]) == 0
    assert capsys.readouterr().out.split() == [newer.id, older.id]
    assert cli.main(["experiments", "--names"]) == 0
    assert "ddp_by_hand" in capsys.readouterr().out.split()


def test_reset_restores_what_a_killed_program_left() -> None:
    ours, theirs = pty.openpty()
    try:
        mode = termios.tcgetattr(theirs)
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, mode)
        subprocess.run([sys.executable, "-m", "labtui", "reset"], stdin=theirs, stdout=theirs, check=True, timeout=60)
        after = termios.tcgetattr(theirs)
        assert after[3] & termios.ECHO and after[3] & termios.ICANON and after[3] & termios.ISIG
        assert after[1] & termios.OPOST
        written = os.read(ours, 4096)
        for wanted in (b"\x1b[?1049l", b"\x1b[?1003l", b"\x1b[?25h", b"\x1b[?2004l"):
            assert wanted in written
    finally:
        os.close(ours)
        os.close(theirs)
