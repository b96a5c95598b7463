"""Whose turn it is."""

from __future__ import annotations

import os
from typing import Any

from labtui.runs.launch import gpus_of
from labtui.runs.queue import LiveRun, blockers, why_waiting
from labtui.runs.records import QUEUED, RUNNING, Request, Status

HOST = os.uname().nodename


def request(name: str, created: float, **more: Any) -> Request:
    values: dict[str, Any] = {"device": "cuda", "nproc": 2, **more}
    return Request(name, "x", (), "p", HOST, "u", 0, created, **values)


def live(name: str, created: float, state: str = RUNNING, **more: Any) -> LiveRun:
    return LiveRun(request(name, created, **more), Status(state, created))


def names(found: list[LiveRun]) -> list[str]:
    return [run.request.id for run in found]


def test_the_gpus_that_a_run_wants() -> None:
    assert gpus_of(request("a", 1), {}) == {"0", "1"}
    assert gpus_of(request("a", 1), {"CUDA_VISIBLE_DEVICES": "3, 2,1"}) == {"3", "2"}
    assert gpus_of(request("a", 1, device="cpu"), {"CUDA_VISIBLE_DEVICES": "3"}) == frozenset()
    command = request("a", 1, device=None, nproc=None)
    assert gpus_of(command, {}) == frozenset()
    assert gpus_of(command, {"CUDA_VISIBLE_DEVICES": "0,1"}) == {"0", "1"}


def test_a_run_waits_for_those_that_hold_or_want_its_gpus_before_it() -> None:
    me = request("me", 5)
    others = [
        live("holds", 1),
        live("elsewhere", 1, environment={"CUDA_VISIBLE_DEVICES": "6,7"}),
        live("earlier", 4, QUEUED),
        live("later", 6, QUEUED),
        live("started later", 6),
        live("cpu", 1, device="cpu"),
    ]
    assert names(blockers(me, others, {})) == ["holds", "earlier", "started later"]
    assert blockers(request("me", 5, share=True), others, {}) == []


def test_two_queued_runs_never_wait_for_each_other() -> None:
    first, second = request("a", 5), request("b", 5)
    waiting = [LiveRun(run, Status(QUEUED, 5)) for run in (first, second)]
    assert blockers(first, waiting, {}) == []
    assert names(blockers(second, waiting, {})) == ["a"]


def test_a_cpu_run_waits_only_if_it_was_queued() -> None:
    others = [live("other", 1, device="cpu")]
    assert blockers(request("me", 2, device="cpu"), others, {}) == []
    assert names(blockers(request("me", 2, device="cpu", queue=True), others, {})) == ["other"]


def test_what_a_waiting_run_says() -> None:
    waits_for = [live("a", 1), live("b", 2)]
    assert why_waiting(waits_for, request("me", 5), {}) == "waits for a, which holds GPU 0, 1 and 1 more"
    assert why_waiting(waits_for[:1], request("me", 5, device="cpu"), {}) == "waits for a"
