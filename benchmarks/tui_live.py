"""What the terminal UI costs while a run goes on: CPU and bytes sent, at 160 x 45, with four GPUs and two curves.

    .venv/bin/python benchmarks/tui_live.py [SECONDS]

Makes the folder of a run that began half an hour ago and goes on: each second a line of telemetry, eight events and a
line of a log. labtui looks at it in a pty; its CPU time is that of all its threads (/proc/PID/task/*/schedstat, for
the 10 ms ticks of /proc/PID/stat are too coarse). Target: at most 3 % of a core on the Run screen.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import pty
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import Any

from yardstick import measure

from labtui.machine.reading import Reading
from labtui.runs import process
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Owner, Request, RunProcess, Status

PAST_S, GPUS = 1800, 4
SETTLE_S = 6.0
LABTUI = "import sys; from labtui.cli.main import main; sys.exit(main([]))"


class Run:
    """A live run, owned by this process."""

    def __init__(self, logs: Path) -> None:
        now = time.time()
        self.started = now - PAST_S
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self.started))
        self.folder = folder = RunFolder(logs / f"{stamp}-ddp_by_hand-0000")
        for inside in (folder.events, folder.telemetry, folder.ranks / "0"):
            inside.mkdir(parents=True)
        request = Request(
            id=folder.id, experiment="ddp_by_hand", command=("torchrun",), python="", host=os.uname().nodename,
            user="", uid=0, created=self.started, nproc=GPUS, device="cuda",
        )  # fmt: skip
        write_json(folder.request_file, request.document())
        ours = process.read_stat(os.getpid())
        assert ours is not None
        ranks = tuple(RunProcess("rank", ours.pid, ours.start, n, n, "ranks/0/stdout.log") for n in range(GPUS))
        owner = Owner(ours.pid, ours.start, process.boot_id(), os.uname().nodename)
        status = Status("running", self.started, agent=owner, started=self.started, processes=ranks)
        write_json(folder.status_file, status.document())
        links = [[n, (n + 1) % GPUS, "SHM/direct/direct", [0, 1]] for n in range(GPUS)]
        write_json(folder.nccl_file, {"kind": "nccl", "nccl_version": "2.27.5", "nranks": GPUS, "links": links})
        self._telemetry = (folder.telemetry / "here.jsonl").open("a")
        self._events = folder.rank_events(0).open("a")
        self._log = (folder.ranks / "0" / "stdout.log").open("a")
        self._second = 0
        while self._second < PAST_S:
            self.go_on()

    def go_on(self) -> None:
        """A second of it."""
        second, t = self._second, self.started + self._second
        print(json.dumps(self._sample(second, t)), file=self._telemetry, flush=True)
        for half in range(2):
            self._report(t, "progress", done=2 * second + half, total=2 * PAST_S + 1000)
            for name, value in (("loss", 2.3 * math.exp(-second / 600)), ("step time", 41 + second % 40 / 4)):
                self._report(t, "metric", name=name, value=value, step=2 * second + half, unit="")
        self._events.flush()
        print(f"step {2 * second}", file=self._log, flush=True)
        self._second += 1

    def _sample(self, second: int, t: float) -> dict[str, Any]:
        held = ("sw_power_cap",) if second % 40 > 25 else ()
        gpus = [
            Reading(
                index, util=97 - (second + index) % 5, mem_used=11 << 30, mem_total=16 << 30, power_w=210.0,
                power_limit_w=320.0, temp_c=60 + second % 3, sm_mhz=2505 - 15 * len(held), pcie_rx=9.5, pcie_tx=9.6,
                throttle=held,
            ).document()
            for index in range(GPUS)
        ]  # fmt: skip
        ranks = [{"rank": n, "pid": 400 + n, "cpu": 95.0 + second % 7, "rss": 812_000_000} for n in range(GPUS)]
        return {"t": t, "gpus": gpus, "ranks": ranks, "host": {"cpu": 34.0, "load1": 4.1, "mem_available": 12 << 33}}

    def _report(self, t: float, kind: str, **fields: Any) -> None:
        print(json.dumps({"t": t, "rank": 0, "kind": kind, **fields}), file=self._events)


class Terminal:
    """labtui in a pty."""

    def __init__(self, logs: Path) -> None:
        self.sent = 0
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", LABTUI_LOGS=str(logs), XDG_CACHE_HOME=str(logs / ".cache"))
            os.execv(sys.executable, [sys.executable, "-c", LABTUI])
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                self.sent += len(os.read(self._fd, 1 << 16))
            except OSError:
                return

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    def cpu(self) -> float:
        """Seconds that its threads have run so far."""
        tasks = Path(f"/proc/{self.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def spent(terminal: Terminal, seconds: float) -> str:
    """What it costs within so many seconds."""
    time.sleep(SETTLE_S)
    cpu, sent, begin = terminal.cpu(), terminal.sent, time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begin
    return (
        f"{100 * (terminal.cpu() - cpu) / passed:5.2f} % of a core   {(terminal.sent - sent) / passed / 1e3:6.2f} kB/s"
    )


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    before = measure()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        running = threading.Event()

        def go_on() -> None:
            while not running.wait(1.0):
                run.go_on()

        feeder = threading.Thread(target=go_on)
        feeder.start()
        terminal = Terminal(Path(folder))
        try:
            time.sleep(SETTLE_S)
            for key, name in (("1", "Lab, with the machine strip"), ("2", "Run, live"), ("3", "Runs")):
                terminal.press(key)
                print(f"{name:<28} {spent(terminal, seconds)}", flush=True)
            running.set()
            feeder.join()
            word = run.folder.status().document()
            write_json(run.folder.status_file, {**word, "state": "succeeded", "ended": time.time()})
            terminal.press("2")
            print(f"{'Run, ended':<28} {spent(terminal, seconds)}")
        finally:
            running.set()
            terminal.end()
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
