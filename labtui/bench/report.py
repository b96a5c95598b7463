"""What an experiment says about itself: one JSON line per event, appended to the run folder.

Standard library only, and nothing of labtui: `from labtui.bench import report` works in any training script, from
Python 3.9 on. Under labtui ($LABTUI_RUN_DIR) the lines go to events/rank<RANK>.jsonl; elsewhere the same facts are
printed on stdout, one readable line each.

Reporting never breaks a training loop. A full disk or a missing folder is said once on stderr and the loop goes on;
a value that JSON can't hold becomes null with its reason in "why". Nothing is buffered: what was reported before a
crash is in the file. Threads and forked processes may report too.

A tensor given as a value is read with `.item()`, which waits for the GPU. Outside timed regions that is what you want.
"""

from __future__ import annotations

import faulthandler
import json
import math
import operator
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_RUN_DIR = "LABTUI_RUN_DIR"
_DEEPEST = 6  # levels of nesting that are kept in a label


# ------------------------------------------------------------------------------------------------ what can be said


def hello(versions: Mapping[str, str] | None = None, socket: str | None = None) -> None:
    """Introduces this process: its pid and start time, versions, and how its Python stacks can be had.

    Said by itself before the first event; call it to say more. `versions` is added to what is found (python, and
    torch, cuda, nccl where torch is loaded); `socket` is the path of torch's worker server in this process.

    Where nobody else uses SIGUSR1, from here on that signal writes the stacks of all threads to stacks/rank<RANK>.txt.
    """
    with _out.lock:
        _out.greeted = True
        event = _event("hello", pid=os.getpid(), start=_start_of_this_process(), stacks=_answer_sigusr1())
        event["versions"] = {**_versions(), **(versions or {})}
        if socket is not None:
            event["socket"] = socket
        _out.write(event)


def metric(name: str, value: Any, step: int | None = None, unit: str = "", **labels: Any) -> None:
    """One point of a curve over steps, such as a loss. `labels` tells curves of one name apart."""
    event = _event("metric", name=name)
    _put(event, "value", value)
    event["step"] = step
    event["unit"] = unit
    if labels:
        event["labels"] = labels
    _say(event)


def result(name: str, value: Any, unit: str = "", **labels: Any) -> None:
    """A number that this run was made to find. `labels` says of what: `result("time", 3.1, "ms", way="hooks")`."""
    event = _event("result", name=name)
    _put(event, "value", value)
    event["unit"] = unit
    event["labels"] = labels
    _say(event)


def check(
    name: str,
    value: Any = None,
    *,
    at_most: Any = None,
    at_least: Any = None,
    equal: Any = None,
    passed: bool | None = None,
) -> bool:
    """Compares a value with what it must be, reports the outcome and returns whether it passed.

    Every bound that is given must hold, and so must `passed`. Without any of them a bool is its own verdict:
    check("same loss", a == b). NaN, a missing value and a value that can't be compared fail.
    """
    event = _event("check", name=name)
    _put(event, "value", value, keep=(bool, str))
    value = event["value"]
    if event.get("why") in ("inf", "-inf"):
        value = float(event["why"])
    verdicts = [] if passed is None else [bool(passed)]
    for field, bound, holds in (
        ("at_most", at_most, operator.le),
        ("at_least", at_least, operator.ge),
        ("equal", equal, operator.eq),
    ):
        if bound is None:
            continue
        bound, why = (bound, "") if isinstance(bound, (bool, str)) else _number(bound)
        event[field] = bound
        if value is None or bound is None:
            event.setdefault("why", f"{field} is {why}" if why else "no value")
            verdicts.append(False)
            continue
        try:
            verdicts.append(bool(holds(value, bound)))
        except TypeError as error:
            event.setdefault("why", str(error))
            verdicts.append(False)
    if not verdicts:
        verdicts.append(value is True)
        if not isinstance(value, bool):
            event.setdefault("why", "no bound was given")
    event["passed"] = all(verdicts) and event.get("why") != "nan"
    _say(event)
    return bool(event["passed"])


def prediction(name: str, predicted: Any, measured: Any, unit: str = "", why: str = "") -> None:
    """What theory said beside what was found. measured=None means not measured; `why` says why not."""
    event = _event("prediction", name=name)
    _put(event, "predicted", predicted)
    _put(event, "measured", measured)
    event["unit"] = unit
    if why:
        event["why"] = why
    _say(event)


def progress(done: Any, total: Any) -> None:
    """How far this rank is: `done` of `total`, in whatever the experiment counts."""
    event = _event("progress")
    _put(event, "done", done)
    _put(event, "total", total)
    _say(event)


def note(text: str) -> None:
    """A sentence that whoever reads the numbers should know."""
    _say(_event("note", text=str(text)))


