"""A file in the user's pager, with the screen out of the way until it ends."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

DEFAULTS = ("less", "more")


class PagerError(ValueError):
    """The file can't be shown. The message is one sentence."""


def command(path: Path, environment: Mapping[str, str]) -> Sequence[str]:
    """What shows the file: $PAGER, or the first of the usual ones. No shell sees the path. Raises PagerError."""
    wanted = environment.get("PAGER", "").strip()
    try:
        words = shlex.split(wanted)
    except ValueError as error:
        raise PagerError(f"PAGER={wanted} can't be understood: {error}") from None
    if words and shutil.which(words[0]) is None:
        raise PagerError(f"PAGER={wanted}: there is no program {words[0]}")
    if not words:
        found = next((name for name in DEFAULTS if shutil.which(name)), None)
        if found is None:
            raise PagerError(f"there is no pager: neither $PAGER is set nor {' nor '.join(DEFAULTS)} is there")
        words = [found]
    # An absolute path is never taken for an option.
    return [*words, str(path.absolute())]


def show(app: App[Any], path: Path) -> None:
    """Suspends the app and shows the file. Raises PagerError."""
    if not path.is_file():
        raise PagerError(f"there is no {path.name} yet")
    shown = command(path, os.environ)
    try:
        with app.suspend():
            # ctrl+c is for the pager now. What is ignored is inherited, so the pager takes it back before it starts.
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                subprocess.run(shown, check=False, preexec_fn=_obey_ctrl_c)
            finally:
                signal.signal(signal.SIGINT, before)
    except SuspendNotSupported:
        raise PagerError("this terminal can't be left for a pager") from None
    except OSError as error:
        raise PagerError(f"{shown[0]} can't be started: {error.strerror}") from None
    app.refresh(layout=True)


def _obey_ctrl_c() -> None:
    """In the child, before it becomes the pager."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
