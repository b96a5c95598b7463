"""The last word of a run: its events summed up into status.json, also on a full disk.

Used by the agent at the end of a run, and by whoever buries a run whose agent is gone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Document, Status
from labtui.runs.tail import EventTail
from labtui.runs.verdict import mark_expected

MOST_RESULTS = 2000
RESERVE_BYTES = 64 << 10
"""Kept in the folder while a run lives, and given back when a full disk would swallow the last word."""


def gather(folder: RunFolder, status: Status, expect_failure: tuple[str, ...]) -> Status:
    """The status with all that the ranks reported: counts, checks, predictions, results."""
    tail = EventTail(folder)
    kept: dict[str, list[Document]] = {"check": [], "prediction": [], "result": []}
    while True:
        for event in tail.poll():
            if event["kind"] in kept and len(kept[event["kind"]]) < MOST_RESULTS:
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


def write_last_word(folder: RunFolder, status: Status, log: Callable[[str], None], patience_s: float = 30.0) -> bool:
    """Writes the final status; on a full disk first the reserve is given back, then the results are left out.

    Tries for `patience_s`, since somebody may be making room; False where it could not be written.
    """
    deadline = time.monotonic() + patience_s
    document = status.document()
    while True:
        try:
            write_json(folder.status_file, document)
        except OSError as error:
            log(f"status.json can't be written: {error.strerror}")
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or time.monotonic() > deadline:
                return False
            if _reserve(folder).exists():
                _reserve(folder).unlink()
                continue
            document = {**document, "results": [], "reason": f"{status.reason} (results left out: the disk is full)"}
            time.sleep(1.0)
        else:
            break
    with contextlib.suppress(OSError):
        _reserve(folder).unlink(missing_ok=True)
    return True
