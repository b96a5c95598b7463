"""The owner of a run: a small detached process that starts torchrun and the sampler, notices hangs, ends the ranks,
writes the last word and starts the next queued run of its group.

    python -P -m labtui.runs.agent RUN_FOLDER

SIGTERM or SIGINT: stop the run (twice: at once). SIGUSR1: write the ranks' stacks. Whoever creates agent.log owns the
run; nobody but the owner writes status.json. Standard library only, for it must be there at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

from labtui.runs import closing, evidence, ladder, launch, ownership, process, spawn, stacks, verdict
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.machine_record import MachineRecord
from labtui.runs.nccl_log import NcclLog
from labtui.runs.ranks import RankWatch
from labtui.runs.records import (
    FAILED,
    QUEUED,
    RUNNING,
    STARTING,
    STOPPED,
    TIMED_OUT,
    Owner,
    RecordError,
    RunProcess,
    Status,
)
from labtui.runs.telemetry import Sampler
from labtui.runs.waiting import Waiting

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_TICK_S = 0.25


class Agent:
    """One run from its turn to its last word."""

    def __init__(self, folder: RunFolder, environ: dict[str, str]) -> None:
        self.folder = folder
        self.request = folder.request()
        self.environ = environ
        start = process.read_stat(os.getpid())
        owner = Owner(os.getpid(), start.start if start else 0, process.boot_id(), os.uname().nodename)
        self.status = Status(state=QUEUED, created=self.request.created, agent=owner)
        self.waiting = Waiting()
        self.launched: RunProcess | None = None
        self.runtime: Path | None = None
        self.watch = RankWatch(folder.path, self.request.nproc, self.waiting)
        self.sampler: Sampler | None = None
        self.machine = MachineRecord(folder, self.request, self.log)
        self.nccl: NcclLog | None = None
        self._child: subprocess.Popen[bytes] | None = None
        """Kept for its life: subprocess reaps, and so swallows the exit code of, what it has lost sight of."""
        self._summed_up = False
        self._began: float | None = None
        """When the run began, by a clock that nobody sets and that goes on while the machine sleeps."""
        self._unwritten = False
        """Whether status.json lacks what was last to be written there."""
        self._place = Path.cwd()
        self._activity: tuple[object, float] = ((), time.monotonic())

    def log(self, line: str) -> None:
        with contextlib.suppress(OSError):
            print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

    # -- status -------------------------------------------------------------------------------------------------

    def write_status(self, **changes: object) -> None:
        """Replaces status.json; a full disk is noted and does not stop the run, and it is tried again."""
        if "started" in changes and self._began is None:
            self._began = time.clock_gettime(time.CLOCK_BOOTTIME)
        processes = (*([self.launched] if self.launched else []), *self._sampler_process(), *self.watch.ranks.values())
        self.status = replace(self.status, processes=processes, attempt=self.watch.attempt, **changes)  # type: ignore[arg-type]
        self.watch.changed = False
        try:
            write_json(self.folder.status_file, self.status.document())
            self._unwritten = False
        except OSError as error:
            if not self._unwritten:
                self.log(f"status.json can't be written: {error.strerror}")
            self._unwritten = True

    def _sampler_process(self) -> list[RunProcess]:
        pid = self.sampler.pid if self.sampler is not None else None
        stat = process.read_stat(pid) if pid is not None else None
        return [RunProcess("sampler", stat.pid, stat.start)] if stat is not None else []

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """The whole life of the run, up to its last word."""
        self.log(f"owner of {self.folder.id}: pid {os.getpid()}, {' '.join(self.request.command)}")
        with contextlib.suppress(OSError):
            closing.make_reserve(self.folder)
        if not self._await_turn():
            self.finish(STOPPED, "stopped before it started")
            return
        taken = self._taken()
        if taken:
            self.finish(FAILED, taken)
            return
        try:
            self._launch()
        except OSError as error:
            self.finish(FAILED, f"{self.request.command[0]} can't be started: {error.strerror}")
            return
        self.finish(*self._supervise())

    def _await_turn(self) -> bool:
        """Waits until no run before this one holds what it wants; False if it was stopped meanwhile."""
        if not self.request.queue and not launch.gpus_of(self.request, self.environ):
            return not self.waiting.stops
        from labtui.runs import queue  # reads the index: most runs need not wait for it

        while not self.waiting.stops:
            with queue.turn():
                waits_for = queue.blockers(self.request, queue.live_runs(self.folder.path.parent), self.environ)
                if not waits_for:
                    self.write_status(state=STARTING, reason="", started=time.time())
                    return True
            reason = queue.why_waiting(waits_for, self.request, self.environ)
            if reason != self.status.reason:
                self.log(reason)
                self.write_status(reason=reason)
            self.waiting.wait(0.5)
        return False

    def _taken(self) -> str:
        """Who else is on the GPUs that the run wants; empty where they are free."""
        if not launch.gpus_of(self.request, self.environ):
            return ""
        from labtui.runs import foreign  # opens the driver: runs on the CPU need not wait for it

        return foreign.busy(self.request, self.environ)

    def _launch(self) -> None:
        self.runtime = spawn.make_runtime(self.folder.id)
        launch.bridge(self.runtime)
        environment = launch.worker_environment(self.environ, self.request, self.folder, self.runtime)
        command = launch.real_command(self.environ, self.request)
        if self.request.device != "cpu":
            self.folder.nccl.mkdir(exist_ok=True)
        with contextlib.ExitStack() as files:
            output = files.enter_context(self.folder.output.open("ab"))
            stdout, stderr = output, output
            if self.request.launch == "python":
                # One process without torchrun: its output lies where torchrun would have put it.
                place = self.folder.ranks / "python" / "attempt_0" / "0"
                place.mkdir(parents=True)
                stdout = files.enter_context((place / "stdout.log").open("ab"))
                stderr = files.enter_context((place / "stderr.log").open("ab"))
            self._child = subprocess.Popen(
                command,
                cwd=self.request.directory or self.folder.path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        stat = process.read_stat(self._child.pid)
        start = stat.start if stat is not None else 0
        self.launched = RunProcess(self.request.launch, self._child.pid, start)
        self.log(f"started {self.request.launch}: pid {self._child.pid}")
        if self.request.launch == "python":
            outputs = ("ranks/python/attempt_0/0/stdout.log", "ranks/python/attempt_0/0/stderr.log")
            self.watch.add(RunProcess("rank", self._child.pid, start, 0, 0, *outputs))
        shown = {name: environment[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in environment}
        sampler_environment = {**os.environ, **shown, ladder.RUN_ID: self.folder.id}
        self.sampler = Sampler(self.folder, sampler_environment, self.log)
        if self.request.device != "cpu":
            self.nccl = NcclLog(self.folder, self.log)
        state = STARTING if self.request.launch == "torchrun" else RUNNING
        self.write_status(state=state, reason="", started=self.status.started or time.time())

    def _supervise(self) -> tuple[str, str]:
        """Follows the run to its end; returns state and reason."""
        assert self.launched is not None and self.launched.pid is not None and self.sampler is not None
        began = time.monotonic()
        limits = self.request.limits
        while self.launched.pid not in self.waiting.ended:
            self.waiting.wait(_TICK_S)
            now = time.monotonic()
            if self.launched.pid in self.waiting.ended:
                break
            self.watch.look(self.launched.pid, now)
            self.watch.hear()
            self._sample(now)
            self.machine.update(self.sampler.machine, self.watch)
            if self.nccl is not None:
                self.nccl.poll(now)
            if self.status.state == STARTING and (self.watch.complete or self.watch.versions):
                self.write_status(state=RUNNING)
            elif self.watch.changed or self._unwritten:
                self.write_status()
            if not self._follow_folder():
                return FAILED, self._end("its folder was removed while it ran")
            if self.waiting.stops:
                return STOPPED, self._end("stopped on request")
            if self.waiting.stacks_wanted:
                self.waiting.stacks_wanted = False
                self._collect_stacks(final=False)
            if limits.timeout_s is not None and now - began > limits.timeout_s:
                return TIMED_OUT, self._end_hung(f"not done after its time limit of {limits.timeout_s:g} s")
            if limits.stall_s is not None and self._idle_s(now) > limits.stall_s:
                return TIMED_OUT, self._end_hung(f"no event and no output for {limits.stall_s:g} s")
        self.watch.hear()
        self.watch.add_unseen()
        left = self._end_processes(gently=False)
        return self._judge(left)

    def _follow_folder(self) -> bool:
        """Goes along where somebody moves the run's folder (it is our working folder); False once it is removed.

        Then nobody could find the run any more, nor stop it: it would hold its GPUs for ever.
        """
        try:
            place = Path.cwd()
        except FileNotFoundError:
            return False
        except OSError:
            return True  # a server that does not answer for a while, say
        if place != self._place:
            self.log(f"the run's folder was moved to {place}")
            self._place, self.folder = place, RunFolder(place)
            self.watch.moved(self.folder.path)
            for part in (self.sampler, self.machine, self.nccl):
                if part is not None:
                    part.moved(self.folder)
        return True

    def _idle_s(self, now: float) -> float:
        """Seconds since any rank last wrote an event or printed. The files' clock may jump, so only change counts."""
        places = [*self.folder.events.glob("*.jsonl"), self.folder.output]
        for rank in self.watch.ranks.values():
            places += [self.folder.path / path for path in (rank.stdout, rank.stderr) if path]
        sizes = []
        for path in places:
            with contextlib.suppress(OSError):
                facts = path.stat()
                sizes.append((path, facts.st_size, facts.st_mtime_ns))
        if sizes != self._activity[0]:
            self._activity = (sizes, now)
        return now - self._activity[1]

    def _sample(self, now: float) -> None:
        assert self.sampler is not None and self.launched is not None
        self.sampler.watch(list(self.watch.ranks.values()), self.launched.pid)
        self.sampler.poll(now, time.time(), self.status.started or time.time())
        self.waiting.watch_stream(self.sampler.fileno())

    # -- hangs and ends -----------------------------------------------------------------------------------------

    def _collect_stacks(self, *, final: bool) -> str:
        ranks = [rank for _, rank in sorted(self.watch.ranks.items())]
        summary = stacks.collect(self.folder, ranks, self.watch.sockets, final=final)
        sentence: str = summary["sentence"]
        self.log(f"stacks: {sentence}")
        return sentence

    def _end_hung(self, reason: str) -> str:
        """Stacks first, then the ladder."""
        self.log(reason)
        self.watch.hear()
        if self.watch.ranks:
            reason = f"{reason}: {self._collect_stacks(final=True)}"
        return self._end(reason)

    def _end(self, reason: str) -> str:
        left = self._end_processes(gently=True)
        return f"{reason}; {left}" if left else reason

    def _end_processes(self, *, gently: bool) -> str:
        """Ends all that is left of the run; a sentence about what could not be ended, or an empty one."""
        if self.launched is None:
            return ""
        if gently and self.launched.pid is not None:
            self.watch.look(self.launched.pid, float("inf"))
        first_stops = self.waiting.stops
        spare = [self.sampler.pid] if self.sampler is not None and self.sampler.pid is not None else []
        came_to = ladder.end(
            self.folder.id,
            self.launched,
            list(self.watch.ranks.values()),
            spare=spare,
            owner=os.getpid(),
            hurry=lambda: not gently or self.waiting.stops > first_stops,
            between=self.waiting.reap,
            log=self.log,
        )
        self.waiting.wait(0)
        return f"pid {', '.join(map(str, came_to.stuck))} hangs in the kernel (state D)" if came_to.stuck else ""

    def _judge(self, left: str) -> tuple[str, str]:
        assert self.launched is not None
        self._sum_up()
        ended = self.waiting.ended[self.launched.pid]
        seen = evidence.gather(self.folder, self.request, ended, self.watch, self.status.checks)
        self.status = replace(self.status, exit_code=seen.exit_code)
        state, reason = verdict.judge(seen)
        if state == FAILED and self.nccl is not None and self.nccl.trouble:
            reason = f"{reason}; NCCL's log: {self.nccl.trouble}"
        return state, f"{reason}; {left}" if left else reason

    def _sum_up(self) -> None:
        """Reads what the ranks reported; once, since it may be much."""
        if not self._summed_up:
            self.status = closing.gather(self.folder, self.status, self.request.expect_failure)
            self._summed_up = True
            if self.nccl is not None:
                self.nccl.finish(self.status.results)

    def finish(self, state: str, reason: str) -> None:
        """The last word."""
        self._sum_up()
        if self.sampler is not None and self.sampler.pid is not None:
            self.sampler.poll(time.monotonic(), time.time(), self.status.started or time.time())
            self.sampler.close()
        processes = (
            *([self.launched] if self.launched else []),
            *(rank for _, rank in sorted(self.watch.ranks.items())),
        )
        ended = time.time()
        if self.status.started is not None and self._began is not None:
            # The clock may have been set meanwhile: how long it took is what it took.
            ended = self.status.started + time.clock_gettime(time.CLOCK_BOOTTIME) - self._began
        self.status = replace(self.status, state=state, reason=reason, ended=ended, processes=processes)
        if self.launched is not None:
            self.machine.update(self.sampler.machine if self.sampler is not None else None, self.watch)
        self.log(f"{state}: {reason}")
        closing.write_last_word(self.folder, self.status, self.log)
        if self.runtime is not None:
            spawn.remove_runtime(self.folder.id)

    def abandon(self) -> None:
        """After a fault of our own: nothing outlives the run, and the fault is its last word."""
        error = traceback.format_exc()
        self.log(error)
        with contextlib.suppress(OSError, RecordError):
            self._end_processes(gently=True)
        self.finish(FAILED, f"labtui's agent failed: {error.strip().splitlines()[-1]} (see agent.log)")


def _die_with_parent() -> None:
    """In the child, before exec: SIGTERM when the agent goes (SIGTERM, so that torchrun ends its ranks)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Claims the run, detaches, and owns it; the process that was started returns when the run is owned."""
    folder = RunFolder(Path(arguments[0]).absolute())
    try:
        folder.request()
        descriptor = ownership.claim(folder)
    except (RecordError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if descriptor is None:
        print("the run has an owner already", file=sys.stderr)
        return 1
    reader, writer = os.pipe()
    if os.fork() > 0:
        os.close(writer)
        return 0 if os.read(reader, 2) == b"ok" else 1
    os.close(reader)
    os.setsid()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(folder.path)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    agent = Agent(folder, dict(os.environ))
    agent.waiting.listen()
    agent.write_status()
    os.write(writer, b"ok")
    os.close(writer)
    try:
        agent.run()
    except Exception:  # noqa: BLE001 - whatever fails here, no rank may outlive us and the run needs its last word
        agent.abandon()
    ownership.start_next(agent.folder, agent.request.next, agent.status.state, agent.environ, agent.log)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
