"""What sampling GPUs costs: 8 GPUs at 2 Hz, from a fake NVML library. Target: at most 1 % of one core.

    .venv/bin/python benchmarks/sampling.py [SECONDS]

Builds tests/fake_nvml with the system's compiler, lets it play a training job on 8 H100s, and does what the sampler
does at each tick: read all GPUs, make the telemetry line. Counted is the CPU time of the whole process, all threads,
user and system (CLOCK_PROCESS_CPUTIME_ID), the fake library's own included, after the first two ticks. A real driver
adds its own time per call: this says what labtui's part costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from yardstick import measure

FAKE = Path(__file__).resolve().parents[1] / "tests/fake_nvml"
HZ = 2.0


def sample(seconds: float) -> None:
    """Runs in a process that finds the fake library."""
    from labtui.machine.gpus import Gpus

    begun = time.process_time()
    gpus = Gpus.open(os.environ)
    gpus.describe()
    opened = time.process_time() - begun
    ticks = round(seconds * HZ) + 2
    due = time.monotonic()
    slowest, size = 0.0, 0
    for tick in range(ticks):
        if tick == 2:
            begun, slowest = time.process_time(), 0.0
        start = time.perf_counter()
        line = json.dumps({"t": time.time(), "gpus": [reading.document() for reading in gpus.read()]})
        slowest, size = max(slowest, time.perf_counter() - start), len(line)
        due += 1 / HZ
        time.sleep(max(0.0, due - time.monotonic()))
    used = time.process_time() - begun
    print(json.dumps({"gpus": len(gpus.gpus()), "opened": opened, "used": used, "slowest": slowest, "bytes": size}))
    gpus.close()


def main() -> None:
    if sys.argv[1:2] == ["--sample"]:
        sample(float(sys.argv[2]))
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    before = measure()
    with tempfile.TemporaryDirectory() as build:
        subprocess.run(["make", "-s", "-C", FAKE, f"BUILD={build}"], check=True)
        environment = {**os.environ, "LD_LIBRARY_PATH": build, "FAKE_NVML_SCRIPT": str(FAKE / "8xh100.txt")}
        command = [sys.executable, __file__, "--sample", str(seconds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    per_tick = told["used"] / (seconds * HZ)
    print(f"{told['gpus']} GPUs at {HZ:g} Hz for {seconds:g} s")
    print(f"  CPU            {100 * told['used'] / seconds:.2f} % of one core (target: at most 1)")
    print(f"  a tick         {per_tick * 1e3:.2f} ms of CPU, {before.times(per_tick):.2f} yardsticks")
    print(f"  its line       {told['bytes']} bytes")
    print(f"  slowest tick   {told['slowest'] * 1e3:.1f} ms until the line was ready")
    print(f"  to open        {told['opened'] * 1e3:.0f} ms of CPU, once")
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
