"""The one rank of the run that benchmarks look at (see live_run): four series and a line of log twice a second.

While there is a file `flood` in its folder, it prints 50,000 lines a second besides. Of labtui it knows `report` only.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

HZ = 2.0
LINES_PER_S = 50_000
SERIES = ("loss", "step_time", "tokens_per_s", "gradient_norm")
PAST = 3600
"""Points of each series that there are at once, as after half an hour."""


def report(folder: Path) -> None:
    """What the rank does."""
    from labtui.bench import report as say  # the benchmarks take their constants from here without it

    def point(step: int) -> None:
        values = (2.3 * math.exp(-step / 1200), 41 + step % 40 / 4, 5e4 - step % 17 * 100, 1 + math.sin(step / 9) / 3)
        for name, value in zip(SERIES, values, strict=True):
            say.metric(name, value, step=step)

    for step in range(PAST):
        point(step)
    flood, step, number = folder / "flood", PAST, 0
    due, begun = time.monotonic(), 0.0
    while True:
        if flood.exists():
            # Every 20 ms; what was missed while the machine was busy is made up for.
            begun = begun or time.monotonic()
            count = int((time.monotonic() - begun) * LINES_PER_S)
            begun += count / LINES_PER_S
            os.write(1, b"".join(map(log_line, range(number, number + count))))
            number += count
        else:
            begun = 0.0
        if time.monotonic() >= due:
            due += 1 / HZ
            point(step)
            say.progress(step, 100 * PAST)
            if not number:  # lines between those of a flood would break their numbering
                os.write(1, b"step %d of many, and all is well\n" % step)
            step += 1
        time.sleep(0.02 if flood.exists() else max(0.0, min(0.1, due - time.monotonic())))


_LETTERS = (bytes.maketrans(b"0123456789", b"abcdefghij"), bytes.maketrans(b"0123456789", b"ABCDEFGHIJ"))


def token(number: int) -> bytes:
    """What a line of the flood begins with: unlike that of any other line, and of its neighbours in every letter."""
    return (b"%010d" % number).translate(_LETTERS[number % 2])


def log_line(number: int) -> bytes:
    """95 bytes."""
    rest = b" loss 2.3025850929 gradient norm 1.41421356 learning rate 3.0e-4, 51,234 tokens/s; ok"
    return (token(number) + rest).ljust(94) + b"\n"
