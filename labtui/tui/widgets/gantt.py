"""The Simulate screen's body: Gantts with a cursor in time, in words what goes on there, and what comes of it all."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from labtui.theory.pipeline.schedules import SCHEDULES
from labtui.theory.pipeline.words import number
from labtui.tui import schedule_lines, schedule_words
from labtui.tui.lines import Line, Piece, cells, crop, wrap
from labtui.tui.schedule_lines import Frame, View
from labtui.tui.schedule_settings import Settings
from labtui.tui.schedule_study import OPTIMAL, Picture, Refused, Study
from labtui.tui.widgets.drawing import Drawing

BESIDE = 76
"""Columns from which the moment and the figures stand beside each other."""
TALL = 20
"""Lines from which the figures keep some of them, however many devices there are."""
KEPT = 5


class Gantt(Drawing):
    """A picture of schedules, and the moment and device of it that are looked at."""

    class Pointed(Message):
        """A device and a moment were clicked."""

        def __init__(self, device: int, t: float) -> None:
            super().__init__()
            self.device = device
            self.t = t

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.picture: Picture | None = None
        self.t = 0.0
        self.device = 0
        self.note = ""
        """What is going on, in a word or two."""
        self._left = 0
        self._skipped = self._hidden = 0
        """Lines of the figures above what is shown of them, and lines that aren't shown at all."""
        self._page = 1
        self._rows: dict[int, int] = {}
        """Line on the screen -> device."""

    # Lines

    def build(self, width: int, height: int) -> Sequence[Line]:
        picture = self.picture
        lines = [schedule_words.settings_line(self.settings, picture, width)]
        self._rows = {}
        if picture is None:
            return lines
        wanted = [self._rows_wanted(place, width) for place in range(len(picture.studies))]
        rows, said, rest = _shares(wanted, height)
        frame = _frame(picture, width)
        self._left = _followed(self._left, picture, self.t, frame.signs)
        view = View(frame, self.t, self.device, self._left)
        has_ruler = False
        for place, study in enumerate(picture.studies):
            lines.append(self._heading(place, rows[place], width))
            if isinstance(study, Refused):
                told = wrap(study.sentence, width - 2)[: rows[place]]
                lines += [crop([(" ", ""), (text, "bad")], width) for text in told]
                continue
            if not has_ruler:
                lines.append(schedule_lines.ruler(picture, view, width))
                has_ruler = True
            lines += self._gantt(place, study, rows[place], view, width, len(lines))
        if rest > KEPT:
            lines.append(schedule_lines.legend(picture, width))
            rest -= 1
        lines += self._sentences(said, width)
        lines += self._below(width, rest)
        return lines[:height]

    def _rows_wanted(self, place: int, width: int) -> int:
        assert self.picture is not None
        study = self.picture.studies[place]
        if isinstance(study, Refused):
            return len(wrap(study.sentence, width - 2))
        return len(self.picture.strips[place])

    def _heading(self, place: int, rows: int, width: int) -> Line:
        assert self.picture is not None
        study = self.picture.studies[place]
        summary = "found by a solver" if study.name == OPTIMAL else SCHEDULES[study.name].summary
        note = self.note if not place else ""
        if isinstance(study, Study) and rows < len(self.picture.strips[place]) and not note:
            note = f"{rows} of {len(self.picture.strips[place])} rows"
        return schedule_lines.heading(study, summary, width, note)

    def _gantt(self, place: int, study: Study, rows: int, view: View, width: int, line: int) -> list[Line]:
        assert self.picture is not None
        strips = self.picture.strips[place]
        ours = [index for index, strip in enumerate(strips) if strip.row.device == view.device] or [0]
        # In the middle, as far as there are rows around.
        top = max(0, min(ours[0] - max(rows - len(ours), 0) // 2, len(strips) - rows))
        shown = range(top, min(top + rows, len(strips)))
        self._rows.update({line + index - top: strips[index].row.device for index in shown})
        view = View(view.frame, view.t, view.device, view.left, top)
        return [schedule_lines.row(study, strips, index, self.picture, view, width) for index in shown]

    def _sentences(self, room: int, width: int) -> list[Line]:
        """What goes on at the cursor, in full; always as many lines, for what is below shouldn't jump."""
        assert self.picture is not None
        shown = self.picture.shown
        lines: list[Line] = []
        for place, study in enumerate(shown):
            here = room // len(shown) + (place < room % len(shown))
            lead: list[Piece] = [(f" t = {number(self.t)}  ", "accent")]
            if len(shown) > 1:
                lead = [(f" {study.name}  ", "accent")]
            first = cells(lead)
            others = first if width >= schedule_lines.NARROW else 1
            space = (width - 1 - first) + (here - 1) * (width - 1 - others)
            # Words don't fill their lines.
            told = schedule_words.in_full(study, min(self.device, study.devices - 1), self.t, space - 6 * (here - 1))
            texts = _wrapped(told, width - 1, first, others)[:here]
            texts += [""] * (here - len(texts))
            margins: list[list[Piece]] = [lead] + [[(" " * others, "")]] * (here - 1)
            lines += [crop([*margin, (text, "")], width) for margin, text in zip(margins, texts, strict=False)]
        return lines[:room]

    def _below(self, width: int, height: int) -> list[Line]:
        """The moment and the figures."""
        assert self.picture is not None
        if height < 1 or not self.picture.shown:
            return []
        if height < 3:
            return [
                crop([(" ", ""), *line], width) for line in schedule_words.figures(self.picture, width - 1)[:height]
            ]
        if width < BESIDE:
            figures = schedule_words.figures(self.picture, width - 1)
            moment = schedule_words.moment(self.picture, self.t, self.device, width - 1, height - len(figures) - 2)
            below = self._scrolled([*figures, *([()] if moment else []), *moment], height - 1)
            return [self._rule(width), *(crop([(" ", ""), *line], width) for line in below)]
        split = min(max(width * 45 // 100, 38), 60 if len(self.picture.shown) < 2 else 90)
        left = schedule_words.moment(self.picture, self.t, self.device, split - 1, height - 1)
        right = self._scrolled(schedule_words.figures(self.picture, width - split - 3), height - 1)
        return [self._rule(width, split), *schedule_words.beside(left, right, split, width, height - 1)]

    def _scrolled(self, lines: Sequence[Line], height: int) -> Sequence[Line]:
        """The lines that are on show; remembers no further than there is something."""
        self._hidden = max(len(lines) - height, 0)
        self._skipped = min(self._skipped, self._hidden)
        self._page = max(height - 1, 1)
        return lines[self._skipped : self._skipped + height]

    def _rule(self, width: int, joint: int | None = None) -> Line:
        if not self._hidden:
            return schedule_words.rule(width, joint)
        return schedule_words.rule(width, joint, "page down: more" if self._skipped < self._hidden else "page up")

    def scroll_figures(self, pages: int) -> None:
        """Moves the figures; beyond their ends they stop."""
        self._skipped = max(0, self._skipped + pages * self._page)
        self.redraw()

    # The mouse

    def on_click(self, event: events.Click) -> None:
        device, picture = self._rows.get(event.y), self.picture
        if device is None or picture is None:
            return
        column = event.x - _frame(picture, self.size.width).left + self._left
        if 0 <= column < picture.columns:
            self.post_message(self.Pointed(device, _moment_at(picture, column)))


def _frame(picture: Picture, width: int) -> Frame:
    """How the width is shared."""
    stages = max((each.timeline.order.stages for each in picture.shown), default=0)
    return schedule_lines.frame(width, picture.wanted.settings, by_stage=picture.wanted.by_stage, stages=stages)


def _shares(wanted: Sequence[int], height: int) -> tuple[list[int], int, int]:
    """(rows of each Gantt, lines for sentences, lines below) of all lines but the settings', headings and ruler."""
    schedules = len(wanted)
    free = height - 2 - schedules
    said = min(2, max(free - schedules, 0))
    kept = KEPT if schedules == 1 and height >= TALL else 0
    room = max(free - said - kept, schedules)
    rows = list(wanted)
    if sum(rows) > room:
        half = max(room // schedules, 1)
        rows[0] = min(wanted[0], max(half, room - sum(wanted[1:])))
        rows[1:] = [min(each, max(room - rows[0], 1)) for each in wanted[1:]]
    rest = max(free - said - sum(rows), 0)
    if height >= 2 * KEPT + TALL and rest > KEPT + 3 * schedules:
        more = schedules if schedules > 1 else 1
        said, rest = said + more, rest - more
    return rows, said, rest


def _followed(left: int, picture: Picture, t: float, signs: int) -> int:
    """The first column to show, so that the moment is in view: it moves only where it has to."""
    last = max(picture.columns - signs, 0)
    column = min(picture.scale.column(t), max(picture.columns - 1, 0))
    if not left <= column < left + signs:
        left = column - signs // 2
    return max(0, min(left, last))


def _moment_at(picture: Picture, column: int) -> float:
    """The last moment at which something changes that is not right of the column."""
    moments = [t for each in picture.shown for t in each.moments if picture.scale.column(t) <= column]
    return max(moments, default=0.0)


def _wrapped(text: str, width: int, first: int, others: int) -> list[str]:
    """The text in lines, of which the first begins after `first` cells and the others after `others`."""
    lines = wrap(text, max(width - first, 8))
    if first == others or len(lines) < 2:
        return lines
    rest = text[len(lines[0]) :].strip()
    return [lines[0], *wrap(rest, max(width - others, 8))]
