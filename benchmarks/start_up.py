"""How fast the command line starts. Wanted with 1,000 runs in logs/: at most 3 times a bare Python.

    .venv/bin/python benchmarks/start_up.py [ROUNDS]

The bare Python is `python -c "import argparse, json"`. Each round times every command and the bare Python next to each
other; printed are medians, and the median of the ratios of such pairs, beside the yardstick.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from index import compiled, make_runs, milliseconds
from yardstick import measure

RUNS = 1_000
COMMANDS = (["--version"], ["experiments"], ["runs"], ["show", "last"])


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    compiled()
    script = Path(sys.executable).parent / "labtui"
    labtui = [str(script)] if script.exists() else [sys.executable, "-m", "labtui"]
    bare = [sys.executable, "-c", "import argparse, json"]
    with tempfile.TemporaryDirectory(prefix="labtui-start-") as temporary:
        environment = {**os.environ, "LABTUI_LOGS": f"{temporary}/logs", "XDG_CACHE_HOME": f"{temporary}/cache"}
        make_runs(Path(temporary) / "logs", RUNS, time.time())
        before = measure()
        for command in ([], *COMMANDS):  # once for the disk's cache and the index
            milliseconds([*labtui, *command] if command else bare, environment)
        times: dict[str, list[float]] = {}
        ratios: dict[str, list[float]] = {}
        for number in range(rounds):
            # Taking turns, also in who comes first: the machine's speed drifts.
            for command in COMMANDS:
                name = " ".join(command)
                pair = {"bare": bare, name: [*labtui, *command]}
                took = {key: milliseconds(pair[key], environment) for key in (pair if number % 2 else reversed(pair))}
                for key, value in took.items():
                    times.setdefault(key, []).append(value)
                ratios.setdefault(name, []).append(took[name] / took["bare"])
        print(f"bare Python: {statistics.median(times['bare']):.0f} ms")
        for name, values in ratios.items():
            wanted = "" if name == "--version" else " (wanted: at most 3)"
            print(
                f"labtui {name}: {statistics.median(times[name]):.0f} ms, {statistics.median(values):.2f} times{wanted}"
            )
        print(before.beside(measure()))


if __name__ == "__main__":
    main()
