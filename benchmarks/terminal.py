"""A program in a terminal of its own (a pty of 160 x 45), and what it costs: time, CPU, bytes sent, memory.

    terminal = Terminal([sys.executable, "-m", "labtui"], environment)
    terminal.until(b"leave")
    cpu, sent = terminal.cpu(), terminal.sent

A thread reads what the program writes as fast as it comes, unless it is told to `hold`: then nobody reads.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

COLUMNS, LINES = 160, 45
PATIENCE_S = 60.0
KEPT = 1 << 20
"""Bytes of output that are kept to look for texts in."""


class Terminal:
    """A program in a pty; ended with `end`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.begun = time.perf_counter()
        self.sent = 0
        """Bytes read from it so far."""
        self._chunks: list[tuple[float, bytes]] = []
        self._arrived = threading.Condition()
        self._reading = threading.Event()
        self._reading.set()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            # labtui is started from here too early to have a size, and is told of it like of any resize.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
            os.execvpe(command[0], list(command), {**environment, "TERM": "xterm-256color"})
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            self._reading.wait()
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:
                return
            now = time.perf_counter()
            with self._arrived:
                self.sent += len(data)
                self._chunks.append((now, data))
                self._arrived.notify_all()

    def until(self, *texts: bytes) -> float:
        """Waits until all texts have come since the last `forget`; returns when (perf_counter) the last one did."""
        deadline = time.monotonic() + PATIENCE_S
        with self._arrived:
            while True:
                output = b"".join(data for _, data in self._chunks)
                ends = [output.find(text) + len(text) if text in output else None for text in texts]
                if None not in ends:
                    return self._time_of(max(end for end in ends if end is not None))
                if not self._arrived.wait(deadline - time.monotonic()):
                    raise SystemExit(f"never shown: {texts}\n{plain(output)[-4000:]}")

    def _time_of(self, end: int) -> float:
        for when, data in self._chunks:
            end -= len(data)
            if end <= 0:
                return when
        raise AssertionError("what was found is not there")

    def forget(self) -> None:
        """What has come so far is not looked at any more."""
        with self._arrived:
            self._chunks.clear()

    def output(self) -> bytes:
        """What has come since the last `forget`."""
        with self._arrived:
            return b"".join(data for _, data in self._chunks)[-KEPT:]

    def press(self, keys: bytes) -> float:
        """Returns when (perf_counter) they were pressed."""
        now = time.perf_counter()
        os.write(self._fd, keys)
        return now

    def hold(self) -> None:
        """Nobody reads from now on (but for what a read that waits already may still get)."""
        self._reading.clear()

    def release(self) -> None:
        self._reading.set()

    def cpu(self) -> float:
        return cpu_of(self.pid)

    def memory(self) -> int:
        return memory_of(self.pid)

    def end(self) -> None:
        self.release()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def cpu_of(pid: int) -> float:
    """Seconds that all threads of a process have run so far, those that have ended included."""
    # What clock_getcpuclockid(3) makes of a pid on Linux; the 10 ms ticks of /proc/PID/stat are too coarse.
    return time.clock_gettime((~pid << 3) | 2)


def memory_of(pid: int) -> int:
    """Bytes of a process that lie in memory and belong to no file."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) * 1024


def plain(output: bytes) -> str:
    """Output without its escape sequences."""
    return re.sub(rb"\x1b(\[[0-9;?<>=]*[A-Za-z]|\][^\x07]*\x07|[PX^_].*?\x1b\\|.)", b"", output).decode(
        errors="replace"
    )


def against(figure: float, must: float, aim: float) -> str:
    """A figure beside what it must and should be at most: `(must 4, aim 2: within the must)`."""
    word = "within the aim" if figure <= aim else "within the must" if figure <= must else "OVER"
    return f"(must {must:g}, aim {aim:g}: {word})"
