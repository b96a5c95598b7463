"""What the terminal UI costs while a run goes on: CPU of UI and sampler, and bytes sent to a terminal of 160 x 45.

    .venv/bin/python benchmarks/tui_live.py [--seconds 15] [--rounds 2] [--nvitop PATH]

A real run with four series, log lines and 8 fake GPUs, all at 2 Hz (see live_run). The UI looks at it twice a second
here; one that looks once a second, as it does by itself, is measured beside it. `--nvitop` names an nvitop (from
`pip install nvitop` in an environment of its own), which then watches the same GPUs with `--interval 0.5`. All of them
run all the time, and are measured over the same seconds, screen after screen, round after round. CPU time is that of
all threads.

Then a labtui without GPUs and without any run: it should send nothing at all.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from live_run import AT_2_HZ, LiveRun, clean_environment, labtui
from terminal import Terminal, against, cpu_of, plain
from yardstick import measure

SETTLE_S = 4.0
SCREENS = (("2", "Run"), ("1", "Lab"), ("3", "Runs"), ("6", "Machine"))
QUIET_SCREENS = (("1", "Lab"), ("2", "Run"), ("3", "Runs"), ("4", "Compare"), ("5", "Simulate"), ("6", "Machine"))
QUIET_S = 8.0


class Meter:
    """Percent of a core and kB/s of several things over the same seconds."""

    def __init__(self, terminals: dict[str, Terminal], pids: dict[str, int]) -> None:
        self._terminals = terminals
        self._pids = pids | {name: terminal.pid for name, terminal in terminals.items()}

    def over(self, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
        """Name -> percent, and name -> kB/s."""
        cpu, sent, begin = self._cpu(), self._sent(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begin
        now_cpu, now_sent = self._cpu(), self._sent()
        return (
            {name: 100 * (now_cpu[name] - cpu[name]) / passed for name in cpu},
            {name: (now_sent[name] - sent[name]) / passed / 1e3 for name in sent},
        )

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_of(pid) for name, pid in self._pids.items()}

    def _sent(self) -> dict[str, int]:
        return {name: terminal.sent for name, terminal in self._terminals.items()}


def watched(run: LiveRun, seconds: float, rounds: int, nvitop: str | None) -> None:
    """The run on the screen."""
    ours, slow = Terminal(labtui(AT_2_HZ), run.environment), Terminal(labtui(), run.environment)
    terminals = {"2 Hz": ours, "1 Hz": slow}
    if nvitop:
        terminals["nvitop"] = Terminal([nvitop, "-m", "full", "--interval", "0.5"], run.environment)
    try:
        ours.until(b"Experiments")
        slow.until(b"Experiments")
        meter = Meter(terminals, {"sampler": run.process("sampler"), "agent": run.agent})
        cpu: dict[tuple[str, str], list[float]] = defaultdict(list)
        sent: dict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(rounds):
            for key, screen in SCREENS:
                for terminal in (ours, slow):
                    terminal.press(key.encode())
                time.sleep(SETTLE_S)
                used, told = meter.over(seconds)
                for name, percent in used.items():
                    cpu[screen, name].append(percent)
                for name, rate in told.items():
                    sent[screen, name].append(rate)
    finally:
        for terminal in terminals.values():
            terminal.end()
    for _, screen in SCREENS:
        of = {name: statistics.median(values) for (where, name), values in cpu.items() if where == screen}
        rate = {name: statistics.median(values) for (where, name), values in sent.items() if where == screen}
        both = of["2 Hz"] + of["sampler"]
        print(f"{screen}, live at 2 Hz")
        print(f"  UI and sampler   {both:6.2f} % of a core {against(both, 4, 2)}")
        parts = f"UI {of['2 Hz']:.2f} %, sampler {of['sampler']:.2f} %; agent {of['agent']:.2f} % besides"
        print(f"                   {parts}")
        if nvitop:
            ratio = both / of["nvitop"]
            print(f"  nvitop           {of['nvitop']:6.2f} %, so that is {ratio:.2f} x of it {against(ratio, 2.5, 1)}")
            print(f"                   and sends {rate['nvitop']:.2f} kB/s")
        print(f"  to the terminal  {rate['2 Hz']:6.2f} kB/s {against(rate['2 Hz'], 20, 8)}")
        print(f"  looking at 1 Hz  {of['1 Hz']:6.2f} %, {rate['1 Hz']:.2f} kB/s", flush=True)


def quiet(seconds: float) -> None:
    """Nothing on the screen that could change."""
    with tempfile.TemporaryDirectory(prefix="labtui-benchmark-") as folder:
        environment = clean_environment(Path(folder))
        terminal = Terminal(labtui(), environment)
        try:
            terminal.until(b"Experiments")
            for key, screen in QUIET_SCREENS:
                terminal.press(key.encode())
                time.sleep(SETTLE_S)
                terminal.forget()
                cpu, sent = terminal.cpu(), terminal.sent
                time.sleep(seconds)
                rest = terminal.sent - sent
                percent = 100 * (terminal.cpu() - cpu) / seconds
                what = " ".join(plain(terminal.output()).split())
                print(f"nothing runs, no GPU, {screen:<8} {rest:6} bytes in {seconds:g} s {against(rest, 0, 0)}, "
                      f"{percent:.2f} % of a core" + (f": {what[-70:]}" if what else ""))  # fmt: skip
        finally:
            terminal.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--nvitop", help="path of an nvitop")
    arguments = parser.parse_args()
    before = measure()
    with LiveRun() as run:
        watched(run, arguments.seconds, arguments.rounds, arguments.nvitop)
    quiet(QUIET_S)
    print(before.beside(measure()))


if __name__ == "__main__":
    main()
