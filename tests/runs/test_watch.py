"""Watching a run: whatever its folder holds, a snapshot says what is known, and what is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labtui.runs import state, watch
from labtui.runs.folder import LARGEST_RECORD, RunFolder, publish, stage, write_json
from labtui.runs.records import Request, RunProcess, Status
from labtui.runs.watch import Watch

NOW = 1_764_417_800.0


def report(folder: RunFolder, *events: dict[str, Any], rank: int = 0) -> None:
    with folder.rank_events(rank).open("a") as file:
        for event in events:
            file.write(json.dumps({"t": NOW, "rank": rank, **event}) + "\n")


def metric(step: int | None, value: float | None, **fields: Any) -> dict[str, Any]:
    return {"kind": "metric", "name": "loss", "value": value, "step": step, "unit": "", **fields}


@pytest.fixture
def folder(own_folders: Path) -> RunFolder:
    run = publish(stage(own_folders, "ddp_by_hand", NOW))
    request = Request(
        id=run.id, experiment="ddp_by_hand", command=("torchrun",), python="python", host="elsewhere", user="ann",
        uid=1000, created=NOW - 10, nproc=2, device="cpu", expect_failure=("wrong on purpose",),
    )  # fmt: skip
    write_json(run.request_file, request.document())
    return run


@pytest.fixture
def running(folder: RunFolder) -> RunFolder:
    ranks = tuple(
        RunProcess("rank", 100 + rank, 1, rank, rank, f"ranks/{rank}/stdout.log", f"ranks/{rank}/stderr.log")
        for rank in (1, 0)
    )
    status = Status("running", NOW - 10, started=NOW - 8, processes=ranks)
    write_json(folder.status_file, status.document())
    return folder


def test_a_run_grows(running: RunFolder) -> None:
    following = Watch(running)
    first = following.poll(NOW)
    assert first.live
    assert first.seconds == 8.0
    assert first.request is not None and first.request.nproc == 2
    assert first.done is None and first.curves == () and first.errors == ()

    report(running, {"kind": "progress", "done": 3, "total": 12}, metric(0, 2.5), metric(1, 2.0))
    report(running, {"kind": "progress", "done": 1, "total": 12}, metric(0, 2.6), rank=1)
    report(running, {"kind": "hello", "pid": 7, "versions": {"torch": "2.13.0"}})
    second = following.poll(NOW + 1)
    assert second.done == watch.Progress(1.0, 12.0)
    assert [(curve.name, curve.rank, curve.points) for curve in second.curves] == [
        ("loss", 0, ((0.0, 2.5), (1.0, 2.0))),
        ("loss", 1, ((0.0, 2.6),)),
    ]
    assert second.versions == {"torch": "2.13.0"}
    assert [event["kind"] for event in second.new] == ["progress", "metric", "metric", "hello", "progress", "metric"]
    assert first.curves == (), "a snapshot never changes"

    third = following.poll(NOW + 2)
    assert third.new == () and third.curves == second.curves and third.events == 6


def test_curves_are_told_apart_by_labels_and_may_lack_steps(running: RunFolder) -> None:
    report(running, metric(None, 1.0, labels={"way": "hooks"}), metric(None, None, labels={"way": "hooks"}))
    report(running, metric(None, 3.0, labels={"way": "ddp"}), metric(None, float("inf"), labels={"way": "ddp"}))
    hooks, ddp = Watch(running).poll(NOW).curves
    assert (hooks.labels, hooks.points, hooks.latest, hooks.gaps) == (
        {"way": "hooks"},
        ((0.0, 1.0), (1.0, None)),
        None,
        1,
    )
    assert (ddp.labels, ddp.points, ddp.gaps) == ({"way": "ddp"}, ((0.0, 3.0), (1.0, None)), 1)


def test_a_check_that_must_fail_is_marked_while_the_run_goes_on(running: RunFolder) -> None:
    report(running, {"kind": "check", "name": "wrong on purpose", "value": 1.0, "passed": False})
    report(running, {"kind": "check", "name": "same weights", "value": 0.0, "passed": True})
    wrong, same = Watch(running).poll(NOW).checks
    assert wrong["expected"] is False
    assert "expected" not in same


def test_an_ended_run_without_events_shows_its_last_word(folder: RunFolder) -> None:
    check = {"kind": "check", "name": "same weights", "passed": True}
    status = Status("succeeded", NOW - 10, started=NOW - 8, ended=NOW - 2, checks=(check,), results=({"name": "t"},))
    write_json(folder.status_file, status.document())
    shutil.rmtree(folder.events)
    shutil.rmtree(folder.telemetry)
    seen = Watch(folder).poll(NOW)
    assert not seen.live
    assert seen.seconds == 6.0
    assert seen.checks == (check,) and seen.results == ({"name": "t"},)
    assert seen.errors == ()


def test_a_run_from_another_host_is_never_lost(running: RunFolder) -> None:
    assert state.observe(running).state == "running"
    assert Watch(running).poll(NOW).live


def test_logs_are_named_by_rank_in_order(running: RunFolder) -> None:
    log = running.path / "ranks/1/stdout.log"
    log.parent.mkdir(parents=True)
    log.write_text("hello\n")
    seen = Watch(running).poll(NOW)
    assert [(entry.name, entry.size) for entry in seen.logs] == [
        ("0", 0), ("0 stderr", 0), ("1", 6), ("1 stderr", 0), ("output", 0), ("agent", 0)
    ]  # fmt: skip
    assert seen.logs[2].path == log


def test_the_latest_telemetry_counts(running: RunFolder) -> None:
    path = running.telemetry / "gpu-server.jsonl"
    samples = [{"t": NOW + n, "ranks": [{"rank": 0, "pid": 7, "cpu": 90.0 + n, "rss": 1000}]} for n in range(3)]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples) + "nonsense\n[]\n" + '{"t": 1')
    (running.telemetry / "old.jsonl").write_text(json.dumps({"t": NOW - 50}) + "\n")
    following = Watch(running)
    assert following.poll(NOW).telemetry == samples[-1]
    with path.open("a") as file:
        file.write("}\n" + json.dumps({"t": NOW + 9}) + "\n")
    assert following.poll(NOW).telemetry == {"t": NOW + 9}


def test_with_history_telemetry_is_read_from_its_beginning(running: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = running.telemetry / "here.jsonl"
    samples = [{"t": NOW + n, "ranks": [{"rank": n % 2, "cpu": 90.0 + n}]} for n in range(50)]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    monkeypatch.setattr(watch, "TELEMETRY_REACH", 200)
    monkeypatch.setattr(watch, "TELEMETRY_BITE", 500)
    assert sum(len(rank.courses["cpu"]) for rank in Watch(running).poll(NOW).gauges.ranks) < 10
    following = Watch(running, history=True)
    assert following.poll(NOW).behind
    while (seen := following.poll(NOW)).behind:
        pass
    assert [len(rank.courses["cpu"]) for rank in seen.gauges.ranks] == [25, 25]
    assert seen.telemetry == samples[-1]
    assert seen.gauges.ranks[0].latest["cpu"] == 138.0, "of a rank that is missing from the latest sample too"


def test_a_snapshot_stays_as_it_is_while_the_run_goes_on(running: RunFolder) -> None:
    path = running.telemetry / "here.jsonl"
    report(running, metric(0, 2.5))
    path.write_text(json.dumps({"t": NOW, "ranks": [{"rank": 0, "cpu": 90.0}]}) + "\n")
    following = Watch(running, history=True)
    first = following.poll(NOW)
    report(running, metric(1, 9.9))
    with path.open("a") as file:
        file.write(json.dumps({"t": NOW + 1, "ranks": [{"rank": 0, "cpu": 50.0}]}) + "\n")
    second = following.poll(NOW + 1)
    assert first.curves[0].points == ((0.0, 2.5),) and second.curves[0].latest == 9.9
    assert first.gauges.ranks[0].courses["cpu"].points == ((NOW, 90.0),)
    assert len(second.gauges.ranks[0].courses["cpu"]) == 2


def test_the_first_curves_are_kept_over_time_too(running: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TIMED", 1)
    report(running, {**metric(0, 2.5), "t": NOW - 5}, {**metric(10, 2.0), "t": NOW - 3})
    report(running, metric(0, 1.0), rank=1)
    first, second = Watch(running).poll(NOW).curves
    assert first.timed is not None and first.timed.points == ((NOW - 5, 2.5), (NOW - 3, 2.0))
    assert second.timed is None


def test_machine_and_paths_are_read_again_when_they_were_replaced(running: RunFolder) -> None:
    following = Watch(running)
    first = following.poll(NOW)
    assert first.machine is None and first.nccl is None and first.errors == ()
    write_json(running.machine_file, {"gpus": []})
    write_json(running.nccl_file, {"kind": "nccl", "channels": 2})
    second = following.poll(NOW)
    assert second.machine == {"gpus": []} and second.nccl == {"kind": "nccl", "channels": 2}
    assert following.poll(NOW).nccl is second.nccl, "what did not change is not read again"
    write_json(running.nccl_file, {"kind": "nccl", "channels": 4})
    assert following.poll(NOW).nccl == {"kind": "nccl", "channels": 4}


@pytest.mark.parametrize("content", ["{", "[]", "\x00\xff", "[" * 100_000])
def test_a_broken_nccl_json_is_a_sentence_and_what_was_read_stays(running: RunFolder, content: str) -> None:
    following = Watch(running)
    write_json(running.nccl_file, {"kind": "nccl"})
    following.poll(NOW)
    running.nccl_file.write_text(content)
    seen = following.poll(NOW)
    assert any(error.startswith("nccl.json is no JSON") for error in seen.errors)
    assert following.poll(NOW).errors == seen.errors, "it is said as long as it is so"
    assert seen.nccl == {"kind": "nccl"}
    running.nccl_file.unlink()
    running.nccl_file.mkdir()
    assert any("nccl.json can't be read" in error for error in following.poll(NOW).errors)


def test_a_document_that_is_too_large_is_not_read(running: RunFolder) -> None:
    with running.nccl_file.open("wb") as file:
        file.truncate(LARGEST_RECORD + 1)
    assert "nccl.json is too large" in Watch(running).poll(NOW).errors[0]


def test_bad_lines_are_counted_and_hide_nothing(running: RunFolder) -> None:
    running.rank_events(0).write_text('{"kind": "note", "text": "a"}\nnonsense\n{"kind": "note", "text": "b"}\n{"kin')
    seen = Watch(running).poll(NOW)
    assert [event["text"] for event in seen.notes] == ["a", "b"]
    assert seen.bad_lines == 1


def test_memory_is_bounded_and_what_is_left_out_is_counted(running: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CURVES", "SPANS", "NOTES", "EVENTS_KEPT"):
        monkeypatch.setattr(watch, name, 4)
    span = {"kind": "span", "lane": "compute", "name": "x", "start": 0.0, "end": 1.0}
    report(running, *({**span, "name": f"{n}"} for n in range(1, 8)))
    report(running, *({"kind": "result", "name": f"{n}", "value": n} for n in range(7)))
    report(running, *({**metric(0, 1.0), "name": f"m{n}"} for n in range(7)))
    following = Watch(running)
    seen = following.poll(NOW)
    assert [result["name"] for result in seen.results] == ["0", "1", "2", "3"]
    assert len(seen.curves) == 4
    assert seen.dropped >= 6


def test_a_bite_at_a_time(running: RunFolder) -> None:
    report(running, *(metric(step, 1.0) for step in range(500)))
    following = Watch(running)
    first = following.poll(NOW, limit=8192)
    assert first.behind and 0 < first.events < 500
    while following.poll(NOW, limit=8192).behind:
        pass
    assert following.poll(NOW).events == 500


def nothing(folder: RunFolder) -> None:
    shutil.rmtree(folder.path)


def no_request(folder: RunFolder) -> None:
    folder.request_file.unlink()


def torn_status(folder: RunFolder) -> None:
    folder.status_file.write_text('{"state": "runn')


def odd_paths(folder: RunFolder) -> None:
    process = {"role": "rank", "pid": 1, "start": 1, "rank": 0, "stdout": "a\x00b", "stderr": "../../../etc/hostname"}
    write_json(folder.status_file, {"state": "running", "created": NOW, "processes": [process]})


@pytest.mark.parametrize(
    ("damage", "error"),
    [(nothing, "is gone"), (no_request, "run.json"), (torn_status, "status.json"), (odd_paths, "")],
)
def test_a_damaged_folder_is_a_sentence(running: RunFolder, damage: Callable[[RunFolder], None], error: str) -> None:
    report(running, metric(0, 1.0))
    following = Watch(running)
    before = following.poll(NOW)
    damage(running)
    fresh = Watch(running).poll(NOW)
    assert error in " ".join(fresh.errors)
    assert bool(fresh.errors) == bool(error)
    assert following.poll(NOW).curves == before.curves, "what was read stays"


EVENTS: list[dict[str, Any]] = [
    {"kind": "metric"}, {"kind": "metric", "name": None, "value": "x", "step": "y", "labels": 3, "unit": None},
    {"kind": "progress"}, {"kind": "progress", "done": "x", "total": None}, {"kind": "progress", "done": 1, "total": 0},
    {"kind": "hello", "versions": None}, {"kind": "hello", "versions": {"a": None}}, {"kind": "check"},
    {"kind": "span"}, {"kind": "result", "labels": None}, {"kind": "prediction"}, {"kind": "note"}, {"kind": "new"},
    {"kind": "metric", "name": "a", "value": 10**400, "step": True, "labels": {"b": [1, {"c": None}]}},
]  # fmt: skip


def test_events_of_odd_shapes_do_no_harm(running: RunFolder) -> None:
    report(running, *EVENTS)
    seen = Watch(running).poll(NOW)
    assert seen.events == len(EVENTS)
    assert seen.done == watch.Progress(1.0, 0.0)
