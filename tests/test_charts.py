"""Charts as text: every point is drawn or counted, whatever the numbers are, and the text fits its frame."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labtui import charts
from labtui.charts import LINEAR, LOG2, LOG10, Series, fit, from_results, label, text, thin

ANY = st.one_of(
    st.none(), st.floats(), st.integers(), st.booleans(), st.just("3"),
    st.sampled_from([1e308, -1e308, 10**400, 5e-324, 1e-320, 0, 0.0, math.nan, math.inf]),
)  # fmt: skip
KINDS = st.sampled_from([LINEAR, LOG2, LOG10])


def result(name: str, value: Any, **labels: Any) -> dict[str, Any]:
    return {"kind": "result", "name": name, "value": value, "labels": labels}


def test_several_series_are_told_apart_by_letters() -> None:
    sizes = [2**k for k in range(10, 21)]
    both = [Series("all_reduce", tuple((s, 1 + math.log2(s)) for s in sizes)),
            Series("all_gather", tuple((s, 31 - math.log2(s)) for s in sizes))]  # fmt: skip
    drawn = text(both, width=60, height=14, title="Bus bandwidth", x_label="size", y_label="GB/s", x_scale=LOG2)
    lines = drawn.splitlines()
    assert lines[0] == "Bus bandwidth  (GB/s over size)"
    assert lines[1] == "a all_reduce   b all_gather"
    assert len(lines) == 14
    assert "a" in lines[10] and "b" in lines[3]
    assert lines[-1].split() == ["4K", "32K", "256K"]


def test_what_cannot_be_drawn_is_a_gap_and_counted() -> None:
    broken = Series("loss", ((0, 1.0), (1, 2.0), (2, math.nan), (3, None), (4, math.inf), (5, 2.0), (6, 1.0)))
    drawn = text([broken], width=40, height=10)
    assert drawn.splitlines()[-1] == "3 points not drawn (no finite number)"
    log = text([Series("loss", ((1, 0.0), (2, 1.0), (3, 10.0)))], width=80, height=10, x_scale=LOG10, y_scale=LOG10)
    assert log.splitlines()[-1] == "1 point not drawn (no finite number, or not above 0 on a logarithmic axis)"


def test_a_gap_is_no_line() -> None:
    middle = [(x, 5.0) for x in range(10)]
    whole = text([Series("a", tuple(middle))], width=44, height=9)
    gap = text([Series("a", tuple((x, None if 3 <= x <= 6 else y) for x, y in middle))], width=44, height=10)
    assert sum(map(whole.count, "⠤⠒⣀⠉")) > sum(map(gap.count, "⠤⠒⣀⠉")) + 10


def test_no_points_are_said() -> None:
    assert text([], width=20, height=5) == "no points"
    assert "no points" in text([Series("x", ((1, None),))], width=20, height=5)


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.lists(st.tuples(ANY, ANY), max_size=6), max_size=3),
    x_scale=KINDS, y_scale=KINDS, width=st.integers(0, 90), height=st.integers(0, 30), ascii=st.booleans(),
)  # fmt: skip
@example([[(0, 1e308), (1, -1e308)]], LINEAR, LINEAR, 40, 10, False)
@example([[(0, 5e-324), (1, 1e-323)]], LINEAR, LINEAR, 40, 10, False)
def test_any_numbers_fit_any_frame(
    lines: list[list[tuple[Any, Any]]], x_scale: str, y_scale: str, width: int, height: int, ascii: bool
) -> None:
    series = [Series(f"line {i}", tuple(points)) for i, points in enumerate(lines)]
    drawn = text(series, width=width, height=height, title="t", x_scale=x_scale, y_scale=y_scale, ascii=ascii)
    assert len(drawn.splitlines()) <= height
    assert all(len(line) <= width for line in drawn.splitlines())
    assert "\x1b" not in drawn
    assert not ascii or drawn.isascii()


@given(values=st.lists(ANY, min_size=1, max_size=8), kind=KINDS, most=st.integers(0, 9), round_out=st.booleans())
def test_a_scale_holds_its_values_and_ticks_ascend(values: list[Any], kind: str, most: int, round_out: bool) -> None:
    scale = fit(values, kind, round_out=round_out)
    if scale is None:
        assert all((n := charts.number(v)) is None or (kind != LINEAR and n < charts.TINY) for v in values)
        return
    places = [place for value in values if (place := scale.place(value)) is not None]
    assert places and all(-1e-6 <= place <= 1 + 1e-6 for place in places)
    ticks = [place for place, _ in scale.ticks(most)]
    assert len(ticks) <= most
    assert ticks == sorted(set(ticks))
    assert all(-1e-6 <= place <= 1 + 1e-6 for place in ticks)


def test_results_become_series_by_label() -> None:
    results = [
        result("busbw", 2.0, size=2048, collective="all_reduce"),
        result("busbw", 1.0, size=1024, collective="all_reduce"),
        result("busbw", 0.5, size=1024, collective="broadcast"),
        result("time", 9.0, size=1024, collective="broadcast"),
        result("busbw", 7.0, collective="broadcast"),
        result("busbw", 7.0, size="large"),
        {"kind": "result", "name": "busbw", "value": 1.0},
    ]
    assert from_results(results, x="size", y="busbw", series="collective") == (
        Series("all_reduce", ((1024, 1.0), (2048, 2.0))),
        Series("broadcast", ((1024, 0.5),)),
    )


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=300), st.integers(8, 60))
def test_thinning_keeps_spikes(points: list[tuple[float, float]], most: int) -> None:
    kept = thin(points, most)
    assert len(kept) <= max(most + 4, 8)
    if points:
        assert max(y for _, y in kept) == max(y for _, y in points)
        assert min(y for _, y in kept) == min(y for _, y in points)
        assert (kept[0], kept[-1]) == (points[0], points[-1])


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [(0, LINEAR, "0"), (0.25, LINEAR, "0.25"), (12000, LINEAR, "12000"), (1.5e9, LINEAR, "1.5e9"),
     (-2e-7, LINEAR, "-2e-7"), (512, LOG2, "512"), (1024, LOG2, "1K"), (32 * 2**20, LOG2, "32M"), (0.5, LOG2, "0.5"),
     (1000, LOG10, "1000")],
)  # fmt: skip
def test_labels_are_short(value: float, kind: str, expected: str) -> None:
    assert label(value, kind) == expected


def test_plotext_is_imported_only_to_draw() -> None:
    code = "import sys, labtui.charts; assert 'plotext' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
