"""The timeline: lanes, views, and what is under the cursor, as pure functions; and the pane around them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_lab import HOSTILE, NOW, event
from test_widgets import check_harmless, snapshot, text

from labtui.runs.records import Status
from labtui.tui import timeline_lines as tl
from labtui.tui.lines import cells, struck
from labtui.tui.timeline_lines import View, lane_line, lasting, newest_burst, tick_label, timeline
from labtui.tui.widgets.timeline import TimelinePane


def span(lane: str, name: str, start: float, end: float, rank: int = 0) -> dict[str, Any]:
    return {**event("span", lane=lane, name=name, start=NOW + start, end=NOW + end), "rank": rank}


STEP = (
    span("compute", "forward", 1.0, 1.2), span("compute", "backward fc2", 1.2, 1.5),
    span("communication", "bucket 0", 1.4, 1.8), span("compute", "optimizer", 1.8, 1.9),
    span("compute", "forward", 1.0, 1.4, rank=1), span("communication", "bucket 0", 1.4, 1.8, rank=1),
)  # fmt: skip


def drawn(view: View, width: int, *spans: dict[str, Any], lane: int = 0) -> str:
    return "".join(piece for piece, _ in lane_line(timeline(spans).lanes[lane], view, width))


def test_lanes_stand_by_rank_and_compute_comes_first() -> None:
    told = timeline((*STEP, span("a device", "kernel", 1.0, 1.1)))
    assert [(lane.rank, lane.name) for lane in told.lanes] == [
        (0, "compute"), (0, "communication"), (0, "a device"), (1, "compute"), (1, "communication"),
    ]  # fmt: skip
    assert (told.start, told.end) == (NOW + 1.0, NOW + 1.9)


def test_spans_that_are_none_are_left_out() -> None:
    bad = (
        span("compute", "x", 2, 1),
        {**span("compute", "x", 1, 2), "end": None},
        {**span("c", "x", 1, 2), "start": "x"},
    )
    assert timeline(bad).lanes == ()


def test_a_cell_is_as_full_as_its_time_was() -> None:
    view = View(NOW, NOW + 10)
    assert drawn(view, 10, span("compute", "x", 2, 4)) == "  ▇▇      "
    assert drawn(view, 10, span("compute", "x", 2.5, 3)) == "  ▄       "
    assert drawn(view, 10, span("compute", "x", 2, 3), span("compute", "y", 3, 4)) == "  ▇▐      ", "a border"
    assert drawn(view, 10, span("compute", "x", 2, 2)) == "  ▁       ", "however short, it is seen"
    overlapping = drawn(view, 10, span("c", "x", 2, 2.5), span("c", "y", 2.25, 2.5))
    assert overlapping == "  ▄       ", "what overlaps counts once"
    assert drawn(View(NOW + 3, NOW + 4), 4, span("compute", "x", 2, 9)) == "▇▇▇▇"


def test_names_are_written_where_they_fit() -> None:
    view = View(NOW, NOW + 4)
    assert drawn(view, 40, span("compute", "step 1: forward", 1, 3)) == " " * 10 + "▇forward" + "▇" * 12 + " " * 10
    assert "forward" not in drawn(view, 20, span("compute", "forward", 1, 1.5))


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 3)), min_size=1, max_size=20),
    st.floats(0, 10), st.floats(1e-6, 20), st.integers(1, 60),
)  # fmt: skip
def test_a_lane_fills_its_width_whatever_is_in_it(bars: list[Any], start: float, seconds: float, width: int) -> None:
    spans = [span("compute", "a long name", begin, begin + length) for begin, length in bars]
    line = lane_line(timeline(spans).lanes[0], View(NOW + start, NOW + start + seconds), width)
    assert cells(line) == width
    check_harmless([tuple(line)], width)


def test_views_zoom_around_the_cursor_and_stay_within_the_whole() -> None:
    whole = View(0.0, 100.0)
    near = whole.zoomed(0.5, 20.0, whole)
    assert (near.start, near.end) == (10.0, 60.0)
    assert near.zoomed(4.0, 20.0, whole) == whole
    assert near.moved(100.0, whole) == View(50.0, 100.0)
    assert near.moved(-100.0, whole) == View(0.0, 50.0)
    assert whole.zoomed(1e-30, 50.0, whole).seconds == pytest.approx(tl.CLOSEST_S)


def test_the_newest_burst_is_what_is_seen_first() -> None:
    early = [span("compute", "x", t, t + 0.1) for t in (1.0, 1.2)]
    late = [span("compute", "x", t, t + 0.1) for t in (30.0, 30.2)]
    view = newest_burst(timeline((*early, *late)))
    assert (view.start, view.end) == pytest.approx((NOW + 30.0, NOW + 30.3))
    everything = newest_burst(timeline([span("compute", "x", t, t + 1) for t in range(20)]))
    assert (everything.start, everything.end) == (NOW, NOW + 20)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (3.2, "3.2 s"), (0.0124, "12.4 ms"), (8e-6, "8 us"), (250e-9, "250 ns"), (125, "125 s")],
)
def test_durations_have_three_figures(seconds: float, words: str) -> None:
    assert lasting(seconds) == words


def test_ticks_are_as_fine_as_they_need_be() -> None:
    assert tick_label(20.05, 0.01) == "20.05 s"
    assert tick_label(20.0, 5.0) == "20 s"
    assert tick_label(120.0, 60.0) == "2 min"
    line = "".join(piece for piece, _ in tl.axis(View(NOW + 20, NOW + 20.4), NOW, 3, 60))
    assert "┴20.1 s" in line and line[3] == "↑" and len(line) == 60


def test_the_cursor_is_told_in_words() -> None:
    told = timeline(STEP)
    view = tl.whole(told)
    lines = tl.at_cursor(told, told.lanes[0], NOW + 1.45, view, NOW, 0.0)
    first, second = text(lines).split("\n")
    assert first == "rank 0 · compute: backward fc2: from 1.200 s for 300 ms, 33.3 % of the view"
    assert second == "at the same time: rank 0 bucket 0; rank 1 bucket 0"
    nothing = text(tl.at_cursor(told, told.lanes[0], NOW + 1.6, view, NOW, 0.0))
    assert "nothing at 1.600 s; optimizer begins 200 ms later" in nothing
    assert "nothing comes after it" in text(tl.at_cursor(told, told.lanes[1], NOW + 1.85, view, NOW, 0.0))
    near = text(tl.at_cursor(told, told.lanes[0], NOW + 1.76, view, NOW, 0.1))
    assert "optimizer: from 1.800 s" in near, "what is within half a column is under the cursor"
    nested = timeline((span("compute", "step", 1, 2), span("compute", "forward", 1.1, 1.2)))
    assert "within step" in text(tl.at_cursor(nested, nested.lanes[0], NOW + 1.15, view, NOW, 0.0))


def test_one_cell_is_struck() -> None:
    assert struck((("abc", "dim"),), 1) == (("a", "dim"), ("b", "dim cursor"), ("c", "dim"))
    assert struck((("abc", "dim"),), 5) == (("abc", "dim"),)
    assert struck((("abc", "rule"),), 0, "↑")[0] == ("↑", "live")


# The pane


def pane(*spans: dict[str, Any], **fields: Any) -> TimelinePane:
    shown = TimelinePane()
    shown.snapshot = snapshot(spans=spans, status=Status("succeeded", NOW, started=NOW, ended=NOW + 9), **fields)
    return shown


def shown(one: TimelinePane, width: int = 82, height: int = 14) -> str:
    return text([tuple(line) for line in one.build(width, height)])


def test_the_pane_says_where_there_is_nothing() -> None:
    assert "no spans were reported" in shown(pane())


def test_the_cursor_walks_over_spans_lanes_and_time() -> None:
    one = pane(*STEP)
    assert "rank 0 · compute: forward: from 1.000 s" in shown(one)
    one.step_in_time(1)
    assert "backward fc2: from 1.200 s" in shown(one)
    one.step_in_time(-1)
    one.scroll_rows(1)
    assert "rank 0 · communication: nothing at 1.1" in shown(one)
    one.scroll_rows(9)
    assert one.lane == 3
    one.scroll_rows(-9)
    one.step_in_time(1)
    one.zoom(1)
    one.zoom(1)
    assert one.view.seconds == pytest.approx(0.9 / 4)
    assert "backward fc2: from 1.200 s" in shown(one), "zooming leaves the cursor where it is"
    before = one.view
    for _ in range(40):
        one.leap_in_time(1)
    assert one.view.end == pytest.approx(NOW + 1.9) and one.view != before
    one.fit()
    assert one.view == tl.whole(one.told)
    for _ in range(200):
        one.action_next_tab()
        shown(one)
    assert one.t == pytest.approx(NOW + 1.9)
    assert one.copied()[0].startswith("rank 0 · compute: optimizer")


def test_until_it_is_moved_it_shows_the_newest() -> None:
    one = pane(*STEP)
    shown(one)
    later = [span("compute", "again", 50, 51)]
    one.snapshot = snapshot(spans=(*STEP, *later))
    assert "again" in shown(one)
    one.zoom(1)
    view = one.view
    one.snapshot = snapshot(spans=(*STEP, *later, span("compute", "third", 90, 91)))
    shown(one)
    assert one.view == view


@pytest.mark.parametrize(("width", "height"), [(1, 2), (12, 3), (38, 8), (54, 10), (120, 30)])
def test_whatever_ranks_report_the_pane_is_whole_and_harmless(width: int, height: int) -> None:
    ranks = [span(HOSTILE, HOSTILE, n / 7, n / 7 + 0.5, rank=n % 40) for n in range(90)]
    one = pane(*ranks)
    for lane in (0, 20, 39):
        one.lane = lane
        lines = list(one.build(width, height))
        check_harmless([tuple(line) for line in lines], width)
        assert len(lines) <= height
    assert all(piece.isprintable() or piece == "\n" for piece in one.copied()[0].split("\n"))
