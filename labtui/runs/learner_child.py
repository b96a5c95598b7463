"""Runs a learner's file in a process of its own and answers with one line of JSON: see `learner`, which starts it.

Started by its path with `python -I`, with the answer's file descriptor, the file, p and m as arguments. Knows nothing
of labtui. What the file prints goes to stdout and stderr as always; the answer has a pipe of its own.
"""

from __future__ import annotations

import json
import operator
import os
import resource
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

MEMORY = 4 << 30
"""Bytes of address space: a schedule needs a few MB, an endless list should not take the machine with it."""


def main() -> None:
    """Answers {"lists": what schedule(p, m) returned}, or {"fault": ...} with what there is to say of it."""
    descriptor, path, p, m = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.set_inheritable(descriptor, False)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    # Its neighbours can be imported, but don't come before Python's own: a queue.py beside it does no harm.
    sys.path.append(str(Path(path).parent))
    answer = ask(path, p, m).encode() + b"\n"
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(answer)


def ask(path: str, p: int, m: int) -> str:
    """The answer as JSON: runs the file, calls its schedule(p, m), and makes sure that the result can be sent."""
    module = ModuleType("learner_schedule")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and pickles look their module up
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), vars(module))
        schedule = vars(module).get("schedule")
        if not callable(schedule):
            others = [name for name in vars(module) if name.startswith("schedule")]
            return json.dumps({"fault": "no schedule", "has": others})
        lists = schedule(p, m)
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the file ended where an answer was expected
        where = {"type": type(error).__name__, "message": _message(error), "line": _line(error, path)}
        return json.dumps({"fault": "raises", **where})
    try:
        return '{"lists": ' + json.dumps(lists, default=_number) + "}"
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        return json.dumps({"fault": "no lists", "message": _message(error)})


def _number(value: Any) -> int:
    """numpy's integers are numbers too. Raises TypeError for what is none."""
    try:
        return int(operator.index(value))
    except TypeError:
        raise TypeError(f"there is a {type(value).__name__} in it") from None


def _message(error: BaseException) -> str:
    try:
        return str(error.msg if isinstance(error, SyntaxError) else error)[:500]
    except Exception:  # noqa: BLE001 - its own __str__ may do anything
        return ""


def _line(error: BaseException, path: str) -> int | None:
    """The line of the file in which it happened, or from which it was called."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


if __name__ == "__main__":
    main()
