"""The envelope of a growing curve: bounded, and nothing that stands out is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labtui.runs.envelope import Envelope

VALUES = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=200)


@given(values=VALUES, most=st.integers(2, 40))
def test_extremes_order_and_end_survive(values: list[float | None], most: int) -> None:
    envelope = Envelope(most)
    for x, y in enumerate(values):
        envelope.add(float(x), y)
    points = envelope.points
    finite = [y for y in values if y is not None]
    drawn = [y for _, y in points if y is not None]
    assert max(drawn, default=None) == max(finite, default=None)
    assert min(drawn, default=None) == min(finite, default=None)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert len(points) <= 3 * most
    assert envelope.count == len(values)
    assert envelope.gaps == values.count(None)
    if values:
        assert points[0][0] == 0.0
        assert points[-1][1] == values[-1]


@given(values=VALUES)
def test_a_short_curve_is_kept_as_it_is(values: list[float | None]) -> None:
    envelope = Envelope(200)
    for x, y in enumerate(values):
        envelope.add(float(x), y)
    assert envelope.points == tuple((float(x), y) for x, y in enumerate(values))


def test_points_are_only_made_anew_when_something_came() -> None:
    envelope = Envelope()
    envelope.add(0.0, 1.0)
    first = envelope.points
    assert envelope.points is first
    envelope.add(1.0, 2.0)
    assert envelope.points == ((0.0, 1.0), (1.0, 2.0))


@given(values=st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=120), most=st.integers(2, 20))
def test_a_course_stays_as_it_was_while_its_envelope_grows(values: list[float | None], most: int) -> None:
    envelope = Envelope(most)
    taken = []
    for x, y in enumerate(values):
        envelope.add(float(x), y)
        taken.append((envelope.course, envelope.points))
    for course, points in taken:
        assert course.points == points
        assert list(course.since(0)) == list(course)
        assert len(list(course)) == len(course)
    finite = [y for y in values if y is not None]
    bounds = envelope.course.bounds
    assert (bounds is None) == (not finite)
    if bounds is not None:
        assert (bounds.low, bounds.high) == (min(finite), max(finite))
        assert (bounds.left, bounds.right) == (
            next(x for x, y in enumerate(values) if y is not None),
            max(x for x, y in enumerate(values) if y is not None),
        )
