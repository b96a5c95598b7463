"""Who owns a run, and who comes next: whoever creates agent.log, exclusively, owns the run's last word."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from labtui.runs import launch, spawn
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import STOPPED, SUCCEEDED, RecordError


def claim(folder: RunFolder) -> int | None:
    """Makes the caller the owner of the run: a descriptor of agent.log, or None where it has an owner already."""
    try:
        return os.open(folder.agent_log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return None


def claim_and_end(folder: RunFolder, reason: str) -> bool:
    """Ends a queued run that has no owner yet; False where it has one. Raises RecordError, OSError."""
    descriptor = claim(folder)
    if descriptor is None:
        return False
    with os.fdopen(descriptor, "w") as file:
        print(reason, file=file)
    status = replace(folder.status(), state=STOPPED, reason=reason, ended=time.time())
    write_json(folder.status_file, status.document())
    return True


def start_next(folder: RunFolder, state: str, environ: Mapping[str, str], log: Callable[[str], None]) -> None:
    """Starts the next run of the group that nobody owns yet; with fail_fast, ends the rest after a failure."""
    following_id = folder.request().next
    while following_id is not None:
        following = RunFolder(folder.path.parent / following_id)
        try:
            request = following.request()
            following_id = request.next
            if request.fail_fast and state != SUCCEEDED:
                claim_and_end(following, "not started: an earlier run of its group did not succeed")
            elif not following.agent_log.exists():  # else it was stopped while it waited
                spawn.spawn(following, launch.starter_environment(environ, {}))
                log(f"started the next run of the group: {following.id}")
                return
        except (RecordError, OSError) as error:
            log(f"{following.id} can't be started: {error}")
            return
