"""The Gantt: the lesson's rows character for character, DualPipe's published picture, and what holds for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory.pipeline import gantt
from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Order, Pair
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.pipeline.timeline import Timeline


def timeline(name: str, p: int, m: int, v: int | None = None, **costs: float) -> Timeline:
    return simulate(build(name, p, m, v), Costs(**costs))


def split(p: int, m: int) -> Order:
    """GPipe with split backwards: all F, then I and W in turns."""
    rows = []
    for stage in range(p):
        forwards = [Action("F", i, stage) for i in range(m)]
        rows.append((*forwards, *(Action(kind, i, stage) for i in range(m) for kind in "IW")))
    return Order("split", m, (tuple(range(p)),), tuple(rows))


# The lesson's form --------------------------------------------------------------------------------------------------

LESSON = {
    "gpipe": """
01234567.........aabbccddeeffgghh
.01234567......aabbccddeeffgghh..
..01234567...aabbccddeeffgghh....
...01234567aabbccddeeffgghh......""",
    "1f1b": """
0123......aa4bb5cc6dd7ee.ff.gg.hh
.012....aa3bb4cc5dd6ee7ff.gg.hh..
..01..aa2bb3cc4dd5ee6ff7gg.hh....
...0aa1bb2cc3dd4ee5ff6gg7hh......""",
}


@pytest.mark.parametrize("name", LESSON)
def test_the_lessons_rows(name: str) -> None:
    assert gantt.rows(timeline(name, 4, 8)) == LESSON[name].split()


def test_halves_take_two_columns_for_a_unit() -> None:
    """What the lesson's own `draw` prints for 1F1B on 2 devices, 3 micro-batches and transfers of 0.5."""
    assert gantt.rows(timeline("1f1b", 2, 3, comm=0.5)) == [
        "0011......aaaa22bbbb....cccc",
        "...00aaaa11bbbb..22cccc.....",
    ]


def test_the_published_picture_of_dualpipe() -> None:
    """deepseek-ai/DualPipe at 3da1bbea, images/dualpipe.png: 8 devices, 20 micro-batches, run as soon as possible.

    The pictures' own rows differ where a lone backward of the cool-down stands at the right edge of its slot.
    """
    wanted = [
        "FFFFFFFFgWFgWFgWFFgg...FggFggFggFggFgggg.Fgggg.Fgggg.FgggggWgWgWgW",
        ".FFFFFFFFgWFgWFFgg..FggFggFggFggFggFggFgggg.Fgggg.Fgggggg.ggWgWgWW",
        "..FFFFFFFFgWFFgg.FggFggFggFggFggFggFggFggFgggg.Fgggggg.ggg.ggWgWWW",
        "...FFFFFFFFFggFggFggFggFggFggFggFggFggFggFggFgggggg.gggg.gg.ggWWWW",
    ]
    rows = gantt.rows(timeline("dualpipe", 8, 20))
    assert [kinds_only(row) for row in rows] == wanted + wanted[::-1]


def kinds_only(row: str) -> str:
    return "".join("." if sign == "." else "W" if sign == "+" else "g" if sign.islower() else "F" for sign in row)


# Scale --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "width", "per_unit", "exact"),
    [
        ({}, None, 1, True),
        ({}, 80, 1, True),
        ({"comm": 0.5}, None, 2, True),
        ({"comm": 1 / 3}, None, 3, True),
        ({"forward": 0.1, "backward": 0.2}, None, 10, True),
        ({"forward": 1000, "backward": 2000}, None, 0.001, True),
        ({"forward": 3, "backward": 6}, 33, 1 / 3, True),
        ({}, 32, 32 / 33, False),
        ({"comm": 0.5}, 72, 1, False),
        ({"forward": 0.7310585}, None, 2, False),
        ({"forward": 731.0585, "backward": 1731.1}, None, 2 / 731.0585, False),
    ],
)
def test_the_scale(costs: dict[str, float], width: int | None, per_unit: float, exact: bool) -> None:
    run = timeline("1f1b", 4, 8, **costs)
    scale = gantt.fit([run], width)
    assert (scale.per_unit, scale.exact) == (pytest.approx(per_unit), exact)
    lengths = {len(row) for row in gantt.rows(run, width)}
    assert lengths == {scale.column(run.total)} and max(lengths) <= (width or gantt.MOST_COLUMNS)


def test_a_scale_says_what_it_is() -> None:
    assert gantt.Scale(1).words == "1 column = 1 unit"
    assert gantt.Scale(2).words == "2 columns = 1 unit"
    assert gantt.Scale(1 / 3).words == "1 column = 3 units"
    assert gantt.Scale(0.5, exact=False).words == "1 column = 2 units, times rounded to columns"


def test_two_schedules_share_a_scale() -> None:
    slow, quick = timeline("1f1b", 4, 8, comm=0.5), timeline("gpipe", 4, 8)
    assert gantt.fit([quick, slow]).per_unit == 2


def test_the_ruler_has_each_number_over_its_column() -> None:
    assert gantt.ruler(gantt.Scale(1), 33) == "0    5    10   15   20   25   30"
    assert gantt.ruler(gantt.Scale(2), 20) == "0         5"
    assert gantt.ruler(gantt.Scale(0.001), 33).split()[:3] == ["0", "10000", "20000"]


