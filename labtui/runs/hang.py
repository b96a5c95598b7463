"""Who waits for whom: reading Python stacks and flight records of ranks, and one sentence that names the cause. Pure.

Two sources: the stack (where the rank's main thread is) and, where torch recorded them, the collectives begun and
ended. On gloo the recorder's `state` stays "scheduled", so what tells is `retired`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_THREAD = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_FRAME = re.compile(r'^\s+File "(?P<path>[^"]*)", line (?P<line>\d+) in (?P<function>.+)$')
_PY_SPY_THREAD = re.compile(r"^Thread (0x[0-9a-fA-F]+|\d+) \(\w+")
_PY_SPY_FRAME = re.compile(r"^\s+(?P<function>.+) \((?P<path>[^()]+):(?P<line>\d+)\)$")

_LIBRARY = ("/torch/", "/labtui/bench/", "/site-packages/", "/dist-packages/", "<frozen", "/lib/python3")
_COMMUNICATION = ("/torch/distributed/",)


@dataclass(frozen=True)
class Frame:
    """One Python frame."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Collective:
    """The newest collective of a rank that has begun; `group` and `sequence` say which one it is on all ranks."""

    group: str
    sequence: int
    operation: str
    ended: bool

    def __str__(self) -> str:
        return f"{self.operation} #{self.sequence}"


@dataclass(frozen=True)
class RankView:
    """What is known of one rank. `stack` is innermost first, empty where it could not be had (`why` says)."""

    rank: int
    stack: tuple[Frame, ...] = ()
    collective: Collective | None = None
    recorded: bool = False
    """Whether this rank's flight record could be read; then `collective` None means that it has begun none."""
    before: Collective | None = None
    """The same a moment earlier: where it differs, the rank moves, and its stack is of another moment."""
    ended: bool = False
    stopped: bool = False
    """Whether a signal keeps it from running (SIGSTOP, ctrl-z, a debugger): it answers nothing until SIGCONT."""
    how: str | None = None
    why: str = ""

    @property
    def place(self) -> Frame | None:
        """Where the rank is in somebody's own code: the innermost frame outside libraries, else the innermost."""
        for frame in self.stack:
            if not any(part in frame.path for part in _LIBRARY):
                return frame
        return self.stack[0] if self.stack else None

    @property
    def moves(self) -> bool:
        """Whether it has begun another collective between two looks."""
        return self.before is not None and self.collective is not None and self.before != self.collective

    @property
    def waits(self) -> bool | None:
        """Whether it waits for other ranks; None where neither source tells."""
        if self.ended or self.stopped:
            return False
        if self.collective is not None and not self.collective.ended:
            return True
        if self.recorded:
            return False
        if not self.stack:
            return None
        return any(part in frame.path for frame in self.stack[:4] for part in _COMMUNICATION)


def parse_stack(text: str) -> tuple[Frame, ...]:
    """The main thread's frames, innermost first, of a faulthandler or py-spy text (the last dump, where it has many).

    A handler that runs in the thread which got the signal marks it "Current thread". Where that one has no Python
    frame (torch's worker server), the main thread is the last one that has.
    """
    threads: list[tuple[bool, list[Frame]]] = []
    for line in text.splitlines():
        if header := _THREAD.match(line):
            threads.append((header[1] == "Current thread", []))
        elif _PY_SPY_THREAD.match(line):
            threads.append(("MainThread" in line, []))
        elif threads and (frame := _FRAME.match(line) or _PY_SPY_FRAME.match(line)):
            threads[-1][1].append(Frame(frame["path"], int(frame["line"]), frame["function"]))
    with_frames = [(current, frames) for current, frames in threads if frames]
    for current, frames in reversed(with_frames):
        if current:
            return tuple(frames)
    return tuple(with_frames[-1][1]) if with_frames else ()


