"""Paced compute takes the time that it was given, and says that it is paced."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("torch")

from labtui.bench import report, timing


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(report, "note", said.append)
    monkeypatch.setattr(timing, "_noted", set())
    return said


def seconds(pace: float, work: float) -> float:
    start = time.perf_counter()
    with timing.pace(pace):
        while time.perf_counter() - start < work:
            pass
    return time.perf_counter() - start


def test_a_block_takes_its_nominal_time_whatever_its_work(notes: list[str]) -> None:
    assert min(seconds(0.02, work) for work in (0.0, 0.005, 0.01)) >= 0.02
    assert min(seconds(0.02, work) for work in (0.0, 0.005, 0.01)) < 0.025
    assert notes == ["compute is paced: each block takes a nominal time, mostly asleep"]


def test_a_block_that_can_not_keep_its_pace_is_told_once(notes: list[str]) -> None:
    assert seconds(0.001, 0.003) >= 0.003
    seconds(0.001, 0.003)
    assert len(notes) == 2 and notes[1].startswith("a block paced at 1 ms took ")


def test_an_error_in_a_block_is_not_waited_for(notes: list[str]) -> None:
    start = time.perf_counter()
    with pytest.raises(ZeroDivisionError), timing.pace(5.0):
        _ = 1 / 0
    assert time.perf_counter() - start < 1


def test_only_one_rank_says_that_all_are_paced(notes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    seconds(0.0001, 0.0)
    assert not any("compute is paced" in note for note in notes)
