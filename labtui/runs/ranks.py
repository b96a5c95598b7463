"""The rank processes of a run: found among all processes (torchrun tells nobody their pids), and seen to depart.

A rank is a process with RANK and LOCAL_RANK in its environment whose parent is not one itself (a data loader's worker
inherits both). What torchrun put beside them names the folder of the rank's output.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from labtui.runs import process
from labtui.runs.records import Document, RunProcess
from labtui.runs.tail import LineTail, parse_event
from labtui.runs.waiting import Waiting

SEARCH_S = 0.2
"""How often ranks are looked for while some are missing; a look reads /proc once, see SETTLED_S."""
SETTLED_S = 5.0
"""How often once all were found, or none appeared in the first minute: a restart brings new ones."""


def find(launched_pid: int, folder: Path) -> tuple[dict[int, RunProcess], int]:
    """The ranks below the launched command, by rank, and torchrun's attempt. Output paths are relative to `folder`."""
    ranks: dict[int, RunProcess] = {}
    inside: set[int] = set()
    attempt = 0
    for stat in process.descendants(launched_pid):
        if stat.parent in inside:
            inside.add(stat.pid)
            continue
        environment = process.environment(stat.pid)
        if environment is None or stat.state in "ZX":
            continue
        rank, local_rank = environment.get("RANK", ""), environment.get("LOCAL_RANK", "")
        if not rank.isdigit() or not local_rank.isdigit():
            continue
        inside.add(stat.pid)
        stdout, stderr = _outputs(environment, folder)
        ranks[int(rank)] = RunProcess("rank", stat.pid, stat.start, int(rank), int(local_rank), stdout, stderr)
        restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "")
        attempt = max(attempt, int(restarts)) if restarts.isdigit() else attempt
    return ranks, attempt


def outputs(folder: Path) -> list[RunProcess]:
    """The ranks of the last attempt as torchrun's own log folders tell them: no more of them than their output."""
    found = [path for path in folder.glob("ranks/*/attempt_*") if path.name[8:].isdecimal()]
    attempts = sorted(found, key=lambda path: int(path.name[8:]))
    ranks = []
    for path in attempts[-1].iterdir() if attempts else ():
        if path.name.isdecimal():
            stdout, stderr = _outputs({"TORCHELASTIC_ERROR_FILE": str(path / "error.json")}, folder)
            ranks.append(RunProcess("rank", None, None, int(path.name), int(path.name), stdout, stderr))
    return sorted(ranks, key=lambda rank: rank.rank or 0)


def _outputs(environment: dict[str, str], folder: Path) -> tuple[str | None, str | None]:
    """torchrun writes a rank's output beside its error file."""
    error_file = environment.get("TORCHELASTIC_ERROR_FILE")
    if not error_file:
        return None, None
    paths: list[str | None] = []
    for name in ("stdout.log", "stderr.log"):
        path = Path(error_file).parent / name
        if path.is_relative_to(folder):
            paths.append(str(path.relative_to(folder)))
        else:
            # The user chose a log folder of their own: then that one is named.
            paths.append(str(path) if path.exists() else None)
    return paths[0], paths[1]


