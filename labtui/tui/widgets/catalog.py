"""The list of experiments by topic, with the state of their newest runs; and the facts of the chosen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labtui.catalog.manifest import Experiment
from labtui.catalog.sources import BrokenExperiment
from labtui.runs.rows import Row
from labtui.tui import words
from labtui.tui.lines import RULE, Line, Piece, fit, with_role, wrap
from labtui.tui.widgets.pane import Choice, Pane
from labtui.tui.wish import Wish

Entry = Experiment | BrokenExperiment


@dataclass(frozen=True)
class Tally:
    """What is known of an experiment's runs."""

    runs: int
    at_least: bool
    """Whether there may be more, further back than was read."""
    newest: Row


def tallies(rows: Sequence[Row], total: int) -> dict[str, Tally]:
    """The runs by experiment; `rows` are the newest of all `total` runs."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.experiment, []).append(row)
    return {
        name: Tally(len(its), total > len(rows), next((row for row in its if row.live), its[0]))
        for name, its in by_name.items()
    }


class ExperimentList(Choice):
    """Experiments by topic; what is broken comes last, and says so."""

    title = "Experiments"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tallies: Mapping[str, Tally] = {}
        self._rows: list[Entry | str] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(row for row in self._rows if not isinstance(row, str))

    @entries.setter
    def entries(self, entries: Sequence[Entry]) -> None:
        rows: list[Entry | str] = []
        topic = ""
        for entry in entries:
            its = entry.topic if isinstance(entry, Experiment) else "broken"
            if its != topic:
                rows += ["", its] if rows else [its]
                topic = its
            rows.append(entry)
        self._rows = rows
        self.redraw()

    @property
    def chosen(self) -> Entry | None:
        """The entry under the cursor."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        return None if isinstance(row, str) else row

    def choose(self, name: str) -> None:
        """Puts the cursor on the experiment of that name, if there is one."""
        for index, row in enumerate(self._rows):
            if not isinstance(row, str) and row.name == name:
                self.move_to(index)

    def facts(self) -> Sequence[Piece]:
        whole = sum(isinstance(entry, Experiment) for entry in self.entries)
        broken = len(self.entries) - whole
        return [(f"{broken} broken", "bad")] if broken else []

    def length(self) -> int:
        return len(self._rows)

    def choosable(self, index: int) -> bool:
        return not isinstance(self._rows[index], str)

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        entry = self._rows[index]
        if isinstance(entry, str):
            return ((fit(entry.capitalize(), width), "dim"),)
        if isinstance(entry, Experiment):
            tally = self.tallies.get(entry.name)
            letters, role = words.mark(tally.newest.state if tally else None)
            name, right = entry.title, _runs(tally)
        else:
            letters, role, name, right = "!!", "bad", entry.name, ""
        room = width - 6 - len(right)
        line: Line = (
            ("›" if chosen else " ", "accent"), (letters, role), (" ", ""),
            (fit(name, room), "strong" if chosen else ""), (f" {right} ", "dim"),
        )  # fmt: skip
        return with_role(line, "cursor") if chosen else line


def _runs(tally: Tally | None) -> str:
    if tally is None:
        return ""
    if tally.newest.live:
        return words.state_name(tally.newest.state)
    return f"{tally.runs}+ runs" if tally.at_least else words.count(tally.runs, "run")


class ExperimentFacts(Pane, can_focus=False):
    """What `enter` would start, and how the newest run of the experiment went."""

    title = "Run"

    def __init__(self, *, id: str | None = None, joint: str = RULE) -> None:
        super().__init__(id=id, joint=joint)
        self.entry: Entry | None = None
        self.wish: Wish | None = None
        """What enter would start."""
        self.tally: Tally | None = None
        self.now = 0.0

    def body(self, width: int) -> Sequence[Line]:
        entry = self.entry
        if entry is None:
            return []
        if isinstance(entry, BrokenExperiment):
            return [((text, "bad"),) for text in wrap(f"This experiment can't be run: {entry.error}", width)]
        wish = self.wish or Wish(entry)
        variant = next((v for v in entry.variants if v.name == wish.variant), None)
        chosen = f"{variant.name}  {variant.title}" if variant else "default"
        others = f"  (v: {words.count(len(entry.variants), 'variant')})" if entry.variants else ""
        lines: list[Line] = [
            _fact("step", f"{wish.block}, variant {chosen}", width)
            if wish.block
            else _fact("variant", chosen + (others if not variant else ""), width),
            _fact("takes", _takes(entry), width),
            _fact("command", wish.command(), width, "accent"),
        ]
        if self.tally:
            row = self.tally.newest
            letters, role = words.mark(row.state)
            told = " · ".join(filter(None, (words.when(row.created, self.now), row.variant or "default", row.reason)))
            lines.append((("newest   ", "dim"), (letters, role), (" ", ""), (fit(told, width - 12), "")))
        return lines


def _fact(name: str, value: str, width: int, role: str = "") -> Line:
    return ((f"{name:<9}", "dim"), (fit(value, width - 9), role))


def _takes(entry: Experiment) -> str:
    processes = entry.processes
    number = "one per GPU" if processes.default is None else str(processes.default)
    on = [f"{processes.cpu_default} processes on cpu"] if "cpu" in entry.devices else []
    if "cuda" in entry.devices:
        on.append(f"{number} on cuda" if on else f"{number} processes on cuda")
    minutes = f"about {entry.minutes:g} min" if entry.minutes >= 1 else f"about {entry.minutes * 60:.0f} s"
    return f"{minutes}, {', '.join(on) if entry.launch == 'torchrun' else 'one process'}"
