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
