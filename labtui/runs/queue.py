"""Whose turn it is: which live runs of this host a queued run waits for.

A run that wants GPUs waits for live runs that hold or want them before it (`--share` overrides). A CPU run starts at
once unless it was queued on purpose: then it waits for every live run before it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labtui.runs import state
from labtui.runs.folder import RunFolder
from labtui.runs.index import open_index
from labtui.runs.launch import gpus_of
from labtui.runs.records import QUEUED, RecordError, Request, Status


@dataclass(frozen=True)
class LiveRun:
    """A live run with what it asked for."""

    request: Request
    status: Status


def blockers(me: Request, others: Sequence[LiveRun], environ: Mapping[str, str]) -> list[LiveRun]:
    """The live runs that `me` must wait for, oldest first."""
    wanted = gpus_of(me, environ)
    found = []
    for other in others:
        request = other.request
        if request.id == me.id or request.host != me.host:
            continue
        earlier = other.status.state != QUEUED or (request.created, request.id) < (me.created, me.id)
        # Recorded runs carry their own CUDA_VISIBLE_DEVICES; ours must not be read into them.
        conflict = me.queue or (not me.share and bool(wanted & gpus_of(request, {})))
        if earlier and conflict:
            found.append(other)
    return sorted(found, key=lambda run: (run.request.created, run.request.id))


def why_waiting(waits_for: Sequence[LiveRun], me: Request, environ: Mapping[str, str]) -> str:
    """One sentence for the status of a waiting run."""
    first = waits_for[0]
    shared = sorted(gpus_of(me, environ) & gpus_of(first.request, {}))
    holds = f", which holds GPU {', '.join(shared)}" if shared else ""
    more = f" and {len(waits_for) - 1} more" if len(waits_for) > 1 else ""
    return f"waits for {first.request.id}{holds}{more}"


def live_runs(root: Path) -> list[LiveRun]:
    """The live runs in `root`; those that can't be read hold nothing up."""
    found = []
    for row in open_index(root).live():
        folder = RunFolder(root / row.id)
        try:
            status = state.observe(folder)
            if status.live:
                found.append(LiveRun(folder.request(), status))
        except RecordError:
            continue
    return found


@contextmanager
def turn() -> Iterator[None]:
    """Held while a run looks whether it is its turn and says so, that two may not both find the way free.

    Where nothing can be locked (some network file systems, somebody else's file in its place) it holds nothing: two
    that look within the same moment are rarer than such places.
    """
    path = f"/tmp/labtui-turn-{os.getuid()}"
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
