"""What has happened, as messages: the only things that cross from the reading threads to the screens.

What streams may be replaced by its newer self while it waits, so that a slow terminal never builds up a backlog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.message import Message

from labtui.catalog.manifest import Experiment
from labtui.catalog.sources import BrokenExperiment
from labtui.runs.folder import RunFolder
from labtui.runs.gauges import Gauges
from labtui.runs.query import Query
from labtui.runs.records import Document, Request
from labtui.runs.rows import Row
from labtui.runs.watch import Snapshot

if TYPE_CHECKING:
    from labtui.machine.doctor.finding import Finding
    from labtui.tui.compare_lines import SideBySide
    from labtui.tui.lesson import Lesson, Look
    from labtui.tui.wish import Wish


class Streamed(Message):
    """News of which only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        return type(message) is type(self)


class CatalogRead(Streamed):
    """What can be run has been read."""

    def __init__(self, entries: Sequence[Experiment | BrokenExperiment]) -> None:
        super().__init__()
        self.entries = tuple(entries)


@dataclass(frozen=True)
class Listing:
    """The runs that somebody looks for, as far as they were read."""

    rows: tuple[Row, ...] = ()
    """In the query's order."""
    matching: int = 0
    """How many runs the query finds in all."""
    query: Query = field(default_factory=Query)


@dataclass(frozen=True)
class History:
    """The runs there are, as far as they were asked for."""

    rows: tuple[Row, ...] = ()
    """Newest first."""
    total: int = 0
    """All run folders, readable or not."""
    live: tuple[Row, ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    """Folders that can't be read, each with the reason."""
    trouble: str = ""
    """Why the list may be slow or incomplete, in one sentence."""
    listing: Listing = field(default_factory=Listing)
    """What the Runs show of them."""


class HistoryRead(Streamed):
    """The list of runs has been read."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history


class LessonRead(Streamed):
    """An experiment's guide has been read, with the reader's progress in it."""

    def __init__(self, lesson: Lesson) -> None:
        super().__init__()
        self.lesson = lesson


class LooksRead(Streamed):
    """The runs of a guide's blocks have been looked at."""

    def __init__(self, name: str, looks: Mapping[str, Look]) -> None:
        super().__init__()
        self.name = name
        """The experiment's."""
        self.looks = looks


class ProgressKept(Message):
    """The progress in an experiment's guide has been written."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class RunGrew(Streamed):
    """The watched run's folder has changed, or time has passed in a live one."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


@dataclass(frozen=True)
class LogWindow:
    """Some successive lines of a log."""

    name: str
    first: int = 0
    lines: tuple[str, ...] = ()
    """As the rank wrote them: escape sequences are still in them."""
    total: int = 0
    """Lines in the whole log (as far as it is indexed)."""
    skipped: int = 0
    """Bytes before the first indexed line."""
    trouble: str = ""
    """Why the log can't be read."""
    sources: tuple[str, ...] = ()
    """Of several logs as one: to which each line belongs."""
    since: float | None = None
    """Of several logs as one: from then on lines stand in the order in which they arrived."""
    forgotten: int = 0
    """Lines that had numbers and have none any more: by so much have those of the others become smaller."""
    filtered: str = ""
    """What all these lines match, where only such are shown."""
    whole: int = 0
    """Lines with those that are not shown."""


class LogRead(Streamed):
    """The part of a log that is looked at has been read."""

    def __init__(self, window: LogWindow) -> None:
        super().__init__()
        self.window = window


class LogFound(Message):
    """A search in a log has come to its end. `line` is None where nothing was found."""

    def __init__(self, name: str, line: int | None, wanted: str, *, wrapped: bool = False) -> None:
        super().__init__()
        self.name = name
        self.line = line
        self.wanted = wanted
        self.wrapped = wrapped
        """Whether the search went on from the log's other end."""


OLD_S = 6.0
"""What was measured longer ago is shown with its age."""


@dataclass(frozen=True)
class Machine:
    """How this machine is."""

    taken: float
    gauges: Gauges = field(default_factory=Gauges)
    document: Document | None = None
    """What it is: the fields of machine.json, as far as they are known."""
    run: str = ""
    """The experiment of the run whose telemetry this is; empty where we measure ourselves."""
    trouble: str = ""
    """Why nothing new is known, in a few words."""


class MachineRead(Streamed):
    """How this machine is has been measured, or read from a live run's telemetry."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine


class FirstStart(Message):
    """This user has started the terminal UI for the first time."""


class Examined(Message):
    """The doctor has looked at this machine, and the newest profiles have been read."""

    def __init__(self, findings: Sequence[Finding], profiles: Mapping[str, Document], taken: float) -> None:
        super().__init__()
        self.findings = tuple(findings)
        self.profiles = profiles
        """Kind of device -> the profile that a run started here would get."""
        self.taken = taken


class SideBySideRead(Message):
    """Runs to be compared have been read."""

    def __init__(self, compared: SideBySide) -> None:
        super().__init__()
        self.compared = compared


class GroupFound(Message):
    """A run's group has been looked up: these runs should be laid side by side."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__()
        self.ids = tuple(ids)


class RunStarted(Message):
    """A run has been started from here; `wish` says for what, where it was an experiment."""

    def __init__(self, folder: RunFolder, wish: Wish | None = None) -> None:
        super().__init__()
        self.folder = folder
        self.wish = wish


class LastRead(Message):
    """What a form starts from has been read."""

    def __init__(self, wish: Wish, gpus: int, last: Request | None) -> None:
        super().__init__()
        self.wish = wish
        self.gpus = gpus
        """GPUs that can be used here."""
        self.last = last
        """The newest run of the experiment; None where there is none that can be read."""


class Planned(Message):
    """The command that a wish would start has been made."""

    def __init__(self, wish: Wish, command: str) -> None:
        super().__init__()
        self.wish = wish
        self.command = command


class RunLabelled(Message):
    """A run's tags, note or star have been written."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder


class Noticed(Message):
    """Something that a person should read: one sentence. `bad` if what was asked for was refused."""

    def __init__(self, sentence: str, *, bad: bool = False) -> None:
        super().__init__()
        self.sentence = sentence
        self.bad = bad


class Crashed(Message):
    """A thread of ours has met an error that it doesn't know: the app ends with its traceback."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
