"""The last word of a run: its events summed up into status.json, also on a full disk.

Used by the agent at the end of a run, and by whoever buries a run whose agent is gone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Document, Status
from labtui.runs.tail import EventTail
from labtui.runs.verdict import mark_expected

MOST_RESULTS = 2000
MOST_BYTES = 2 << 20
"""Of checks, predictions and results together, as JSON: a status.json of more than LARGEST_RECORD could not be read."""
RESERVE_BYTES = 64 << 10
"""Kept in the folder while a run lives, for the last word where the disk is full by then."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_MAY_COME_BACK = (errno.EROFS, errno.EIO, errno.ESTALE)
"""A disk with errors is made read-only, a server restarts: both are sometimes brought back."""


def gather(folder: RunFolder, status: Status, expect_failure: tuple[str, ...]) -> Status:
    """The status with all that the ranks reported: counts, checks, predictions, results.

    Of these the first MOST_RESULTS each, and MOST_BYTES in all; the event files hold the rest.
    """
    tail = EventTail(folder)
    room = MOST_BYTES
    kept: dict[str, list[Document]] = {"check": [], "prediction": [], "result": []}
    while True:
        for event in tail.poll():
            if event["kind"] in kept and len(kept[event["kind"]]) < MOST_RESULTS:
                size = len(json.dumps(event))
                if size <= room:
                    room -= size
                    kept[event["kind"]].append(event)
        if not tail.behind:
            break
    counts = {f"rank{rank}": count for rank, count in sorted(tail.counts.items())}
    return replace(
        status,
        events={**counts, "bad_lines": tail.bad_lines},
        checks=mark_expected(kept["check"], expect_failure),
        predictions=tuple(kept["prediction"]),
        results=tuple(kept["result"]),
    )


def _reserve(folder: RunFolder) -> Path:
    return folder.path / ".reserve"


def make_reserve(folder: RunFolder) -> None:
    """Sets disk space aside for the last word. Raises OSError."""
    _reserve(folder).write_bytes(b"\0" * RESERVE_BYTES)


def disk_full(folder: RunFolder) -> bool:
    """Whether the folder's disk has no room left beside the reserve."""
    try:
        disk = os.statvfs(folder.path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < RESERVE_BYTES


def _shorter(status: Status) -> Iterator[Document]:
    """The status with less and less of what can also be read from the events."""
    for left_out in (("results",), ("results", "checks", "predictions")):
        words = " and ".join(", ".join(left_out).rsplit(", ", 1))
        reason = f"{status.reason} ({words} left out: the disk is full)"
        yield {**status.document(), **{name: [] for name in left_out}, "reason": reason}


def _write_in_reserve(folder: RunFolder, document: Document) -> bool:
    """Makes the reserve the status: its room is the run's already, while room given back may be taken by others."""
    data = json.dumps(document, ensure_ascii=False).encode(errors="replace") + b"\n"
    if len(data) > RESERVE_BYTES:
        return False
    try:
        with _reserve(folder).open("r+b") as file:
            file.write(data)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        _reserve(folder).replace(folder.status_file)
    except OSError:
        return False
    return True


def write_last_word(folder: RunFolder, status: Status, log: Callable[[str], None], patience_s: float = 30.0) -> bool:
    """Writes the final status; on a full disk into the room that was reserved, in place, and shortened if need be.

    Tries for `patience_s`, since somebody may be making room or bringing the disk back; False where it could not be
    written.
    """
    deadline = time.monotonic() + patience_s
    document = status.document()
    while True:
        try:
            write_json(folder.status_file, document)
        except OSError as error:
            log(f"status.json can't be written: {error.strerror}")
            if error.errno in _FULL:
                if any(_write_in_reserve(folder, each) for each in (document, *_shorter(status))):
                    break
                if _reserve(folder).exists():  # in place is not possible (copy on write, say): then it is given back
                    _reserve(folder).unlink()
                    continue
                document = next(_shorter(status))
            if error.errno not in (*_FULL, *_MAY_COME_BACK) or time.monotonic() > deadline:
                return False
            time.sleep(1.0)
        else:
            break
    with contextlib.suppress(OSError):
        _reserve(folder).unlink(missing_ok=True)
    return True
