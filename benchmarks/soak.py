"""Many short runs in a row, the terminal UI open, a random fault in every third: does anything grow, or get lost?

    .venv/bin/python benchmarks/soak.py [RUNS] [SEED]

Each run has two ranks, which report steps until they are done or something is done to them. After each one the same is
asked: has it its last word and the right state, is each step there that was reported before the fault, is no process
left, does the list say what the folder says? labtui looks on in a pty, its screens being changed all the while; of its
process the open files, threads and resident memory are taken after each run. Exit code 1 if anything was lost.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from terminal import Terminal, memory_of
from yardstick import measure

from labtui.runs import control, process, start, state, welcome
from labtui.runs.folder import RunFolder
from labtui.runs.index import cache_file, open_index
from labtui.runs.ladder import RUN_ID
from labtui.runs.records import FAILED, LOST, SUCCEEDED, TIMED_OUT, RunProcess, Status
from labtui.runs.tail import read_events

RUNS, SEED = 200, 8
STEPS = 12
SETTLE_S = 6.0
KEYS = (b"1", b"2", b"3", b"4", b"5", b"2", b"j", b"k", b"3", b"\x1b[B", b"1")
"""Pressed one after each run: the screens, and something on them."""

RANK = """
    import os, sys, time
    from labtui.bench import report
    rank, wanted = int(os.environ["RANK"]), sys.argv[1]
    for step in range(int(sys.argv[2])):
        report.metric("loss", 1 / (step + 1), step=step)
        print(f"step {step} of rank {rank}", flush=True)
        time.sleep(0.02)
    report.result("time", 0.5, "s")
    if wanted == "raise" and rank == 1:
        raise RuntimeError("made for the soak")
    while wanted == "wait" or wanted == "raise":
        time.sleep(0.05)
    report.check("all steps", passed=True)
"""
LAUNCHER = """
    import os, subprocess, sys, time
    from pathlib import Path
    ranks = []
    for rank in range(2):
        place = Path(os.environ["LABTUI_RUN_DIR"], "ranks", "soak", "attempt_0", str(rank))
        place.mkdir(parents=True)
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                       "TORCHELASTIC_ERROR_FILE": str(place / "error.json")}
        with (place / "stdout.log").open("wb") as out, (place / "stderr.log").open("wb") as err:
            ranks.append(subprocess.Popen([sys.executable, *sys.argv[1:]], env=environment, stdout=out, stderr=err,
                                          stdin=subprocess.DEVNULL, start_new_session=True))
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks):
            for rank in ranks:
                rank.kill()
        time.sleep(0.02)
    sys.exit(max(abs(rank.wait()) for rank in ranks))
