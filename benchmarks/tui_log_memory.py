"""Memory of the terminal UI per line of a log that it shows: at most 16 bytes are wanted, better 8.

    .venv/bin/python benchmarks/tui_log_memory.py [--lines 900000]

A run has ended; one labtui shows its rank's log, another one all its logs as one, and both are made longer by 100,000
lines at a time. What counts is the growth of the resident memory that belongs to no file, per line. Beyond a million
lines an index forgets its older half: memory is bounded then.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from index import make_runs
from live_rank import log_line
from live_run import clean_environment, labtui
from terminal import Terminal, against, plain
from yardstick import measure

STEP = 100_000
RANKS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=900_000)
    most = parser.parse_args().lines
    before = measure()
    with tempfile.TemporaryDirectory(prefix="labtui-benchmark-") as folder:
        environment = clean_environment(Path(folder))
        logs = Path(folder) / "logs"
        make_runs(logs, 1, time.time())
        (run,) = logs.iterdir()
        files = [run / "ranks" / str(rank) / "stdout.log" for rank in range(RANKS)]
        for file in files:
            file.parent.mkdir(parents=True)
            file.write_bytes(b"".join(map(log_line, range(1000))))
        shown: dict[str, Terminal] = {}
        try:
            for name, keys in (("a rank's log", b"2"), ("all logs as one", b"2]]")):
                shown[name] = Terminal(labtui(), environment)
                shown[name].until(b"Experiments")
                for key in keys:
                    shown[name].press(bytes([key]))
                    time.sleep(2.0)
            sizes: dict[str, list[tuple[int, int]]] = {name: [] for name in shown}
            lines = 1000
            while True:
                for name, terminal in shown.items():
                    wait_for(terminal, lines if name == "a rank's log" else RANKS * lines)
                    sizes[name].append((lines if name == "a rank's log" else RANKS * lines, terminal.memory()))
                if lines >= most:
                    break
                for terminal in shown.values():
                    terminal.forget()
                for file in files:
                    with file.open("ab") as out:
                        out.write(b"".join(map(log_line, range(lines, lines + STEP))))
                lines += STEP
        finally:
            for terminal in shown.values():
                terminal.end()
    for name, points in sizes.items():
        (first, small), (last, large) = points[1], points[-1]  # the first step also grows buffers that stay
        per_line = (large - small) / (last - first)
        print(f"{name:<16} {per_line:5.1f} bytes a line {against(per_line, 16, 8)}; "
              f"{small / 2**20:.1f} MiB at {first:,} lines, {large / 2**20:.1f} MiB at {last:,}")  # fmt: skip
    print(before.beside(measure()))


def wait_for(terminal: Terminal, lines: int) -> None:
    """Until the heading says so many lines."""
    deadline = time.monotonic() + 60
    while f"{lines:,} lines" not in plain(terminal.output()):
        if time.monotonic() > deadline:
            raise SystemExit(f"{lines:,} lines were never shown:\n{plain(terminal.output())[-3000:]}")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
