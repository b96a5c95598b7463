"""A learner's own schedule: runs a file that defines schedule(p, m) in a process of its own and judges what it returns.

Nothing of the file is executed here. The process gets no input, has a time limit, and ends with its whole group; one
that starts a session of its own escapes that. It is no sandbox: the file may do what its user may.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labtui.runs.clean import clean, clean_line
from labtui.runs.process import signal_name
from labtui.theory.pipeline.learner import from_lists, refuse_sizes
from labtui.theory.pipeline.order import Order, OrderError

SECONDS = 10.0
MOST_PRINTED = 64 << 10
"""Bytes of what the file prints that are kept; the rest is read and dropped."""
CHUNK = 1 << 16
PIPE_CHUNKS = 16
"""A pipe holds at most 1 MiB."""
CHILD = str(Path(__file__).with_name("learner_child.py"))


class LearnerError(OrderError):
    """The file gives no schedule. The message is one sentence."""


@dataclass(frozen=True)
class Answer:
    """What came back from the file's process."""

    line: bytes
    """JSON; empty where it ended without an answer."""
    printed: str
    exit_code: int
    late: bool
    long: bool


def order(
    path: Path,
    p: int,
    m: int,
    *,
    seconds: float = SECONDS,
    show: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
) -> Order:
    """The order that the file's schedule(p, m) returns, judged.

    What the file prints goes to `show`, cleaned, also before an error. Raises LearnerError where the file is missing,
    has no such function, raises (with the line), is not done within `seconds`, or returns what is no schedule for
    these sizes; OrderError where no schedule has them.
    """
    refuse_sizes(p, m)
    if not path.is_file():
        raise LearnerError(f"{path} is a folder" if path.is_dir() else f"there is no file {path}")
    call = f"schedule({p}, {m})"
    answer = _asked(path, p, m, seconds)
    if answer.printed:
        show(answer.printed)
    if answer.late:
        raise LearnerError(f"{path.name}: {call} did not answer within {seconds:g} s")
    if answer.long:
        raise LearnerError(f"{path.name}: {call} returns far more than the {2 * p * m:,} operations of these sizes")
    if not answer.line:
        code = answer.exit_code
        how = signal_name(-code) if code < 0 else f"exit code {code}"
        raise LearnerError(f"{path.name} ended without an answer ({how})")
    try:
        found = json.loads(answer.line)
    except (ValueError, RecursionError):
        raise LearnerError(f"{path.name}: {call} returns what is no list of operations for each device") from None
    if "fault" in found:
        raise LearnerError(_fault(path.name, call, found))
    try:
        return from_lists(found["lists"], p, m, path.stem)
    except OrderError as error:
        raise LearnerError(f"{path.name}: {error}") from None


def _fault(name: str, call: str, found: dict[str, Any]) -> str:
    if found["fault"] == "no schedule":
        others = [clean_line(other) for other in found["has"]][:4]
        return f"{name} defines no function schedule(p, m)" + (f", only {', '.join(others)}" if others else "")
    message = clean_line(found["message"])
    message = message if len(message) <= 200 else message[:197] + "..."
    if found["fault"] == "raises":
        where = name if found["line"] is None else f"{name}, line {found['line']}"
        return f"{where}: {found['type']}" + (f": {message}" if message else "")
    return f"{name}: {call} returns what is no list of operations for each device ({message})"


def _asked(path: Path, p: int, m: int, seconds: float) -> Answer:
    """Runs the file's process to its answer, its end or the time limit, and ends it."""
    most = CHUNK + 64 * p * m  # three times what a whole list of ["F", 1234] takes
    reading, writing = os.pipe()
    try:
        child = subprocess.Popen(
            # -I: neither the working folder nor the user's variables change what Python imports; -u: nothing that was
            # printed before the end is lost.
            [sys.executable, "-I", "-u", "-X", "utf8", CHILD, str(writing), str(path), str(p), str(m)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    assert child.stdout is not None
    line, printed = bytearray(), bytearray()
    late = False
    deadline = time.monotonic() + seconds
    os.set_blocking(child.stdout.fileno(), False)
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(reading, selectors.EVENT_READ)
            ready.register(child.stdout, selectors.EVENT_READ)
            while not late and not line.endswith(b"\n") and len(line) <= most:
                left = deadline - time.monotonic()
                late = left <= 0
                events = {key.fd for key, _ in ready.select(max(0.0, left))}
                if child.stdout.fileno() in events and not _take(child.stdout.fileno(), printed):
                    ready.unregister(child.stdout)
                if reading in events:
                    data = os.read(reading, CHUNK)
                    line += data
                    if not data:
                        break
    finally:
        # The process is not reaped yet, so that the group's number is still its own.
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left in it
        code = child.wait()
        for _ in range(PIPE_CHUNKS):  # not to the end: what escaped may print for ever
            if not _take(child.stdout.fileno(), printed):
                break
        child.stdout.close()
        os.close(reading)
    whole = line.endswith(b"\n")
    text = clean(printed.decode(errors="replace")).rstrip()
    if len(printed) >= MOST_PRINTED:
        text += "\n(more is not shown)"
    return Answer(bytes(line) if whole else b"", text, code, late and not whole, len(line) > most)


def _take(descriptor: int, kept: bytearray) -> bool:
    """Reads what is there and keeps the first of it; False at the end, or where there is nothing now."""
    try:
        data = os.read(descriptor, CHUNK)
    except BlockingIOError:
        return False
    kept += data[: MOST_PRINTED - len(kept)]
    return bool(data)
