"""Pipeline schedules: making an order and simulating it, on one core.

    .venv/bin/python benchmarks/pipeline.py [ROUNDS]

Wanted: 1F1B p=64, m=1024 (131,072 operations) made and simulated in at most 0.35 s, p=8, m=32 in 3 ms (a held-down key
feels instant), below 400 bytes per operation for order and timeline together, the automatic search at p=32, m=256 in at
most 2.6 s. Wall time and CPU time, the best of the rounds, beside the yardstick; then what the largest order takes.
"""

from __future__ import annotations

import sys
import time
import tracemalloc

from yardstick import measure

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.critical import critical_path
from labtui.theory.pipeline.schedules import SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate

CASES = (
    ("1f1b", 64, 1024, 0.35),
    ("1f1b", 8, 32, 0.003),
    ("interleaved-1f1b", 8, 32, None),
    ("dualpipe", 16, 512, None),
    ("zb-h1", 64, 1024, None),
    ("zb-1p", 32, 256, 2.6),
    ("zb-2p", 32, 256, 2.6),
)
"""Schedule, p, m, and the seconds wanted."""
TIMES = Costs(11.325, 11.308, 8.109, comm=0.378)
"""Of Zero Bubble's 14.6B model with m=128 (arXiv 2401.10241 table 9): a search doesn't end early with them."""
SLOW = Costs(11.325, 11.308, 8.109, comm=0.378, stages=(1.0,) * 20 + (1.3,) + (1.0,) * 11)
SEARCHES = (
    ("zb-1p", 32, 256, TIMES, None),
    ("zb-2p", 32, 256, TIMES, None),
    ("zb-2p", 32, 256, SLOW, None),
    ("zb-1p", 32, 256, TIMES, 16.0),
    ("v-half", 16, 48, TIMES, None),
    ("v-min", 32, 256, TIMES, None),
)
"""Schedule, p, m, costs, memory limit; at most 2.6 s each."""
LARGE = ("1f1b", 250, 10_000)
"""The most operations that `build` takes."""


def once(name: str, devices: int, microbatches: int) -> tuple[float, float, float, float]:
    """Wall seconds of making and of simulating, then CPU seconds of both."""
    wall, cpu = time.perf_counter(), time.process_time()
    order = build(name, devices, microbatches)
    made_wall, made_cpu = time.perf_counter(), time.process_time()
    simulate(order)
    return (
        made_wall - wall,
        time.perf_counter() - made_wall,
        made_cpu - cpu,
        time.process_time() - made_cpu,
    )


def bytes_per_operation(name: str, devices: int, microbatches: int) -> tuple[float, float]:
    """Of order and timeline while they are kept, and at the worst moment."""
    tracemalloc.start()
    timeline = simulate(build(name, devices, microbatches))
    kept, worst = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    operations = sum(map(len, timeline.starts))
    return kept / operations, worst / operations


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    before = measure()
    for name, devices, microbatches, wanted in CASES:
        if name not in SCHEDULES:
            print(f"{name}: not there")
            continue
        best = [min(column) for column in zip(*(once(name, devices, microbatches) for _ in range(rounds)), strict=True)]
        together = best[0] + best[1]
        goal = "" if wanted is None else f" (wanted: at most {wanted:g})"
        print(
            f"{name} p={devices} m={microbatches}: {together:.4f} s{goal}, {before.times(together):.2f} yardsticks; "
            f"made in {best[0]:.4f}, simulated in {best[1]:.4f}; CPU {best[2] + best[3]:.4f}"
        )
    for name, devices, microbatches, costs, limit in SEARCHES:
        best = []
        for _ in range(min(rounds, 3)):
            begun = time.perf_counter()
            build(name, devices, microbatches, costs=costs, memory_limit=limit)
            best.append(time.perf_counter() - begun)
        what = "" if limit is None else f", limit {limit:g}"
        what += ", a slow stage" if costs.stages else ""
        print(
            f"search {name} p={devices} m={microbatches}{what}: {min(best):.2f} s (wanted: at most 2.6), "
            f"{before.times(min(best)):.0f} yardsticks"
        )
    order = build(*CASES[0][:3])
    timeline = simulate(order)
    begun = time.perf_counter()
    hops = critical_path(timeline).hops
    print(f"critical path of the first: {hops} hops found in {time.perf_counter() - begun:.2f} s")
    kept, worst = bytes_per_operation(*CASES[0][:3])
    print(f"bytes per operation: {kept:.0f} kept, {worst:.0f} at most (wanted: below 400)")
    wall = sum(once(*LARGE)[:2])
    operations = 2 * LARGE[1] * LARGE[2]
    print(f"{operations:,} operations: {wall:.1f} s, {wall / operations * 1e6:.2f} us each")
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
