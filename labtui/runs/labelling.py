"""What a person says about a run: tags, a note, a star. Kept in its labels.json."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from labtui.runs.clean import clean_line
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Labels


class LabelError(ValueError):
    """A label can't be kept. The message is one sentence."""


def tagged(labels: Labels, more: Iterable[str] = (), fewer: Iterable[str] = ()) -> Labels:
    """With some tags more and some fewer; each is one line of visible text. Raises LabelError."""
    added = [clean_line(text) for text in more]
    if not all(added):
        raise LabelError("a tag needs at least one visible character")
    gone = set(fewer)
    return replace(labels, tags=tuple(tag for tag in dict.fromkeys((*labels.tags, *added)) if tag not in gone))


def write(folder: RunFolder, labels: Labels) -> None:
    """Keeps the labels. Raises LabelError, RecordError where the folder is no run, OSError."""
    folder.request()  # no labels for what is no run
    try:
        "".join((labels.note, *labels.tags)).encode()
    except UnicodeEncodeError:
        raise LabelError("what was typed is no UTF-8") from None
    write_json(folder.labels_file, labels.document())
