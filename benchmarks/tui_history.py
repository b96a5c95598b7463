"""The Runs screen over 100,000 runs: what it costs to open it, to press a key, and to be left alone.

    .venv/bin/python benchmarks/tui_history.py [--runs 100000] [--rounds 3]

The folders are empty, and the index is filled directly: what reading real ones costs says benchmarks/index.py. Where
the disk is slow, let TMPDIR name a folder in memory. A labtui over 100 runs does the same in turn, so that one sees
what the number of runs is to blame for. Wanted over 100,000: shown within 150 ms and a key for 10 ms of CPU, better 50
and 5.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from index import make_runs
from live_run import clean_environment, labtui
from terminal import Terminal, against
from yardstick import measure

from labtui.runs.rows import Look, look
from labtui.runs.store import Store

SETTLE_S = 3.0
KEYS = 40
FEW = 100


def make_history(place: Path, count: int) -> dict[str, str]:
    """An environment in which there are so many runs, a minute apart."""
    environment = clean_environment(place)
    logs = Path(environment["LABTUI_LOGS"])
    now = time.time()
    make_runs(logs, 1, now)
    (first,) = logs.iterdir()
    row = look(logs, first.name).row
    assert row is not None
    looks = []
    for number in range(1, count):
        created = now - 60.0 * (number + 1)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(created))
        name = f"{stamp}-ddp_by_hand-{number & 0xFFFF:04x}"
        (logs / name).mkdir()
        made = replace(row, id=name, created=created, started=created + 0.3, ended=created + 9.0)
        looks.append(Look(name, made, "", (None, None, None)))
    # Where the index lies depends on the environment of whoever asks.
    from labtui.runs import index

    index.os.environ["XDG_CACHE_HOME"] = environment["XDG_CACHE_HOME"]
    store = Store(logs, index.cache_file(logs))
    store._write(looks)
    time.sleep(2.1)  # until the folder's time stamp tells changes apart
    store.refresh(None)
    store.close()
    return environment


class Measured:
    """Figures by name, of several rounds."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, value: float) -> None:
        self._values[name].append(value)

    def median(self, name: str) -> float:
        return statistics.median(self._values[name])

    def say(self, name: str, unit: str) -> str:
        values = self._values[name]
        return f"{statistics.median(values):.2f} {unit} ({min(values):.2f} to {max(values):.2f})"


def idle(terminal: Terminal, seconds: float) -> float:
    """The share of a core that it uses by itself."""
    cpu = terminal.cpu()
    time.sleep(seconds)
    return (terminal.cpu() - cpu) / seconds


def per_key(terminal: Terminal, key: bytes, share: float) -> float:
    """ms of CPU that a key costs beyond what would be used anyway."""
    cpu, begin = terminal.cpu(), time.perf_counter()
    for _ in range(KEYS):
        terminal.press(key)
        time.sleep(0.04)
    return 1000 * (terminal.cpu() - cpu - share * (time.perf_counter() - begin)) / KEYS


def one_round(environment: dict[str, str], count: int, measured: Measured) -> None:
    """Opens it, shows the Runs, presses keys."""
    terminal = Terminal(labtui(), environment)
    try:
        terminal.until(b"Experiments")
        time.sleep(SETTLE_S)
        share = idle(terminal, 4.0)
        measured.add("idle", 100 * share)
        terminal.forget()
        cpu, pressed = terminal.cpu(), terminal.press(b"3")
        measured.add("shown", 1000 * (terminal.until(b"1 of %s" % f"{count:,}".encode()) - pressed))
        time.sleep(0.3)
        measured.add("mount", 1000 * (terminal.cpu() - cpu - share * 0.3))
        measured.add("down", per_key(terminal, b"j", share))
        measured.add("page", per_key(terminal, b"\x04", share))
        if count <= FEW:
            return
        begin = time.perf_counter()
        end = b"%s of %s" % (f"{count:,}".encode(), f"{count:,}".encode())
        while end not in terminal.output() and time.perf_counter() - begin < 60:
            terminal.press(b"G")
            time.sleep(0.25)
        terminal.until(end)
        measured.add("to the end", time.perf_counter() - begin)
        measured.add("idle at the end", 100 * idle(terminal, 6.0))
        measured.add("memory", terminal.memory() / 2**20)
    finally:
        terminal.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    before = measure()
    with tempfile.TemporaryDirectory(prefix="labtui-benchmark-") as folder:
        counts = (FEW, arguments.runs)
        places = {count: make_history(Path(folder) / str(count), count) for count in counts}
        all_measured = {count: Measured() for count in counts}
        for _ in range(arguments.rounds):
            for count in counts:
                one_round(places[count], count, all_measured[count])
    for count, of in all_measured.items():
        print(f"{count:,} runs")
        bars = count > FEW
        print(
            f"  shown after       {of.say('shown', 'ms')}"
            + (f" {against(of.median('shown'), 150, 50)}" if bars else "")
        )
        print(f"  for               {of.say('mount', 'ms of CPU')}")
        for key in ("down", "page"):
            bar = f" {against(of.median(key), 10, 5)}" if bars else ""
            print(f"  a key, {key:<11}{of.say(key, 'ms of CPU')}{bar}")
        print(f"  left alone        {of.say('idle', '% of a core')}")
        if bars:
            print(f"  to the last one   {of.say('to the end', 's')} with G held down")
            print(f"  there, left alone {of.say('idle at the end', '% of a core')}; {of.say('memory', 'MiB')}")
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
