"""What is written about a run, as frozen data: run.json, status.json, labels.json.

Field names are contracts (other programs read them). Readers ignore fields they do not know, so that a run
written by a newer labtui can still be looked at; a field of the wrong type raises RecordError with its name.
This module reads and writes no files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

SCHEMA = 1

QUEUED, STARTING, RUNNING = "queued", "starting", "running"
SUCCEEDED, FAILED, STOPPED, TIMED_OUT, LOST = "succeeded", "failed", "stopped", "timed_out", "lost"
LIVE = frozenset({QUEUED, STARTING, RUNNING})
_BEYOND = 2**63
"""No pid, exit code or time is that large, and SQLite can't keep it."""
ENDED = frozenset({SUCCEEDED, FAILED, STOPPED, TIMED_OUT, LOST})

EXIT_CODES = {SUCCEEDED: 0, FAILED: 1, LOST: 1, STOPPED: 3, TIMED_OUT: 124}
"""The exit code of `labtui run` (and of `stop` and `show --wait`) by the state in which the run ended."""

Document = dict[str, Any]


class RecordError(ValueError):
    """A record is missing, torn or holds a field of the wrong type. The message is one sentence."""


class Record:
    """Base of what is written: turns itself into a JSON document and is read back from one."""

    TYPES: ClassVar[dict[str, tuple[type, ...]]] = {}
    """Field -> JSON types it may have. int stands for itself, float for any number."""

    def document(self) -> Document:
        """This record as plain JSON data."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.document()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _known(cls: type[Record], document: Any, what: str) -> Document:
    """The fields of `document` that `cls` knows, each checked against TYPES."""
    if not isinstance(document, dict):
        raise RecordError(f"{what} is no JSON object")
    known: Document = {}
    for name, types in cls.TYPES.items():
        if name not in document:
            continue
        value = document[name]
        wrong_bool = isinstance(value, bool) and bool not in types
        if wrong_bool or not isinstance(value, types):
            allowed = " or ".join("null" if t is type(None) else t.__name__ for t in types)
            raise RecordError(f"{what}: {name} is {type(value).__name__}, {allowed} expected")
        if isinstance(value, int | float) and not (abs(value) < _BEYOND and math.isfinite(value)):
            shown = value if isinstance(value, float) or abs(value) < 10**60 else "a number of many digits"
            raise RecordError(f"{what}: {name} is {shown}, which can't be")
        known[name] = tuple(value) if isinstance(value, list) else value
    return known


def _all(kind: type, values: Any, what: str) -> None:
    """Raises RecordError where one of several values is of another kind."""
    for value in values.values() if isinstance(values, dict) else values:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            words: dict[type, str] = {dict: "an object", str: "text"}
            expected = words.get(kind, kind.__name__)
            raise RecordError(f"{what} holds {type(value).__name__}, {expected} expected")


_NONE = type(None)
_NUMBER = (int, float)


@dataclass(frozen=True)
class Limits(Record):
    """Bounds of a run, in seconds; None means unbounded.

    timeout_s bounds the whole run, stall_s the time without an event or a byte of output from any rank.
    """

    timeout_s: float | None = None
    stall_s: float | None = None

    TYPES = {"timeout_s": (*_NUMBER, _NONE), "stall_s": (*_NUMBER, _NONE)}


class _Link(Record):
    """What readers rely on of a shaped link."""

    TYPES = {"rate_bits": _NUMBER, "model": (str,)}


@dataclass(frozen=True)
class Request(Record):
    """run.json: what was asked for. Written once, by whoever starts the run."""

    id: str
    experiment: str
    command: tuple[str, ...]
    python: str
    host: str
    user: str
    uid: int
    created: float
    variant: str = ""
    group: str | None = None
    next: str | None = None
    """The run of the same group that this run's agent starts when it has ended."""
    parameters: Document = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    """What this run's variant and user set, and what the allow-list found set; secrets masked."""
    link: Document | None = None
    nproc: int | None = None
    """Processes (world size); None where only the user's own command knows."""
    nnodes: int = 1
    device: str | None = None
    """"cpu" or "cuda"; None where only the user's own command knows."""
    launch: str = "torchrun"
    """"torchrun", "python", or "command" for the user's own."""
    directory: str | None = None
    """Working folder of the ranks."""
    limits: Limits = Limits()
    expect_failure: tuple[str, ...] = ()
    share: bool = False
    queue: bool = False
    fail_fast: bool = False
    quiet_nccl: bool = False
    """NCCL's log settings are left as the user has them."""
    profile: Document | None = None
    """The machine profile that predictions use (see `profile`)."""
    labtui: str = ""
    git: Document | None = None
    schema: int = SCHEMA

    TYPES = {
        "id": (str,), "experiment": (str,), "command": (list,), "python": (str,), "host": (str,), "user": (str,),
        "uid": (int,), "created": _NUMBER, "variant": (str,), "group": (str, _NONE), "next": (str, _NONE),
        "parameters": (dict,), "environment": (dict,), "link": (dict, _NONE), "nproc": (int, _NONE),
        "nnodes": (int,), "device": (str, _NONE), "launch": (str,), "directory": (str, _NONE), "limits": (dict,),
        "expect_failure": (list,), "share": (bool,), "queue": (bool,), "fail_fast": (bool,), "quiet_nccl": (bool,),
        "profile": (dict, _NONE), "labtui": (str,), "git": (dict, _NONE), "schema": (int,),
    }  # fmt: skip

    @classmethod
    def read(cls, document: Any) -> Request:
        """Raises RecordError where `document` is no run.json that this labtui understands."""
        known = _known(cls, document, "run.json")
        if known.get("schema", SCHEMA) > SCHEMA:
            raise RecordError(f"run.json has schema {known['schema']}, this labtui reads up to {SCHEMA}: update it")
        if "limits" in known:
            known["limits"] = Limits(**_known(Limits, known["limits"], "run.json: limits"))
        for name in ("command", "environment", "expect_failure"):
            _all(str, known.get(name, ()), f"run.json: {name}")
        link = known.get("link")
        if link is not None:
            _known(_Link, link, "run.json: link")
            if "rate_bits" not in link or not link["rate_bits"] > 0:
                raise RecordError("run.json: link has no rate_bits above 0")
        try:
            return cls(**known)
        except TypeError:
            needed = ("id", "experiment", "command", "python", "host", "user", "uid", "created")
            missing = ", ".join(name for name in needed if name not in known)
            raise RecordError(f"run.json lacks {missing}") from None