def parse_flight_record(document: Mapping[str, Any]) -> Collective | None:
    """The collective that holds the rank: the oldest one not ended of the newest group at work, else the newest."""
    newest: Collective | None = None
    open_ones: list[Collective] = []
    for entry in document.get("entries", ()):
        if entry.get("is_p2p"):
            sequence = int(entry.get("p2p_seq_id", 0))
        else:
            sequence = int(entry.get("collective_seq_id", 0))
        group = entry.get("process_group") or ["?", ""]
        operation = str(entry.get("profiling_name", "?")).partition(":")[2] or str(entry.get("profiling_name", "?"))
        newest = Collective(str(group[0]), sequence, operation, bool(entry.get("retired")))
        if not newest.ended:
            open_ones.append(newest)
    return open_ones[0] if open_ones else newest


def _names(ranks: Sequence[RankView]) -> str:
    numbers = [str(view.rank) for view in ranks]
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 8:
        return f"{len(numbers)} ranks ({', '.join(numbers[:4])}, ...)"
    return f"ranks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _at(view: RankView) -> str:
    if view.ended:
        return "has ended"
    if view.stopped:
        return "is stopped (SIGSTOP)"
    return f"is at {view.place}" if view.place is not None else f"is at an unknown place ({view.why or 'no stack'})"


def _they_are(views: Sequence[RankView]) -> str:
    if len(views) == 1:
        return f"it {_at(views[0])}"
    return "; ".join(f"rank {view.rank} {_at(view)}" for view in views[:4])


def explain(views: Sequence[RankView]) -> str:
    """One sentence that names the ranks which the others wait for."""
    if not views:
        return "no rank was found"
    moving = [view for view in views if view.moves]
    if moving:
        example = moving[0]
        verb = "moves" if len(moving) == 1 else "move"
        who = f"rank {example.rank} " if len(moving) > 1 else ""
        return (
            f"{_names(moving)} {verb} on, {who}from {example.before} to {example.collective} while they were looked at"
        )
    waiting = [view for view in views if view.waits]
    awaited = [view for view in views if view.waits is False]
    unknown = [view for view in views if view.waits is None]
    verb = "waits" if len(waiting) == 1 else "wait"

    if not waiting:
        stopped = [view for view in views if view.stopped]
        if stopped:
            return f"{_names(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped (SIGSTOP)"
        if unknown:
            return f"the stack of {_names(unknown)} can't be read: {unknown[0].why or 'no way to ask it'}"
        return f"no rank waits for another: {'; '.join(f'rank {view.rank} {_at(view)}' for view in awaited[:8])}"

    where = _what(waiting)
    if awaited:
        return f"{_names(waiting)} {verb} in {where} for {_names(awaited)}: {_they_are(awaited)}"
    if unknown:
        return f"{_names(waiting)} {verb} in {where}, probably for {_names(unknown)}, whose stack can't be read"

    begun = [view.collective for view in views if view.collective is not None]
    if len(begun) == len(views) and len({collective.group for collective in begun}) == 1:
        first = min(collective.sequence for collective in begun)
        behind = [v for v in views if v.collective is not None and v.collective.sequence == first]
        ahead = [v for v in views if v.collective is not None and v.collective.sequence > first]
        if ahead:
            return (
                f"{_names(behind)} still {'waits' if len(behind) == 1 else 'wait'} in {behind[0].collective} while "
                f"{_names(ahead)} {'is' if len(ahead) == 1 else 'are'} already in {ahead[0].collective}"
            )
        if len({collective.operation for collective in begun}) > 1:
            calls = "; ".join(f"rank {view.rank} in {view.collective}" for view in views[:8])
            return f"the ranks wait for each other in different collectives: {calls}"
    places = {str(view.place) for view in views}
    if len(places) > 1:
        return "all ranks wait, at different places: " + "; ".join(f"rank {v.rank} {_at(v)}" for v in views[:8])
    return f"all ranks wait in {where}: no rank is missing, so the transport between them does not move"


def _what(waiting: Sequence[RankView]) -> str:
    collectives = sorted({str(view.collective) for view in waiting if view.collective and not view.collective.ended})
    places = sorted({str(view.place) for view in waiting if view.place is not None})
    if collectives:
        at = f" ({places[0]})" if len(places) == 1 else ""
        return " and ".join(collectives[:3]) + at
    return " and ".join(places[:3]) or "a collective"
