"""Starting real runs in tests, and proving that none of their processes is left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from labtui.runs import control, process, start, state
from labtui.runs.folder import RunFolder
from labtui.runs.ladder import RUN_ID
from labtui.runs.records import Status


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Waits for a condition, the only kind of waiting that tests do."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def torchrun(script: Path, *arguments: str, nproc: int = 2) -> list[str]:
    """A user's torchrun line."""
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc),
        str(script), *arguments,
    ]  # fmt: skip


def launch(root: Path, command: list[str], **options: object) -> RunFolder:
    return start.start_command(root, command, start.Options(**options))  # type: ignore[arg-type]


def running(folder: RunFolder, ranks: int) -> Status:
    """Waits until that many ranks are known."""
    until(lambda: len(state.observe(folder).ranks) == ranks or not state.observe(folder).live, f"{ranks} ranks run")
    status = state.observe(folder)
    assert status.live, status.reason
    return status


def end(folder: RunFolder) -> Status:
    """Waits for the run's last word and for its agent to be gone; nothing may be left of it."""
    status = control.wait(folder)
    assert_nothing_left(folder, status)
    return status


def assert_nothing_left(folder: RunFolder, status: Status) -> None:
    until(lambda: not process.carrying(RUN_ID, folder.id), f"no process carries {folder.id}", 15)
    for known in status.processes:
        assert not process.alive(known.pid, known.start), f"{known.role} {known.pid} is left"
    prefix = f"labtui-{folder.id[:15]}-{folder.id[-4:]}-"
    assert not [name for name in os.listdir("/tmp") if name.startswith(prefix)], "the runtime folder is left"
