"""The UI in a real terminal (a pty): how it ends, and what comes in and goes out as bytes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_lab import made_run

from labtui.runs import welcome
from labtui.runs.folder import write_json

RESTORED = b"\x1b[?1049l"
"""Leaves the alternate screen."""


class Terminal:
    """labtui in a pty of 80 x 24."""

    def __init__(self, *options: str, **environment: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", **environment})
            os.execv(sys.executable, [sys.executable, "-m", "labtui", *options])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.output = b""
        self.code: int | None = None

    def until(self, text: bytes) -> None:
        """Reads until that was written; raises if it isn't within a minute, or the app ends before."""
        deadline = time.monotonic() + 60
        while text not in self.output:
            assert time.monotonic() < deadline, f"never written: {text!r}; there is {self.output[-2000:]!r}"
            assert self._read(0.1), f"ended before {text!r}: {self.output[-2000:]!r}"

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.output += data
        return bool(data)

    def press(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def end(self) -> int:
        """Waits until the app has ended; returns its exit code as a shell would."""
        deadline = time.monotonic() + 60
        while self.code is None:
            assert time.monotonic() < deadline, "it never ended"
            if self.fd >= 0:
                self._read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.code = 128 - code if code < 0 else code
        return self.code

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@pytest.fixture
def terminal(own_folders: Path) -> Iterator[type[Terminal]]:
    opened: list[Terminal] = []

    class Ours(Terminal):
        def __init__(self, *options: str, **environment: str) -> None:
            super().__init__(*options, **environment)
            opened.append(self)

    yield Ours
    for one in opened:
        if one.code is None:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        one.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_ends_it_with_the_terminal_restored(terminal: type[Terminal], number: int, code: int) -> None:
    app = terminal()
    app.until(b"leave")
    os.kill(app.pid, number)
    assert app.end() == code
    assert RESTORED in app.output and b"\x1b[?25h" in app.output
    assert b"Traceback" not in app.output


def test_a_terminal_that_hangs_up_ends_it(terminal: type[Terminal]) -> None:
    app = terminal()
    app.until(b"leave")
    app.close()
    assert app.end() == 129


def test_bytes_that_are_no_utf8_do_not_end_it(terminal: type[Terminal]) -> None:
    """An old mouse report with a byte above 0x7f, and half a character: textual issue 6668."""
    app = terminal()
    app.until(b"leave")
    app.press(b"\x1b[M \xf0\xff")
    app.press(b"\x80\xfe")
    app.press(b"3")
    app.until(b"none yet")
    app.press(b"q")
    assert app.end() == 0
    assert RESTORED in app.output


def test_without_utf8_every_byte_is_ascii(terminal: type[Terminal]) -> None:
    app = terminal(PYTHONIOENCODING="latin-1", TERM="vt100")
    app.until(b"leave")
    app.press(b"2")
    app.until(b"Findings")
    app.press(b"q")
    assert app.end() == 0
    assert app.output.isascii()


def test_options_for_lesser_terminals(terminal: type[Terminal]) -> None:
    app = terminal("--ascii", "--no-mouse", "--slow-link")
    app.until(b"leave")
    app.press(b"q")
    assert app.end() == 0
    assert app.output.isascii()
    assert b"\x1b[?1003h" not in app.output and b"\x1b[?1000h" not in app.output


def test_a_terminal_that_can_show_nothing_is_refused_with_the_commands_that_work(terminal: type[Terminal]) -> None:
    app = terminal(TERM="dumb")
    assert app.end() == 2
    assert b"TERM=dumb" in app.output and b"runs, show, logs" in app.output
    assert b"\x1b" not in app.output and app.output.count(b"\n") == 1


COLOUR = re.compile(rb"\x1b\[([0-9;]*)m")


def colours(output: bytes) -> set[str]:
    """The colours that were asked for, as SGR has them: `38;5;110`, `38;2;1;2;3`, `94`."""
    found = set()
    for sequence in COLOUR.findall(output):
        parts = [int(part or 0) for part in sequence.split(b";")]
        while parts:
            length = 1 if parts[0] not in (38, 48) else 3 if parts[1] == 5 else 5
            one, parts = parts[:length], parts[length:]
            if length > 1 or 30 <= one[0] <= 37 or 40 <= one[0] <= 47 or 90 <= one[0] <= 107:
                found.add(";".join(map(str, one)))
    return found


def is_grey(colour: str) -> bool:
    kind, *rest = (int(part) for part in colour.split(";"))
    if not rest:
        return kind % 10 in (0, 7)
    if rest[0] == 2:
        return len(set(rest[1:])) == 1
    return rest[1] >= 232 or rest[1] in (0, 7, 8, 15) or (rest[1] - 16) % 43 == 0


@pytest.mark.parametrize("term", ["xterm-256color", "xterm"])
def test_without_colour_all_is_grey_and_states_have_letters(terminal: type[Terminal], term: str) -> None:
    app = terminal(NO_COLOR="1", TERM=term)
    app.until(b"leave")
    app.press(b"?")
    app.until(b"esc closes")
    app.press(b"?q")
    assert app.end() == 0
    assert all(is_grey(colour) for colour in colours(app.output)), colours(app.output)


def test_with_16_colours_no_other_is_asked_for(terminal: type[Terminal]) -> None:
    app = terminal(TERM="xterm")
    app.until(b"leave")
    app.press(b"q")
    assert app.end() == 0
    assert colours(app.output) and not any(";" in colour for colour in colours(app.output))
    assert not all(is_grey(colour) for colour in colours(app.output))


def test_the_first_start_shows_its_page_once(terminal: type[Terminal]) -> None:
    welcome.marker().unlink()
    app = terminal()
    app.until(b"Welcome to labtui")
    app.output = b""
    app.press(b"  ")
    app.until(b"Experiments")
    app.press(b"q")
    assert app.end() == 0 and welcome.marker().exists()


def test_the_title_and_the_bell_say_that_a_run_has_ended(terminal: type[Terminal], own_folders: Path) -> None:
    folder = made_run(own_folders, "running")
    app = terminal("attach", folder.id)
    app.until(b"hello from rank 0")
    app.until(b"\x1b]2;R lab_test running - labtui\x07")
    assert b"\x1b[22;2t" in app.output, "the old title is kept"
    word = folder.status().document()
    write_json(folder.status_file, {**word, "state": "failed", "ended": time.time()})
    app.until(b"\x1b]2;!! lab_test failed - labtui\x07")
    app.press(b"q")
    assert app.end() == 0
    assert b"\x1b[23;2t" in app.output and app.output.index(b"\x1b[23;2t") > app.output.index(b"!! lab_test")
    assert re.sub(rb"\x1b\][^\x07]*\x07", b"", app.output).count(b"\x07") == 1, "one bell"


def test_a_log_opens_in_the_pager_and_the_screen_comes_back(
    terminal: type[Terminal], own_folders: Path, tmp_path: Path
) -> None:
    folder = made_run(own_folders, "running")
    pager = tmp_path / "my pager"
    pager.write_text('#!/bin/sh\nprintf "PAGED[%s][%s]" "$#" "$1"\nread -r line\n')
    pager.chmod(0o755)
    app = terminal("attach", folder.id, PAGER=f"'{pager}'")
    app.until(b"hello from rank 0")
    app.press(b"o")
    app.until(f"PAGED[1][{folder.path}/ranks/0/stdout.log]".encode())
    app.press(b"\x03")  # ends the pager, not labtui
    app.press(b"\n")
    app.press(b"3")
    app.until(b"1 of 1")
    app.press(b"q")
    assert app.end() == 0
