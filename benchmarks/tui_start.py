"""How soon the terminal UI shows its first full screen, beside a minimal Textual app and a bare Python.

    python benchmarks/tui_start.py [--times 9]

Each starts in a pty of 160 x 45, in turn, so that a busy neighbour hits all alike; what counts are the ratios.
Target: at most twice the minimal app.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time

from yardstick import measure

MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("leave")
Minimal().run()
"""
LABTUI = "import sys; from labtui.cli.main import main; sys.exit(main([]))"
BARE = "print('leave')"


def until_shown(code: str, text: bytes, logs: str) -> float:
    """Seconds from the start of the process until the terminal has been sent `text`."""
    begin = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LABTUI_LOGS=logs)
        os.execv(sys.executable, [sys.executable, "-c", code])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
    output = b""
    try:
        while text not in output:
            if not select.select([terminal], [], [], 30)[0]:
                raise SystemExit(f"never shown: {text!r}")
            output += os.read(terminal, 1 << 16)
        return time.perf_counter() - begin
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=9)
    times = parser.parse_args().times
    programs = {
        "bare Python": (BARE, b"leave"),
        "minimal Textual app": (MINIMAL, b"leave"),
        "labtui, frame": (LABTUI, b"leave"),
        "labtui, list of experiments": (LABTUI, b"DDP by hand"),
    }
    before = measure()
    measured: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as logs:
        for _ in range(times + 1):
            for name, (code, text) in programs.items():
                measured[name].append(until_shown(code, text, logs))
    base = statistics.median(measured["minimal Textual app"][1:])
    print(before.beside(measure()))
    for name, seconds in measured.items():
        median, least = statistics.median(seconds[1:]), min(seconds[1:])  # the first start warms the page cache
        print(f"{name:<28} median {1000 * median:6.0f} ms   least {1000 * least:6.0f} ms   x {median / base:.2f}")


if __name__ == "__main__":
    main()
