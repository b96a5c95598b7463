"""The ladder that ends a run, as its agent's log tells it."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_lab import made_run
from textual.message import Message

from labtui.runs import control, ladder
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import RunProcess, Status
from labtui.tui import stopping
from labtui.tui.messages import Noticed


def test_each_rung_is_a_sentence() -> None:
    term = "12:03:51 SIGTERM to torchrun (pid 412)"
    assert stopping.rung(term, 2.0) == (
        "stopping: SIGTERM sent to torchrun (pid 412); SIGKILL in 5 s if it has not ended by then"
    )
    assert "SIGKILL in 0 s" in stopping.rung(term, 60.0)
    assert stopping.rung("12:03:58 SIGKILL to rank 1 (pid 9)", 0.0) == "stopping: SIGKILL sent to rank 1 (pid 9)"
    assert "pid 9 does not end" in stopping.rung("12:04:01 pid 9 does not end: it waits in the kernel (state D)", 0.0)
    for other in ("", "12:03:51 started torchrun: pid 412", "SIGTERM to nobody", "12:03:51 stacks: SIGTERM to x"):
        assert stopping.rung(other, 0.0) == ""


def test_the_ladder_still_writes_what_is_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(ladder.process, "send", lambda *a, **k: True)
    monkeypatch.setattr(ladder.process, "alive", lambda *a: False)
    monkeypatch.setattr(ladder.process, "carrying", lambda *a: [])
    ladder.end("x", RunProcess("torchrun", 1, 1), [RunProcess("rank", 2, 1, 0, 0)], log=lines.append)
    assert len(lines) == 3 and all(stopping.rung(f"12:00:00 {line}", 0.0) for line in lines)


def test_it_follows_the_run_to_its_end(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made_run(own_folders, "running")
    folder.agent_log.write_text("12:00:00 SIGKILL to rank 9 (pid 9)\n")
    posted: list[str] = []

    def stop(asked: RunFolder) -> None:
        with folder.agent_log.open("a") as file:
            file.write("12:03:51 SIGTERM to torchrun (pid 412)\n")

    def post(message: Message) -> bool:
        assert isinstance(message, Noticed)
        posted.append(message.sentence)
        if "SIGTERM" in message.sentence:
            write_json(folder.status_file, Status("stopped", 1.0, reason="stopped on request").document())
        return True

    monkeypatch.setattr(control, "stop", stop)
    monkeypatch.setattr(stopping, "LOOK_S", 0.01)
    last = stopping.stop(folder, post, lambda: True)
    assert isinstance(last, Noticed) and last.sentence == f"{folder.id} has ended: stopped, stopped on request"
    assert posted[0].endswith("has been asked to stop") and "SIGTERM sent to torchrun (pid 412)" in posted[1]
    assert not any("rank 9" in sentence for sentence in posted), "that was another time"


def test_it_ends_when_nobody_wants_to_know(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made_run(own_folders, "running")
    monkeypatch.setattr(control, "stop", lambda folder: None)
    assert "asked to stop" in stopping.stop(folder, lambda message: None, lambda: False).sentence
