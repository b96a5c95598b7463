"""How long a key takes to show on the Run screen while a rank prints 50,000 lines a second, and while it prints none.

    .venv/bin/python benchmarks/tui_keys.py [--keys 300]

The log is looked at from its beginning, and the arrow scrolls it by a line: each key must bring the one line that comes
into sight below, which the reading thread first has to read. The flood comes and goes every few seconds, so that both
kinds of keys meet the same machine. Wanted during the flood: the slowest of a hundred within 50 ms, better 20.
"""

from __future__ import annotations

import argparse
import random
import time

from live_rank import LINES_PER_S, token
from live_run import AT_2_HZ, LiveRun, labtui
from terminal import Terminal, against
from yardstick import measure

PHASE_S = 3.0
LOG_LINES = 900_000
"""An index of a log forgets its older half beyond a million lines: by then the beginning would be out of sight."""


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def last_shown(terminal: Terminal) -> int:
    """The number of the last line in sight, after `g` went to the first one."""
    time.sleep(2.0)
    output = terminal.output()
    number = 0
    while token(number) in output:
        number += 1
    if number < 5:
        raise SystemExit("the beginning of the log was not shown")
    return number - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=300, help="of each kind, at most")
    wanted = parser.parse_args().keys
    before = measure()
    chance = random.Random(1)
    took: dict[bool, list[float]] = {True: [], False: []}
    with LiveRun() as run:
        run.flood(True)
        terminal = Terminal(labtui(AT_2_HZ), run.environment)
        try:
            terminal.until(b"Experiments")
            terminal.press(b"2")
            terminal.until(b"following")
            run.flood(False)
            size = run.rank_log.stat().st_size
            terminal.forget()
            terminal.press(b"g")
            line = last_shown(terminal)
            flooded = 0.0
            while min(map(len, took.values())) < wanted and flooded * LINES_PER_S < LOG_LINES - size / 95:
                for flood in (False, True):
                    begin = time.monotonic()
                    if flood:
                        run.flood(True)
                        time.sleep(0.3)  # until it is on
                    while time.monotonic() - begin < PHASE_S:
                        line += 1
                        terminal.forget()
                        pressed = terminal.press(b"j")
                        took[flood].append(terminal.until(token(line)) - pressed)
                        time.sleep(chance.uniform(0.01, 0.05))
                    if flood:
                        run.flood(False)
                        flooded += time.monotonic() - begin
            printed = (run.rank_log.stat().st_size - size) / 95
        finally:
            terminal.end()
    print(f"the rank printed {printed / flooded:,.0f} lines a second for {flooded:.0f} s")
    for flood, seconds in took.items():
        ms = [1000 * one for one in seconds]
        slow = quantile(ms, 0.99)
        print(f"{'with the flood' if flood else 'without it':<15} {len(ms)} keys: median {quantile(ms, 0.5):.1f} ms, "
              f"p90 {quantile(ms, 0.9):.1f} ms, p99 {slow:.1f} ms, most {max(ms):.1f} ms"
              + (f"  {against(slow, 50, 20)}" if flood else ""))  # fmt: skip
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
