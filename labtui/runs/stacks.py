"""Fetching the Python stacks of a run's ranks, by whichever way each one offers.

A signal goes only to a rank that announced its handler and has it installed, since SIGUSR1 ends a process that does
not expect it. The agent calls this; what it found lies in stacks/ afterwards. Interpretation: see `hang`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from labtui.runs import hang, process
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Document, RunProcess

ANSWER_S = 2.0
APART_S = 0.2
"""Between two looks at the flight records."""


def collect(
    folder: RunFolder, ranks: Sequence[RunProcess], sockets: Mapping[int, str], *, final: bool = False
) -> Document:
    """Asks every rank, writes stacks/rank<N>.txt and stacks/summary.json, and returns the summary.

    `final` allows SIGABRT as the last means, where the rank's Python prints its stack on it; the rank ends by that.
    """
    folder.stacks.mkdir(exist_ok=True)
    # A stopped process answers nothing: waiting for it would only keep the others.
    stopped = [rank for rank in ranks if process.stopped(rank.pid, rank.start)]
    sockets = {number: path for number, path in sockets.items() if number not in {rank.rank for rank in stopped}}
    before, began = _records(sockets), time.monotonic()
    sizes = {rank.pid: _size(_stack_file(folder, rank)) for rank in ranks}
    signalled = [rank for rank in ranks if rank not in stopped and _signal(rank)]
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline and any(
        _size(_stack_file(folder, rank)) == sizes[rank.pid] for rank in signalled
    ):
        time.sleep(0.02)
    if signalled:
        time.sleep(0.02)  # a dump is several writes

    aborted = _abort(folder, [r for r in ranks if r not in signalled and _py_spy() is None]) if final else {}
    # A run that moves is told by its records changing: stacks of single moments can't be laid side by side.
    time.sleep(max(0.0, APART_S - (time.monotonic() - began)) if before else 0.0)
    records = _records(sockets)
    views = []
    for rank in ranks:
        text, how, why = "", None, ""
        if rank in signalled:
            text = _read_from(_stack_file(folder, rank), sizes[rank.pid])
            how = "signal" if text else None
        if not text and rank.rank is not None and rank.rank in sockets:
            text = _ask(sockets[rank.rank], "dump_traceback") or ""
            how = "socket" if text else None
        if (
            not text
            and rank.pid is not None
            and process.alive(rank.pid, rank.start)
            and (py_spy := _py_spy()) is not None
        ):
            text, why = _dump(py_spy, rank.pid)
            how = "py-spy" if text else None
        if not text and rank.pid in aborted:
            text, how = aborted[rank.pid], "abort"
        views.append(_view(folder, rank, records, before, text, how, why))

    summary: Document = {
        "t": time.time(),
        "sentence": hang.explain(views),
        "ranks": [
            {
                "rank": view.rank,
                "how": view.how,
                "line": str(view.place) if view.place is not None else None,
                "collective": str(view.collective) if view.collective and not view.collective.ended else None,
                "file": f"stacks/rank{view.rank}.txt" if view.stack else None,
                "why": view.why,
            }
            for view in views
        ],
    }
    with contextlib.suppress(OSError):  # a full disk must not keep the caller from the answer
        write_json(folder.stacks_summary, summary)
    return summary


def _view(
    folder: RunFolder,
    rank: RunProcess,
    records: Mapping[int, hang.Collective | None],
    before: Mapping[int, hang.Collective | None],
    text: str,
    how: str | None,
    why: str,
) -> hang.RankView:
    number = rank.rank if rank.rank is not None else -1
    stack = hang.parse_stack(text)
    if stack and how != "signal":
        with contextlib.suppress(OSError), _stack_file(folder, rank).open("a") as file:
            file.write(text if text.endswith("\n") else text + "\n")
    ended = not process.alive(rank.pid, rank.start) and how != "abort"
    if not stack and not why:
        why = "it has ended" if ended else "it announced no handler, and py-spy is not installed"
    stopped = not ended and process.stopped(rank.pid, rank.start)
    if stopped and not stack:
        why = "it is stopped (SIGSTOP): it answers nothing until SIGCONT"
    recorded = number in records and not ended
    return hang.RankView(
        number,
        stack,
        collective=records.get(number) if recorded else None,
        recorded=recorded,
        before=before.get(number) if recorded else None,
        ended=ended,
        stopped=stopped,
        how=how,
        why="" if stack else why,
    )


def _records(sockets: Mapping[int, str]) -> dict[int, hang.Collective | None]:
    """rank -> the collective that holds it, or its newest, of the ranks whose flight record could be had."""
    found: dict[int, hang.Collective | None] = {}
    for rank, path in sockets.items():
        record = _ask(path, "fr_trace_json")
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            if record is not None:
                found[rank] = hang.parse_flight_record(json.loads(record))
    return found


def _stack_file(folder: RunFolder, rank: RunProcess) -> Path:
    return folder.stacks / f"rank{rank.rank}.txt"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_from(path: Path, offset: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _signal(rank: RunProcess) -> bool:
    if rank.stacks != "signal" or not process.catches(rank.pid, signal.SIGUSR1):
        return False
    return process.send(rank.pid, rank.start, signal.SIGUSR1)


def _abort(folder: RunFolder, ranks: Sequence[RunProcess]) -> dict[int, str]:
    """SIGABRT to ranks whose Python answers it with its stack on stderr; what each printed, by pid."""
    before: dict[int, tuple[Path, int]] = {}
    for rank in ranks:
        if rank.pid is not None and rank.stderr is not None and process.catches(rank.pid, signal.SIGABRT):
            path = folder.path / rank.stderr
            before[rank.pid] = (path, _size(path))
            process.send(rank.pid, rank.start, signal.SIGABRT)
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline and any(
        process.alive(rank.pid, rank.start) for rank in ranks if rank.pid in before
    ):
        time.sleep(0.02)
    return {pid: _read_from(path, size) for pid, (path, size) in before.items()}


def _py_spy() -> str | None:
    return shutil.which("py-spy")


def _dump(py_spy: str, pid: int) -> tuple[str, str]:
    """py-spy's dump, or the reason why there is none."""
    try:
        done = subprocess.run(
            [py_spy, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"py-spy: {error}"
    if done.returncode != 0:
        words = (done.stderr.strip() or "failed").splitlines()[0]
        return "", f"py-spy: {words}"
    return done.stdout, ""


def _ask(path: str, handler: str) -> str | None:
    """One POST to torch's worker server, which answers while Python is stuck in a collective. None without answer."""
    request = f"POST /handler/{handler} HTTP/1.0\r\nHost: rank\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    chunks = []
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(path)
            connection.sendall(request.encode())
            while chunk := connection.recv(1 << 16):
                chunks.append(chunk)
    except OSError:
        pass
    head, _, body = b"".join(chunks).partition(b"\r\n\r\n")
    return body.decode(errors="replace") if b" 200 " in head.split(b"\r\n")[0] else None
