"""The two lines above a run's panes: what it is, how it is, how far it is."""

from __future__ import annotations

from collections.abc import Sequence

from labtui.runs.watch import Snapshot
from labtui.tui import words
from labtui.tui.lines import Line, Piece, cells, fit, spread
from labtui.tui.widgets.drawing import Drawing
from labtui.tui.widgets.findings import check_facts

BAR = 20


class Headline(Drawing):
    """A run in two lines."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot: Snapshot | None = None
        self.experiment = ""
        """Its title, where the catalog still has it."""
        self.minutes: float | None = None
        """What a run of it takes by its manifest."""
        self.empty = "No run yet. 1 shows the experiments; enter starts one."

    def build(self, width: int, height: int) -> Sequence[Line]:
        if self.snapshot is None:
            return [(), ((" ", ""), (fit(self.empty, width - 1), "dim"))]
        return headline(self.snapshot, self.experiment, self.minutes, width)


def headline(snapshot: Snapshot, experiment: str, minutes: float | None, width: int) -> list[Line]:
    """The two lines, each of exactly `width` cells."""
    request, status = snapshot.request, snapshot.status
    name = experiment or (request.experiment if request else snapshot.folder.id)
    variant = (request.variant or "default") if request else ""
    state = status.state if status else None
    letters, role = words.mark(state or "lost")
    first: list[Piece] = [(" ", ""), (letters, role), (" ", ""), (fit(name, min(len(name), 40)), "strong")]
    if variant:
        first += [(" · ", "dim"), (fit(variant, min(len(variant), 24)), "")]
    right = [*_progress(snapshot, minutes, width), (" ", "")]
    second: list[Piece] = [(" ", "")]
    if snapshot.errors:
        second.append((fit(snapshot.errors[0], width - 2), "bad"))
    elif status is not None and status.reason and state not in ("running", "succeeded"):
        second.append((fit(status.reason, width - 2).rstrip(), role))
    else:
        second.append((_told(snapshot), "dim"))
    facts = check_facts(snapshot.checks)
    after = [("  checks ", "dim"), *facts, (" ", "")] if facts and not snapshot.errors else []
    if cells(after) > width // 2:
        after = []
    return [spread(first, right, width), spread(second, after, width)]


def _progress(snapshot: Snapshot, minutes: float | None, width: int) -> list[Piece]:
    status = snapshot.status
    state = words.state_name(status.state) if status else "unknown"
    pieces: list[Piece] = []
    done = snapshot.done
    if done is not None and done.total and snapshot.live:
        share = min(max(done.done / done.total, 0.0), 1.0)
        bar = BAR if width >= 110 else BAR // 2 if width >= 70 else 0
        if bar:
            full = round(share * bar)
            pieces += [("━" * full, "accent"), ("─" * (bar - full), "rule"), (" ", "")]
        pieces.append((f"{done.done:g}/{done.total:g}  ", "dim"))
    elapsed = words.clock(snapshot.seconds)
    pieces += [(state, words.mark(status.state if status else "lost")[1]), ("  ", "")]
    pieces.append((elapsed, "strong"))
    left = done.seconds_left(snapshot.taken) if done is not None and snapshot.live else None
    if left is not None:
        pieces.append((f", about {words.clock(left)} left", "dim"))
    elif snapshot.live and minutes and width >= 90 and (snapshot.seconds or 0.0) <= minutes * 60:
        pieces.append((f" of about {words.clock(minutes * 60)}", "dim"))
    return pieces


def _told(snapshot: Snapshot) -> str:
    request, status = snapshot.request, snapshot.status
    parts = [snapshot.folder.id]
    if request is not None:
        if request.nproc is not None:
            on = f" on {request.device}" if request.device else ""
            parts.append(words.count(request.nproc, "process", "processes") + on)
        parts.append(request.host)
    if "torch" in snapshot.versions:
        parts.append(f"torch {snapshot.versions['torch']}")
    if status is not None and status.state == "succeeded" and status.reason:
        parts.insert(0, status.reason)
    return fit(" · ".join(parts), 200).rstrip()
