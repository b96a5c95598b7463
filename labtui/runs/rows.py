"""What a list shows of one run, read from its folder: run.json, status.json and labels.json, nothing else.

Knows no index: `index` and `store` keep these rows.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from labtui.runs.folder import RunFolder
from labtui.runs.records import LIVE, Labels, RecordError, Request, Status

MOST_PARAMETERS = 1 << 16
"""Characters; more are no parameters of ours, and would be kept for every run."""


@dataclass(frozen=True)
class Row:
    """One run in a list. Times are seconds since the epoch; None is unknown, or not yet."""

    id: str
    """The folder's name."""
    experiment: str
    variant: str
    group: str | None
    state: str
    reason: str
    exit_code: int | None
    created: float
    started: float | None
    ended: float | None
    nproc: int | None
    device: str | None
    user: str
    host: str
    tags: tuple[str, ...]
    note: str
    star: bool
    parameters: str = "{}"
    """As JSON: few who list runs look into it."""

    @property
    def live(self) -> bool:
        return self.state in LIVE

    def seconds(self, now: float) -> float | None:
        """Wall time of the run so far, or in all; None before it started."""
        if self.started is None:
            return None
        return max(0.0, (self.ended if self.ended is not None else now) - self.started)


Stamps = tuple[int | None, int | None, int | None]
"""When run.json, status.json and labels.json were last changed, in ns since the epoch; None where there is none."""


@dataclass(frozen=True)
class Look:
    """What was found in one folder: a row, or what is wrong, or both (only its labels can't be read), or neither
    (the folder is gone)."""

    name: str
    row: Row | None
    trouble: str
    """One sentence; "" where nothing is wrong."""
    stamps: Stamps
    """Taken before the files were read: what changed meanwhile is read again rather than missed."""


def look(root: Path, name: str) -> Look:
    """Reads the run folder `name` of the logs folder `root`, as the run is now (`state.observe`)."""
    before = stamps(root, name)
    if before == (None, None, None) and not (root / name).exists():
        return Look(name, None, "", before)
    folder = RunFolder(root / name)
    row: Row | None = None
    try:
        request, status = folder.request(), _status(folder)
        row = _row(folder, request, status, Labels())
        labels = folder.labels()
        if labels != Labels():
            row = _row(folder, request, status, labels)
    except RecordError as error:
        return Look(name, row, str(error), before)
    except RecursionError:
        return Look(name, row, "a record in it is nested too deeply to be one of ours", before)
    except OSError as error:
        return Look(name, row, f"it can't be read: {error.strerror}", before)
    return Look(name, row, "", before)


def stamps(root: Path, name: str) -> Stamps:
    """When the three records of the run folder were last changed."""
    path = f"{root}/{name}"
    return _changed(f"{path}/run.json"), _changed(f"{path}/status.json"), _changed(f"{path}/labels.json")


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - asked for by the hundred thousand
    except OSError:
        return None


def _status(folder: RunFolder) -> Status:
    status = folder.status()
    if not status.live:
        return status
    from labtui.runs import state

    return state.observe(folder)


def _row(folder: RunFolder, request: Request, status: Status, labels: Labels) -> Row:
    for name in ("experiment", "variant", "group", "device", "user", "host"):
        _check_text(f"run.json: {name}", getattr(request, name))
    _check_text("status.json: reason", status.reason)
    for text in (labels.note, *labels.tags):
        _check_text("labels.json: a note or tag", text)
    return Row(
        id=folder.id,
        experiment=request.experiment,
        variant=request.variant,
        group=request.group,
        state=status.state,
        reason=status.reason,
        exit_code=status.exit_code,
        created=request.created,
        started=status.started,
        ended=status.ended,
        nproc=request.nproc,
        device=request.device,
        user=request.user,
        host=request.host,
        tags=labels.tags,
        note=labels.note,
        star=labels.star,
        parameters=_parameters(request),
    )


def _parameters(request: Request) -> str:
    text = json.dumps(request.parameters)
    return text if len(text) <= MOST_PARAMETERS else "{}"


def _check_text(what: str, value: str | None) -> None:
    """JSON may hold half a character, which can neither be kept nor shown."""
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise RecordError(f"{what} holds half a character") from None
