"""The agent's side of the sampler: a process of its own that prints JSON lines, so that a sick driver call holds up
neither a kill nor a time limit. If it does not answer for 10 s it is killed, noted and started again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from labtui.runs.folder import RunFolder
from labtui.runs.records import Document, RunProcess

INTERVAL_S = 1.0
SILENCE_S = 10.0
RESTART_S = 30.0
"""A sampler that has died or was killed is started again after this long."""

FULL_S = 3600.0
RECENT_S = 600.0
COARSE_S = 60.0


def thin(lines: Sequence[bytes], started: float, now: float) -> list[bytes]:
    """Telemetry of a long run: the first hour and the last ten minutes whole, one line a minute between.

    Where the clock was set back the same minutes come twice, and both are kept.
    """
    kept: list[bytes] = []
    last = float("-inf")
    for line in lines:
        try:
            t = float(json.loads(line)["t"])
        except (ValueError, KeyError, TypeError):
            continue
        if t < started + FULL_S or t >= now - RECENT_S or abs(t - last) >= COARSE_S:
            kept.append(line)
            last = t
    return kept


class Sampler:
    """The sampler process of one run: started, told the ranks, read without blocking, restarted."""

    def __init__(self, folder: RunFolder, environment: dict[str, str], log: Callable[[str], None]) -> None:
        self.path = folder.telemetry / f"{os.uname().nodename}.jsonl"
        self.machine: Document | None = None
        """What the sampler said about the machine in its first line."""
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._heard = 0.0
        self._restart_at: float | None = 0.0
        self._told: Document = {}
        self._next_thinning: float | None = None
        self._full = False
        self._torn = False
        """Whether the file ends in the middle of a line."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def fileno(self) -> int | None:
        """The descriptor to wait on, if the sampler runs."""
        return self._process.stdout.fileno() if self._process is not None and self._process.stdout else None

    def start(self, now: float) -> None:
        """`now` is of a monotonic clock, here and below."""
        command = [sys.executable, "-P", "-m", "labtui.machine.sampler", "--interval", str(INTERVAL_S)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, env=self._environment
            )
        except OSError as error:
            self._log(f"no telemetry: the sampler can't be started ({error.strerror})")
            self._restart_at = None
            return
        assert self._process.stdout is not None and self._process.stdin is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        os.set_blocking(self._process.stdin.fileno(), False)
        self._heard, self._restart_at = now, None
        if self._told:
            self._tell()

    def watch(self, ranks: Sequence[RunProcess], torchrun: int | None) -> None:
        """Tells the sampler which processes are ranks, and whose network it reads."""
        told = {
            "ranks": [{"rank": rank.rank, "pid": rank.pid, "start": rank.start} for rank in ranks],
            "torchrun": torchrun,
        }
        if told != self._told:
            self._told = told
            self._tell()

    def _tell(self) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with contextlib.suppress(OSError):  # it is gone or stuck: the silence will be noticed
            os.write(self._process.stdin.fileno(), json.dumps(self._told).encode() + b"\n")

    def poll(self, now: float, clock: float, started: float) -> None:
        """Takes over what was printed; notices silence. `clock` and `started` are times since the epoch."""
        if self._process is None:
            if self._restart_at is not None and now >= self._restart_at:
                self.start(now)
            return
        assert self._process.stdout is not None
        try:
            data = os.read(self._process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            if now - self._heard > SILENCE_S:
                self._log(f"the sampler has been silent for {SILENCE_S:.0f} s and was killed")
                self._give_up(now)
            return
        if not data:
            self._log("the sampler has ended")
            self._give_up(now)
            return
        self._heard = now
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._take(line)
        self._thin_if_due(clock, started)

    def _take(self, line: bytes) -> None:
        if line.startswith(b'{"machine"'):
            with contextlib.suppress(ValueError):
                self.machine = json.loads(line)["machine"]
            return
        data = (b"\n" if self._torn else b"") + line + b"\n"
        try:
            with self.path.open("ab", buffering=0) as file:
                # A disk that is nearly full takes a part and says nothing: the next line must not stand behind it.
                taken = data[: file.write(data)]
            self._torn = not taken.endswith(b"\n")
            if taken != data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._full = False
        except OSError as error:
            if not self._full:
                self._log(f"telemetry is lost: {error.strerror}")
            self._full = True

    def _thin_if_due(self, clock: float, started: float) -> None:
        if self._next_thinning is None:
            self._next_thinning = started + FULL_S + 2 * RECENT_S
        if clock < self._next_thinning:
            return
        self._next_thinning = clock + RECENT_S
        temporary = self.path.with_name(f".{self.path.name}")
        try:
            kept = thin(self.path.read_bytes().splitlines(), started, clock)
            temporary.write_bytes(b"".join(line + b"\n" for line in kept))
            temporary.replace(self.path)
            self._torn = False
        except OSError as error:
            self._log(f"telemetry could not be thinned: {error.strerror}")
            Path(temporary).unlink(missing_ok=True)

    def moved(self, folder: RunFolder) -> None:
        """The run's folder lies elsewhere now."""
        self.path = folder.telemetry / self.path.name

    def _give_up(self, now: float) -> None:
        self.close()
        self._restart_at = now + RESTART_S

    def close(self) -> None:
        """Ends the sampler. The agent reaps it with its other children."""
        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGKILL)
        self._process = None
        self._pending = b""
