"""A run as one document: what `--json` says of it and exports hold. Reads the folder, and nothing else."""

from __future__ import annotations

import time
from typing import Any

from labtui.runs import state
from labtui.runs.folder import RunFolder
from labtui.runs.records import LOST, Labels, RecordError, Status


def run_document(folder: RunFolder, status: Status | None = None) -> dict[str, Any]:
    """What --json says of one run; `status` is what is known of it already (default: `state.observe`).

    While no agent has written a last word, checks, predictions and results come from the events so far, and
    `bad_lines` says how many lines of those could not be read. `error` says what else couldn't: its labels. Raises
    RecordError where the run itself can't be read.
    """
    request = folder.request()
    if status is None:
        status = state.observe(folder)
    if status.live or (status.state == LOST and status.ended is None):
        from labtui.runs import closing  # reads events; most runs have their last word

        status = closing.gather(folder, status, request.expect_failure)
    try:
        labels, error = folder.labels(), None
    except RecordError as unreadable:
        labels, error = Labels(), str(unreadable)
    return {
        "id": folder.id,
        "experiment": request.experiment,
        "variant": request.variant,
        "group": request.group,
        "state": status.state,
        "reason": status.reason,
        "exit_code": status.exit_code,
        "seconds": status.seconds(time.time()),
        "parameters": request.parameters,
        "environment": request.environment,
        "nproc": request.nproc,
        "device": request.device,
        "link": request.link,
        "folder": str(folder.path),
        "created": request.created,
        "started": status.started,
        "ended": status.ended,
        "host": request.host,
        "user": request.user,
        "command": list(request.command),
        "tags": list(labels.tags),
        "note": labels.note,
        "star": labels.star,
        "processes": [process.document() for process in status.processes],
        "error": error,
        "bad_lines": status.events.get("bad_lines", 0),
        "checks": list(status.checks),
        "predictions": list(status.predictions),
        "results": list(status.results),
    }
