"""What frames every screen: the title line, the line for notices, and the footer made from the actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labtui.tui import actions
from labtui.tui.actions import Action
from labtui.tui.lines import Line, Piece, cells, crop, fit, spread
from labtui.tui.widgets.drawing import Drawing

SCREENS = (("lab", "1 Lab"), ("run", "2 Run"), ("runs", "3 Runs"), ("compare", "4 Compare"), ("simulate", "5 Simulate"),
           ("machine", "6 Machine"))  # fmt: skip


class TitleLine(Drawing):
    """The name, the screens on their digits, what runs, and the machine."""

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current
        self.live = 0
        """How many runs are alive."""
        self.machine = ""
        self.time = ""

    def build(self, width: int, height: int) -> Sequence[Line]:
        left = self._screens(SCREENS)
        if cells(left) > width:
            # Where there is no room for all names, the digits still say how to get there.
            left = self._screens([(name, text if name == self._current else text[:1]) for name, text in SCREENS])
        if cells(left) > width:
            # At least all digits, and the name of this one.
            left = [(" ", "")]
            for name, text in SCREENS:
                here = name == self._current
                left.append((f" {text if here else text.partition(' ')[0]} ", "cursor strong" if here else "dim"))
        right: list[Piece] = []
        if self.live:
            right.append((f"R {self.live} live", "live"))
        for fact in (self.machine, self.time):
            if fact:
                right += [(" · " if right else "", "dim"), (fit(fact, min(len(fact), 30)), "dim")]
        right.append((" ", ""))
        while right and cells(left) + cells(right) > width:
            right = right[:-3] + right[-1:] if len(right) > 3 else []
        return [spread(left, right, width)]

    def _screens(self, names: Sequence[tuple[str, str]]) -> list[Piece]:
        shown = [(f" {text} ", "cursor strong" if name == self._current else "dim") for name, text in names]
        return [(" labtui ", "title"), (" ", ""), *shown]


class NoticeLine(Drawing):
    """One sentence that a person should read; the line isn't there while there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.sentence = ""
        self.bad = False
        self.display = False

    def say(self, sentence: str, *, bad: bool = False) -> None:
        """Shows a sentence until the next one, or until it is cleared with an empty one."""
        self.sentence, self.bad = sentence, bad
        self.display = bool(sentence)
        self.redraw()

    def build(self, width: int, height: int) -> Sequence[Line]:
        role = "bad" if self.bad else "warn"
        return [crop(((" ", ""), ("!! " if self.bad else "", role), (fit(self.sentence, width - 5), role)), width)]


class Footer(Drawing):
    """The keys that matter here; the others are behind `?`."""

    def __init__(self) -> None:
        super().__init__()
        self.places: tuple[str, ...] = (actions.APP,)
        self.labels: Mapping[str, str] = {}
        """Other labels for some actions, by their ids, where they do something else just now; "" leaves one out."""

    def build(self, width: int, height: int) -> Sequence[Line]:
        shown = [replace(one, label=self.labels.get(one.id, one.label)) for one in actions.of(*self.places)]
        return [footer_line([action for action in shown if action.label], width)]


def footer_line(shown: Sequence[Action], width: int) -> Line:
    """As many actions as there is room for: the palette goes first, `?` and leaving stay to the last."""
    kept = list(shown)
    while kept:
        pieces: list[Piece] = [(" ", "")]
        for action in kept:
            pieces += [(actions.shown_key(action), "accent"), (f" {action.label}   ", "dim")]
        pieces[-1] = (pieces[-1][0].rstrip(), "dim")
        if cells(pieces) <= width:
            return crop(pieces, width)
        palette = [action for action in kept if action.id == "command_palette"]
        here = [action for action in kept if action.where not in (actions.APP, actions.SCREEN)]
        kept.remove((palette or here[1:] or here or kept)[-1])
    return crop((), width)
