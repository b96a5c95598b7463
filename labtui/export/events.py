"""All that a run wrote, one record after the other: what exports are made from. Bad lines are left out and counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labtui.runs.folder import RunFolder
from labtui.runs.json_text import parse
from labtui.runs.tail import Event, EventTail, LineTail


class EventReader:
    """The events of a run as they are on disk at this moment, of one rank after another as they were written."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self.bad_lines = 0
        """Lines that are no events, known once all were read."""

    def __iter__(self) -> Iterator[Event]:
        tail = EventTail(self._folder)
        while True:
            yield from tail.poll()
            if not tail.behind:
                break
        self.bad_lines = tail.bad_lines


def telemetry(folder: RunFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each sample with the host that it is from, in the order in which a host wrote them."""
    for path in sorted(folder.telemetry.glob("*.jsonl")):
        tail = LineTail(path)
        while True:
            for line in tail.poll():
                sample = _object(line)
                if sample is not None:
                    yield path.stem, sample
            if not tail.behind:
                break


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = parse(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
