"""The timeline pane: spans as lanes by rank, zoomed and moved, with a cursor that says in words what is under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from textual import events

from labtui.runs.watch import SPANS, Snapshot
from labtui.tui import actions, timeline_lines
from labtui.tui.lines import Line, Piece, fit, struck
from labtui.tui.timeline_lines import Lane, Timeline, View, lasting
from labtui.tui.widgets.pane import Pane

WIDE = 60
_ZOOM = 2.0
_FOUND_WITHIN = 0.5
"""Of a column: so near to the cursor is under it."""


class TimelinePane(Pane):
    """All lanes over one stretch of time. Until somebody moves it, it shows the newest burst of spans."""

    title = "Timeline"

    places = (actions.TIME, actions.PANE, actions.LIST)

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.snapshot: Snapshot | None = None
        self.told = Timeline()
        self.view = View(0.0, 1.0)
        self.lane = 0
        """The chosen one."""
        self.t = 0.0
        """The cursor's moment."""
        self._told_by: tuple[Any, ...] = ()
        self._moved = False
        self._memory: dict[tuple[int, View, int], list[Piece]] = {}
        self._columns = 1

    def clear(self) -> None:
        """Forgets everything, for another run."""
        self.snapshot, self.told, self._told_by, self._moved, self.lane = None, Timeline(), (), False, 0
        self._memory.clear()
        self.redraw()

    def build(self, width: int, height: int) -> Sequence[Line]:
        self._take()
        return super().build(width, height)

    def _take(self) -> None:
        """Takes in what is new; it costs nothing while there are no new spans, or nobody looks."""
        spans = self.snapshot.spans if self.snapshot is not None else ()
        told_by = (len(spans), id(spans[0]), id(spans[-1])) if spans else ()
        if told_by == self._told_by:
            return
        self._told_by = told_by
        chosen = self._chosen
        self.told = timeline_lines.timeline(spans)
        self._memory.clear()
        if chosen is not None:
            same = [n for n, lane in enumerate(self.told.lanes) if (lane.rank, lane.name) == (chosen.rank, chosen.name)]
            self.lane = same[0] if same else 0
        if not self._moved:
            self._look_at(timeline_lines.newest_burst(self.told))

    @property
    def _chosen(self) -> Lane | None:
        lanes = self.told.lanes
        return lanes[min(self.lane, len(lanes) - 1)] if lanes else None

    @property
    def _zero(self) -> float:
        status = self.snapshot.status if self.snapshot is not None else None
        started = status.started if status is not None else None
        return started if started is not None and started <= self.told.start else self.told.start

    def _look_at(self, view: View) -> None:
        """Shows that stretch, with the cursor on the chosen lane's first span in it."""
        self.view = view
        lane = self._chosen
        inside = [bar for bar in lane.bars if view.start <= bar.start <= view.end] if lane is not None else []
        self.t = (inside[0].start + inside[0].end) / 2 if inside else view.start + view.seconds / 2

    # What can be done with it

    def scroll_rows(self, lines: int) -> None:
        self.lane = max(0, min(self.lane + lines, len(self.told.lanes) - 1))
        self.redraw()

    def action_next_tab(self) -> None:
        self._move_cursor(self.t + self._column)

    def action_previous_tab(self) -> None:
        self._move_cursor(self.t - self._column)

    @property
    def _column(self) -> float:
        """Seconds of a column."""
        return self.view.seconds / self._columns

    def step_in_time(self, by: int) -> None:
        """To the next or the previous span of the lane."""
        lane = self._chosen
        if lane is None:
            return
        middles = sorted({(bar.start + bar.end) / 2 for bar in lane.bars})
        later = [t for t in middles if t > self.t + 1e-9]
        earlier = [t for t in middles if t < self.t - 1e-9]
        if by > 0 and later:
            self._move_cursor(later[0])
        elif by < 0 and earlier:
            self._move_cursor(earlier[-1])

    def leap_in_time(self, by: int) -> None:
        """Half of what is shown further."""
        half = by * self.view.seconds / 2
        self._move_to(self.view.moved(half, self._whole))
        self.t = min(max(self.t + half, self.view.start), self.view.end)
        self.redraw()

    def zoom(self, by: int) -> None:
        """Closer (1) or further away (-1), with the cursor where it is."""
        self._move_to(self.view.zoomed(_ZOOM**-by, self.t, self._whole))

    def fit(self) -> None:
        """Everything; and from there back to the newest burst."""
        burst = timeline_lines.newest_burst(self.told)
        self._look_at(burst if self.view == self._whole else self._whole)
        self._moved = self.view != burst
        self.redraw()

    @property
    def _whole(self) -> View:
        return timeline_lines.whole(self.told)

    def _move_cursor(self, t: float) -> None:
        self._moved = True
        whole, view = self._whole, self.view
        self.t = min(max(t, whole.start), whole.end)
        if not view.start <= self.t <= view.end:
            # As far as needed, and some more, so that one sees where one is going.
            edge = view.start if self.t < view.start else view.end
            by = self.t - edge
            self.view = view.moved(by + (view.seconds / 4 if by > 0 else -view.seconds / 4), whole)
        self.redraw()

    def _move_to(self, view: View) -> None:
        self._moved = True
        self.view = view
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        rows = self._rows(self.size.height - 1)
        row = event.y - 1
        column = event.x - (2 if self.beside else 1) - self._names
        lane = rows[row] if 0 <= row < len(rows) else None
        if lane is not None:
            self.lane = lane
        if 0 <= column < self._columns:
            self._move_cursor(self.view.start + (column + 0.5) * self._column)
        self.redraw()

    def copied(self) -> tuple[str, str]:
        """What is under the cursor, in words."""
        said = self._said()
        return "\n".join("".join(text for text, _ in line) for line in said), "what is under the cursor"

    # What it looks like

    def facts(self) -> Sequence[Piece]:
        if not self.told.lanes:
            return ()
        facts: list[Piece] = [(f"{lasting(self.view.seconds)} of {lasting(self.told.seconds)}", "dim")]
        if self.snapshot is not None and len(self.snapshot.spans) >= SPANS:
            facts = [(f"newest {SPANS:,} · ", "warn"), *facts]
        return facts

    def _said(self) -> list[Line]:
        lane = self._chosen
        if lane is None:
            return []
        return timeline_lines.at_cursor(self.told, lane, self.t, self.view, self._zero, _FOUND_WITHIN * self._column)

    @property
    def _names(self) -> int:
        return self._name_width(self.size.width - 3)

    def _name_width(self, width: int) -> int:
        longest = max((cell_len(lane.name) for lane in self.told.lanes), default=0)
        return min(longest + 11, 24) if width >= WIDE else min(longest + 5, 17 if width >= 44 else 12)

    def _below(self, width: int, height: int) -> list[Line]:
        most = max(height // 3, height - 1 - len(self.told.lanes), 1)
        return timeline_lines.said_lines(self._said(), width, most)

    def _rows(self, height: int) -> list[int | None]:
        """The lanes that there is room for, line by line; with much room, ranks are set apart by blank ones."""
        shown, lanes = self._shown(height), self.told.lanes
        ends = [n for n in shown[1:] if lanes[n].rank != lanes[n - 1].rank]
        below = 1 + len(self._below(self.size.width - 3, height))
        if len(shown) < len(lanes) or len(shown) == len(ends) + 1 or len(lanes) + len(ends) + below > height:
            return list(shown)
        return [row for n in shown for row in ((None, n) if n in ends else (n,))]

    def _shown(self, height: int) -> range:
        """Which lanes there is room for."""
        below = 1 + len(self._below(self.size.width - 3, height))
        room = max(height - below, 1)
        lanes = len(self.told.lanes)
        self._top = max(min(self._top, self.lane), self.lane - room + 1, 0)
        self._top = max(0, min(self._top, lanes - room))
        return range(self._top, min(self._top + room, lanes))

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        if not self.told.lanes:
            live = self.snapshot is not None and self.snapshot.live
            return [((fit(f"no spans {'yet' if live else 'were reported'}", width), "dim"),)] if self.snapshot else []
        names = self._name_width(width)
        columns = self._columns = max(width - names, 1)
        cursor = min(int((self.t - self.view.start) / self.view.seconds * columns), columns - 1)
        below = self._below(width, height)
        rows = self._rows(height)
        lines: list[Line] = []
        for place, n in enumerate(rows):
            if n is None:
                lines.append(struck(((" " * width, ""),), names + cursor))
                continue
            lane = self.told.lanes[n]
            key = (n, self.view, columns)
            if key not in self._memory:
                if len(self._memory) > 1024:
                    self._memory.clear()
                self._memory[key] = timeline_lines.lane_line(lane, self.view, columns)
            first = not place or self.told.lanes[n - 1].rank != lane.rank
            chosen = n == self.lane
            lines.append((*self._lane_name(lane, names, first, chosen), *struck(self._memory[key], cursor)))
        axis = timeline_lines.axis(self.view, self._zero, cursor, columns)
        lines.append(((fit("", names), ""), *axis))
        return [*lines, *below][:height]

    def _lane_name(self, lane: Lane, width: int, first: bool, chosen: bool) -> Line:
        mark: Piece = ("›" if chosen else " ", "accent")
        role = "strong" if chosen else "dim"
        if width < 18:
            return mark, (fit(f"{lane.rank:>2} {lane.name}", width - 2), role), (" ", "")
        rank = f"rank {lane.rank}" if first or chosen else ""
        return mark, (fit(rank, 8), role), (fit(lane.name, width - 10), role), (" ", "")
