"""The UI in a real terminal (a pty): how it ends, and what comes in and goes out as bytes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
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
