"""The run index with 100,000 runs. Wanted: built at 2,000 runs a second, the newest 50 listed within 100 ms.

    .venv/bin/python benchmarks/index.py [RUNS]

Makes run folders in a temporary folder (100,000 take about half a minute and 1.5 GB), then prints how long it took to
build the index, and how long whole `labtui runs` processes take: when nothing has changed, when a run is new, when the
index is locked so that folders are read directly; all beside the yardstick.
"""

from __future__ import annotations

import compileall
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from yardstick import measure

import labtui
from labtui.runs.folder import RunFolder
from labtui.runs.index import cache_file, open_index
from labtui.runs.records import SUCCEEDED, Owner, Request, RunProcess, Status

ROUNDS = 15
CHECKS, RESULTS = 8, 24
"""What each run's last word holds: about as much as that of ddp_by_hand."""


def make_runs(root: Path, count: int, before: float) -> None:
    """Folders of finished runs of two ranks, a minute apart, the newest a minute older than `before`."""
    root.mkdir(parents=True, exist_ok=True)
    event = {"t": before, "rank": 0, "unit": "ms"}
    check = {**event, "kind": "check", "name": "gradients equal the full batch's", "value": 3e-8, "passed": True}
    result = {
        **event,
        "kind": "result",
        "name": "step_time",
        "value": 1.5,
        "labels": {"way": "hooks", "stat": "median"},
    }
    ranks = [
        RunProcess(
            "rank", 413 + rank, 88190, rank, rank, f"ranks/{rank}/stdout.log", f"ranks/{rank}/stderr.log", "signal"
        )
        for rank in range(2)
    ]
    status = Status(
        SUCCEEDED, before, f"all {CHECKS} checks passed", 0, agent=Owner(411, 88123, "boot", "gpu-server"),
        processes=(RunProcess("torchrun", 412, 88130), *ranks), events={"rank0": 214, "rank1": 201, "bad_lines": 0},
        checks=(check,) * CHECKS, results=(result,) * RESULTS,
    )  # fmt: skip
    request = Request(
        "", "ddp_by_hand", ("torchrun", "--standalone", "--nproc-per-node", "2", "main.py"), "/usr/bin/python3",
        "gpu-server", "ann", 1000, before, parameters={"bucket_mb": 1.0, "steps": 20}, nproc=2, device="cpu",
    )  # fmt: skip
    for number in range(count):
        created = before - 60.0 * (number + 1)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(created))
        folder = RunFolder(root / f"{stamp}-ddp_by_hand-{number & 0xFFFF:04x}")
        folder.path.mkdir()
        asked = replace(request, id=folder.id, created=created)
        folder.request_file.write_text(json.dumps(asked.document()))
        ended = replace(status, created=created, started=created + 0.3, ended=created + 9.0)
        folder.status_file.write_text(json.dumps(ended.document()))


def compiled() -> None:
    """Without .pyc files every start would compile labtui anew (PYTHONDONTWRITEBYTECODE is set in some places)."""
    compileall.compile_dir(Path(labtui.__file__).parent, quiet=1)


def milliseconds(command: list[str], environment: dict[str, str]) -> float:
    """Wall time of a whole process."""
    begun = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return 1e3 * (time.perf_counter() - begun)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    compiled()
    with tempfile.TemporaryDirectory(prefix="labtui-index-") as temporary:
        root = Path(temporary) / "logs"
        environment = {**os.environ, "LABTUI_LOGS": str(root), "XDG_CACHE_HOME": f"{temporary}/cache"}
        os.environ.update(environment)
        before = measure()
        print(before)
        make_runs(root, count, time.time())

        begun = time.perf_counter()
        index = open_index(root)
        seconds = time.perf_counter() - begun
        assert not index.trouble and index.count() == count
        index.close()
        size = cache_file(root).stat().st_size / 1e6
        print(f"built: {count:,} runs in {seconds:.1f} s, {count / seconds:,.0f} runs/s (wanted: 2,000), {size:.0f} MB")
        time.sleep(2.1)  # until the folder's time stamp tells changes apart
        open_index(root).close()

        runs = [sys.executable, "-m", "labtui", "runs"]
        bare = [sys.executable, "-c", "import argparse, json"]

        def say(what: str, prepare: Callable[[int], object] = lambda number: None) -> None:
            starts, listings = [], []
            for number in range(ROUNDS):
                prepare(number)
                starts.append(milliseconds(bare, environment))
                listings.append(milliseconds(runs, environment))
            beyond = statistics.median(listing - start for listing, start in zip(listings, starts, strict=True))
            spread = f"{min(listings):.0f} to {max(listings):.0f}"
            print(
                f"labtui runs, {what}: {statistics.median(listings):.0f} ms ({spread}), "
                f"{beyond:.0f} ms of it beyond a bare Python with argparse and json"
            )

        say("nothing new (wanted: 100 ms)")
        say("one new run each time", lambda number: make_runs(root, 1, time.time() + 3600 + number * 120))
        with closing(sqlite3.connect(cache_file(root), isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            say("index locked, folders read directly")
        print(before.beside(measure()))


if __name__ == "__main__":
    main()
