"""Traces for ui.perfetto.dev: the format's rules, and a simulated schedule in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.export.perfetto import Arrow, Counter, Slice, Track, from_timeline, text
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate


def events(*arguments: Any) -> list[dict[str, Any]]:
    document = json.loads(text(*arguments), parse_constant=pytest.fail)
    assert document["displayTimeUnit"] == "ms"
    return document["traceEvents"]


def test_times_are_microseconds_and_names_stand_beside() -> None:
    track = Track("rank 0", "compute", (Slice("forward", 0.001, 0.0035, "F", {"step": 3}),))
    found = events([track], [Counter("rank 0", "power, W", ((0.0, 70.5), (1.0, None), (2.0, float("nan"))))])
    (whole,) = (event for event in found if event["ph"] == "X")
    assert (whole["ts"], whole["dur"], whole["cat"], whole["args"]) == (1000, 2500, "F", {"step": 3})
    named = {event["name"]: event["args"]["name"] for event in found if event["name"].endswith("_name")}
    assert named == {"process_name": "rank 0", "thread_name": "compute"}
    # What nobody measured is no point, and none of it is 0.
    (point,) = (event for event in found if event["ph"] == "C")
    assert (point["name"], point["args"], point["pid"]) == ("power, W", {"value": 70.5}, whole["pid"])


def test_processes_and_tracks_keep_their_order_and_none_is_number_0() -> None:
    found = events([Track("b", "y", ()), Track("a", "x", ()), Track("b", "x", ())])
    order = [(event["args"]["name"], event["pid"]) for event in found if event["name"] == "process_name"]
    assert order == [("b", 1), ("a", 2)]
    assert [event["tid"] for event in found if event["name"] == "thread_name"] == [1, 2, 3]


def test_an_arrow_binds_to_its_slices() -> None:
    tracks = [Track("a", "x", (Slice("send", 0, 2),)), Track("b", "x", (Slice("receive", 3, 4),))]
    found = events(tracks, (), [Arrow("transfer", ("a", "x"), 1.0, ("b", "x"), 3.5)])
    start, finish = (event for event in found if event["ph"] in "sf")
    assert (start["id"], start["cat"], start["name"]) == (finish["id"], finish["cat"], finish["name"])
    assert (start["tid"], finish["tid"], finish["bp"]) == (1, 2, "e")
    with pytest.raises(ValueError, match="isn't in the trace"):
        text(tracks, (), [Arrow("transfer", ("a", "x"), 1.0, ("c", "x"), 3.5)])


def test_text_from_outside_stays_inside_its_string() -> None:
    name = 'a"\n\x1b[31mé\ud800'
    written = text([Track(name, name, (Slice(name, 0, 1),))])
    assert written.isascii() and "\x1b" not in written and json.loads(written)["traceEvents"][0]["args"]["name"] == name


times = st.integers(0, 40)


@given(st.lists(st.tuples(times, times).map(sorted)))
def test_slices_of_one_line_follow_each_other_or_nest(pairs: list[list[int]]) -> None:
    found = events([Track("rank 0", "communication", tuple(Slice("s", start, end) for start, end in pairs))])
    whole = [event for event in found if event["ph"] == "X"]
    assert sorted((event["ts"], event["ts"] + event["dur"]) for event in whole) == sorted(
        (start * 1e6, end * 1e6) for start, end in pairs
    )
    by_line: dict[int, list[tuple[float, float]]] = {}
    for event in whole:
        by_line.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for line in by_line.values():
        for n, (start, end) in enumerate(line):
            for other_start, other_end in line[:n]:
                assert end <= other_start or other_end <= start or (other_start <= start and end <= other_end)


# Simulated schedules ------------------------------------------------------------------------------------------------


def trace(name: str, p: int, m: int) -> list[dict[str, Any]]:
    return json.loads(from_timeline(simulate(build(name, p, m))))["traceEvents"]


def test_a_schedule_has_a_process_per_device_and_one_unit_is_a_millisecond() -> None:
    found = trace("1f1b", 2, 3)
    processes = {event["pid"]: event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert processes == {1: "GPU0", 2: "GPU1"}
    work = [event for event in found if event["ph"] == "X"]
    assert len(work) == 2 * 2 * 3
    last = next(event for event in work if event["name"] == "B2" and processes[event["pid"]] == "GPU0")
    assert (last["ts"] + last["dur"], last["cat"]) == (12_000, "backward")  # (m + p - 1)(F + B) units
    assert last["args"] == {"kind": "B", "micro-batch": 2, "stage": 0}
    arrows = [event["name"] for event in found if event["ph"] == "s"]
    assert sorted(arrows) == sorted(
        f"{what} of micro-batch {number}" for what in ("activations", "gradient") for number in range(3)
    )
    assert max(event["args"]["value"] for event in found if event["ph"] == "C" and event["pid"] == 1) == 2


def test_the_stages_of_a_device_are_tracks_and_a_pair_is_told() -> None:
    found = trace("dualpipe", 2, 4)
    threads = [event["args"]["name"] for event in found if event["name"] == "thread_name"]
    assert threads == ["stage 0", "stage 1"] * 2
    pairs: dict[int, set[tuple[float, float]]] = {}
    for event in found:
        if "overlapped pair" in event.get("args", {}):
            pairs.setdefault(event["args"]["overlapped pair"], set()).add((event["ts"], event["dur"]))
    assert pairs and all(len(times) == 1 for times in pairs.values())
