"""What a person does to a run: stop it, ask for its stacks, remove it. Reads folders and signals agents, no more."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Callable

from labtui.runs import lost, ownership, process, state
from labtui.runs.folder import RUN_ID, RunFolder, read_json
from labtui.runs.records import QUEUED, Document, RecordError, Status


class ControlError(ValueError):
    """What was asked of a run can't be done. The message is one sentence."""


def stop(folder: RunFolder) -> Status:
    """Asks the run's agent to stop it and returns at once with the status as it was.

    A queued run that nobody owns yet is ended here. Raises ControlError where it has ended, or isn't ours to stop;
    RecordError.
    """
    status = lost.bury(folder)
    if not status.live:
        raise ControlError(f"{folder.id} has ended already: {status.state}, {status.reason}")
    _refuse_others(folder)
    if status.agent is None:
        if ownership.claim_and_end(folder, "stopped before it started"):
            return status
        # Its turn has just come: the agent has written its name by now, or will in a moment.
        status = _wait_for(folder, lambda now: now.agent is not None or not now.live, 5.0)
    _signal_agent(folder, status, signal.SIGTERM)
    return status


def _refuse_others(folder: RunFolder) -> None:
    if not ownership.is_ours(folder):
        raise ControlError(f"{folder.id} belongs to {ownership.owner_name(folder)}: only they can do that")


def _signal_agent(folder: RunFolder, status: Status, number: int) -> None:
    if status.agent is None or status.agent.host != os.uname().nodename:
        host = status.agent.host if status.agent is not None else "another host"
        raise ControlError(f"{folder.id} runs on {host}: ask there")
    if not process.send(status.agent.pid, status.agent.start, number) and state.owner_alive(status.agent):
        raise ControlError(f"the agent of {folder.id} (pid {status.agent.pid}) can't be signalled from here")


def _wait_for(folder: RunFolder, condition: Callable[[Status], bool], seconds: float) -> Status:
    deadline = time.monotonic() + seconds
    while True:
        status = state.observe(folder)
        if condition(status) or time.monotonic() > deadline:
            return status
        time.sleep(0.05)


def wait(folder: RunFolder) -> Status:
    """Waits until the run has ended *and* its agent is gone; returns its last word. Raises RecordError."""
    while not over(status := lost.bury(folder)):
        pause(status, 0.2)
    return status


def over(status: Status) -> bool:
    """Whether the run has its last word, and its agent is gone."""
    return not status.live and (status.agent is None or not state.owner_alive(status.agent))


def pause(status: Status, seconds: float) -> None:
    """Waits that long, or until the run's agent ends."""
    if status.agent is not None and state.owner_alive(status.agent):
        try:
            pidfd = os.pidfd_open(status.agent.pid)
        except OSError:
            pass  # it has just gone, or the kernel is old
        else:
            try:
                select.select([pidfd], [], [], seconds)
            finally:
                os.close(pidfd)
            return
    time.sleep(min(seconds, 0.05))


def request_stacks(folder: RunFolder, timeout_s: float = 15) -> Document:
    """Has the agent write the stacks of all ranks; returns stacks/summary.json. Raises ControlError, RecordError."""
    status = lost.bury(folder)
    if not status.live or status.state == QUEUED:
        raise ControlError(f"{folder.id} is {status.state}: only running ranks have stacks")
    _refuse_others(folder)
    before = _summary_time(folder)
    _signal_agent(folder, status, signal.SIGUSR1)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if _summary_time(folder) != before:
            summary: Document = read_json(folder.stacks_summary)
            return summary
        if not state.observe(folder).live:
            raise ControlError(f"{folder.id} ended before its stacks were read")
        time.sleep(0.05)
    raise ControlError(f"the agent of {folder.id} did not answer within {timeout_s:g} s")


def _summary_time(folder: RunFolder) -> int:
    try:
        return folder.stacks_summary.stat().st_mtime_ns
    except OSError:
        return 0


def remove(folder: RunFolder) -> None:
    """Deletes the run's folder. Raises ControlError where it is live, is no run's, or can't be deleted."""
    try:
        status = lost.bury(folder)
    except RecordError as error:
        # An unreadable run may go, too; but many a program keeps a run.json of its own, even beside its sources.
        if not RUN_ID.fullmatch(folder.path.name):
            raise ControlError(f"{folder.path} is not deleted, since it is no run: {error}") from error
        status = None
    if status is not None and status.live:
        raise ControlError(f"{folder.id} is {status.state}: stop it first (labtui stop {folder.id})")
    if folder.path.is_symlink():
        raise ControlError(f"{folder.path} is not deleted: it is a link to {folder.path.resolve()}")
    try:
        shutil.rmtree(folder.path)
    except OSError as error:
        raise ControlError(f"{folder.path} can't be deleted: {error.strerror or error}") from error
