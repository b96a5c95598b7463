"""Telemetry of a long run is thinned; a silent sampler holds nothing up."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from lab import until

from labtui.runs.folder import RunFolder, publish, stage
from labtui.runs.telemetry import COARSE_S, FULL_S, RECENT_S, RESTART_S, SILENCE_S, Sampler, thin


def line(t: float) -> bytes:
    return json.dumps({"t": t}).encode()


def times(lines: list[bytes]) -> list[float]:
    return [json.loads(each)["t"] for each in lines]


def test_the_first_hour_and_the_last_ten_minutes_stay_whole() -> None:
    end = 3 * FULL_S
    kept = times(thin([line(t) for t in range(int(end))], 0.0, end))
    assert kept[: int(FULL_S)] == list(range(int(FULL_S)))
    assert kept[-int(RECENT_S) :] == list(range(int(end - RECENT_S), int(end)))
    between = kept[int(FULL_S) : -int(RECENT_S)]
    assert len(between) == (end - FULL_S - RECENT_S) // COARSE_S


@given(st.lists(st.floats(0, 4 * FULL_S)), st.floats(0, 5 * FULL_S))
def test_thinning_twice_is_thinning_once(moments: list[float], now: float) -> None:
    once = thin([line(t) for t in sorted(moments)], 0.0, now)
    assert thin(once, 0.0, now) == once


def gone(pid: int) -> None:
    """Reaps a child, unless the subprocess module has done so already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def folder_in(root: Path) -> RunFolder:
    return publish(stage(root, "x", 0.0))


def test_a_silent_sampler_is_killed_noted_and_started_again(own_folders: Path) -> None:
    said: list[str] = []
    sampler = Sampler(folder_in(own_folders), {**os.environ}, said.append)
    sampler.start(0.0)
    first = sampler.pid
    assert first is not None
    until(lambda: (sampler.poll(1.0, 1.0, 0.0), sampler.machine)[1], "it describes the machine")
    os.kill(first, 19)  # SIGSTOP: a driver call that never comes back looks like that
    until(lambda: os.waitpid(first, os.WNOHANG | os.WUNTRACED)[0] != 0, "it has stopped")
    sampler.poll(1.0, 1.0, 0.0)
    sampler.poll(1.1 + SILENCE_S, 1.0, 0.0)
    assert sampler.pid is None and "silent for 10 s" in said[-1]
    gone(first)
    sampler.poll(2 + SILENCE_S, 1.0, 0.0)
    assert sampler.pid is None
    sampler.poll(2 + SILENCE_S + RESTART_S, 1.0, 0.0)
    second = sampler.pid
    assert second is not None and second != first
    sampler.close()
    gone(second)
