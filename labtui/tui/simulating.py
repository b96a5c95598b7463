"""Schedules simulated, searched and written in threads, where they are too large for the screen's own loop.

Daemon threads, as with what reads: a solver must not keep the app from ending.
"""

from __future__ import annotations

import threading
from pathlib import Path

from textual.message import Message

from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.words import number, percent
from labtui.tui.messages import Noticed, Streamed
from labtui.tui.schedule_settings import Settings
from labtui.tui.schedule_study import OPTIMAL, Picture, Study, Wanted, picture
from labtui.tui.watcher import IDLE_S, Poller, Post

SEARCH_S = 60.0
"""How long the best schedule is searched for, unless a person stops it."""


class Pictured(Streamed):
    """A picture is ready."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self.picture = picture


class Simulator(Poller):
    """Makes the newest of the pictures that are asked for; what is overtaken is left out."""

    def __init__(self, post: Post) -> None:
        super().__init__("simulator", post)
        self._asked: tuple[Wanted, Picture | None] | None = None

    def ask(self, wanted: Wanted, before: Picture | None) -> None:
        """Makes this picture next, and posts it as Pictured."""
        self._asked = wanted, before
        self.resume()

    def look(self) -> float:
        asked, self._asked = self._asked, None
        if asked is not None:
            self.post(Pictured(picture(*asked)))
        return IDLE_S


# The best schedule --------------------------------------------------------------------------------------------------


class Searched(Streamed):
    """How far the search is, in a sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class Optimised(Message):
    """The search has ended with this schedule, or with a reason why there is none."""

    def __init__(self, settings: Settings, found: Study | None, sentence: str) -> None:
        super().__init__()
        self.settings = settings
        self.found = found
        self.sentence = sentence


def optimise(post: Post, settings: Settings, stop: threading.Event) -> Message:
    """Searches the best schedule for these settings, until it is found, time is over, or `stop` is set."""
    from labtui.theory.pipeline.optimal.named import Problem
    from labtui.theory.pipeline.optimal.search import Progress, solve
    from labtui.theory.pipeline.optimal.solver import SolverMissing

    virtual = settings.virtual_of(settings.schedule)
    told = [""]

    def progress(now: Progress) -> None:
        # By whole seconds and by what has changed: the search itself tells twenty times a second.
        sentence = (
            f"searching for {now.seconds:.0f} s: best {number(now.total)}, none below {number(now.bound)}; "
            f"esc keeps the best"
        )
        if sentence != told[0]:
            told[0] = sentence
            post(Searched(sentence))

    try:
        problem = Problem(
            settings.devices, settings.microbatches, settings.costs(virtual, settings.devices * virtual),
            virtual=virtual, memory_limit=settings.limit, link_busy=settings.link_busy,
        )  # fmt: skip
        best = solve(problem, time_limit_s=SEARCH_S, progress=progress, stop=stop.is_set)
    except SolverMissing:
        # The line for notices is short.
        return Optimised(settings, None, "a solver is needed for this: pip install 'labtui[solver]'")
    except (OrderError, ValueError) as error:
        return Optimised(settings, None, str(error))
    if best.proven:
        said = f"total {number(best.timeline.total)}, and no order is shorter"
    else:
        said = (
            f"total {number(best.timeline.total)}; none is below {number(best.bound)}, so at most "
            f"{percent(best.gap)} could be gained"
        )
    said += f" (begun from {best.started_from} with {number(best.start_total)})"
    return Optimised(settings, Study(OPTIMAL, best.timeline, said), f"optimal: {said}")


# Files --------------------------------------------------------------------------------------------------------------


def write_trace(folder: Path, study: Study) -> Message:
    """Writes the schedule for ui.perfetto.dev into a new file of the folder. Raises OSError."""
    from labtui.export import perfetto

    text = perfetto.from_timeline(study.timeline)
    order = study.timeline.order
    stem = f"{study.name}-p{len(order.devices)}-m{order.microbatches}"
    number = 1
    while True:
        path = folder / f"{stem}{f'-{number}' if number > 1 else ''}.perfetto.json"
        try:
            with path.open("x") as file:
                file.write(text)
        except FileExistsError:
            if path.is_file() and path.read_text(errors="replace") == text:
                break  # the same trace was written before
            number += 1
        else:
            break
    return Noticed(f"{path.name} is written for ui.perfetto.dev, in {folder}")
