"""Following a run on the command line: one live line on a terminal, plain lines in a pipe, ctrl-c stops the run.

All of it goes to stderr: stdout is for what the run came to.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from labtui.runs import control
from labtui.runs.clean import clean_line
from labtui.runs.folder import RunFolder
from labtui.runs.records import QUEUED, RecordError, Status
from labtui.runs.verdict import describe_check
from labtui.runs.watch import Snapshot, Watch

LOOK_S = 0.25


def follow(folders: Sequence[RunFolder], out: TextIO | None = None) -> list[Status]:
    """Follows the runs, one after the other, until each is over; returns their last words.

    ctrl-c asks the agents to stop and goes on waiting; a second one tells them not to be gentle. Raises RecordError.
    """
    out = out if out is not None else sys.stderr
    live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    ends = []
    for position, folder in enumerate(folders):
        teller = _Line(out) if live else _Lines(out)
        while True:
            try:
                ends.append(_follow_one(folder, teller))
                break
            except KeyboardInterrupt:
                teller.say("stopping: the ranks get some seconds to end (ctrl-c again: at once)")
                _stop(folders[position:])
    return ends


def _follow_one(folder: RunFolder, teller: _Teller) -> Status:
    watch = Watch(folder)
    while True:
        snapshot = watch.poll(time.time())
        if not folder.path.is_dir():
            raise RecordError(f"{folder.id} is gone: its folder was removed, which ends the run")
        teller.tell(snapshot)
        if snapshot.status is None or (not snapshot.live and not snapshot.behind):
            status = control.wait(folder)
            teller.tell(watch.poll(time.time()))
            teller.end(status)
            return status
        if not snapshot.behind:
            control.pause(snapshot.status, LOOK_S)


def _stop(folders: Sequence[RunFolder]) -> None:
    """The last of a group first, so that none of them starts in between."""
    for folder in reversed(folders):
        try:
            control.stop(folder)
        except (control.ControlError, RecordError):
            continue  # it has ended meanwhile


class _Teller:
    """Tells somebody how a run goes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def tell(self, snapshot: Snapshot) -> None:
        raise NotImplementedError

    def say(self, sentence: str) -> None:
        print(clean_line(sentence), file=self._out, flush=True)

    def end(self, status: Status) -> None:
        """Nothing more comes."""


class _Line(_Teller):
    """One line that is written over."""

    _last = ""

    def tell(self, snapshot: Snapshot) -> None:
        width = shutil.get_terminal_size().columns
        line = clean_line(progress_line(snapshot))[: max(1, width - 1)]
        if line != self._last:
            self._out.write(f"\r{line}\x1b[K")
            self._out.flush()
            self._last = line

    def say(self, sentence: str) -> None:
        self._out.write("\r\x1b[K")
        super().say(sentence)
        self._last = ""

    def end(self, status: Status) -> None:
        self._out.write("\r\x1b[K")
        self._out.flush()


class _Lines(_Teller):
    """A line for each thing that happens: for a pipe, a file, a dumb terminal."""

    _state = ""
    _seen_checks = 0

    def tell(self, snapshot: Snapshot) -> None:
        status = snapshot.status
        if status is not None and f"{status.state} {status.reason}" != self._state and status.live:
            self._state = f"{status.state} {status.reason}"
            reason = f": {status.reason}" if status.reason else ""
            self.say(f"{snapshot.folder.id} {status.state}{reason}")
        for check in snapshot.checks[self._seen_checks :]:
            self.say(f"check {check_word(check)} {describe_check(check)}")
        self._seen_checks = len(snapshot.checks)
        for event in snapshot.new:
            if event["kind"] == "note":
                self.say(f"note from rank {event['rank']}: {event.get('text')}")


def check_word(check: dict[str, object]) -> str:
    """ok, failed, or failed as intended."""
    if check.get("passed") is True:
        return "ok"
    return "failed as intended" if check.get("expected") is False else "FAILED"


def progress_line(snapshot: Snapshot) -> str:
    """State, time, progress, checks and the first rank's newest metric, in one line."""
    status = snapshot.status
    if status is None:
        return "; ".join(snapshot.errors)
    parts = [status.state]
    if status.state == QUEUED:
        return f"{status.state}  {status.reason}"
    if snapshot.seconds is not None:
        minutes, seconds = divmod(int(snapshot.seconds), 60)
        parts.append(f"{minutes:02}:{seconds:02}")
    if snapshot.done is not None:
        total = f"/{snapshot.done.total:g}" if snapshot.done.total is not None else ""
        parts.append(f"{snapshot.done.done:g}{total}")
    failed = sum(check.get("passed") is not True and check.get("expected") is not False for check in snapshot.checks)
    if snapshot.checks:
        parts.append(f"{len(snapshot.checks)} checks" + (f", {failed} FAILED" if failed else " ok"))
    curve = next((curve for curve in reversed(snapshot.curves) if curve.rank == 0 and curve.latest is not None), None)
    if curve is not None:
        parts.append(f"{curve.name} {curve.latest:.4g}{' ' + curve.unit if curve.unit else ''}")
    if snapshot.bad_lines:
        parts.append(f"{snapshot.bad_lines} bad lines")
    return "  ".join(parts)
