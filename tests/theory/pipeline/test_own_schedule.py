"""The learner's lists: the lesson's exercise is an order like any other, and each mistake gets its sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.learner import from_lists
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate


def one_f_one_b(p, m):
    """The lesson's rule, as a learner writes it."""
    lists = []
    for stage in range(p):
        warm_up = min(p - stage - 1, m)
        steady = [pair for j in range(m - warm_up) for pair in (("F", warm_up + j), ("B", j))]
        lists.append([("F", i) for i in range(warm_up)] + steady + [("B", i) for i in range(m - warm_up, m)])
    return lists


@given(st.integers(1, 8), st.integers(1, 16))
@settings(max_examples=30, deadline=None)
def test_the_exercises_1f1b_is_1f1b(p, m):
    assert from_lists(one_f_one_b(p, m), p, m).devices == build("1f1b", p, m).devices


def test_a_backward_may_be_split():
    lists = [[["F", 0], ["F", 1], ["I", 0], ["W", 0], ["I", 1], ["W", 1]], [["F", 0], ["B", 0], ["F", 1], ["B", 1]]]
    assert simulate(from_lists(lists, 2, 2)).total == 9


GOOD = one_f_one_b(2, 2)


@pytest.mark.parametrize(
    ("lists", "sentence"),
    [
        (None, "a list for each of the 2 devices is expected, not None"),
        (5, "a list for each of the 2 devices is expected, not an int"),
        ({}, "a list for each of the 2 devices is expected, not a dict"),
        (GOOD[:1], "a list for each of the 2 devices is expected, not 1 list"),
        ([*GOOD, []], "a list for each of the 2 devices is expected, not 3 lists"),
        ([GOOD[0], "F0"], 'device 1: a list of operations like ("F", 0) is expected, not a str'),
        ([GOOD[0], ["F0"]], """device 1, operation 1: a pair like ("F", 0) is expected, not 'F0'"""),
        ([GOOD[0], [("F",)]], """device 1, operation 1: a pair like ("F", 0) is expected, not ('F',)"""),
        ([GOOD[0], [("F", 0), ("f", 0)]], "device 1, operation 2: 'f' is no kind of work: F, B, or I and W"),
        ([GOOD[0], [(["F"], 0)]], "device 1, operation 1: ['F'] is no kind of work"),
        ([GOOD[0], [("F", "0")]], "device 1, operation 1: '0' is no number of a micro-batch"),
        ([GOOD[0], [("F", 0.0)]], "device 1, operation 1: 0.0 is no number of a micro-batch"),
        ([GOOD[0], [("F", True)]], "device 1, operation 1: True is no number of a micro-batch"),
        ([GOOD[0], [("F", 10**5000)]], "device 1, operation 1: there is no micro-batch (an int), only 0 to 1"),
        ([GOOD[0], [("F", 2)]], "device 1, operation 1: there is no micro-batch 2, only 0 to 1"),
        ([GOOD[0], [("F", -1)]], "device 1, operation 1: there is no micro-batch -1, only 0 to 1"),
        ([GOOD[0], []], "device 1 has no forward (F) of micro-batch 0 in stage 1"),
        ([GOOD[0], [*GOOD[1], ("B", 1)]], "device 1 has B1 of stage 1 twice"),
        ([GOOD[0], GOOD[1][::-1]], "device 1 has B1 of stage 1 before its F"),
        (
            [[("F", 0), ("B", 0), ("F", 1), ("B", 1)], [("F", 1), ("B", 1), ("F", 0), ("B", 0)]],
            "the order never finishes: device 0 waits with B0 of stage 0 for B0 of stage 1 on device 1, which waits "
            "with F1 of stage 1 for F1 of stage 0 on device 0",
        ),
    ],
)  # fmt: skip
def test_each_mistake_has_its_sentence(lists, sentence):
    with pytest.raises(OrderError) as raised:
        from_lists(lists, 2, 2)
    assert str(raised.value).startswith(sentence)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(("p", "m"), [(0, 8), (4, 0), (-1, 8), (1000, 10_000)])
def test_sizes_that_no_schedule_has(p, m):
    with pytest.raises(OrderError):
        from_lists([], p, m)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=12))
@settings(max_examples=100, deadline=None)
def test_whatever_json_comes_back_it_is_an_order_or_a_sentence(lists):
    with pytest.raises(OrderError) as raised:
        from_lists(lists, 2, 2)
    assert len(str(raised.value).splitlines()) == 1