class RankWatch:
    """The ranks of one run as its agent sees them: who they are, how their stacks can be had, when they departed."""

    def __init__(self, folder: Path, expected: int | None, waiting: Waiting) -> None:
        self.ranks: dict[int, RunProcess] = {}
        self.departed: dict[int, float] = {}
        """rank -> monotonic time at which its process was seen to be gone."""
        self.exits: dict[int, int] = {}
        """rank -> its wait status, where it could be read before torchrun took it."""
        self.attempt = 0
        self.cpus: dict[int, list[int]] = {}
        """rank -> the CPUs it may run on."""
        self.cuda: dict[int, dict[str, str]] = {}
        """rank -> the variables by which CUDA numbers its GPUs."""
        self.changed = False
        self._folder = folder
        self._expected = expected
        self._waiting = waiting
        self._began = time.monotonic()
        self._next_look = 0.0
        self._hellos: dict[tuple[int, object], Document] = {}
        """(rank, pid) -> hello. What a rank spawns and reports says hello too, under the same rank."""
        self._tails: dict[int, LineTail] = {}

    @property
    def complete(self) -> bool:
        return self._expected is not None and len(self.ranks) >= self._expected

    def moved(self, folder: Path) -> None:
        """The run's folder lies elsewhere now. What ranks open from here on still goes where it was."""
        self._folder = folder
        self._tails = {}

    def add(self, rank: RunProcess) -> None:
        """A rank that needs no search: the launched process itself."""
        self._take({rank.rank if rank.rank is not None else 0: rank}, 0)

    def look(self, launched_pid: int, now: float) -> None:
        """Looks for ranks if it is time to."""
        if now < self._next_look:
            return
        settled = self.complete or now - self._began > 60
        self._next_look = now + (SETTLED_S if settled else SEARCH_S)
        self._take(*find(launched_pid, self._folder))

    def hear(self) -> None:
        """Reads each event file up to its rank's hello, which comes first; the rest is read at the end of the run."""
        for path in (self._folder / "events").glob("rank*.jsonl"):
            number = path.stem.removeprefix("rank")
            if not number.isdigit() or self._greeted(int(number)):
                continue
            tail = self._tails.setdefault(int(number), LineTail(path))
            with contextlib.suppress(OSError):
                for line in tail.poll():
                    event = parse_event(line, int(number)) if b'"hello"' in line else None
                    if event is not None and event["kind"] == "hello":
                        self._greet(int(number), event)

    @property
    def versions(self) -> Document:
        """What rank 0 said it runs on; empty before its hello."""
        versions = self._first_hello(0).get("versions")
        return versions if isinstance(versions, dict) else {}

    @property
    def sockets(self) -> dict[int, str]:
        """rank -> path of torch's worker server, as its hello said."""
        hellos = {number: self._hellos.get((number, rank.pid), {}) for number, rank in self.ranks.items()}
        return {number: hello["socket"] for number, hello in hellos.items() if isinstance(hello.get("socket"), str)}

    def _first_hello(self, rank: int) -> Document:
        return next((hello for (number, _), hello in self._hellos.items() if number == rank), {})

    def _greet(self, rank: int, hello: Document) -> None:
        self._hellos[rank, hello.get("pid")] = hello
        if rank in self.ranks:
            self._replace(rank, self._with_stacks(self.ranks[rank]))

    def add_unseen(self) -> None:
        """At the end: ranks that came and went between two looks, known by their output and perhaps their hello.

        On one node torchrun's local rank is the rank.
        """
        for rank in outputs(self._folder):
            if rank.rank is None or rank.rank in self.ranks:
                continue
            hello = self._first_hello(rank.rank)
            pid, start = (hello.get(key) if isinstance(hello.get(key), int) else None for key in ("pid", "start"))
            self._replace(rank.rank, replace(rank, pid=pid, start=start))

    def _greeted(self, rank: int) -> bool:
        """Whether the rank's present process has said hello."""
        known = self.ranks.get(rank)
        return known is not None and (rank, known.pid) in self._hellos

    def _take(self, found: dict[int, RunProcess], attempt: int) -> None:
        self.attempt = max(self.attempt, attempt)
        for number, rank in found.items():
            known = self.ranks.get(number)
            if known is not None and (known.pid, known.start) == (rank.pid, rank.start):
                continue
            self.departed.pop(number, None)
            self.exits.pop(number, None)
            with contextlib.suppress(OSError):
                self.cpus[number] = sorted(os.sched_getaffinity(rank.pid or 0))
            environment = process.environment(rank.pid) if rank.pid is not None else None
            names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
            self.cuda[number] = {name: value for name, value in (environment or {}).items() if name in names}
            self._replace(number, self._with_stacks(rank))
            self._await_end(number, rank)

    def _await_end(self, number: int, rank: RunProcess) -> None:
        def departed() -> None:
            self.departed[number] = time.monotonic()
            status = process.exit_status(rank.pid, rank.start) if rank.pid is not None else None
            if status is not None:
                self.exits[number] = status

        try:
            if rank.pid is not None:
                self._waiting.on_end(rank.pid, departed)
        except ProcessLookupError:
            departed()
        except OSError:
            pass  # an old kernel: then it is only seen at the end that the rank is gone

    def _replace(self, number: int, rank: RunProcess) -> None:
        if self.ranks.get(number) != rank:
            self.ranks[number] = rank
            self.changed = True

    def _with_stacks(self, rank: RunProcess) -> RunProcess:
        hello = self._hellos.get((rank.rank if rank.rank is not None else -1, rank.pid), {})
        how = hello["stacks"] if isinstance(hello.get("stacks"), str) else None
        how = how or ("socket" if isinstance(hello.get("socket"), str) else None)
        return replace(rank, stacks=how or ("py-spy" if shutil.which("py-spy") else None))
