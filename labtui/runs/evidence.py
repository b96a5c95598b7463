"""What the verdict over a run rests on, gathered from its folder once its command has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from labtui.runs import closing, verdict
from labtui.runs.folder import RunFolder
from labtui.runs.ranks import RankWatch
from labtui.runs.records import Document, Request, RunProcess
from labtui.runs.tail import EventTail

_OUTPUT_END = 256 << 10
"""Bytes of an output that are looked at: errors stand at its end."""
_REFUSED = 2
"""Exit code of a script that was given what can't be. torchrun's own is 1."""


def gather(
    folder: RunFolder, request: Request, wait_status: int, watch: RankWatch, checks: Sequence[Document]
) -> verdict.Seen:
    """Everything that was seen. `wait_status` is the launched command's, as os.waitpid gives it."""
    exited = os.WIFEXITED(wait_status)
    code = os.WEXITSTATUS(wait_status) if exited else None
    output = _end_of(folder.output)
    ranks: list[verdict.RankEnd] = []
    if code != 0:
        failures = verdict.torchrun_failures(output)
        if request.launch == "python":
            failures = {0: code if code is not None else -os.WTERMSIG(wait_status)}
        ranks = [
            verdict.RankEnd(
                number,
                watch.departed.get(number),
                failures.get(number),
                _error_of(folder, rank, code),
                watch.exits.get(number),
            )
            for number, rank in sorted(watch.ranks.items())
        ]
        ranks += [verdict.RankEnd(number, None, failures[number]) for number in failures.keys() - watch.ranks.keys()]
    return verdict.Seen(
        exit_code=code,
        signal=None if exited else os.WTERMSIG(wait_status),
        launch=request.launch,
        output=output,
        ranks=ranks,
        disk_full=code != 0 and closing.disk_full(folder),
        checks=checks,
        stopped_at=_stopped_at(folder) if code == 0 and not checks and request.launch != "command" else "",
        expect_failure=request.expect_failure,
    )


def _stopped_at(folder: RunFolder) -> str:
    """How far the first rank came that did not come to its end, "rank 0 at 3 of 12"; empty where none tells."""
    tail, last = EventTail(folder), dict[int, Document]()
    while True:
        last.update((event["rank"], event) for event in tail.poll() if event["kind"] == "progress")
        if not tail.behind:
            break
    for rank, event in sorted(last.items()):
        done, total = event.get("done"), event.get("total")
        if isinstance(done, int | float) and isinstance(total, int | float) and done < total:
            return f"rank {rank} at {done:g} of {total:g}"
    return ""


def _error_of(folder: RunFolder, rank: RunProcess, exit_code: int | None) -> str:
    """The rank's error in one line, from torchrun's error file or from what it printed."""
    if rank.stderr is None:
        return ""
    stderr = folder.path / rank.stderr
    end = _end_of(stderr)
    error = error_file_line(stderr.with_name("error.json")) or verdict.last_traceback(end)
    if not error and exit_code == _REFUSED and end.strip():
        # One process without torchrun has no error file: what a script refuses (see bench.device) stands last there.
        error = f"SystemExit: {verdict.short(end.strip().splitlines()[-1])}"
    return error


def error_file_line(path: Path) -> str:
    """The error in torchrun's error.json, with its place; empty without one."""
    try:
        message = json.loads(path.read_bytes())["message"]
        if isinstance(message, str):
            return verdict.short(message.splitlines()[0]) if message else ""
        callstack = str(message.get("extraInfo", {}).get("py_callstack", ""))
        return verdict.last_traceback(callstack) or verdict.short(str(message["message"]).splitlines()[0])
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return ""


def _end_of(path: Path) -> str:
    """The last part of a text file, or nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _OUTPUT_END))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
