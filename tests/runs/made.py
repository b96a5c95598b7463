"""The fixture make_run: run folders made to measure, written with the package's own records."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labtui.runs import process
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import LIVE, QUEUED, Labels, Owner, Request, Status

FIRST = 1_764_417_792.0
"""2025-11-29 12:03:12 UTC: when the first run of a test was made; each further one is a minute younger."""

MakeRun = Callable[..., RunFolder]


def own_owner() -> Owner:
    """This test as an agent: alive as long as somebody asks."""
    stat = process.read_stat(os.getpid())
    assert stat is not None
    return Owner(os.getpid(), stat.start, process.boot_id(), os.uname().nodename)


@pytest.fixture
def make_run(own_folders: Path) -> MakeRun:
    """make_run(state="succeeded", experiment=..., id=..., request={...}, status={...}, labels=Labels(...)) -> folder.

    A live run is owned by the test itself, so that it stays live.
    """
    made = 0

    def make(
        state: str = "succeeded",
        experiment: str = "ddp_by_hand",
        *,
        id: str | None = None,
        created: float | None = None,
        root: Path = own_folders,
        request: dict[str, Any] | None = None,
        status: dict[str, Any] | None = None,
        labels: Labels | None = None,
    ) -> RunFolder:
        nonlocal made
        import time

        at = FIRST + 60 * made if created is None else created
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at))
        folder = RunFolder(root / (id or f"{stamp}-{experiment}-{made:04x}"))
        made += 1
        for inside in (folder.events, folder.telemetry, folder.ranks, folder.stacks):
            inside.mkdir(parents=True)
        asked = Request(
            id=folder.id,
            experiment=experiment,
            command=("torchrun", "main.py"),
            python="/usr/bin/python3",
            host=os.uname().nodename,
            user="ann",
            uid=os.getuid(),
            created=at,
            nproc=2,
            device="cpu",
        )
        write_json(folder.request_file, replace(asked, **(request or {})).document())
        word = Status(state=state, created=at)
        if state != QUEUED:
            word = replace(word, started=at + 0.5, agent=own_owner())
        if state not in LIVE:
            word = replace(word, ended=at + 10.0, exit_code=0 if state == "succeeded" else 1)
        write_json(folder.status_file, replace(word, **(status or {})).document())
        if labels is not None:
            write_json(folder.labels_file, labels.document())
        return folder

    return make
