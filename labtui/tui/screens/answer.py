"""Small screens of a guide: the choices of a question, and a command that was made and copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from labtui.catalog.guide import Quiz
from labtui.runs.clean import clean
from labtui.tui.lesson_words import said
from labtui.tui.lines import Line, Piece, with_role
from labtui.tui.screens.choose import room
from labtui.tui.widgets.drawing import Drawing
from labtui.tui.widgets.pane import Choice

WIDTH = 88


class Question(Drawing):
    """What is asked."""

    def __init__(self, question: str, width: int) -> None:
        super().__init__()
        self.lines = said(question, width, "strong")

    def build(self, width: int, height: int) -> Sequence[Line]:
        return self.lines


class Answers(Choice):
    """The choices, each on as many lines as it needs."""

    title = "Your answer"

    def __init__(self, quiz: Quiz, width: int) -> None:
        super().__init__()
        self.several = len(quiz.correct) > 1
        self.picked: set[int] = set()
        # The choice, one of its lines, and whether it is the first one, on which the cursor can stand.
        self._choices: list[tuple[int, Line, bool]] = [
            (number, line, place == 0)
            for number, choice in enumerate(quiz.choices)
            for place, line in enumerate(said(choice, max(width - 8, 8)))
        ]

    @property
    def current(self) -> int:
        """The choice under the cursor."""
        return self._choices[self.cursor][0]

    def facts(self) -> Sequence[Piece]:
        marks: list[Piece] = [("space", "accent"), (" marks all that are right  ", "dim")] if self.several else []
        return [*marks, ("enter", "accent"), (" answers", "dim")]

    def length(self) -> int:
        return len(self._choices)

    def choosable(self, index: int) -> bool:
        return self._choices[index][2]

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        number, line, first = self._choices[index]
        mark = ("[x] " if number in self.picked else "[ ] ") if self.several else f"{number + 1}.  "
        row: Line = (("› " if chosen else "  ", "accent"), (mark if first else "    ", "dim"), *line)
        return with_role(row, "cursor") if self.current == number else row

    def mark(self) -> None:
        """Marks the choice under the cursor, or takes the mark away."""
        if self.several:
            self.picked ^= {self.current}
            self.redraw()


class AnswerScreen(ModalScreen[list[int] | None]):
    """Answers with the places of the chosen answers, from 0, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "answer", show=False),
        Binding("space", "mark", show=False),
        Binding("escape,q", "dismiss(None)", show=False),
    ]

    def __init__(self, quiz: Quiz) -> None:
        super().__init__()
        self._quiz = quiz

    def compose(self) -> ComposeResult:
        width, height = room(self.app.size)
        width = min(width, WIDTH)
        self._question = Question(self._quiz.question, width)
        self.answers = Answers(self._quiz, width)
        asked = min(len(self._question.lines), max(height - 4, 1))
        for widget, lines in ((self._question, asked), (self.answers, self.answers.length() + 1)):
            widget.styles.width = width
            widget.styles.height = min(lines, height - (asked if widget is self.answers else 0))
        with Vertical(classes="dialog"):
            yield self._question
            yield self.answers

    def on_mount(self) -> None:
        self.answers.focus()

    def on_choice_picked(self) -> None:
        self.action_answer()

    def action_mark(self) -> None:
        self.answers.mark()

    def action_answer(self) -> None:
        picked = self.answers.picked if self.answers.several else {self.answers.current}
        self.dismiss(sorted(picked or {self.answers.current}))


class Command(Drawing):
    """A command on as many lines as it needs, cut between words, as a shell reads it."""

    def __init__(self, command: str, short: str, width: int, height: int) -> None:
        super().__init__()
        self.lines: list[Line] = [
            (("What labtui would start", "strong"), ("  (copied, if your terminal allows it)", "dim")), (),
            *(((text, "code"),) for text in shell_lines(command, width)), (),
            *(((text, "dim"),) for text in shell_lines(f"or: {short}", width)),
        ]  # fmt: skip
        keys: Line = (("y", "accent"), (" copy again   ", "dim"), ("esc", "accent"), (" leave", "dim"))
        self.lines = [*self.lines[: height - 2], (), keys]

    def build(self, width: int, height: int) -> Sequence[Line]:
        return self.lines


def shell_lines(command: str, width: int) -> list[str]:
    """A command cut between words onto lines of at most `width` cells (a longer word is cut, too): for the eye."""
    lines: list[str] = []
    for word in clean(command).expandtabs(1).replace("\n", " ").split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width - 2:
            lines[-1] += f" {word}"
            continue
        parts = [word[n : n + width - 2] for n in range(0, len(word), width - 2)] or [""]
        lines += [("  " if lines or n else "") + part for n, part in enumerate(parts)]
    return lines


class CommandScreen(ModalScreen[None]):
    """Shows a command, which is copied when it is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,c", "copy", show=False),
        Binding("escape,q,enter", "dismiss(None)", show=False),
    ]

    def __init__(self, command: str, short: str) -> None:
        super().__init__()
        self._command, self._short = command, short

    def compose(self) -> ComposeResult:
        width, height = room(self.app.size)
        width = min(width, 120)
        shown = Command(self._command, self._short, width, height)
        shown.styles.width, shown.styles.height = width, len(shown.lines)
        with Vertical(classes="dialog"):
            yield shown

    def on_mount(self) -> None:
        self.action_copy()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._command)
