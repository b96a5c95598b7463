"""The same questions after every fault: is anything left, is the last word true, is all there that was written, does
the index say what the folders say, does the next run work?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import assert_nothing_left, end, launch, until

from labtui.runs import control, process, rows, state
from labtui.runs.folder import RunFolder
from labtui.runs.index import cache_file, open_index
from labtui.runs.records import ENDED, SUCCEEDED, Status
from labtui.runs.tail import read_events

Process = tuple[int, int]
"""A pid and its start time."""


@dataclass(frozen=True)
class Written:
    """What a run had written at one moment."""

    events: tuple[str, ...]
    """As the product's own reader gives them."""
    logs: dict[Path, bytes]
    """Path -> the whole lines of each event, telemetry and log file."""


def identity(pid: int) -> Process:
    """The process with that pid, for good."""
    stat = process.read_stat(pid)
    assert stat is not None, f"there is no process {pid}"
    return stat.pid, stat.start


def written(folder: RunFolder) -> Written:
    """All that the run has written so far: taken before the fault, held against what is there afterwards."""
    logs = {}
    for pattern in ("events/*.jsonl", "telemetry/*.jsonl", "**/*.log"):
        for path in folder.path.glob(pattern):
            data = path.read_bytes()
            logs[path.relative_to(folder.path)] = data[: data.rfind(b"\n") + 1]
    return Written(_events(folder), logs)


def audit(
    folder: RunFolder,
    expected: str,
    reason: str = "",
    *,
    before: Written | None = None,
    also_gone: Sequence[Process] = (),
) -> Status:
    """Waits for the run's last word and asks everything. `reason` is a part of the sentence that the user reads;
    `also_gone` are processes that no record names."""
    status = control.wait(folder)
    # Nothing is left, in whichever session it may have hidden.
    for pid, start in also_gone:
        until(lambda pid=pid, start=start: not process.alive(pid, start), f"pid {pid} is gone", 15)
    assert_nothing_left(folder, status)
    # The last word is there, true, and says the same to whoever asks next.
    assert status.state == expected and status.state in ENDED, (status.state, status.reason)
    assert reason in status.reason and status.reason.count("\n") == 0, status.reason
    assert status.ended is not None and status.ended >= (status.started or status.created), status
    assert state.observe(folder) == folder.status() == status
    events, bad_lines = read_events(folder)
    counted = {f"rank{rank}" for rank in {event["rank"] for event in events}}
    assert counted <= status.events.keys() and status.events.get("bad_lines", 0) == bad_lines
    assert sum(status.events.values()) - bad_lines == len(events)
    assert [check["name"] for check in status.checks] == [e["name"] for e in events if e["kind"] == "check"]
    # Nothing that was written before is lost.
    if before is not None:
        assert_kept(folder, before)
    assert_index_true(folder.path.parent)
    next_run_works(folder.path.parent)
    return status


def assert_kept(folder: RunFolder, before: Written) -> None:
    for path, data in before.logs.items():
        assert (folder.path / path).read_bytes().startswith(data), f"{path} lost lines that were there"
    missing = set(before.events) - set(_events(folder))
    assert not missing, f"{len(missing)} events can't be read any more"


def assert_index_true(root: Path) -> None:
    """The listing, one built anew, and the folders themselves say the same."""
    listed = _listing(root)
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{cache_file(root)}{suffix}").unlink(missing_ok=True)
    assert _listing(root) == listed
    direct = [found.row for name, _ in listed if (found := rows.look(root, name)).row is not None]
    assert [(row.id, (row.state, row.reason)) for row in direct if row] == listed


def next_run_works(root: Path) -> None:
    code = "from labtui.bench import report; report.check('it works', passed=True); print('it works')"
    folder = launch(root, [sys.executable, "-c", code])
    status = end(folder)
    assert (status.state, status.reason) == (SUCCEEDED, "its check passed"), folder.agent_log.read_text()
    assert folder.output.read_text() == "it works\n"


def _listing(root: Path) -> list[tuple[str, tuple[str, str]]]:
    index = open_index(root)
    assert index.trouble == ""
    listed = [(row.id, (row.state, row.reason)) for row in index.newest()]
    index.close()
    return listed


def _events(folder: RunFolder) -> tuple[str, ...]:
    return tuple(repr(event) for event in read_events(folder)[0])
