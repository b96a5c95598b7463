"""The forms in which a run can be exported: which writer makes which. Each writer is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from labtui.runs.folder import RunFolder

FORMATS = {
    "csv": "a row per number",
    "json": "everything in one document",
    "md": "a report to read",
    "perfetto": "a trace for ui.perfetto.dev",
}
"""Format -> what it is."""

ENDINGS = {"csv": ".csv", "json": ".json", "md": ".md", "perfetto": ".perfetto.json"}
"""Format -> how the names of such files end."""


def exported(folders: Sequence[RunFolder], format: str, *, telemetry: bool = False) -> Iterable[str]:
    """The text of an export, in pieces: of all runs as csv, else of the first. `telemetry`: csv of the samples instead.

    Raises RecordError where a run can't be read.
    """
    if format == "csv":
        from labtui.export import table

        return table.samples(folders) if telemetry else table.events(folders)
    if format == "json":
        from labtui.export import whole

        return whole.text(folders[0])
    if format == "md":
        return [_report(folders[0])]
    from labtui.export import trace

    return [trace.text(folders[0])]


def write_beside(folder: RunFolder, format: str, into: Path) -> Path:
    """Exports the run into a new file in that folder, under the run's id; returns its path.

    No file is replaced: the second one of a name becomes `ID-2.md`. What was begun and can't be ended is taken away.
    Raises RecordError where the run can't be read, OSError where the file can't be written.
    """
    for number in range(1, 1000):
        path = into / f"{folder.id}{f'-{number}' if number > 1 else ''}{ENDINGS[format]}"
        try:
            file = path.open("x", encoding="utf-8")
        except FileExistsError:
            continue
        try:
            with file:
                file.writelines(exported([folder], format))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path
    raise FileExistsError(f"{into} holds a thousand exports of {folder.id} already")


def _report(folder: RunFolder) -> str:
    from labtui.catalog import sources
    from labtui.catalog.reading import CatalogError
    from labtui.export import report

    try:
        experiment = sources.find(folder.request().experiment)
    except CatalogError:
        experiment = None  # a command of one's own, or an experiment that isn't here
    return report.text(folder, experiment)
