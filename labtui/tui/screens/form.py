"""The form of a run: every parameter of the manifest on a line, checked as it is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen

from labtui.runs.clean import clean_line
from labtui.runs.records import Request
from labtui.tui import fields
from labtui.tui.fields import Form, Row
from labtui.tui.lines import Line, Piece, cells, crop, fit, with_role, wrap
from labtui.tui.screens.choose import room
from labtui.tui.widgets.drawing import Drawing
from labtui.tui.widgets.pane import Choice
from labtui.tui.wish import Wish

WIDEST = 110


class FormRows(Choice, inherit_bindings=False):
    """The rows; what is typed goes into the one under the cursor. It takes all keys that write."""

    class Edited(Message):
        """Something else is typed, or another row is under the cursor."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        variant = form.experiment.variant(form.variant)
        self.title = f"{form.experiment.title} · {variant.name or 'default'}"
        self.form = form
        self.rows_now = fields.rows(form)
        self.caret = len(self.rows_now[0].text)

    # What it shows

    def facts(self) -> Sequence[Piece]:
        wrong = sum(bool(row.error) for row in self.rows_now)
        return [(f"{wrong} to mend", "bad")] if wrong else []

    def length(self) -> int:
        return len(self.rows_now)

    @property
    def current(self) -> Row:
        return self.rows_now[self.cursor]

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        row = self.rows_now[index]
        names = min(max(cell_len(one.key) for one in self.rows_now), 24, max(width // 2 - 4, 6))
        values = max(cell_len(one.text) for one in self.rows_now) + 4
        values = max(min(values, 24, width - names - 7), 8)
        mark: Piece = ("!!", "bad") if row.error else ("* " if row.changed else "  ", "accent")
        value = _value(row, values, self.caret if chosen and not row.choices else None, turned=chosen)
        help = width - names - values - 14
        line: Line = (
            ("›" if chosen else " ", "accent"), mark, (" ", ""),
            (fit(row.key, names), "strong" if chosen else ""), ("  ", ""), *value, (" ", ""),
            *([(fit(row.unit, 7), "dim"), (fit(row.help, help), "dim")] if help > 6 else []),
        )  # fmt: skip
        return with_role(line, "cursor") if chosen else line

    # What is typed

    def set_form(self, form: Form) -> None:
        """Shows other contents, with the caret behind the text."""
        self.form, self.rows_now = form, fields.rows(form)
        self.cursor = min(self.cursor, len(self.rows_now) - 1)
        self.caret = len(self.current.text)
        self.redraw()
        self.post_message(self.Edited())

    def _write(self, text: str, caret: int) -> None:
        self.form = self.form.with_text(self.current.key, text)
        self.rows_now = fields.rows(self.form)
        self.caret = max(0, min(caret, len(self.current.text)))
        self.redraw()
        self.post_message(self.Edited())

    def move_to(self, index: int, direction: int = 1) -> None:
        super().move_to(index, direction)
        self.caret = len(self.current.text)
        self.redraw()
        self.post_message(self.Edited())

    def turn(self, by: int) -> None:
        """The next choice."""
        choices, text = self.current.choices, self.current.text
        place = choices.index(text) if text in choices else -by
        self._write(choices[(place + by) % len(choices)], 0)

    def to_default(self) -> None:
        """The row as the manifest has it."""
        self._write(self.current.default, len(self.current.default))

    def type(self, text: str) -> None:
        """Puts text where the caret stands."""
        if not self.current.choices:
            before = self.current.text
            self._write(before[: self.caret] + text + before[self.caret :], self.caret + len(text))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.type(clean_line(event.text))

    def on_key(self, event: events.Key) -> None:
        if self._take(event):
            event.stop()
            event.prevent_default()

    def _take(self, event: events.Key) -> bool:
        key, text, caret, choices = event.key, self.current.text, self.caret, self.current.choices
        if key in ("up", "down"):
            self.move_to(self.cursor + (1 if key == "down" else -1), 1 if key == "down" else -1)
        elif key in ("pageup", "pagedown"):
            self.move_to(self.cursor + (self.rows if key == "pagedown" else -self.rows))
        elif choices and key in ("left", "right", "space"):
            self.turn(-1 if key == "left" else 1)
        elif choices and event.is_printable:
            return True  # nothing can be typed here, and the app's own keys must not be met
        elif key in ("left", "right", "home", "end"):
            places = {"left": caret - 1, "right": caret + 1, "home": 0, "end": len(text)}
            self.caret = max(0, min(places[key], len(text)))
            self.redraw()
        elif key == "backspace":
            self._write(text[: max(caret - 1, 0)] + text[caret:], caret - 1)
        elif key == "delete":
            self._write(text[:caret] + text[caret + 1 :], caret)
        elif key == "ctrl+u":
            self._write("", 0)
        elif event.is_printable and event.character:
            self.type(event.character)
        else:
            return False
        return True


def _value(row: Row, width: int, caret: int | None, *, turned: bool) -> list[Piece]:
    """What is typed, in exactly `width` cells, with the caret if it is here."""
    role = "bad" if row.error else "strong" if row.changed else ""
    if row.choices:
        return [(fit(f"‹ {row.text} ›" if turned else row.text, width), role)]
    if caret is None:
        return [(fit(row.text, width), role)]
    caret = min(caret, len(row.text))
    begin = max(caret - width + 1, 0)
    # Character by character, so that the caret stays where it is.
    shown = "".join(one if one.isprintable() else "?" for one in row.text[begin:]) + " "
    at = caret - begin
    return list(crop(((shown[:at], role), (shown[at], f"{role} caret".strip()), (shown[at + 1 :], role)), width))


class FormNote(Drawing):
    """What the row under the cursor takes, or what is wrong with it; and the keys."""

    def __init__(self, rows: FormRows, last: Request | None) -> None:
        super().__init__()
        self._rows, self._last = rows, last

    def build(self, width: int, height: int) -> Sequence[Line]:
        row = self._rows.current
        if row.error:
            told, role = row.error, "bad"
        else:
            told, role = f"{row.help}; default {row.default}" if row.changed else row.help, "dim"
        lines: list[Line] = [((text, role),) for text in wrap(told, width)[: height - 1]]
        lines += [()] * (height - 1 - len(lines))
        keys = [("enter", "start"), ("esc", "leave")]
        keys += [("← →", "choose")] if row.choices else []
        keys += [("ctrl+l", "as last time")] if self._last is not None else []
        keys += [("ctrl+d", "default")]
        return [*lines, _fitting(keys, width)]


def _fitting(keys: Sequence[tuple[str, str]], width: int) -> Line:
    pieces: list[Piece] = []
    for key, what in keys:
        more: list[Piece] = [("   " if pieces else "", ""), (key, "accent"), (f" {what}", "dim")]
        if cells(pieces) + cells(more) <= width:
            pieces += more
    return tuple(pieces)


class FormScreen(ModalScreen[Wish | None]):
    """Answers with what should be started, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", show=False),
        Binding("escape", "dismiss(None)", show=False),
        Binding("ctrl+l", "as_last_time", show=False),
        Binding("ctrl+d", "default", show=False),
    ]

    def __init__(self, form: Form, last: Request | None) -> None:
        super().__init__()
        self.rows = FormRows(form)
        self.note = FormNote(self.rows, last)
        self._last = last

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield self.rows
            yield self.note

    def on_mount(self) -> None:
        self._lay_out()
        self.rows.focus()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = room(self.app.size)
        width = min(width, WIDEST)
        note = 3 if height < 12 else 4
        self.rows.styles.width = self.note.styles.width = width
        self.rows.styles.height = min(self.rows.length() + 1, max(height - note, 2))
        self.note.styles.height = note

    def on_form_rows_edited(self) -> None:
        self.note.redraw()

    def action_start(self) -> None:
        bad = fields.wrong(self.rows.form)
        if bad is not None:
            self.rows.move_to(self.rows.rows_now.index(bad))
        else:
            self.dismiss(fields.wish_of(self.rows.form))

    def action_as_last_time(self) -> None:
        if self._last is not None:
            self.rows.set_form(fields.as_last_time(self.rows.form, self._last))

    def action_default(self) -> None:
        self.rows.to_default()
