"""Who owns a run, and who comes next: whoever creates agent.log, exclusively, owns the run's last word.

And whose a run's folder is: what a folder says is no order to those whom it doesn't belong to.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from labtui.runs import launch, spawn
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import STOPPED, SUCCEEDED, RecordError


def is_ours(folder: RunFolder) -> bool:
    """Whether this user made the run's folder and its records: only then do we signal, end and start what they name.

    The uid in run.json does not suffice, for whoever wrote it chose it: a folder that somebody else put into a shared
    logs/ could have us end our own processes. Where files get another owner than who makes them (a network file system
    that maps users), the folder is ours if what we make in it gets the owner that it has.
    """
    try:
        owner = folder.path.stat().st_uid
        records = [path.lstat().st_uid for path in (folder.request_file, folder.status_file) if path.exists()]
        if folder.request().uid != os.getuid() or any(uid != owner for uid in records):
            return False
        return owner == os.getuid() or _owner_of_new(folder) == owner
    except (OSError, RecordError):
        return False


def _owner_of_new(folder: RunFolder) -> int:
    """To whom a file belongs that we make in the folder. Raises OSError."""
    probe = folder.path / f".owner.{os.getpid()}"
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            probe.unlink()


def owner_name(folder: RunFolder) -> str:
    """Whose the folder is: a user's name, or their number where it has none."""
    try:
        uid = folder.path.stat().st_uid
    except OSError:
        return "somebody"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def claim(folder: RunFolder) -> int | None:
    """Makes the caller the owner of the run: a descriptor of agent.log, or None where it has an owner already."""
    try:
        return os.open(folder.agent_log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
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


def start_next(
    folder: RunFolder, following_id: str | None, state: str, environ: Mapping[str, str], log: Callable[[str], None]
) -> None:
    """Starts the next run of the group that nobody owns yet, `following_id` or one after it; with fail_fast, ends the
    rest after a failure. The folder itself may be gone by now."""
    seen = {folder.id}
    while following_id is not None and following_id not in seen:
        current = following_id
        seen.add(current)
        try:
            following = folder.sibling(current)
            if not is_ours(following):
                log(f"{following.id} is not started: it belongs to {owner_name(following)}")
                return
            request = following.request()
            following_id = request.next
            if request.fail_fast and state != SUCCEEDED:
                claim_and_end(following, "not started: an earlier run of its group did not succeed")
            elif not following.agent_log.exists():  # else it was stopped while it waited
                spawn.spawn(following, launch.starter_environment(environ, {}))
                log(f"started the next run of the group: {following.id}")
                return
        except (RecordError, OSError) as error:
            log(f"{current} can't be started: {error}")
            return
