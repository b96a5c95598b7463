"""A timeline: spans as lanes, by rank and lane, on one axis of time; and what is under the cursor, in words. Pure.

Times are seconds since the epoch, as the ranks' clocks told them: on several hosts these may differ.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from labtui.charts import number
from labtui.runs.clean import clean_line
from labtui.tui.lines import Line, Piece, fit, wrap

COMPUTE, COMMUNICATION = "compute", "communication"
_KINDS = {COMPUTE: (0, "series0"), COMMUNICATION: (1, "series1")}
_OTHERS = ("series2", "series3", "series4", "series5")
CLOSEST_S = 1e-5
"""The least that is shown at a time: seconds since the epoch, as floats, are no finer than a quarter of 1 us."""
PAUSE_S, PAUSES = 1.0, 3.0
"""A pause that parts one burst of spans from the next: so long, and so many times as long as the burst."""
_LEVELS = " ▁▂▃▄▅▆▇▇"
_BEGIN = "▐"
_OTHER_RANKS = 6
"""So many of what runs at the same time are named."""


@dataclass(frozen=True)
class Bar:
    """A span."""

    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def away(self, t: float) -> float:
        """How far a moment is from it."""
        return max(self.start - t, t - self.end, 0.0)


@dataclass(frozen=True)
class Lane:
    """What one rank did on one lane, in the order of beginning."""

    rank: int
    name: str
    bars: tuple[Bar, ...]
    starts: tuple[float, ...]
    role: str

    @property
    def longest(self) -> float:
        return max((bar.seconds for bar in self.bars), default=0.0)

    def at(self, t: float, within: float = 0.0) -> list[Bar]:
        """The bars under way at a moment, the shortest first; without one the nearest, if it is near enough."""
        first = bisect_left(self.starts, t - self.longest - within)
        near = self.bars[first : bisect_right(self.starts, t + within)]
        under = sorted((bar for bar in near if bar.start <= t <= bar.end), key=lambda bar: bar.seconds)
        return under or sorted((bar for bar in near if bar.end >= t - within), key=lambda bar: bar.away(t))[:1]


@dataclass(frozen=True)
class Timeline:
    """All lanes, ranks one after the other."""

    lanes: tuple[Lane, ...] = ()
    start: float = 0.0
    end: float = 0.0

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class View:
    """The stretch of time on show."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def zoomed(self, factor: float, at: float, whole: View) -> View:
        """`factor` times as much time, with `at` where it was, within `whole`."""
        seconds = min(max(self.seconds * factor, CLOSEST_S), whole.seconds)
        share = (at - self.start) / self.seconds
        return View(at - share * seconds, at + (1 - share) * seconds).within(whole)

    def moved(self, by: float, whole: View) -> View:
        return View(self.start + by, self.end + by).within(whole)

    def within(self, whole: View) -> View:
        seconds = min(self.seconds, whole.seconds)
        start = min(max(self.start, whole.start), whole.end - seconds)
        return View(start, start + seconds)


def timeline(spans: Iterable[Mapping[str, Any]]) -> Timeline:
    """The lanes of what was reported. A span whose times are none is left out."""
    found: dict[tuple[int, str], list[Bar]] = {}
    for span in spans:
        start, end = number(span.get("start")), number(span.get("end"))
        if start is None or end is None or end < start:
            continue
        lane = clean_line(str(span.get("lane") or "")) or "unnamed"
        bar = Bar(clean_line(str(span.get("name") or "")) or "unnamed", start, end)
        found.setdefault((span["rank"], lane), []).append(bar)
    if not found:
        return Timeline()
    others = sorted({name for _, name in found} - _KINDS.keys())
    lanes = []
    for (rank, name), bars in sorted(found.items(), key=lambda item: (item[0][0], _order(item[0][1]))):
        bars.sort(key=lambda bar: (bar.start, bar.end))
        role = _KINDS[name][1] if name in _KINDS else _OTHERS[others.index(name) % len(_OTHERS)]
        lanes.append(Lane(rank, name, tuple(bars), tuple(bar.start for bar in bars), role))
    return Timeline(
        tuple(lanes),
        min(lane.starts[0] for lane in lanes),
        max(bar.end for lane in lanes for bar in lane.bars),
    )


