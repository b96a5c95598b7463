"""The run folder: its names, atomic writes, reading its records.

Nothing here starts, signals or interprets anything; see `state` for what a status means now.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labtui.runs.json_text import MOST_IN_FILE, parse
from labtui.runs.records import QUEUED, Labels, RecordError, Request, Status

LARGEST_RECORD = 4 << 20
"""Bytes; a larger file is none that we wrote."""
RUN_ID = re.compile(r"\d{8}-\d{6}-[A-Za-z0-9_.-]+-[0-9a-f]{4}")


class LogsError(OSError):
    """`logs/` can't be used. The message is one sentence."""


def logs_root() -> Path:
    """Where run folders live: $LABTUI_LOGS, else logs/ of labtui's own checkout, else the user's data folder."""
    if os.environ.get("LABTUI_LOGS"):
        return Path(os.environ["LABTUI_LOGS"]).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "logs").is_dir():
        return checkout / "logs"
    import platformdirs

    return Path(platformdirs.user_data_dir("labtui")) / "logs"


@dataclass(frozen=True)
class RunFolder:
    """Paths inside one run's folder."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name.removeprefix(".")  # the dot of a folder that is only being made

    @property
    def request_file(self) -> Path:
        return self.path / "run.json"

    @property
    def status_file(self) -> Path:
        return self.path / "status.json"

    @property
    def machine_file(self) -> Path:
        return self.path / "machine.json"

    @property
    def labels_file(self) -> Path:
        return self.path / "labels.json"

    @property
    def agent_log(self) -> Path:
        """Created by the owner, exclusively: whoever creates it owns the run's last word."""
        return self.path / "agent.log"

    @property
    def output(self) -> Path:
        """What the launched command itself printed (torchrun's own words, not its ranks')."""
        return self.path / "output.log"

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def telemetry(self) -> Path:
        return self.path / "telemetry"

    @property
    def ranks(self) -> Path:
        return self.path / "ranks"

    @property
    def nccl(self) -> Path:
        """NCCL's raw logs, one per process."""
        return self.path / "nccl"

    @property
    def nccl_file(self) -> Path:
        """nccl.json: the paths read from them."""
        return self.path / "nccl.json"

    @property
    def stacks(self) -> Path:
        return self.path / "stacks"

    @property
    def stacks_summary(self) -> Path:
        """stacks/summary.json: what the last look at the stacks found."""
        return self.stacks / "summary.json"

    def rank_events(self, rank: int) -> Path:
        return self.events / f"rank{rank}.jsonl"

    def sibling(self, run_id: str) -> RunFolder:
        """The folder of another run in the same place, as a group's runs name each other. Raises RecordError where
        that is no run's id: it must not lead anywhere else."""
        if not RUN_ID.fullmatch(run_id):
            raise RecordError(f"run.json names {run_id[:60]!r} as a run of its group, which is no run's id")
        return RunFolder(self.path.parent / run_id)

    def inside(self, relative: str) -> Path | None:
        """The path of something in this folder; None where it would lead out of it, links followed (a status.json that
        somebody sent may say anything)."""
        path = self.path / relative
        try:
            return path if path.resolve().is_relative_to(self.path.resolve()) else None
        except (OSError, RuntimeError, ValueError):  # links in a circle; NUL, or half a character
            return None

    def request(self) -> Request:
        """run.json. Raises RecordError."""
        return Request.read(read_json(self.request_file))

    def status(self) -> Status:
        """status.json as it was written (see `state.observe` for what is true now). Raises RecordError.

        A folder whose starter was ended between its two writes has only run.json: that is a queued run.
        """
        if not self.status_file.exists() and self.request_file.exists():
            return Status(state=QUEUED, created=self.request().created)
        return Status.read(read_json(self.status_file))

    def labels(self) -> Labels:
        """labels.json, or empty labels. Raises RecordError."""
        if not self.labels_file.exists():
            return Labels()
        return Labels.read(read_json(self.labels_file))


def new_id(experiment: str, now: float) -> str:
    """A run id: UTC time, experiment, four random hex digits."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stamp}-{experiment}-{os.urandom(2).hex()}"


def stage(root: Path, experiment: str, now: float) -> RunFolder:
    """A new run's folder under a hidden name, so that whoever lists `root` sees a whole run or none.

    With another suffix if the id is taken. Raises LogsError.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        while True:
            folder = RunFolder(root / f".{new_id(experiment, now)}")
            try:
                folder.path.mkdir()
            except FileExistsError:
                continue
            if (root / folder.id).exists():
                folder.path.rmdir()
                continue
            for inside in (folder.events, folder.telemetry, folder.ranks, folder.stacks):
                inside.mkdir()
            return folder
    except OSError as error:
        raise LogsError(f"{root} can't be written ({error.strerror}): set LABTUI_LOGS to a folder of yours") from error


def publish(staged: RunFolder) -> RunFolder:
    """Shows a staged folder under its id. Raises LogsError."""
    root = staged.path.parent
    try:
        return RunFolder(staged.path.rename(root / staged.id))
    except OSError as error:
        raise LogsError(f"{root / staged.id} can't be made: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """A whole JSON file of at most LARGEST_RECORD bytes. Raises RecordError, with the file's name."""
    try:
        # Without O_NONBLOCK a named pipe in its place would hold up whoever lists runs for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise RecordError(f"{path.name} can't be read: it is no file")
            if facts.st_size > LARGEST_RECORD:
                raise RecordError(f"{path.name} is too large ({facts.st_size:,} bytes)")
            with open(descriptor, "rb", closefd=False) as file:
                raw = file.read(LARGEST_RECORD)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RecordError(f"{path.name} can't be read: {error.strerror}") from error
    if not raw.strip():
        raise RecordError(f"{path.name} is empty")
    try:
        return parse(raw, MOST_IN_FILE)
    except ValueError as error:
        raise RecordError(f"{path.name} is no JSON: {error}") from error


def write_json(path: Path, document: Any) -> None:
    """Replaces a JSON file as a whole: a reader sees the old one or the new one, also after a power cut.

    Raises OSError (disk full, no permission), leaving the old file as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w") as file:
            json.dump(document, file, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
