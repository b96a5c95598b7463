"""Says that a watched run has ended, to somebody who looks elsewhere: the bell, and the terminal's title."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from textual.app import App

from labtui.runs.clean import clean_line
from labtui.tui import plain, words

LONGEST = 60
_NO_TITLE = ("", "dumb", "linux", "ansi", "cons25", "vt52", "vt100", "vt102", "vt220")
"""Terminals that have none, and might print what should set it."""


def has_title(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal has a title."""
    return environment.get("TERM", "") not in _NO_TITLE


def title_sequence(title: str, *, ascii: bool = False) -> str:
    """OSC 2: names the window. Nothing in it can end it early."""
    shown = clean_line(title)[:LONGEST]
    if ascii:
        shown = shown.encode("ascii", "replace").decode()
    return f"\x1b]2;{shown}\x07"


PUSH, POP = "\x1b[22;2t", "\x1b[23;2t"
"""Keep the title that was there, and bring it back (xterm's window operations; who doesn't know them ignores them)."""


def set_title(app: App[Any], title: str) -> None:
    """Names the terminal's window, if it has one."""
    driver = app._driver
    if driver is None or app.is_headless or not has_title():
        return
    if app not in _named:
        _named.add(app)
        driver.write(PUSH)
    driver.write(title_sequence(title, ascii=plain.needs_ascii()))


def give_title_back(app: App[Any]) -> None:
    """To be called before the app leaves the terminal."""
    if app in _named and app._driver is not None:
        app._driver.write(title_sequence("") + POP)
        _named.discard(app)


_named: WeakSet[App[Any]] = WeakSet()
"""Apps that have set a title."""


@dataclass
class Watched:
    """The run that is on the Run screen, as far as the bell is concerned."""

    id: str = ""
    state: str = ""
    live: bool = False

    def tell(self, id: str, name: str, state: str, *, live: bool) -> tuple[str, bool]:
        """The title for how the run is now (empty: leave it), and whether the bell should ring: once, at its end."""
        before, self.id, self.state, self.live = (self.id, self.state, self.live), id, state, live
        same, was_live = before[0] == id, before[2]
        if same and before[1] == state:
            return "", False
        ended = same and was_live and not live
        if not live and not ended and not before[0]:
            return "", False  # it was over before anybody watched
        return f"{words.mark(state)[0].strip()} {name} {words.state_name(state)} - labtui", ended