def _order(lane: str) -> tuple[int, str]:
    return (_KINDS[lane][0] if lane in _KINDS else 2, lane)


def newest_burst(told: Timeline) -> View:
    """The last stretch without a long pause in it: what a script records it mostly records in short bursts."""
    bars = sorted((bar for lane in told.lanes for bar in lane.bars), key=lambda bar: -bar.end)
    start = end = bars[0].end if bars else 0.0
    for bar in bars:
        if start - bar.end > max(PAUSE_S, PAUSES * (end - start)) and start < end:
            break
        start = min(start, bar.start)
    return _roomy(start, end)


def whole(told: Timeline) -> View:
    """All of it."""
    return _roomy(told.start, told.end)


def _roomy(start: float, end: float) -> View:
    """Never empty."""
    return View(start, max(end, start + CLOSEST_S * 10))


# Drawing --------------------------------------------------------------------------------------------------------------


def lane_line(lane: Lane, view: View, width: int) -> list[Piece]:
    """A lane in `width` cells: how much of each cell's time was filled, and the names that fit."""
    step = view.seconds / width
    filled, begun = [0.0] * width, bytearray(width)
    names: list[tuple[int, int, str]] = []
    reached = -math.inf
    first = bisect_left(lane.starts, view.start - lane.longest)
    for bar in lane.bars[first : bisect_right(lane.starts, view.end)]:
        if bar.end < view.start:
            continue
        left, right = (bar.start - view.start) / step, (bar.end - view.start) / step
        a, b = min(max(int(left), 0), width - 1), min(int(right), width - 1)
        # What overlaps is counted once: each cell is filled from where it is filled already.
        since = max(left, reached)
        for cell in range(a, b + 1):
            filled[cell] += max(min(right, cell + 1) - max(since, cell), 0.0)
        reached = max(reached, right)
        if left >= 0:
            begun[a] = min(begun[a] + 1, 9)
        filled[a] = max(filled[a], 1e-9)  # however short, it is to be seen
        if b - a >= 5:
            # A script gives all spans of a recording one title; what tells them apart comes behind it.
            names.append((a + 1, b, bar.name.rpartition(": ")[2] or bar.name))
    cells = []
    for cell in range(width):
        level = math.ceil(min(filled[cell], 1.0) * 8) if filled[cell] else 0
        parted = begun[cell] == 1 and cell and filled[cell] > 0.4 and filled[cell - 1] > 0.9
        cells.append(_BEGIN if parted else _LEVELS[level])
    return _with_names("".join(cells), names, lane.role)


def _with_names(cells: str, names: Sequence[tuple[int, int, str]], role: str) -> list[Piece]:
    """Names are written into the bars; what stands beneath a name is of the same colour, so that it needs no other."""
    pieces: list[Piece] = []
    at = 0
    for first, end, name in names:
        if first < at:
            continue  # beneath another one
        room = min(end - first, cell_len(name))
        if room < min(cell_len(name), 6):
            continue
        pieces += [(cells[at:first], role), (fit(name, room), f"{role} strong")]
        at = first + room
    pieces.append((cells[at:], role))
    return [piece for piece in pieces if piece[0]]


