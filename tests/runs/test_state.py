"""What a status means now."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.runs import lost, process, state
from labtui.runs.folder import RunFolder, publish, stage, write_json
from labtui.runs.records import LOST, QUEUED, RUNNING, SUCCEEDED, Owner, RecordError, Request, Status


def request_of(folder: RunFolder, **more: object) -> Request:
    values: dict[str, object] = {
        "id": folder.id, "experiment": "x", "command": ("x",), "python": "p", "host": os.uname().nodename,
        "user": "u", "uid": os.getuid(), "created": time.time(), **more,
    }  # fmt: skip
    return Request(**values)  # type: ignore[arg-type]


def make(root: Path, status: Status | None, **more: object) -> RunFolder:
    folder = publish(stage(root, "x", time.time()))
    write_json(folder.request_file, request_of(folder, **more).document())
    if status is not None:
        write_json(folder.status_file, status.document())
    return folder


def owner(**more: object) -> Owner:
    stat = process.read_stat(os.getpid())
    assert stat is not None
    return replace(Owner(stat.pid, stat.start, process.boot_id(), os.uname().nodename), **more)  # type: ignore[arg-type]


def test_a_run_whose_agent_lives_runs(own_folders: Path) -> None:
    folder = make(own_folders, Status(RUNNING, 1.0, agent=owner()))
    assert state.observe(folder).state == RUNNING


@pytest.mark.parametrize("gone", [{"start": 1}, {"boot_id": "another"}, {"pid": 2**22 + 1}])
def test_a_run_whose_agent_is_gone_is_lost(own_folders: Path, gone: dict[str, object]) -> None:
    """A reused pid is another process, and a reboot ends them all."""
    folder = make(own_folders, Status(RUNNING, 1.0, agent=owner(**gone)))
    assert state.observe(folder).state == LOST


def test_a_run_on_another_host_is_never_called_lost_from_here(own_folders: Path) -> None:
    folder = make(own_folders, Status(RUNNING, 1.0, agent=owner(host="elsewhere", pid=2**22 + 1)))
    assert state.observe(folder).state == RUNNING


def test_a_last_word_stands_whatever_became_of_the_agent(own_folders: Path) -> None:
    folder = make(own_folders, Status(SUCCEEDED, 1.0, agent=owner(pid=2**22 + 1)))
    assert state.observe(folder).state == SUCCEEDED


def test_a_queued_run_is_lost_only_when_its_starter_had_time(own_folders: Path) -> None:
    folder = make(own_folders, None)
    now = time.time()
    assert state.observe(folder, now).state == QUEUED
    assert state.observe(folder, now + 60).state == LOST


def test_a_queued_run_waits_as_long_as_its_group_goes_on(own_folders: Path) -> None:
    first = make(own_folders, Status(RUNNING, 1.0, agent=owner()))
    second = make(own_folders, None, group=first.id)
    write_json(first.request_file, request_of(first, group=first.id, next=second.id).document())
    later = time.time() + 60
    assert state.observe(second, later).state == QUEUED
    write_json(first.status_file, Status(RUNNING, 1.0, agent=owner(pid=2**22 + 1)).document())
    assert state.observe(second, later).state == LOST


def test_burying_keeps_what_the_ranks_wrote(own_folders: Path) -> None:
    folder = make(own_folders, Status(RUNNING, 1.0, agent=owner(pid=2**22 + 1)))
    folder.rank_events(0).write_text('{"t": 1, "rank": 0, "kind": "check", "name": "a", "passed": true}\n{"torn')
    assert lost.bury(folder).state == LOST
    written = folder.status()
    assert written.state == LOST and written.checks[0]["name"] == "a" and written.ended is not None
    assert written.reason == f"its agent (pid {2**22 + 1}) is gone and left no last word"


def test_a_run_of_another_user_is_not_buried(own_folders: Path) -> None:
    folder = make(own_folders, Status(RUNNING, 1.0, agent=owner(pid=2**22 + 1)), uid=os.getuid() + 1)
    assert lost.bury(folder).state == LOST
    assert folder.status().state == RUNNING, "nothing was written"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
STATUS_KEYS = st.sampled_from(list(Status.TYPES) + list(Request.TYPES))


@given(JSON | st.dictionaries(STATUS_KEYS, JSON))
def test_no_document_is_worse_than_a_record_error(document: object) -> None:
    for kind in (Status, Request):
        try:
            kind.read(document)
        except RecordError as error:
            assert "\n" not in str(error)


def test_records_come_back_as_they_were(own_folders: Path) -> None:
    folder = make(own_folders, Status(RUNNING, 1.0, agent=owner(), events={"rank0": 3}, checks=({"a": 1},)))
    assert folder.status() == Status.read(folder.status().document())
    assert folder.request() == Request.read(folder.request().document())
