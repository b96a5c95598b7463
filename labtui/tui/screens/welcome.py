"""The first start's page: what the lab is, its screens, five keys, and where runs are kept. Any key leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from labtui.tui.lines import Line, crop, fit, fit_middle, wrap
from labtui.tui.widgets.drawing import Drawing

_WHAT = (
    "labtui is a lab for distributed training. Each experiment states what theory predicts, runs for real with "
    "torchrun, and checks itself: on GPUs, or on CPU processes with gloo."
)
_SCREENS = (
    ("1 Lab", "experiments with their guides; what this machine does"),
    ("2 Run", "one run, live or finished: charts, paths, timeline, logs"),
    ("3 Runs", "all runs: look for, tag, mark, delete"),
    ("4 Compare", "marked runs side by side, with what differed first"),
    ("5 Simulate", "pipeline schedules to play with"),
    ("6 Machine", "links between GPUs, and what would trip up a run"),
)
_KEYS = (
    ("enter", "do what the footer says"),
    ("tab", "to the next pane"),
    ("?", "all keys of where you are"),
    ("ctrl+p", "search all commands by name"),
    ("q", "leave; runs go on without you"),
)
_SKIP = "Any key goes on to the Lab. This page comes only once."
WIDEST = 78


def page(root: Path, width: int, height: int) -> list[Line]:
    """As much of the page as there is room for: at 80 x 24 all of it, in a small terminal screens and keys only."""
    inner = min(width - 2, WIDEST)
    whole = _page(root, inner, spaced=True)
    if len(whole) > height:
        whole = _page(root, inner, spaced=False)
    if len(whole) > height:
        whole = [*_brief(inner)[: height - 1], ((_SKIP[: _SKIP.index(".") + 1], "accent"),)]
    left = (width - inner) // 2
    above = max((height - len(whole)) // 3, 0)
    return [crop((), width)] * above + [crop(((" " * left, ""), *line), width) for line in whole]


def _page(root: Path, width: int, *, spaced: bool) -> list[Line]:
    gap: list[Line] = [()] if spaced else []
    kept = "Runs are kept as plain files in "
    return [
        (("Welcome to labtui", "title"),),
        *gap,
        *(((text, ""),) for text in wrap(_WHAT, width)),
        *gap,
        *_table(_SCREENS, 12, width),
        *gap,
        *_table(_KEYS, 12, width),
        *gap,
        ((kept, ""), (fit_middle(str(root), max(width - len(kept), 12)), "strong")),
        *gap,
        ((_SKIP, "accent"),),
    ]


def _brief(width: int) -> list[Line]:
    names = "  ".join(name for name, _ in _SCREENS)
    return [
        (("Welcome to labtui", "title"),),
        *(((text, "accent"),) for text in wrap(names, width)),
        *_table(_KEYS, 8, width),
    ]


def _table(rows: Sequence[tuple[str, str]], names: int, width: int) -> list[Line]:
    return [((" ", ""), (fit(name, names), "accent"), (fit(text, width - names - 1), "")) for name, text in rows]


class Page(Drawing):
    """The page."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def build(self, width: int, height: int) -> Sequence[Line]:
        return page(self._root, width, height)


class WelcomeScreen(ModalScreen[None]):
    """Shown once, over the Lab."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._has_ended = False

    def compose(self) -> ComposeResult:
        yield Page(self._root)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self._go_on()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self._go_on()

    def _go_on(self) -> None:
        if not self._has_ended:  # two keys may come at once
            self._has_ended = True
            self.dismiss(None)
