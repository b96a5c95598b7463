"""A run as one JSON document: all that its folder holds but for what ranks and NCCL printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from labtui.export.events import EventReader, telemetry
from labtui.runs.clean import strict
from labtui.runs.document import run_document
from labtui.runs.folder import RunFolder, read_json
from labtui.runs.records import RecordError


def text(folder: RunFolder) -> Iterator[str]:
    """The document in pieces: the fields of `labtui show --json`, then `machine`, `nccl` (null where there are none),
    `events` and `telemetry` (samples with their `host_name`), each a list with an entry a line. In ASCII.

    Raises RecordError where the run itself can't be read.
    """
    document = run_document(folder)
    document |= {"machine": _read(folder.machine_file), "nccl": _read(folder.nccl_file)}
    yield json.dumps(strict(document), indent=1)[:-2]
    yield ',\n "events": ['
    yield from _entries(EventReader(folder))
    yield '],\n "telemetry": ['
    yield from _entries({"host_name": host, **sample} for host, sample in telemetry(folder))
    yield "]\n}\n"


def _entries(entries: Any) -> Iterator[str]:
    for number, entry in enumerate(entries):
        yield f"{',' if number else ''}\n  {json.dumps(strict(entry))}"


def _read(path: Any) -> Any:
    if not path.exists():
        return None
    try:
        return read_json(path)
    except RecordError:
        return None
