"""The kill ladder: how a run's processes are ended, gently first, and none is left.

torchrun puts each rank into a session of its own, so killing torchrun's group leaves ranks alive; and a rank whose
torchrun was killed belongs to nobody. Hence: SIGTERM to torchrun, then SIGKILL to each recorded rank's group, then to
whatever carries the run's LABTUI_RUN_ID or descends from its processes (a daemon may have dropped its environment, and
a program that renames itself writes over it), torchrun last. A process in state D is named, not waited for.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labtui.runs import process
from labtui.runs.records import RunProcess

TORCHRUN_GRACE_S = 5.0
"""torchrun's own shutdown timeout, given to it by the launcher: then it kills its ranks itself."""

RUN_ID = "LABTUI_RUN_ID"


@dataclass(frozen=True)
class Ended:
    """What the ladder came to."""

    stuck: tuple[int, ...] = ()
    """pids that wait in the kernel (state D) and could not be ended."""
    killed: int = 0
    """How many processes SIGKILL had to be sent to."""


def _wait(condition: Callable[[], bool], seconds: float, between: Callable[[], None]) -> bool:
    """Waits until `condition` holds; `between` is called at each look (the owner reaps its children there)."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        between()
        time.sleep(0.02)
    return True


def end(
    run_id: str,
    launched: RunProcess | None,
    ranks: Sequence[RunProcess],
    *,
    spare: Sequence[int] = (),
    owner: int | None = None,
    hurry: Callable[[], bool] = lambda: False,
    between: Callable[[], None] = lambda: None,
    log: Callable[[str], None] = lambda line: None,
) -> Ended:
    """Ends every process of the run and returns when none is left (but for those stuck in the kernel).

    `launched` is torchrun (or the command), `spare` are pids that carry the run's id and must live (the sampler),
    `owner` is the agent's pid where it is the agent that calls: as child subreaper it has all of the run below it.
    `hurry` skips the gentle step as soon as it is true, `between` is called while waiting.
    """
    recorded = [(known.pid, known.start) for known in (launched, *ranks) if known is not None]
    below: dict[int, int] = {}
    """pid -> start time of all that was seen below the run's processes: when a parent is gone, nothing tells any more
    whose child it was."""

    def left() -> list[process.Stat]:
        for root in [owner] if owner is not None else [pid for pid, start in recorded if process.alive(pid, start)]:
            if root is not None:
                below.update((stat.pid, stat.start) for stat in process.descendants(root))
        found = {stat.pid: stat for stat in process.carrying(RUN_ID, run_id)}
        for pid, start in below.items():
            stat = process.read_stat(pid)
            if stat is not None and process.alive(pid, start):
                found.setdefault(pid, stat)
        return [stat for stat in found.values() if stat.pid not in (*spare, os.getpid())]

    def gone() -> bool:
        launched_gone = launched is None or not process.alive(launched.pid, launched.start)
        return launched_gone and not any(process.alive(rank.pid, rank.start) for rank in ranks)

    if launched is not None and not hurry() and process.send(launched.pid, launched.start, signal.SIGTERM):
        log(f"SIGTERM to {launched.role} (pid {launched.pid})")
        for known in (launched, *ranks):  # a stopped process hears SIGTERM only when it goes on
            if process.stopped(known.pid, known.start):
                process.send(known.pid, known.start, signal.SIGCONT)
        _wait(lambda: gone() or hurry(), TORCHRUN_GRACE_S + 2, between)

    left()  # looks below the ranks while they are there
    killed = 0
    for rank in ranks:
        if process.send(rank.pid, rank.start, signal.SIGKILL, group=True):
            killed += 1
            log(f"SIGKILL to rank {rank.rank} (pid {rank.pid})")
    launched_pid = launched.pid if launched is not None else None
    for stat in left():
        if stat.pid != launched_pid and process.send(stat.pid, stat.start, signal.SIGKILL):
            killed += 1
            log(f"SIGKILL to {stat.name} (pid {stat.pid}), found by its {RUN_ID} or its parent")
    if launched is not None and process.send(launched.pid, launched.start, signal.SIGKILL):
        killed += 1
        log(f"SIGKILL to {launched.role} (pid {launched.pid})")

    def all_ended() -> bool:
        remaining = left()
        for stat in remaining:  # what a dying process still started in between
            process.send(stat.pid, stat.start, signal.SIGKILL)
        return gone() and all(stat.state == "D" for stat in remaining)

    _wait(all_ended, 5.0, between)
    stuck = tuple(stat.pid for stat in left())
    for pid in stuck:
        log(f"pid {pid} does not end: it waits in the kernel (state D)")
    return Ended(stuck, killed)
