"""What is done to runs on a person's wish, in threads: each verb answers with what has happened, as a message.

What starts and signals runs is imported in those threads: the first screen needs none of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from labtui.catalog.reading import CatalogError
from labtui.runs.folder import RunFolder
from labtui.runs.records import Labels, RecordError
from labtui.tui.messages import (
    Crashed,
    FirstStart,
    GroupFound,
    LastRead,
    Noticed,
    Planned,
    RunLabelled,
    RunStarted,
    SideBySideRead,
)
from labtui.tui.watcher import Post

if TYPE_CHECKING:
    from labtui.tui.wish import Wish

Work = Callable[[], Message]


def in_thread(post: Post, work: Work, *, must_finish: bool = False) -> None:
    """Works without holding up the screen, and posts what came of it. What is refused becomes a sentence.

    With `must_finish` the process stays until the work is done, even if the screen has been left meanwhile.
    """
    threading.Thread(target=_work, args=(post, work), daemon=not must_finish).start()


def _work(post: Post, work: Work) -> None:
    try:
        from labtui.runs.control import ControlError
        from labtui.runs.labelling import LabelError
        from labtui.runs.side_by_side import GroupError
        from labtui.runs.start import StartError

        try:
            post(work())
        except (StartError, CatalogError, ControlError, LabelError, GroupError, RecordError, OSError) as error:
            post(Noticed(str(error), bad=True))
    except BaseException as error:  # noqa: BLE001 - the app ends with it; in this thread it would vanish
        post(Crashed(error))


def start_run(root: Path, wish: Wish) -> Message:
    """Starts an experiment as wished."""
    from labtui.runs import start

    return RunStarted(start.start(root, wish.experiment, [wish.variant], wish.settings, wish.options())[0], wish)


def read_last(wish: Wish, newest: RunFolder | None) -> Message:
    """Reads what a form starts from: this machine's GPUs, and the experiment's newest run."""
    from labtui.machine.host import gpu_count

    try:
        last = newest.request() if newest is not None else None
    except RecordError:
        last = None
    return LastRead(wish, gpu_count(), last)


def plan(root: Path, wish: Wish) -> Message:
    """Makes the command that a wish would start, and starts nothing."""
    from labtui.runs import start

    return Planned(wish, start.planned(root, wish.experiment, wish.variant, wish.settings, wish.options()))


def run_again(root: Path, folder: RunFolder) -> Message:
    """Starts a run like the recorded one."""
    from labtui.runs import start

    return RunStarted(start.rerun(root, folder, {}, start.Options()))


def take_stacks(folder: RunFolder) -> Message:
    """Has all ranks say where they are."""
    from labtui.runs import control

    summary = control.request_stacks(folder)
    return Noticed(str(summary.get("sentence") or "the stacks were written to the run's folder"))


def label_run(folder: RunFolder, change: Callable[[Labels], Labels]) -> Message:
    """Changes the run's tags, note or star."""
    from labtui.runs import labelling

    labelling.write(folder, change(folder.labels()))
    return RunLabelled(folder)


def look_for_first_start(post: Post) -> None:
    """Posts FirstStart once per user. In a thread that imports next to nothing: this happens at every start."""

    def look() -> None:
        from labtui.runs.welcome import is_first_start

        if is_first_start():
            post(FirstStart())

    threading.Thread(target=look, daemon=True).start()


def export_run(folder: RunFolder, format: str) -> Message:
    """Exports a run into the current folder."""
    from labtui.export import formats

    try:
        path = formats.write_beside(folder, format, Path.cwd())
    except OSError as error:
        return Noticed(f"the export can't be written: {error.strerror or error}", bad=True)
    return Noticed(f"written: {path}")


def save_picture(svg: str, mode: str) -> Message:
    """Writes a picture of the screen into the current folder."""
    from labtui.tui import screenshot

    try:
        path = screenshot.write(svg, mode)
    except OSError as error:
        return Noticed(f"the picture can't be written: {error.strerror or error}", bad=True)
    return Noticed(f"written: {path}")


def examine(root: Path) -> Message:
    """Has the doctor look at this machine, and reads which profiles runs started here would get."""
    from labtui.tui import examining

    return examining.examine(root)


def find_group(folder: RunFolder) -> Message:
    """Looks up the runs of the run's group."""
    from labtui.runs.side_by_side import group_of

    return GroupFound([member.id for member in group_of(folder)])


def read_side_by_side(root: Path, ids: Sequence[str]) -> Message:
    """Reads runs to be compared; one that can't be read is left out, and said."""
    from labtui.catalog import sources
    from labtui.runs import side_by_side
    from labtui.runs.watch import read_whole
    from labtui.tui.compare_lines import SideBySide

    found, missing = [], []
    for id in ids:
        folder = RunFolder(root / id)
        try:
            found.append((id, side_by_side.read(folder), read_whole(folder)))
        except RecordError as error:
            missing.append(f"{id}: {error}")
    charts = {}
    for name in dict.fromkeys(run.request.experiment for _, run, _ in found):
        try:
            charts.update({chart.title: chart for chart in sources.find(name).charts})
        except CatalogError:
            continue  # a command of one's own, or an experiment that isn't here
    return SideBySideRead(
        SideBySide(
            ids=tuple(id for id, _, _ in found),
            runs=tuple(run for _, run, _ in found),
            snapshots=tuple(snapshot for _, _, snapshot in found),
            charts=tuple(charts.values()),
            missing=tuple(missing),
        )
    )
