"""The live chart as a pure function."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.charts import Bar, Series
from labtui.runs.plots import Plot
from labtui.tui.lines import Line, cells
from labtui.tui.widgets.chart import blocks, draw

ANY = st.none() | st.floats() | st.integers(-5, 5) | st.sampled_from([1e308, 10**400, 5e-324, math.nan, "x"])
POINTS = st.lists(st.tuples(ANY, ANY), max_size=30).map(tuple)


def text(lines: list[Line]) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in lines]


@settings(deadline=None)
@given(
    series=st.lists(POINTS, max_size=6), width=st.integers(1, 80), height=st.integers(1, 24), ascii=st.booleans(),
    scales=st.tuples(*[st.sampled_from(["linear", "log2", "log10"])] * 2), named=st.booleans(),
)  # fmt: skip
def test_any_points_fit_any_frame(
    series: list[tuple[Any, ...]], width: int, height: int, ascii: bool, scales: tuple[str, str], named: bool
) -> None:
    lines = [Series(f"s{n}" if named else "", points) for n, points in enumerate(series)]
    plot = Plot("t", tuple(lines), "ms", "step", *scales, left_out=3, gaps=1)
    drawn = draw(plot, width, height, ascii=ascii)
    assert len(drawn) <= max(height, 1)
    assert all(cells(line) <= width for line in drawn)
    assert all(piece.isprintable() for line in drawn for piece, _ in line)


def test_a_spike_of_one_point_among_many_is_seen() -> None:
    points = tuple((x, 100.0 if x == 4321 else 1.0) for x in range(10_000))
    drawn = text(draw(Plot("t", (Series("", points),)), 60, 12))
    assert any(character > "\u2800" for character in drawn[0])


def test_a_gap_is_not_bridged() -> None:
    points = tuple((x, None if 3 < x < 7 else 1.0) for x in range(11))
    row = next(line for line in text(draw(Plot("t", (Series("", points),)), 50, 9)) if "\u2812" in line or "⠤" in line)
    inside = row.split("│", 1)[-1].split("┤", 1)[-1]
    assert "  " in inside.strip()


def test_curves_carry_their_letters_and_ascii_draws_with_them() -> None:
    up = Series("up", tuple((x, float(x)) for x in range(10)))
    down = Series("down", tuple((x, 9.0 - x) for x in range(10)))
    drawn = text(draw(Plot("t", (up, down), x_label="step"), 50, 12))
    assert drawn[0].split() == ["a", "up", "b", "down"]
    assert drawn[1].rstrip().endswith("a") and drawn[-3].rstrip().endswith("b")
    assert "step" in drawn[-1]
    plain = text(draw(Plot("t", (up, down)), 50, 12, ascii=True))
    assert sum(line.count("a") for line in plain) > 20


def test_a_straight_line_is_unbroken() -> None:
    line = Series("", tuple((x, x * 0.7) for x in range(40)))
    drawn = text(draw(Plot("t", (line,)), 60, 16))
    columns = list(zip(*(row[5:59].ljust(54) for row in drawn[:14]), strict=True))
    assert all(any("\u2800" < c <= "\u28ff" or c == "a" for c in column) for column in columns[2:-2])


def test_without_room_for_a_curve_its_latest_value_is_shown() -> None:
    assert text(draw(Plot("loss", (Series("", ((0, 2.0), (1, 1.5))),)), 12, 2)) == ["loss 1.5    "]


def test_bars_begin_at_zero_and_missing_numbers_say_so() -> None:
    plot = Plot("t", (), "B", bars=(Bar("hooks", 8_000_000), Bar("ddp", 4_000_000), Bar("none", None)))
    hooks, ddp, none = text(draw(plot, 50, 3))
    assert hooks.count("█") == 2 * ddp.count("█") > 20
    assert "n/a" in none and "█" not in none
    assert hooks.endswith("8 MB")
    assert "more" in text(draw(plot, 50, 2))[-1]


def test_blocks_have_eighths() -> None:
    assert blocks(0) == "" and blocks(8) == "█" and blocks(12) == "█▌"
