"""Costs: what is given, what follows from it, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs, parse


@pytest.mark.parametrize(
    ("text", "forward", "inputs", "weights", "backward", "pair"),
    [
        ("", 1, 1, 1, 2, 3),
        ("F=1,B=2", 1, 1, 1, 2, 3),
        ("F=1,I=1,W=1", 1, 1, 1, 2, 3),
        ("F=2", 2, 1, 1, 2, 4),
        (" F = 2 , B = 3 ", 2, 1.5, 1.5, 3, 5),
        ("B=4", 1, 2, 2, 4, 5),
        ("I=3,W=1", 1, 3, 1, 4, 5),
        ("I=3", 1, 3, 1, 4, 5),
        ("B=4,I=3", 1, 3, 1, 4, 5),
        ("B=4,W=3", 1, 1, 3, 4, 5),
        ("FB=2.5", 1, 1, 1, 2, 2.5),
        ("I=1.5,W=1,B=2", 1, 1.5, 1, 2, 3),  # a split backward that costs more than a whole one
        ("F=0", 0, 1, 1, 2, 2),
    ],
)
def test_what_is_not_given_follows(text, forward, inputs, weights, backward, pair):
    costs = parse(text)
    assert (costs.forward, costs.input, costs.weight, costs.backward, costs.pair) == (
        forward, inputs, weights, backward, pair,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("F=-1", "F=-1"),
        ("F=nan", "F=nan"),
        ("B=inf", "B=inf"),
        ("G=1", "'G=1'"),
        ("F", "'F'"),
        ("F=1,,B=2", "''"),
        ("F=one", "'one'"),
        ("F=", "''"),
        ("F=1,F=2", "F is given twice"),
        ("B=2,I=3", "I=3"),
        ("B=2,W=3", "W=3"),
    ],
)
def test_refusals_are_one_sentence_about_the_cost(text, says):
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_negative_transfer_and_bad_factors_are_refused():
    with pytest.raises(ValueError, match="comm=-1"):
        Costs(comm=-1)
    with pytest.raises(ValueError, match="stage 1"):
        Costs(stages=(1, -2))
    with pytest.raises(ValueError, match="micro-batch 0"):
        Costs(batches=(math.inf,))


def test_factors_multiply():
    costs = Costs(forward=2, stages=(1, 3), batches=(1, 0.5))
    assert costs.of("F", 1, 1) == 3
    assert costs.of("B", 1, 0) == 1
    assert not costs.equal
    # An overlapped block of a third less than its parts stays so, whatever these cost here.
    shorter = replace(costs, pair=2 / 3 * 4)
    assert shorter.of_pair(("F", 0, 1), ("B", 1, 1)) == pytest.approx(2 / 3 * (6 + 3))


def test_costs_without_time_overlap_in_no_time():
    assert Costs(0, backward=0).of_pair(("F", 0, 0), ("I", 1, 0)) == 0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_whole_backward_is_its_two_parts_unless_told_otherwise(forward, inputs, weights):
    costs = Costs(forward, inputs, weights)
    assert costs.backward == inputs + weights
    assert costs.pair == forward + costs.backward
    assert replace(costs) == costs