"""


@dataclass(frozen=True)
class Fault:
    """Something that is done to a run, and how the run must end."""

    name: str
    ranks: str
    """What the ranks do after their steps: "end", "wait", or "raise"."""
    do: Callable[[RunFolder, Status], None]
    expected: str
    bad_lines: int = 0


def nothing(folder: RunFolder, status: Status) -> None:
    """No fault."""


def end(one: RunProcess) -> None:
    """Kills exactly this process, if it has not gone by itself."""
    process.send(one.pid, one.start, signal.SIGKILL)


def kill_rank(folder: RunFolder, status: Status) -> None:
    end(status.ranks[1])


def kill_ranks(folder: RunFolder, status: Status) -> None:
    for rank in status.ranks:
        end(rank)


def kill_launcher(folder: RunFolder, status: Status) -> None:
    end(next(each for each in status.processes if each.role == "command"))


def kill_agent(folder: RunFolder, status: Status) -> None:
    assert status.agent is not None
    process.send(status.agent.pid, status.agent.start, signal.SIGKILL)


def stop_rank(folder: RunFolder, status: Status) -> None:
    process.send(status.ranks[0].pid, status.ranks[0].start, signal.SIGSTOP)


def spoil_events(folder: RunFolder, status: Status) -> None:
    with folder.rank_events(1).open("ab") as file:
        file.write(b"\n{torn\n\x00\xff\n" + b"x" * (1 << 20) + b"\n")
    kill_ranks(folder, status)


def spoil_index(folder: RunFolder, status: Status) -> None:
    cache_file(folder.path.parent).write_bytes(b"no database any more" * 1000)
    kill_rank(folder, status)


NO_FAULT = Fault("none", "end", nothing, SUCCEEDED)
FAULTS = (
    Fault("a rank is killed", "wait", kill_rank, FAILED),
    Fault("all ranks are killed", "wait", kill_ranks, FAILED),
    Fault("the command is killed", "wait", kill_launcher, FAILED),
    Fault("the agent is killed", "wait", kill_agent, LOST),
    Fault("a rank stands still", "wait", stop_rank, TIMED_OUT),
    Fault("a rank raises", "raise", nothing, FAILED),
    Fault("bad lines among its events", "wait", spoil_events, FAILED, bad_lines=4),
    Fault("the index is damaged", "wait", spoil_index, FAILED),
)


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"never happened: {what}")
        time.sleep(0.02)


def run(logs: Path, scripts: Path, fault: Fault) -> list[str]:
    """Starts a run, does to it what is to be done, and waits for its end; returns what was lost, in words."""
    command = [sys.executable, str(scripts / "launch.py"), str(scripts / "rank.py"), fault.ranks, str(STEPS)]
    folder = start.start_command(logs, command, start.Options(stall_s=2.0))
    if fault.do is not nothing:
        until(lambda: len(state.observe(folder).ranks) == 2, "both ranks are known")
        until(lambda: steps(folder, 0) and steps(folder, 1), "both ranks work")
        before = [steps(folder, rank) for rank in range(2)]
        fault.do(folder, state.observe(folder))
        if fault.do is kill_agent:
            until(lambda: state.observe(folder).state == LOST, "the run is called lost")
    else:
        before = [0, STEPS if fault is NO_FAULT else 0]
    status = control.wait(folder)
    lost = []
    if status.state != fault.expected or folder.status() != status:
        lost.append(f"the state is {status.state} ({status.reason}), {fault.expected} expected")
    for rank in range(2):
        if steps(folder, rank) < before[rank]:
            lost.append(f"{before[rank] - steps(folder, rank)} steps of rank {rank}")
    if status.events.get("bad_lines", 0) != fault.bad_lines:
        lost.append(f"{status.events.get('bad_lines')} bad lines counted, {fault.bad_lines} expected")
    for left in process.carrying(RUN_ID, folder.id):
        lost.append(f"{left.name} (pid {left.pid}) is left")
        process.send(left.pid, left.start, signal.SIGKILL)
    index = open_index(logs)
    row = next((row for row in index.newest(limit=3) if row.id == folder.id), None)
    index.close()
    if row is None or (row.state, row.reason) != (status.state, status.reason):
        lost.append("the list says otherwise")
    return [f"{folder.id} ({fault.name}): {what}" for what in lost]


def steps(folder: RunFolder, rank: int) -> int:
    """How many steps a rank reported, one after the other, that can be read."""
    found = {e.get("step") for e in read_events(folder, ("metric",))[0] if e["rank"] == rank}
    return next(step for step in range(STEPS + 1) if step not in found)


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    files: int
    threads: int
    memory: float
    """What lies in memory and belongs to no file, in MB (1e6 bytes)."""


def held(pid: int) -> Held:
    stat = process.read_stat(pid)
    if stat is None or stat.state == "Z":
        raise SystemExit("the UI has ended")
    proc = Path(f"/proc/{pid}")
    return Held(len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir())), memory_of(pid) / 1e6)


def middle(several: list[Held]) -> Held:
    files, threads, memory = zip(*((one.files, one.threads, one.memory) for one in several), strict=True)
    return Held(round(statistics.median(files)), round(statistics.median(threads)), statistics.median(memory))


def line(name: str, one: Held) -> str:
    return f"{name:<24}{one.files:>8}{one.threads:>9}{one.memory:>10.1f} MB"


def soak(folder: Path, runs: int, chance: random.Random) -> bool:
    """True where nothing was lost."""
    logs, scripts = folder / "logs", folder / "scripts"
    logs.mkdir()
    scripts.mkdir()
    for name, source in (("rank.py", RANK), ("launch.py", LAUNCHER)):
        (scripts / name).write_text(textwrap.dedent(source))
    welcome.is_first_start()  # its page has been seen
    terminal = Terminal([sys.executable, "-m", "labtui"], {**os.environ, "LABTUI_LOGS": str(logs)})
    faults: Counter[str] = Counter()
    lost: list[str] = []
    seen: list[Held] = []
    try:
        time.sleep(SETTLE_S)
        first = held(terminal.pid)
        began = time.monotonic()
        for number in range(runs):
            fault = chance.choice(FAULTS) if number % 3 == 2 else NO_FAULT
            faults[fault.name] += 1
            lost += run(logs, scripts, fault)
            terminal.forget()
            terminal.press(KEYS[number % len(KEYS)])
            seen.append(held(terminal.pid))
        seconds = time.monotonic() - began
        time.sleep(SETTLE_S)
        last = held(terminal.pid)
    finally:
        terminal.end()
    print(f"{runs} runs in {seconds:.0f} s, {runs - faults['none']} of them with a fault, seen from one open UI\n")
    for name, count in sorted(faults.items(), key=lambda item: -item[1]):
        print(f"  {count:>4}  {'no fault' if name == 'none' else name}")
    print(f"\nlost: {len(lost) or 'nothing'}", *lost, sep="\n  ")
    print(f"\n{'the UI holds':<24}{'files':>8}{'threads':>9}{'memory':>13}")
    print(line("before the first run", first))
    quarter = max(len(seen) // 4, 1)
    for place in range(4):
        part = seen[place * quarter : (place + 1) * quarter if place < 3 else None]
        if part:
            print(line(f"quarter {place + 1} (median)", middle(part)))
    print(line("after the last run", last))
    return not lost


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    before = measure()
    with tempfile.TemporaryDirectory(prefix="labtui-soak-") as folder:
        for name in ("DATA", "CACHE", "CONFIG", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name.lower()}"
        well = soak(Path(folder), runs, random.Random(seed))
    print(before.beside(measure()))
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