class span:
    """Reports how long its block took: `with report.span("compute", "forward"): ...`.

    A timeline draws one row per lane. The start is the wall clock, so that ranks can be laid side by side; the
    duration is measured with a monotonic clock. Also reported when the block raises.
    """

    __slots__ = ("_clock", "_start", "lane", "name")

    def __init__(self, lane: str, name: str) -> None:
        self.lane, self.name = lane, name

    def __enter__(self) -> span:
        self._start = time.time()
        self._clock = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        add_span(self.lane, self.name, self._start, self._start + time.perf_counter() - self._clock)


def add_span(lane: str, name: str, start: float, end: float) -> None:
    """A span that was timed elsewhere. `start` and `end` are seconds since the epoch."""
    event = _event("span", lane=lane, name=name)
    _put(event, "start", start)
    _put(event, "end", end)
    _say(event)


# ------------------------------------------------------------------------------------------------ events and values


def _event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"t": time.time(), "rank": _out.rank, "kind": kind, **fields}


def _say(event: dict[str, Any]) -> None:
    if not _out.greeted:
        hello()
    _out.write(event)


def _put(event: dict[str, Any], field: str, value: Any, keep: tuple[type, ...] = ()) -> None:
    """Sets a number, or null and the reason. A second reason in one event names its field."""
    if value is None or isinstance(value, keep):
        event[field] = value
        return
    event[field], why = _number(value)
    if why:
        event["why"] = why if "why" not in event else f"{event['why']}; {field} is {why}"


def _number(value: Any) -> tuple[Any, str]:
    """A value as a number that JSON holds and "", or None and why not. Tensors and numpy's scalars are numbers."""
    kind = type(value)
    if kind is int:
        return value, ""
    if kind is not float:
        if isinstance(value, (str, bytes)):
            return None, f"no number: {_text(value)}"
        try:
            if hasattr(value, "item"):
                value = value.item()
            value = int(value) if isinstance(value, int) else float(value)
        # A tensor may raise anything here, an earlier CUDA error included. It is no reason to end the training, and
        # it is not hidden: it stands in "why".
        except Exception as error:  # noqa: BLE001
            return None, f"{type(error).__name__}: {_text(error)}"
    if math.isfinite(value):
        return value, ""
    return None, "nan" if value != value else "inf" if value > 0 else "-inf"


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - somebody's broken __str__
        return f"<{type(value).__name__}>"


