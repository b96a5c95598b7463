"""How this machine is, for the strip: from a live run's telemetry, or from a sampler of our own while no run lives.

Threads and processes only; draws nothing. The sampler is a process of its own, so that a driver that hangs holds up no
screen. It ends with us: it watches its stdin, and asks the kernel to be killed with the thread that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from labtui.runs.folder import RunFolder, read_json
from labtui.runs.gauges import GaugeReader
from labtui.runs.records import Document, RecordError
from labtui.tui.messages import OLD_S, Machine, MachineRead
from labtui.tui.watcher import Poller, Post

if TYPE_CHECKING:
    import subprocess

INTERVAL_S = 1.0
HOST_S = 5.0
"""Between two lines about the host, where there is no GPU."""
FIRST_S = 0.2
"""Between two looks until the first sample is there."""
SILENCE_S = 10.0
RESTART_S = 30.0
"""A sampler that has died or was killed is started again after this long."""
REACH = 1 << 18
"""Bytes before the end of a live run's telemetry that are read: more than the last minute."""

COMMAND = (sys.executable, "-P", "-m", "labtui.machine.sampler", "--interval", str(INTERVAL_S))


def slow_down() -> None:
    """For a slow line: the machine is shown less often."""
    global INTERVAL_S, HOST_S
    INTERVAL_S, HOST_S = 3.0, 15.0


class LiveRun:
    """The telemetry of somebody's run on this machine."""

    def __init__(self, folder: RunFolder, experiment: str) -> None:
        self.folder, self.experiment = folder, experiment
        self._reader = GaugeReader(folder, from_end=REACH)
        self._document: Document | None = None
        self._begun = time.monotonic()

    def look(self, now: float) -> Machine:
        """Reads on. Never raises for the folder's content."""
        errors = self._reader.poll()
        while self._reader.behind:
            errors = self._reader.poll()
        if self._document is None:
            with contextlib.suppress(RecordError):  # it is written when the run has begun
                found = read_json(self.folder.machine_file)
                self._document = found if isinstance(found, dict) else None
        trouble = errors[0] if errors else ""
        if not trouble and self._reader.latest is None and time.monotonic() - self._begun > SILENCE_S:
            trouble = "it has no telemetry"
        return Machine(now, self._reader.gauges, self._document, self.experiment, trouble)

    def close(self) -> None:
        """There is nothing to end."""


class OwnSampler:
    """A sampler of our own."""

    def __init__(self) -> None:
        self._reader = GaugeReader()
        self._document: Document | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._heard = 0.0
        self._start_at = 0.0
        self._trouble = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def look(self, now: float) -> Machine:
        """Takes what was printed; starts the sampler where it doesn't run, ends it where it hangs."""
        clock = time.monotonic()
        if self._process is None and clock >= self._start_at:
            self._start(clock)
        elif self._process is not None:
            self._read(self._process, clock)
        return Machine(now, self._reader.gauges, self._document, trouble=self._trouble)

    def _start(self, clock: float) -> None:
        import subprocess  # the first screen needs none

        try:
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            self._give_up(clock, f"the sampler can't be started ({error.strerror})")
            return
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._heard = clock

    def _read(self, process: subprocess.Popen[bytes], clock: float) -> None:
        assert process.stdout is not None
        try:
            data = os.read(process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            if clock - self._heard > SILENCE_S:
                self._give_up(clock, f"the sampler was silent for {SILENCE_S:.0f} s")
            return
        if not data:
            self._give_up(clock, "the sampler has ended")
            return
        self._heard, self._trouble = clock, ""
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            if line.startswith(b'{"machine"'):
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    self._document = json.loads(line)["machine"]
            else:
                self._reader.take_line(line, os.uname().nodename)

    def _give_up(self, clock: float, trouble: str) -> None:
        self.close()
        self._trouble, self._start_at = trouble, clock + RESTART_S

    def close(self) -> None:
        """Ends the sampler. One that hangs in the kernel is not waited for."""
        process, self._process, self._pending = self._process, None, b""
        if process is None:
            return
        import subprocess

        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(OSError):
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)


class MachineWatcher(Poller):
    """Watches this machine and posts MachineRead."""

    def __init__(self, post: Post) -> None:
        super().__init__("machine watcher", post)
        self._wanted: tuple[RunFolder, str] | None = None
        self._source: LiveRun | OwnSampler | None = None
        self._seen = False
        self._posted: Machine | None = None

    def follow(self, run: tuple[RunFolder, str] | None) -> None:
        """From now on the telemetry of this run (of that experiment), or with None, what our sampler says."""
        if run != self._wanted or self._source is None:
            self._wanted = run
            self.resume()

    def show(self, seen: bool) -> None:
        """Whether somebody looks at what is posted. It is measured all the same, so that a minute is known."""
        self._seen = seen
        if seen and not self._paused:
            self.resume()

    def look(self) -> float:
        source = self._right_source()
        machine = source.look(time.time())
        news = self._posted is None or machine.gauges.t != self._posted.gauges.t
        if news and not machine.gauges.gpus and self._posted is not None:
            # The host alone is a quiet line: it need not flicker.
            news = machine.taken - self._posted.taken >= HOST_S or self._posted.gauges.t is None
        if self._seen and (news or self._is_changed(machine)):
            self._posted = machine
            self.post(MachineRead(machine))
        is_first = machine.gauges.t is None and not machine.trouble and isinstance(source, OwnSampler)
        return FIRST_S if is_first else INTERVAL_S

    def _is_changed(self, machine: Machine) -> bool:
        before = self._posted
        assert before is not None
        if machine.gauges.t is not None and machine.taken - machine.gauges.t > OLD_S:
            return True  # its age is shown
        return (machine.document, machine.trouble, machine.run) != (before.document, before.trouble, before.run)

    def _right_source(self) -> LiveRun | OwnSampler:
        wanted, source = self._wanted, self._source
        if wanted is None:
            if not isinstance(source, OwnSampler):
                self._source = OwnSampler()
        elif not isinstance(source, LiveRun) or source.folder != wanted[0]:
            if source is not None:
                source.close()
            self._source = LiveRun(*wanted)
        assert self._source is not None
        return self._source

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
