"""Lanes over the time of a run, as pure functions."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from labtui.runs.envelope import Course, Envelope
from labtui.runs.gauges import Stretch
from labtui.tui.lanes import Columns, Span, TimeAxis, axis_line, columns, lane, marks, time_axis
from labtui.tui.lines import cells

AXIS = TimeAxis(1000.0, 1020.0, 1020.0)


def course(points: list[tuple[float, float | None]], most: int = 512) -> Course:
    envelope = Envelope(most)
    for x, y in points:
        envelope.add(x, y)
    return envelope.course


def span(*values: float) -> Span:
    return Span(max(values), sum(values), len(values))


def text(line: list[tuple[str, object]]) -> str:
    return "".join(piece for piece, _ in line)


# The axis


def test_a_live_runs_axis_has_room_at_the_right_and_seldom_changes() -> None:
    ends = [time_axis(0.0, float(now), live=True).end for now in range(1, 7200)]
    assert all(end >= now for now, end in enumerate(ends, 1))
    assert len(set(ends)) <= 16
    assert time_axis(0.0, 300_000.0, live=True).end == 345_600.0, "days, beyond the first"
    assert time_axis(50.0, 137.5, live=False).end == 137.5
    assert time_axis(50.0, 50.0, live=False).end > 50.0


@given(st.floats(0.1, 1e6), st.integers(1, 200))
def test_the_axis_has_its_width_and_ascending_labels(seconds: float, width: int) -> None:
    line = axis_line(TimeAxis(0.0, seconds, seconds), width)
    assert cells(line) == width
    assert all(piece.isprintable() for piece, _ in line)
    labels = [piece for piece, role in line if role == "dim"]
    times = [sum(int(part) * 60**n for n, part in enumerate(reversed(label.split(":")))) for label in labels]
    assert times == sorted(set(times)) and (not times or times[0] == 0)


def test_ticks_stand_where_their_time_is() -> None:
    line = text(axis_line(TimeAxis(0.0, 120.0, 120.0), 48))
    assert line.index("└0:00") == 0
    assert line.index("┴1:00") == 24


# Columns


def test_a_sample_counts_until_the_next_one_and_a_gap_is_blank() -> None:
    points: list[tuple[float, float | None]] = [(1000.0 + n, float(n)) for n in range(5)]
    spans = columns(course(points), AXIS, 40)
    assert spans[:10] == [span(n // 2) for n in range(10)], "half a second each"
    assert spans[10:] == [None] * 30
    lost = columns(course([*points, (1005.0, None), (1006.0, 7.0)]), AXIS, 40)
    assert lost[10:12] == [None, None] and lost[12] == span(7.0)


def test_a_time_in_which_nobody_measured_is_not_bridged() -> None:
    times = [1000.0, 1001.0, 1002.0, 1015.0, 1016.0]
    spans = columns(course([(t, 1.0) for t in times]), AXIS, 20)
    assert [its is not None for its in spans] == [n in (0, 1, 2, 15, 16) for n in range(20)]
    slow = columns(course([(1000.0 + 60 * n, 1.0) for n in range(5)]), TimeAxis(1000.0, 1300.0, 1300.0), 50)
    assert all(its is not None for its in slow[:41]), "one sample a minute is a measure too"


def test_a_column_holds_all_its_samples() -> None:
    points: list[tuple[float, float | None]] = [(1000.0 + n / 10, 0.0 if n == 57 else 97.0) for n in range(200)]
    spans = columns(course(points), AXIS, 10)
    assert spans == [span(0.0, *[97.0] * 19) if n == 2 else span(*[97.0] * 20) for n in range(10)]


@given(
    gaps=st.lists(st.tuples(st.sampled_from([0.5, 1.0, 1.0, 7.0, 60.0]), st.none() | st.floats(0, 100)), max_size=60),
    width=st.integers(1, 50),
    most=st.integers(4, 30),
)
def test_columns_that_are_kept_are_those_made_anew(
    gaps: list[tuple[float, float | None]], width: int, most: int
) -> None:
    envelope, kept, t = Envelope(most), Columns(), 1000.0
    for gap, value in gaps:
        t += gap
        envelope.add(t, value)
        axis = time_axis(1000.0, t, live=True)
        assert kept.of(envelope.course, axis, width) == columns(envelope.course, axis, width)


# Blocks


def test_what_is_known_is_never_blank_and_what_is_not_always() -> None:
    (line,) = lane([span(0.0), None, span(50.0), span(100.0), span(200.0)], 0.0, 100.0, 1)
    assert line == "▁ ▄▇▇"


def test_on_several_lines_what_reaches_far_above_the_mean_is_shaded() -> None:
    upper, lower = lane([span(97.0), span(0.0, *[97.0] * 9), span(*[10.0] * 20, 97.0), None], 0.0, 100.0, 2)
    assert upper == "▇▅░ " and lower == "██▃ "


@given(
    st.lists(st.none() | st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), max_size=30),
    st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(1, 4),
)  # fmt: skip
@example([[1.0], [0.0]], 0.0, 2.2250738585e-313, 1)
def test_any_values_fit_any_scale(columns_: list[list[float] | None], bottom: float, top: float, rows: int) -> None:
    spans = [None if values is None else span(*values) for values in columns_]
    drawn = lane(spans, bottom, top, rows)
    assert [len(row) for row in drawn] == [len(spans)] * rows
    for place, its in enumerate(spans):
        assert (its is None) == all(row[place] == " " for row in drawn)


# Marks


def test_marks_say_when_a_reason_was_in_force_when_not_and_when_nobody_knew() -> None:
    held = [
        Stretch(1000.0, 1004.0, ()),
        Stretch(1005.0, 1009.0, ("sw_power_cap",)),
        Stretch(1010.0, 1011.0, ("sw_thermal_slowdown",)),
        Stretch(1012.0, 1013.0, None),
        Stretch(1014.0, 1014.0, ("sw_power_cap", "gpu_idle")),
    ]
    assert text(marks(held, "sw_power_cap", AXIS, 20)) == "·····━━━━━··  ━     "
    assert text(marks(held, "sw_thermal_slowdown", AXIS, 20)) == "··········━━  ·     "
    assert text(marks(held, "", AXIS, 20)) == "············  ·     "
    assert text(marks([], "sw_power_cap", AXIS, 20)) == " " * 20


def test_in_a_narrow_lane_what_held_back_wins() -> None:
    held = [Stretch(1000.0 + n, 1000.0 + n, ("sw_power_cap",) if n == 7 else ()) for n in range(20)]
    assert text(marks(held, "sw_power_cap", AXIS, 4)) == "·━··"
