"""DeepSeek-V3's table 2: its formulas by hand, the simulation beside them, and what is said where they differ."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.table2 import lines, simulated, table2

LESSONS = Costs(1.0, backward=2.0)


def test_the_printed_table():
    rows = {row.schedule: row for row in table2(16, Costs(2.0, backward=5.0, weight=1.5, pair=6.0))}
    assert [(name, row.bubble, row.parameters, row.activations, row.devices) for name, row in rows.items()] == [
        ("1F1B", 15 * (2 + 5), 1, 16, 16),
        ("ZB1P", 15 * (2 + 5 - 3), 1, 16, 16),
        ("DualPipe", 7 * (6 + 5 - 4.5), 2, 17, 16),
        ("DualPipeV", 7 * (6 + 5 - 4.5), 2, 17, 8),
    ]


@given(st.integers(1, 5), st.integers(0, 6), st.floats(2.0, 3.0))
@settings(max_examples=15, deadline=None)
def test_simulation_and_formula_agree_where_the_formula_was_drawn(half, more, fb):
    stages = 2 * half
    costs = Costs(1.0, backward=2.0, pair=fb)
    for row in table2(stages, costs):
        beside = simulated(row, 2 * stages + 2 * more, costs)
        assert beside.simulated == pytest.approx(row.bubble, abs=1e-9)
        assert beside.held == row.activations and beside.why == ""


@pytest.mark.parametrize(
    "costs", [Costs(1.0, input=0.8, weight=1.3), Costs(comm=0.5), Costs(1.0, input=2.0, weight=1.0)]
)
def test_where_they_differ_a_reason_is_given(costs):
    rows = [simulated(row, 24, costs) for row in table2(8, costs)]
    assert any(row.simulated != pytest.approx(row.bubble) for row in rows)
    for row in rows:
        assert (row.why == "") == (row.simulated == pytest.approx(row.bubble) and row.held == row.activations)


def test_what_there_is_not_is_none_and_said():
    odd = [simulated(row, 20, LESSONS) for row in table2(7, LESSONS)]
    assert [row.bubble for row in odd] == [18, 6, None, None]
    assert odd[2].simulated is None and odd[2].why == "PP is even for it, not 7"
    few = simulated(table2(8, LESSONS)[2], 4, LESSONS)
    assert few.simulated is None and few.bubble == 6
    assert few.why == "dualpipe on 8 devices needs at least 16 micro-batches, not 4"
    short = simulated(table2(8, LESSONS)[0], 4, LESSONS)
    assert short.held == 4 and short.why == "with 4 micro-batches a device holds 4 at most, not 8"
    with pytest.raises(OrderError, match="at least 1 stage, not 0"):
        table2(0, LESSONS)


def test_its_lines_fit_a_terminal():
    text = lines([simulated(row, 32, LESSONS) for row in table2(16, LESSONS)])
    assert max(map(len, text)) <= 80 and "".join(text).isascii()
    assert text[3].split() == ["DualPipe", "16", "(PP/2-1)(F&B+B-3W)", "14", "14", "2x", "17"]
    assert "-" in lines([simulated(row, 4, LESSONS) for row in table2(16, LESSONS)])[3].split()
