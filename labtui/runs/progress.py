"""How far a reader is in each guide: the step, which runs belong to its blocks, guesses and answers. Per user.

A JSON file per experiment in the user's data folder. Reading never fails: what can't be read counts as not begun. No
step is ever locked, so this is for resuming and for showing, not for deciding what may be done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labtui.charts import number
from labtui.runs.folder import read_json, write_json
from labtui.runs.records import RecordError

_MOST = 1000
"""Entries of a kind; no guide has so many blocks."""


@dataclass(frozen=True)
class Progress:
    """A reader's place in one guide. Keys of guesses and answers are the blocks' own texts, so that a guide which
    is edited keeps what still fits."""

    step: int = 0
    runs: Mapping[str, str] = field(default_factory=dict)
    """Run block's id -> the id of its newest run."""
    guesses: Mapping[str, float] = field(default_factory=dict)
    """What a predict block asks -> what the reader guessed."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """A quiz's question -> a number, or the places of the choices, as last answered."""
    skipped: tuple[str, ...] = ()
    """What was to be guessed or answered, and was asked to be shown without."""

    def at(self, step: int) -> Progress:
        return replace(self, step=step)

    def with_run(self, block: str, run: str) -> Progress:
        return replace(self, runs={**self.runs, block: run})

    def with_guess(self, ask: str, guess: float) -> Progress:
        return replace(self, guesses={**self.guesses, ask: guess})

    def with_answer(self, question: str, answer: Any) -> Progress:
        return replace(self, answers={**self.answers, question: answer})

    def with_skipped(self, text: str) -> Progress:
        return replace(self, skipped=tuple(dict.fromkeys((*self.skipped, text))))


def file_of(experiment: str) -> Path:
    """Where the progress in that experiment's guide is kept."""
    import platformdirs

    name = experiment if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", experiment) else "unnamed"
    return Path(platformdirs.user_data_dir("labtui")) / "guides" / f"{name}.json"


def read(experiment: str) -> Progress:
    """The reader's progress; that of a beginner where there is none, or none that can be read."""
    try:
        content = read_json(file_of(experiment))
    except RecordError:
        return Progress()
    if not isinstance(content, dict):
        return Progress()
    step, skipped = content.get("step"), content.get("skipped")
    return Progress(
        step=step if type(step) is int and 0 <= step < _MOST else 0,
        runs={key: value for key, value in _entries(content, "runs") if isinstance(value, str)},
        guesses={key: real for key, value in _entries(content, "guesses") if (real := number(value)) is not None},
        answers={key: value for key, value in _entries(content, "answers") if _is_answer(value)},
        skipped=tuple(text for text in skipped[:_MOST] if isinstance(text, str)) if isinstance(skipped, list) else (),
    )


def write(experiment: str, progress: Progress) -> None:
    """Keeps it. Raises OSError."""
    path = file_of(experiment)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "step": progress.step,
        "runs": dict(progress.runs),
        "guesses": dict(progress.guesses),
        "answers": dict(progress.answers),
        "skipped": list(progress.skipped),
    }
    write_json(path, document)


def _entries(content: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    found = content.get(key)
    return list(found.items())[:_MOST] if isinstance(found, dict) else []


def _is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= 9 and all(type(item) is int for item in value)
    return number(value) is not None
