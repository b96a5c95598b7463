"""What one report costs, beside `json.dumps` of the same event. Target: at most ten times, in the median.

    .venv/bin/python benchmarks/report_cost.py [FOLDER]

Events go to a temporary run folder, in FOLDER if given: the disk that holds `logs/` may be slower than /tmp.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from yardstick import measure

from labtui.bench import report

ACTIONS: dict[str, Callable[[], object]] = {
    "metric": lambda: report.metric("loss", 2.31, 10),
    "result": lambda: report.result("busbw", 11.2, "GB/s", collective="all_reduce", size_bytes=67108864),
    "check": lambda: report.check("gradients equal the full batch's", 3e-8, at_most=1e-6),
    "prediction": lambda: report.prediction("bytes sent per rank", 6442450, 6442450, "B"),
    "progress": lambda: report.progress(3, 12),
    "span": lambda: report.add_span("communication", "bucket 1", 1764417796.2, 1764417796.28),
    "note": lambda: report.note("2 ranks share one core"),
}


def microseconds(action: Callable[[], object], repeats: int = 20_000) -> tuple[float, float]:
    """Median and 99th percentile of single calls."""
    clock = time.perf_counter_ns
    took = []
    for _ in range(repeats):
        start = clock()
        action()
        took.append(clock() - start)
    return statistics.median(took) / 1e3, statistics.quantiles(took, n=100)[-1] / 1e3


def main() -> None:
    before = measure()
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        os.environ["LABTUI_RUN_DIR"] = folder
        file = Path(folder, "events", "rank0.jsonl")
        print(f"{'event':<12}{'median us':>11}{'p99 us':>9}{'json.dumps us':>15}{'times':>7}{'per yardstick':>15}")
        for kind, action in ACTIONS.items():
            action()
            event = json.loads(file.read_text().splitlines()[-1])
            plain = microseconds(lambda event=event: json.dumps(event))[0]
            median, p99 = microseconds(action)
            per_yardstick = before.median / (median / 1e6)
            print(f"{kind:<12}{median:>11.2f}{p99:>9.1f}{plain:>15.2f}{median / plain:>7.1f}{per_yardstick:>15.0f}")
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
