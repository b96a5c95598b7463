"""A terminal that nobody reads for 10 s, as over a connection that hangs: do sampler and run go on as if nothing were?

    .venv/bin/python benchmarks/tui_unread.py [--rounds 3]

The UI looks at a real run (see live_run) while its terminal is read for 10 s and not read for 10 s, in turns; keys are
pressed meanwhile, so that it has more to write than a terminal holds. Both the sampler and the rank have something to
say every 0.5 s. Wanted: no two samples further apart than 0.6 s, and the rank as regular as when the terminal is read.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

from live_rank import HZ
from live_run import AT_2_HZ, LiveRun, labtui
from terminal import Terminal, against
from yardstick import measure

PHASE_S = 10.0
KEYS = b"LCTmpF"
"""Panes of the Run, one after the other."""


def longest_gap(times: list[float], phases: list[tuple[float, float]]) -> float:
    """The longest time between two of these within the phases."""
    return max(
        after - before
        for begin, end in phases
        for before, after in pairwise(t for t in times if begin <= t <= end)
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    before = measure()
    phases: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    used: dict[bool, list[float]] = {True: [], False: []}
    back: list[float] = []
    with LiveRun() as run:
        terminal = Terminal(labtui(AT_2_HZ), run.environment)
        try:
            terminal.until(b"Experiments")
            terminal.press(b"2")
            terminal.until(b"following")
            for _ in range(rounds):
                for is_read in (True, False):
                    begin, cpu = time.time(), terminal.cpu()
                    if not is_read:
                        terminal.hold()
                    for number in range(round(PHASE_S)):
                        terminal.press(KEYS[number % len(KEYS)].to_bytes())
                        time.sleep(1.0)
                    phases[is_read].append((begin, time.time()))
                    used[is_read].append(terminal.cpu() - cpu)
                    if not is_read:
                        terminal.forget()
                        terminal.press(b"?")
                        released = time.perf_counter()
                        terminal.release()
                        back.append(terminal.until(b"esc closes") - released)
                        terminal.press(b"?")
                        time.sleep(1.0)
            samples, reports = run.telemetry(), run.reports()
        finally:
            terminal.end()
    for is_read, name in ((True, "read"), (False, "not read")):
        gap = longest_gap(samples, phases[is_read])
        said = longest_gap(reports, phases[is_read])
        share = 100 * sum(used[is_read]) / (rounds * PHASE_S)
        print(f"terminal {name} for {rounds} times {PHASE_S:g} s")
        print(
            f"  longest time between samples  {gap:.3f} s of {1 / HZ:g}"
            + ("" if is_read else f" {against(gap, 0.6, 0.6)}")
        )
        print(f"  between reports of the rank   {said:.3f} s of {1 / HZ:g}")
        print(f"  the UI used                   {share:.2f} % of a core")
    print(f"keys answered again {1000 * max(back):.0f} ms after the terminal was read again, at the latest")
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
