"""What a run's status means now: status.json says what its agent last wrote, this module whether that still holds.

A run is `lost` where its agent is gone and left no last word. That is found from pid, start time and boot id by
whoever reads the folder; a run on another host is never called lost from here. Nothing here writes or signals.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

from labtui.runs import process
from labtui.runs.folder import RunFolder
from labtui.runs.records import LOST, Owner, RecordError, Status

UNOWNED_GRACE_S = 10.0
"""How long a queued run may be without an agent before it counts as lost: its starter is still at work."""


def owner_alive(owner: Owner) -> bool | None:
    """Whether the agent runs; None where that can't be known from this host."""
    if owner.host != os.uname().nodename:
        return None
    return owner.boot_id == process.boot_id() and process.alive(owner.pid, owner.start)


def observe(folder: RunFolder, now: float | None = None) -> Status:
    """status.json, with the state `lost` where its agent is gone. Raises RecordError."""
    status = folder.status()
    if not status.live:
        return status
    if status.agent is None:
        return _observe_unowned(folder, status, time.time() if now is None else now)
    if owner_alive(status.agent) is False:
        # Between our two looks the agent may have written its last word and gone.
        status = folder.status()
        if status.live:
            reason = f"its agent (pid {status.agent.pid if status.agent else '?'}) is gone and left no last word"
            if status.agent is not None and status.agent.boot_id != process.boot_id():
                reason = "the machine was restarted while it ran"
            return replace(status, state=LOST, reason=reason)
    return status


def _observe_unowned(folder: RunFolder, status: Status, now: float) -> Status:
    """A queued run that no agent has taken yet: fine while its group goes on, or while its starter is at work.

    One that was made in the future was made before the clock was set back: its starter is gone as well.
    """
    request = folder.request()
    if request.host != os.uname().nodename or abs(now - status.created) < UNOWNED_GRACE_S:
        return status
    if request.group is not None and _group_goes_on(folder, request.group):
        return status
    return replace(status, state=LOST, reason="it never started: what should have started it is gone")


def _group_goes_on(folder: RunFolder, group: str) -> bool:
    """Whether an agent of an earlier run of the group is alive; the first run's id is the group's name."""
    current: str | None = group
    seen = {folder.id}
    while current is not None and current not in seen:
        seen.add(current)
        try:
            member = folder.sibling(current)
            status = member.status()
            current = member.request().next
        except RecordError:
            return False
        if status.agent is not None and owner_alive(status.agent):
            return True
    return False