@dataclass(frozen=True)
class Owner(Record):
    """The agent of a run: a process is pid and start time on one boot of one host."""

    pid: int
    start: int
    boot_id: str
    host: str

    TYPES = {"pid": (int,), "start": (int,), "boot_id": (str,), "host": (str,)}


@dataclass(frozen=True)
class RunProcess(Record):
    """A process of a run. `start` is field 22 of /proc/PID/stat (clock ticks since boot)."""

    role: str
    """"torchrun", "python", "command", "sampler" or "rank"."""
    pid: int | None
    """None where the process ended before anybody saw it: then only its output is known."""
    start: int | None
    rank: int | None = None
    local_rank: int | None = None
    stdout: str | None = None
    """Path of its output, relative to the run folder."""
    stderr: str | None = None
    stacks: str | None = None
    """How its Python stacks can be had: "signal", "socket", "py-spy" or None."""

    TYPES = {
        "role": (str,), "pid": (int, _NONE), "start": (int, _NONE), "rank": (int, _NONE), "local_rank": (int, _NONE),
        "stdout": (str, _NONE), "stderr": (str, _NONE), "stacks": (str, _NONE),
    }  # fmt: skip

    def document(self) -> Document:
        document = super().document()
        if self.role != "rank":
            return {name: document[name] for name in ("role", "pid", "start")}
        return document


@dataclass(frozen=True)
class Status(Record):
    """status.json: how the run is. Replaced atomically, by its agent only.

    The three lists are filled by the agent's last word, so that nobody needs to read the events afterwards.
    """

    state: str
    created: float
    reason: str = ""
    exit_code: int | None = None
    """Exit code of the launched command; None while it runs, or when a signal ended it."""
    attempt: int = 0
    agent: Owner | None = None
    processes: tuple[RunProcess, ...] = ()
    started: float | None = None
    ended: float | None = None
    events: dict[str, int] = field(default_factory=dict)
    checks: tuple[Document, ...] = ()
    predictions: tuple[Document, ...] = ()
    results: tuple[Document, ...] = ()

    TYPES = {
        "state": (str,), "created": _NUMBER, "reason": (str,), "exit_code": (int, _NONE), "attempt": (int,),
        "agent": (dict, _NONE), "processes": (list,), "started": (*_NUMBER, _NONE), "ended": (*_NUMBER, _NONE),
        "events": (dict,), "checks": (list,), "predictions": (list,), "results": (list,),
    }  # fmt: skip

    @classmethod
    def read(cls, document: Any) -> Status:
        """Raises RecordError where `document` is no status.json."""
        known = _known(cls, document, "status.json")
        if known.get("state") not in LIVE | ENDED:
            raise RecordError(f"status.json: state is {known.get('state')!r}, a known state expected")
        for name in ("checks", "predictions", "results"):
            _all(dict, known.get(name, ()), f"status.json: {name}")
        _all(int, known.get("events", {}), "status.json: events")
        try:
            if known.get("agent") is not None:
                known["agent"] = Owner(**_known(Owner, known["agent"], "status.json: agent"))
            known["processes"] = tuple(
                RunProcess(**_known(RunProcess, process, "status.json: processes"))
                for process in known.get("processes", ())
            )
            return cls(**known)
        except TypeError as error:
            raise RecordError(f"status.json lacks a field: {error}") from None

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def ranks(self) -> tuple[RunProcess, ...]:
        """The rank processes, by rank."""
        ranks = (process for process in self.processes if process.role == "rank")
        return tuple(sorted(ranks, key=lambda process: process.rank if process.rank is not None else -1))

    def seconds(self, now: float) -> float | None:
        """Wall time of the run so far, or in all; None before it started."""
        if self.started is None:
            return None
        return max(0.0, (self.ended if self.ended is not None else now) - self.started)


@dataclass(frozen=True)
class Labels(Record):
    """labels.json: what a person says about a run."""

    tags: tuple[str, ...] = ()
    note: str = ""
    star: bool = False

    TYPES = {"tags": (list,), "note": (str,), "star": (bool,)}

    @classmethod
    def read(cls, document: Any) -> Labels:
        """Raises RecordError where `document` is no labels.json."""
        known = _known(cls, document, "labels.json")
        _all(str, known.get("tags", ()), "labels.json: tags")
        return cls(**known)