def _clean(value: Any, depth: int = 0) -> Any:
    """Anything as plain JSON data: what is no number, text, list or dict becomes a number or its text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {_text(key): _clean(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_clean(item, depth + 1) for item in value]
    number, why = _number(value)
    if number is None and why not in ("nan", "inf", "-inf"):
        return _text(value)
    return number


# Non-finite numbers aren't JSON. ensure_ascii=False keeps names in any language readable with grep.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_clean).encode
# Line ends to Python's splitlines() and to some editors, though not to JSON.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def _line(event: dict[str, Any]) -> bytes:
    try:
        text = _encode(event)
    except (TypeError, ValueError, RecursionError):  # a non-finite label, a key that is no string, a cycle
        text = _encode(_clean(event))
    if not text.isascii():
        text = text.translate(_LINE_ENDS)
    # A lone surrogate (from a file name, say) becomes \udcxx: a legal escape inside a JSON string.
    return (text + "\n").encode("utf-8", "backslashreplace")


# ------------------------------------------------------------------------------------------------ where it goes


class _Out:
    """This process's way out: the rank's file under labtui, else stdout."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.greeted = False
        self.fd: int | None = None
        self.torn = False  # the file may end in the middle of a line
        self.lost = 0
        self.warned = False
        self._rank: int | None = None

    @property
    def rank(self) -> int:
        # Read late: a script may set RANK itself before it starts to report.
        if self._rank is None:
            text = os.environ.get("RANK", "")
            self._rank = int(text) if text.isdecimal() else 0
        return self._rank

    def write(self, event: dict[str, Any]) -> None:
        folder = os.environ.get(_RUN_DIR)
        try:
            if not folder:
                _print(_readable(event))
                return
            if self.fd is None:
                self._open(folder)
            self._append(_line(event))
        except (OSError, ValueError) as error:  # ValueError: stdout was closed
            self.lost += 1
            self._warn(error)
            return
        if self.lost:
            lost, self.lost = self.lost, 0
            self.write(_event("note", text=f"{lost} events before this one could not be written"))

    def _open(self, folder: str) -> None:
        with self.lock:
            if self.fd is not None:
                return
            events = Path(folder, "events")
            # Never the run folder itself: a run that was removed must not come back as an empty shell.
            events.mkdir(exist_ok=True)
            # O_APPEND: each write lands whole at the end, whichever thread or forked process writes it.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            fd = os.open(events / f"rank{self.rank}.jsonl", flags, 0o666)
            size = os.fstat(fd).st_size
            # An earlier attempt of this rank may have been killed in the middle of a line.
            self.torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            self.fd = fd

    def _append(self, line: bytes) -> None:
        assert self.fd is not None
        if self.torn:
            line = b"\n" + line
        written = os.write(self.fd, line)
        # A short write means the disk is full. The rest is not sent after it: another process may have written in
        # between. A newline before the next event confines the damage to this one line.
        self.torn = written < len(line)
        if self.torn:
            raise OSError("the disk took only a part of a line")

    def _warn(self, error: Exception) -> None:
        if self.warned:
            return
        self.warned = True
        try:
            sys.stderr.write(f"labtui: rank {self.rank} can't report ({error}); it goes on without\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass  # no stderr either: nobody is left to tell


_out = _Out()


def _after_fork() -> None:
    # Another thread may have held the lock at that moment; in the child nobody would ever release it.
    _out.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _print(text: str) -> None:
    """One line on stdout in one write, so that ranks sharing a terminal don't mix inside lines."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
    except UnicodeEncodeError:
        sys.stdout.write(text.encode("ascii", "backslashreplace").decode("ascii") + "\n")
    sys.stdout.flush()


def _readable(event: dict[str, Any]) -> str:
    """An event as a line for people."""
    kind = event["kind"]
    unit = f" {event['unit']}" if event.get("unit") else ""
    why = f" ({event['why']})" if event.get("why") else ""
    if kind in ("metric", "result"):
        tail = [f"{key}={_short(value)}" for key, value in event.get("labels", {}).items()]
        if event.get("step") is not None:
            tail.append(f"step {event['step']}")
        text = f"{kind} {event['name']} = {_short(event['value'])}{unit}{why}"
        text += f"  [{', '.join(tail)}]" if tail else ""
    elif kind == "check":
        bounds = [f"{b.replace('_', ' ')} {_short(event[b])}" for b in ("at_most", "at_least", "equal") if b in event]
        text = f"check {'passed' if event['passed'] else 'FAILED'}: {event['name']}"
        text += f": {_short(event['value'])}" if event["value"] is not None else ""
        text += f", {' and '.join(bounds)}" if bounds else ""
        text += why
    elif kind == "prediction":
        text = f"prediction {event['name']}: predicted {_short(event['predicted'])}{unit}, "
        text += f"measured {_short(event['measured'])}{unit}" if event["measured"] is not None else "not measured"
        text += why
    elif kind == "progress":
        text = f"progress {event['done']} of {event['total']}"
    elif kind == "span":
        known = event["start"] is not None and event["end"] is not None
        length = f"{(event['end'] - event['start']) * 1e3:.3f} ms" if known else f"unknown{why}"
        text = f"span {event['lane']}: {event['name']}: {length}"
    elif kind == "hello":
        text = f"hello: pid {event['pid']}" + "".join(f", {k} {v}" for k, v in event["versions"].items())
    else:
        text = f"{kind}: {event.get('text', '')}"
    return f"[rank {event['rank']}] " + " ".join(text.splitlines())


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _text(value)


# ------------------------------------------------------------------------------------------------ this process


def _start_of_this_process() -> int | None:
    """Field 22 of /proc/self/stat: with the pid, this names a process for good."""
    try:
        # The command's name, in parentheses, may itself hold spaces and parentheses.
        return int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


_stacks_file: Any = None  # faulthandler keeps only the descriptor; the file must stay open


def _answer_sigusr1() -> str | None:
    """Lets SIGUSR1 write the stacks of all threads. Returns "signal", or None where that can't be had."""
    global _stacks_file
    if _stacks_file is not None:
        return "signal"
    folder = os.environ.get(_RUN_DIR)
    if not folder or signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL or _caught_outside_python(signal.SIGUSR1):
        return None  # no place for them, or the training uses the signal itself
    stacks = Path(folder, "stacks")
    try:
        stacks.mkdir(exist_ok=True)
        file = (stacks / f"rank{_out.rank}.txt").open("ab", buffering=0)
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True, chain=False)
    except (OSError, RuntimeError):
        return None
    _stacks_file = file
    return "signal"


def _caught_outside_python(number: int) -> bool:
    """Whether native code has taken this signal, of which Python's own table knows nothing."""
    try:
        for line in Path("/proc/self/status").read_bytes().splitlines():
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError):
        pass
    return False


def _versions() -> dict[str, str]:
    """python, and of torch what is known without loading or starting anything."""
    found = {"python": platform.python_version()}
    torch = sys.modules.get("torch")
    version = getattr(torch, "version", None)
    if version is None:
        return found
    found["torch"] = str(getattr(torch, "__version__", version))
    if getattr(version, "cuda", None):
        found["cuda"] = str(version.cuda)
        try:
            found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())  # type: ignore[union-attr]
        except (AttributeError, RuntimeError, TypeError):
            pass  # built without NCCL
    return found
