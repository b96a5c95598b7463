"""Burying a run whose agent is gone: what is left of it is ended, what it wrote is summed up into its last word."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from labtui.runs import closing, ladder, nccl_log, spawn, state
from labtui.runs.folder import RunFolder
from labtui.runs.records import LOST, RecordError, Status


def bury(folder: RunFolder) -> Status:
    """The run's status; if it is lost, ends its leftovers and writes that down first. Raises RecordError.

    Two at once do the same twice, which harms nothing. A run of another user is left as it is.
    """
    status = state.observe(folder)
    if status.state != LOST or not folder.status().live:
        return status
    request = folder.request()
    if request.uid != os.getuid():
        return status
    said: list[str] = []
    launched = next((process for process in status.processes if process.role not in ("rank", "sampler")), None)
    # No gentle step: SIGTERM is what torchrun got when its agent went.
    came_to = ladder.end(request.id, launched, status.ranks, hurry=lambda: True, log=said.append)
    reason = status.reason
    if came_to.killed:
        reason += f"; {came_to.killed} of its processes were still there and have been ended"
    gathered = closing.gather(folder, status, request.expect_failure)
    nccl_log.NcclLog(folder, said.append).finish(gathered.results)
    status = replace(gathered, reason=reason, ended=_last_sign(folder))
    try:
        with folder.agent_log.open("a") as file:
            file.writelines(f"{line}\n" for line in [f"{LOST}: {reason}", *said])
    except OSError:
        pass  # the log only says how; what matters is the status
    closing.write_last_word(folder, status, said.append, patience_s=0)
    spawn.remove_runtime(request.id)
    return status


def _last_sign(folder: RunFolder) -> float:
    """When the run last wrote anything: that is as near to its end as can be known."""
    newest = 0.0
    for path in folder.path.rglob("*"):
        try:
            newest = max(newest, path.stat().st_mtime)
        except OSError:
            continue
    return min(newest or time.time(), time.time())


def bury_quietly(folder: RunFolder) -> Status | None:
    """As bury, for listings: None where the folder can't be read."""
    try:
        return bury(folder)
    except RecordError:
        return None
