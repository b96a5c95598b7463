"""What the owner costs: `labtui run ddp_by_hand` against bare torchrun of the same script, taking turns.

    .venv/bin/python benchmarks/supervision.py [rounds]

Prints medians with their spread, the ratio of wall times (wanted: at most 1.10), and the ratio of the step times that
the script itself measured (wanted: not measurably above 1), beside this machine's yardstick.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from yardstick import measure

ROOT = Path(__file__).resolve().parents[1]
LABTUI = Path(sys.executable).parent / "labtui"


def bare(environment: dict[str, str]) -> tuple[float, dict[str, float]]:
    """Wall seconds of plain torchrun, and its median step times in ms by way."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
               str(ROOT / "experiments/ddp_by_hand/main.py")]  # fmt: skip
    with tempfile.TemporaryDirectory() as events:
        (Path(events) / "events").mkdir()
        # The events go to a folder as they do under the owner: what is compared is the owner, not a terminal.
        began = time.perf_counter()
        subprocess.run(command, env={**environment, "LABTUI_RUN_DIR": events}, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        lines = (Path(events) / "events" / "rank0.jsonl").read_text().splitlines()
    return seconds, step_times([json.loads(line) for line in lines])


def owned(environment: dict[str, str]) -> tuple[float, dict[str, float]]:
    """The same under the owner, from typing to the prompt."""
    with tempfile.TemporaryDirectory() as logs:
        command = [str(LABTUI), "run", "ddp_by_hand", "--nproc", "2", "--device", "cpu", "--json"]
        began = time.perf_counter()
        done = subprocess.run(command, env={**environment, "LABTUI_LOGS": logs}, check=True, capture_output=True)
        seconds = time.perf_counter() - began
    return seconds, step_times(json.loads(done.stdout)["results"])


def step_times(events: list[dict]) -> dict[str, float]:
    """way -> median step time in ms."""
    return {
        event["labels"]["way"]: event["value"]
        for event in events
        if event["kind"] == "result" and event["name"] == "step_time" and event["labels"].get("stat") == "median"
    }


def spread(values: list[float], unit: str) -> str:
    return f"{statistics.median(values):.3f} {unit} (from {min(values):.3f} to {max(values):.3f}, {len(values)} values)"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu"}
    before = measure()
    pairs = []
    for number in range(rounds):
        # Who goes first changes, so that a drift of the machine favours neither.
        order = [bare, owned] if number % 2 == 0 else [owned, bare]
        took = {run.__name__: run(environment) for run in order}
        pairs.append((took["bare"], took["owned"]))
        print(f"round {number + 1}: bare {took['bare'][0]:.2f} s, owned {took['owned'][0]:.2f} s", flush=True)
    print(before.beside(measure()))
    print(f"bare torchrun      {spread([bare[0] for bare, _ in pairs], 's')}")
    print(f"labtui run         {spread([owned[0] for _, owned in pairs], 's')}")
    print(f"ratio, paired      {spread([owned[0] / bare[0] for bare, owned in pairs], '')}")
    for way in pairs[0][0][1]:
        ratios = [owned[1][way] / bare[1][way] for bare, owned in pairs]
        print(f"step ratio {way:<14}  {spread(ratios, '')}")


if __name__ == "__main__":
    main()