def axis(view: View, zero: float, cursor: int, width: int) -> list[Piece]:
    """The axis on one line: labels behind ticks, and the cursor's place."""
    wanted = max(width // 14, 1)
    step = _step(view.seconds / wanted)
    cells, roles = ["─"] * width, bytearray(width)
    used = 0
    tick = math.ceil((view.start - zero) / step)
    while True:
        t = tick * step
        at = int((zero + t - view.start) / view.seconds * width)
        label = tick_label(t, step)
        if at + 1 + len(label) > width:
            break
        if at >= used:
            cells[at] = "┴"
            for n, character in enumerate(label, at + 1):
                cells[n], roles[n] = character, 1
            used = at + len(label) + 2
        tick += 1
    if 0 <= cursor < width:
        cells[cursor], roles[cursor] = "↑", 2
    pieces: list[Piece] = []
    for cell, kind in zip(cells, roles, strict=True):
        role = ("rule", "dim", "live")[kind]
        if pieces and pieces[-1][1] == role:
            pieces[-1] = (pieces[-1][0] + cell, role)
        else:
            pieces.append((cell, role))
    return pieces


def _step(least: float) -> float:
    """A round number of seconds at or above."""
    for step in (60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 86400.0):
        if 30.0 < least <= step:
            return step
    if least > 86400.0:
        return 86400.0 * math.ceil(least / 86400.0)
    power = 10.0 ** math.floor(math.log10(least))
    return next((power * times for times in (1, 2, 5, 10) if power * times >= least * 0.999), power * 10)


def tick_label(t: float, step: float) -> str:
    """A time since the run began, as finely as the ticks need it: 1:20, 3.25 s."""
    if step >= 60:
        return f"{int(t) // 3600}:{int(t) % 3600 // 60:02d} h" if t >= 3600 else f"{int(t) // 60} min"
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{t:.{places}f} s"


def lasting(seconds: float) -> str:
    """A duration with three figures: 812 ns, 12.4 ms, 3.20 s."""
    if seconds <= 0:
        return "0 s"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if seconds >= 0.9995 * scale or unit == "ns":
            value = seconds / scale
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    raise AssertionError("unreachable")


# In words -------------------------------------------------------------------------------------------------------------


def at_cursor(told: Timeline, lane: Lane, t: float, view: View, zero: float, within: float) -> list[Line]:
    """What is under the cursor, and what was under way elsewhere then, as sentences with their roles."""
    under = lane.at(t, within)
    where = f"rank {lane.rank} · {lane.name}"
    if under:
        bar = under[0]
        said = (
            f"{bar.name}: from {moment(bar.start - zero, view)} for {lasting(bar.seconds)}, "
            f"{100 * min(bar.seconds / view.seconds, 1):.3g} % of the view"
        )
        around = [
            f"{'within' if other.start <= bar.start and bar.end <= other.end else 'beside'} {other.name}"
            for other in under[1:3]
        ]
        said = ", ".join([said, *around])
    else:
        place = bisect_right(lane.starts, t)
        later = lane.bars[place] if place < len(lane.bars) else None
        said = f"nothing at {moment(t - zero, view)}"
        said += f"; {later.name} begins {lasting(later.start - t)} later" if later else "; nothing comes after it"
    lines: list[Line] = [((f"{where}: ", "strong"), (said, "" if under else "dim"))]
    elsewhere = [
        f"rank {other.rank} {bars[0].name}" + (f" and {len(bars) - 1} more" if len(bars) > 1 else "")
        for other in told.lanes
        if other is not lane and (bars := other.at(t, within))
    ]
    if elsewhere:
        more = f"; {len(elsewhere) - _OTHER_RANKS} more" if len(elsewhere) > _OTHER_RANKS else ""
        lines.append((("at the same time: ", "dim"), ("; ".join(elsewhere[:_OTHER_RANKS]) + more, "")))
    else:
        lines.append((("at the same time: ", "dim"), ("nothing else", "dim")))
    return lines


def moment(t: float, view: View) -> str:
    """A time since the run began, as finely as the view shows it."""
    places = min(max(2 - math.floor(math.log10(view.seconds)), 1), 7)
    return f"{t:.{places}f} s"


def said_lines(said: Sequence[Line], width: int, most: int) -> list[Line]:
    """Sentences on as many lines as they need, and there is room for."""
    lines: list[Line] = []
    for (head, role), (rest, rest_role) in said:
        first, *more = wrap(head + rest, width)
        lines.append(((first[: len(head)], role), (first[len(head) :], rest_role)))
        lines += [((line, rest_role),) for line in more]
    return lines[:most]
