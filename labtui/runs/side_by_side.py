"""Which runs are laid side by side, read from their folders for `compare`."""

from __future__ import annotations

from labtui.runs import closing, lost
from labtui.runs.compare import Compared
from labtui.runs.folder import RunFolder, read_json
from labtui.runs.records import Document, RecordError

MOST = 64
"""Runs of a group that are looked for."""


class GroupError(ValueError):
    """A run is in no group. The message is one sentence."""


def group_of(folder: RunFolder) -> list[RunFolder]:
    """The runs of the folder's group in their order, those that are still there. Raises GroupError, RecordError."""
    group = folder.request().group
    if group is None:
        raise GroupError(f"{folder.id} is in no group")
    members: list[RunFolder] = []
    following: str | None = group
    while following is not None and len(members) < MOST:
        member = folder.sibling(following)
        if member in members:
            break
        if member.path.is_dir():  # else somebody removed it, and what came after is not known any more
            members.append(member)
            following = member.request().next
        else:
            following = None
    return members


def read(folder: RunFolder) -> Compared:
    """The run with its results, those so far if it still lives. Raises RecordError."""
    request, status = folder.request(), lost.bury(folder)
    if status.live:
        status = closing.gather(folder, status, request.expect_failure)
    return Compared(request, status, _document(folder, "machine"), _document(folder, "nccl"))


def _document(folder: RunFolder, name: str) -> Document | None:
    """machine.json or nccl.json; None where it is not there, or nobody can read it."""
    path = {"machine": folder.machine_file, "nccl": folder.nccl_file}[name]
    try:
        content = read_json(path) if path.exists() else None
    except RecordError:
        return None
    return content if isinstance(content, dict) else None
