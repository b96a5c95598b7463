"""How soon the terminal UI shows its first full screen, beside a minimal Textual app, nvitop and a bare Python.

    .venv/bin/python benchmarks/tui_start.py [--times 9] [--nvitop PATH]

A run is alive (see live_run), so that a full screen has the experiments, the guide of the first one and eight GPUs.
All programs start in turn, in a pty of 160 x 45, so that a busy neighbour hits all alike; what counts are the ratios.
`--nvitop` names an nvitop (from `pip install nvitop` in an environment of its own). Wanted of the full screen: at most
2.0 times the minimal app, better 1.4.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import sys
from pathlib import Path

from live_run import LiveRun, labtui
from terminal import Terminal, against
from yardstick import measure

MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("leave")
Minimal().run()
"""
GUIDE, GPUS = b"Data parallelism by hand", b"held back by"
"""The first words of the guide, and the last ones above the GPUs' rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--nvitop", help="path of an nvitop")
    arguments = parser.parse_args()
    # Name -> a program and what it shows.
    programs: dict[str, tuple[list[str], tuple[bytes, ...]]] = {
        "bare Python": ([sys.executable, "-c", "print('leave')"], (b"leave",)),
        "minimal Textual app": ([sys.executable, "-c", MINIMAL], (b"leave",)),
    }
    for what, texts in (
        ("frame", (b"leave",)), ("experiments", (b"DDP by hand",)), ("full screen", (b"DDP by hand", GUIDE, GPUS)),
    ):  # fmt: skip
        programs[f"labtui, {what}"] = (labtui(), texts)
    if arguments.nvitop:
        programs["nvitop"] = ([arguments.nvitop, "-m", "full"], (b"GPU-Util",))
    # Without .pyc files every start would compile labtui anew (PYTHONDONTWRITEBYTECODE is set in some places).
    compileall.compile_dir(Path(__file__).resolve().parents[1] / "labtui", quiet=1)
    before = measure()
    measured: dict[str, list[float]] = {name: [] for name in programs}
    with LiveRun() as run:
        for _ in range(arguments.times + 1):  # the first start warms the page cache
            for name, (command, texts) in programs.items():
                terminal = Terminal(command, run.environment)
                try:
                    measured[name].append(terminal.until(*texts) - terminal.begun)
                finally:
                    terminal.end()
    print(before.beside(measure()))
    base = measured["minimal Textual app"][1:]
    for name, all_seconds in measured.items():
        seconds = all_seconds[1:]
        median, least = statistics.median(seconds), min(seconds)
        ratio = statistics.median(one / other for one, other in zip(seconds, base, strict=True))
        verdict = f"  {against(ratio, 2.0, 1.4)}" if name == "labtui, full screen" else ""
        print(f"{name:<22} median {1000 * median:6.0f} ms, least {1000 * least:6.0f} ms; x {ratio:.2f} of the minimal "
              f"app, by their least {least / min(base):.2f}{verdict}")  # fmt: skip


if __name__ == "__main__":
    main()