@given(st.floats(1e-3, 1e3), st.integers(1, 200))
def test_a_ruler_is_never_longer_than_what_it_measures(per_unit: float, columns: int) -> None:
    scale = gantt.Scale(per_unit)
    line = gantt.ruler(scale, columns)
    assert len(line) <= columns and line.startswith("0")
    assert not columns > 20 or len(line.split()) > 1


# Signs --------------------------------------------------------------------------------------------------------------


def test_more_than_ten_micro_batches_are_base_36() -> None:
    first, last = gantt.rows(timeline("1f1b", 2, 12))
    assert "9" in first and "A" in first and "B" in first and "l" in first
    assert last.startswith(".0aa1bb2cc") and last.endswith("AkkBll..")
    told = dict(gantt.signs(timeline("1f1b", 2, 12).order).legend())
    assert told == {"0-9A-B": "forward (A is micro-batch 10)", "a-l": "backward", ".": "idle"}


def test_split_backwards_are_told_apart_without_colour() -> None:
    run = simulate(split(2, 3), Costs())
    assert gantt.rows(run) == ["012..aAbBcC", ".012aAbBcC."]
    assert dict(gantt.signs(run.order).legend()) == {
        "0-2": "forward", "a-c": "input gradient", "A-C": "weight gradient", ".": "idle",
    }  # fmt: skip


def test_weight_gradients_are_a_plus_where_capitals_are_digits() -> None:
    run = simulate(split(1, 11), Costs())
    assert gantt.rows(run) == ["0123456789Aa+b+c+d+e+f+g+h+i+j+k+"]
    assert dict(gantt.signs(run.order).legend())["+"] == "weight gradient"


def test_signs_that_begin_again_are_told() -> None:
    few, many = (gantt.signs(timeline("gpipe", 1, m).order) for m in (26, 40))
    assert few.repeats == "" and "26" in many.repeats and "36" in many.repeats
    assert many.of("F", 35) == "Z" and many.of("F", 36) == "0" and many.of("B", 26) == "a"


# Several stages on a device -----------------------------------------------------------------------------------------


def test_a_row_for_each_stage() -> None:
    run = timeline("interleaved-1f1b", 2, 2, 2)
    scale = gantt.fit([run])
    rows = gantt.drawn(run, scale, by_stage=True)
    assert [(row.device, row.stage) for row in rows] == [(0, 0), (0, 2), (1, 1), (1, 3)]
    whole = gantt.rows(run)
    for device in (0, 1):
        lanes = [row.text for row in rows if row.device == device]
        for column, sign in enumerate(whole[device]):
            # Idle is idle in every stage; work is in one of them, and the others are blank.
            assert {lane[column] for lane in lanes} == ({"."} if sign == "." else {sign, " "})


def test_the_two_of_a_pair_stand_below_each_other() -> None:
    pair = Pair(Action("F", 1, 0), Action("B", 0, 1))
    steps = (
        Action("F", 0, 0),
        Action("F", 0, 1),
        pair,
        Action("F", 1, 1),
        Action("B", 1, 1),
        Action("B", 0, 0),
        Action("B", 1, 0),
    )
    run = simulate(Order("pair", 2, ((0, 0),), (steps,)), Costs())
    assert gantt.rows(run) == ["001aa1bbaabb"]
    assert gantt.rows(run, by_stage=True) == ["0 111   aabb", " 0aaa1bb    "]


# What holds for all -------------------------------------------------------------------------------------------------

sizes = st.tuples(st.sampled_from(["naive", "gpipe", "1f1b"]), st.integers(1, 5), st.integers(1, 12))
whole_costs = st.fixed_dictionaries(
    {"forward": st.integers(1, 3), "backward": st.integers(1, 4), "comm": st.integers(0, 2)}
)


@given(sizes, whole_costs)
def test_a_row_shows_all_work_and_all_idleness(size: tuple[str, int, int], costs: dict[str, int]) -> None:
    name, p, m = size
    run = timeline(name, p, m, **costs)
    rows = gantt.rows(run)
    assert len(rows) == p
    for device, row in enumerate(rows):
        assert len(row) == run.total and row.count(".") == run.idle[device]
        for op in run.ops(device):
            assert set(row[int(op.start) : int(op.end)]) == {gantt.signs(run.order).of(op.kind, op.microbatch)}


@given(sizes, st.floats(0.1, 3), st.floats(0.1, 5), st.floats(0, 2), st.integers(20, 120))
def test_a_rounded_row_keeps_its_width_and_the_order_of_its_work(
    size: tuple[str, int, int], forward: float, backward: float, comm: float, width: int
) -> None:
    run = timeline(*size, forward=forward, backward=backward, comm=comm)
    scale = gantt.fit([run], width)
    for row in gantt.drawn(run, scale):
        assert len(row.text) == scale.column(run.total) <= width
        shown = [op for _, op in row.pieces if op is not None]
        assert shown == [op for op in run.ops(row.device) if op in shown]
        assert "".join(text for text, _ in row.pieces) == row.text
        for text, op in row.pieces:
            assert (op is None) == (text[0] in "."), (text, op)
