"""Small questions over a screen: which variant, and whether something is really meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.screen import ModalScreen

from labtui.catalog.manifest import Experiment, Variant
from labtui.tui.lines import Line, Piece, fit, with_role, wrap
from labtui.tui.widgets.drawing import Drawing
from labtui.tui.widgets.pane import Choice

WIDTH = 64


def room(size: Size) -> tuple[int, int]:
    """Columns and lines inside a dialog on a screen of that size: see `.dialog` in the style sheet."""
    return max(int(size.width * 0.9) - 4, 10), max(int(size.height * 0.9) - 2, 3)


class VariantList(Choice):
    """The default and the manifest's variants."""

    title = "Variants"

    def __init__(self, experiment: Experiment, chosen: str) -> None:
        super().__init__()
        self.title = f"Variants of {experiment.title}"
        self.variants: tuple[Variant, ...] = (experiment.variant(""), *experiment.variants)
        self.cursor = next((n for n, variant in enumerate(self.variants) if variant.name == chosen), 0)

    def facts(self) -> Sequence[Piece]:
        return [("enter chooses", "dim")]

    def length(self) -> int:
        return len(self.variants)

    def row(self, index: int, width: int, *, chosen: bool) -> Line:
        variant = self.variants[index]
        title = variant.title if variant.name else "as the manifest has it"
        title += f"  ({' or '.join(variant.devices)} only)" if len(variant.devices) == 1 else ""
        title += "  (a check is meant to fail)" if variant.expect_failure else ""
        name = variant.name or "default"
        names = min(max(len(one.name) for one in self.variants), 24)
        line: Line = (
            ("› " if chosen else "  ", "accent"),
            (fit(name, names), "strong" if chosen else ""), ("  ", ""), (fit(title, width - names - 4), "dim"),
        )  # fmt: skip
        return with_role(line, "cursor") if chosen else line


class ChooseVariant(ModalScreen[str | None]):
    """Answers with the variant's name, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", show=False),
        Binding("escape,q,v", "dismiss(None)", show=False),
    ]

    def __init__(self, experiment: Experiment, chosen: str) -> None:
        super().__init__()
        self._list = VariantList(experiment, chosen)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield self._list

    def on_mount(self) -> None:
        width, height = room(self.app.size)
        self._list.styles.width = min(width, 90)
        self._list.styles.height = min(self._list.length() + 1, height)
        self._list.focus()

    def on_choice_picked(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self._list.variants[self._list.cursor].name)


class Question(Drawing):
    """A sentence, and the two keys that answer it."""

    def __init__(self, sentence: str, yes: str, width: int) -> None:
        super().__init__()
        self.sentences = wrap(sentence, width)
        self._yes = yes

    def build(self, width: int, height: int) -> Sequence[Line]:
        answer: Line = (("y", "accent"), (f" {self._yes}     ", ""), ("n", "accent"), (" no", ""))
        return [*(((text, ""),) for text in self.sentences), (), answer]


class Confirm(ModalScreen[bool]):
    """Answers whether it is really meant."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q", "dismiss(False)", show=False),
    ]

    def __init__(self, sentence: str, yes: str) -> None:
        super().__init__()
        self._sentence, self._yes = sentence, yes

    def compose(self) -> ComposeResult:
        width = min(room(self.app.size)[0], WIDTH)
        question = Question(self._sentence, self._yes, width)
        question.styles.width = width
        question.styles.height = len(question.sentences) + 2
        with Vertical(classes="dialog"):
            yield question
