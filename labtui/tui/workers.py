"""What is done to runs on a person's wish, in threads: each verb answers with what has happened, as a message.

What starts and signals runs is imported in those threads: the first screen needs none of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from labtui.catalog.manifest import Experiment
from labtui.catalog.reading import CatalogError
from labtui.runs.folder import RunFolder
from labtui.runs.records import Labels, RecordError
from labtui.tui.messages import Crashed, Noticed, RunLabelled, RunStarted
from labtui.tui.watcher import Post

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
        from labtui.runs.start import StartError

        try:
            post(work())
        except (StartError, CatalogError, ControlError, LabelError, RecordError, OSError) as error:
            post(Noticed(str(error), bad=True))
    except BaseException as error:  # noqa: BLE001 - the app ends with it; in this thread it would vanish
        post(Crashed(error))


def start_run(root: Path, experiment: Experiment, variant: str) -> Message:
    """Starts an experiment in one variant ("" is the default one)."""
    from labtui.runs import start

    return RunStarted(start.start(root, experiment, [variant], {}, start.Options())[0])


def run_again(root: Path, folder: RunFolder) -> Message:
    """Starts a run like the recorded one."""
    from labtui.runs import start

    return RunStarted(start.rerun(root, folder, {}, start.Options()))


def stop_run(folder: RunFolder) -> Message:
    """Asks the run's agent to end it."""
    from labtui.runs import control

    control.stop(folder)
    return Noticed(f"{folder.id} has been asked to stop")


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
