"""Burying a run whose agent is gone: what is left of it is ended, what it wrote is summed up into its last word."""

from __future__ import annotations

import time
from dataclasses import replace

from labtui.runs import closing, ladder, nccl_log, ownership, process, spawn, state
from labtui.runs.folder import RUN_ID, RunFolder
from labtui.runs.records import LOST, RecordError, Status


def bury(folder: RunFolder) -> Status:
    """The run's status; if it is lost, ends its leftovers and writes that down first. Raises RecordError.

    Two at once do the same twice, which harms nothing. A run of another user is left as it is.
    """
    status = state.observe(folder)
    if status.state != LOST or not folder.status().live:
        return status
    request = folder.request()
    # What is ended is named by the folder: it must be of our own making.
    if not ownership.is_ours(folder) or not RUN_ID.fullmatch(request.id):
        return status
    said: list[str] = []
    recorded = status.processes
    if status.agent is not None and status.agent.boot_id != process.boot_id():
        recorded = ()  # they ended with that boot: what has one of these pids and start times now is somebody else's
    launched = next((each for each in recorded if each.role not in ("rank", "sampler")), None)
    ranks = [each for each in recorded if each.role == "rank"]
    # No gentle step: SIGTERM is what torchrun got when its agent went.
    came_to = ladder.end(request.id, launched, ranks, hurry=lambda: True, log=said.append)
    reason = status.reason
    if came_to.killed:
        were, have = ("was", "has") if came_to.killed == 1 else ("were", "have")
        reason += f"; {came_to.killed} of its processes {were} still there and {have} been ended"
    gathered = closing.gather(folder, status, request.expect_failure)
    nccl_log.NcclLog(folder, said.append).finish(gathered.results)
    # The clock may have been set back meanwhile: no run ends before it began.
    status = replace(gathered, reason=reason, ended=max(_last_sign(folder), status.started or status.created))
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
