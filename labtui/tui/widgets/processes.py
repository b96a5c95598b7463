"""The processes of a run: what was launched, its ranks, how each is and what it takes, and the one under the cursor."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.runs.clean import clean, clean_line
from labtui.runs.gauges import RankGauges
from labtui.runs.records import RunProcess
from labtui.runs.watch import Snapshot
from labtui.tui import gpu_words, words
from labtui.tui.lines import Line, Piece, crop, fit, with_role, wrap
from labtui.tui.recording import GONE_S
from labtui.tui.widgets.pane import Choice

ALIVE, GONE, ENDED = ("alive", "good"), ("gone", "warn"), ("ended", "dim")
UNSEEN, NEVER_SEEN = (words.UNKNOWN, "dim"), ("never seen", "dim")
_COLUMNS = (("CPU %", 7), ("RSS", 9), ("GPU GiB", 9), ("stacks by", 11))
_STACKS = {"signal": "signal", "socket": "socket", "py-spy": "py-spy"}


@dataclass(frozen=True)
class Row:
    """A process as it is shown."""

    what: str
    """`rank 3`, `torchrun`, `sampler`."""
    process: RunProcess
    state: Piece
    gauges: RankGauges | None = None

    @property
    def pid(self) -> int | None:
        told = self.gauges.latest.get("pid") if self.gauges is not None else None
        return self.process.pid if self.process.pid is not None else told if type(told) is int else None


class ProcessesPane(Choice):
    """One line for each process, and below what else is known of the chosen one."""

    title = "Processes"

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.snapshot: Snapshot | None = None
        self._rows: list[Row] = []

    def clear(self) -> None:
        """Forgets everything, for another run."""
        self.snapshot, self.cursor = None, 0
        self.redraw()

    def build(self, width: int, height: int) -> Sequence[Line]:
        self._rows = rows(self.snapshot) if self.snapshot is not None else []
        return super().build(width, height)

    def facts(self) -> Sequence[Piece]:
        ranks = [row for row in self._rows if row.process.role == "rank"]
        if not ranks or self.snapshot is None:
            return ()
        if not self.snapshot.live:
            return [(words.count(len(ranks), "rank"), "dim")]
        alive = sum(row.state == ALIVE for row in ranks)
        return [(f"{alive} of {words.count(len(ranks), 'rank')} alive", "good" if alive == len(ranks) else "warn")]

    def length(self) -> int:
        return len(self._rows)

    def header(self, width: int) -> Line | None:
        if not self._rows:
            return None
        names = "".join(fit(name, room, right=True) for name, room in shown_columns(width))
        return crop(((f"{'  process':<12}{'pid':>9}  {'state':<10}{names}", "dim"),), width)

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        return process_line(self._rows[index], width, chosen=chosen and self.has_focus)

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        if not self._rows:
            live = self.snapshot is not None and self.snapshot.live
            return [((fit("no process yet" if live else "no process was recorded", width), "dim"),)]
        below = self._details(width)[: max(height - 4, 0)]
        return [*super().shown_lines(width, height - len(below)), *below]

    def _details(self, width: int) -> list[Line]:
        if self.snapshot is None or not 0 <= self.cursor < len(self._rows):
            return []
        row = self._rows[self.cursor]
        return [((text, role),) for said, role in details(self.snapshot, row) for text in wrap(said, width)]

    def copied(self) -> tuple[str, str]:
        """The command of what was launched, the pid of everything else."""
        if not 0 <= self.cursor < len(self._rows):
            return "", ""
        row = self._rows[self.cursor]
        if row.process.role not in ("rank", "sampler") and self.snapshot is not None and self.snapshot.request:
            return clean(shlex.join(self.snapshot.request.command)), f"the command of {clean_line(row.what)}"
        return ("", "") if row.pid is None else (str(row.pid), f"the pid of {clean_line(row.what)}")


def rows(snapshot: Snapshot) -> list[Row]:
    """What was launched first, then the ranks, then whoever measures them."""
    status = snapshot.status
    if status is None:
        return []
    by_rank = {gauges.rank: gauges for gauges in snapshot.gauges.ranks}
    found = []
    for process in status.processes:
        gauges = by_rank.get(process.rank) if process.role == "rank" and process.rank is not None else None
        what = f"rank {process.rank}" if process.role == "rank" else process.role
        found.append(Row(what, process, _state(snapshot, process, gauges), gauges))
    order = {"rank": 1, "sampler": 2}
    return sorted(found, key=lambda row: (order.get(row.process.role, 0), row.process.rank or 0))


def _state(snapshot: Snapshot, process: RunProcess, gauges: RankGauges | None) -> Piece:
    """A rank is alive while it is in the samples; of what isn't sampled the run's own state must do."""
    if not snapshot.live:
        return NEVER_SEEN if process.pid is None and gauges is None else ENDED
    if process.role != "rank":
        return ALIVE
    if gauges is None:
        return UNSEEN
    return GONE if (snapshot.gauges.t or 0.0) - gauges.t > GONE_S else ALIVE


def shown_columns(width: int) -> Sequence[tuple[str, int]]:
    """As many columns as there is room for."""
    room, shown = width - 33, []
    for name, size in _COLUMNS:
        if size > room:
            break
        shown.append((name, size))
        room -= size
    return shown


def process_line(row: Row, width: int, *, chosen: bool) -> Line:
    """A process on one line."""
    latest = row.gauges.latest if row.gauges is not None else {}
    alive = row.state in (ALIVE, ENDED)
    values = {
        "CPU %": words.percent(latest.get("cpu")),
        "RSS": words.size(latest.get("rss")),
        "GPU GiB": gpu_words.gib(latest.get("gpu_mem")),
        "stacks by": _STACKS.get(row.process.stacks or "", "-"),
    }
    if row.process.role != "rank":
        values = dict.fromkeys(values, "")
    pid = words.UNKNOWN if row.pid is None else str(row.pid)
    pieces: list[Piece] = [
        ("› " if chosen else "  ", "accent"), (fit(row.what, 10), "strong" if chosen else ""),
        (fit(pid, 9, right=True), "dim"), ("  ", ""), (fit(row.state[0], 10), row.state[1]),
    ]  # fmt: skip
    for name, room in shown_columns(width):
        pieces.append((fit(values[name], room, right=True), "" if alive else "dim"))
    line = crop(pieces, width)
    return with_role(line, "cursor") if chosen else line


def details(snapshot: Snapshot, row: Row) -> list[Piece]:
    """What else is known of a process, in sentences with their roles."""
    said: list[Piece] = []
    status, request, process = snapshot.status, snapshot.request, row.process
    rank = process.rank if process.role == "rank" else None
    if row.state == GONE and row.gauges is not None:
        began = status.started if status is not None else None
        at = f" at {words.axis_time(row.gauges.t - began)}" if began is not None else ""
        said.append((f"{row.what} was last seen{at}; how it ended is known when the run ends", "warn"))
    reason = status.reason if status is not None and not status.live else ""
    if reason and rank is not None and re.search(rf"\brank {rank}\b", reason):
        said.append((reason, words.mark(status.state if status else None)[1]))
    elif rank is None and process.role != "sampler" and status is not None and not status.live:
        code = words.UNKNOWN if status.exit_code is None else str(status.exit_code)
        said.append((f"exit code {code}" + (f": {reason}" if reason else ""), words.mark(status.state)[1]))
    if rank is None and process.role != "sampler" and request is not None:
        said.append((shlex.join(request.command), "dim"))
    for name, place in (("stdout", process.stdout), ("stderr", process.stderr)):
        if place is not None:
            said.append((f"{name} {place}", "dim"))
    return said
