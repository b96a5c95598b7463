"""FSDP2's padding and traffic: what can be counted by hand, and where it meets the textbook."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import fsdp

SHAPES = st.lists(st.integers(1, 300), min_size=1, max_size=3)


def test_rows_are_filled_up():
    assert fsdp.padded((8, 3), 4) == 24  # 2 rows each, none too many
    assert fsdp.padded((9, 3), 4) == 36  # 3 rows each, 12 in all
    assert fsdp.padded((2,), 64) == 64  # a row for everybody, and two are real
    assert fsdp.padded_unit([(9, 3), (2,)], 4) == 40
    for ranks, shape in ((0, (2,)), (2, ()), (2, (0, 3))):
        with pytest.raises(ValueError, match="can't be cut by rows"):
            fsdp.padded(shape, ranks)


@given(SHAPES, st.integers(1, 64))
def test_padding_is_less_than_a_row_for_each_rank(shape, ranks):
    row = 1
    for size in shape[1:]:
        row *= size
    whole, stored = row * shape[0], fsdp.padded(shape, ranks)
    assert whole <= stored < whole + ranks * row
    assert stored % ranks == 0
    assert (stored == whole) == (shape[0] % ranks == 0)


def test_a_block_is_gathered_twice_the_root_once():
    found = fsdp.traffic([100, 100], 50, 4, weight=2, gradient=4)
    assert (found.all_gathers, found.all_gather_bytes) == (5, 2 * 450)
    assert (found.reduce_scatters, found.reduce_scatter_bytes) == (3, 4 * 250)
    assert found.sent == 0.75 * 1900
    kept = fsdp.traffic([100, 100], 50, 4, weight=2, gradient=4, reshard=False)
    assert (kept.all_gathers, kept.all_gather_bytes, kept.reduce_scatters) == (3, 500, 3)
    alone = fsdp.traffic([100, 100], 50, 1)
    assert (alone.all_gathers, alone.reduce_scatters, alone.sent) == (0, 0, 0)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.integers(2, 1024))
def test_without_a_root_it_is_the_textbooks(units, ranks):
    found = fsdp.traffic(units, 0, ranks)
    assert found.sent == pytest.approx(fsdp.textbook_sent(sum(units), ranks))
    kept = fsdp.traffic(units, 0, ranks, reshard=False)
    assert kept.sent == pytest.approx(fsdp.textbook_sent(sum(units), ranks, reshard=False))
    # 1.5 times what an all-reduce of the gradients sends.
    assert found.sent == pytest.approx(1.5 * 2 * (ranks - 1) / ranks * 4 * sum(units))


def test_the_fullest_moment():
    def step(**more):
        usual = {"ranks": 10, "activations": 5000, "outside": 7, "weight": 2}
        return fsdp.step(1000, 200, 4, 200, 100, **{**usual, **more})

    assert step().gathered == 2 * (200 + 2 * 200)
    assert step(reshard=False).gathered == 2 * 1000
    assert step().activations == 4 * 5000 + 7
    # State without gradients, gathered weights, whole gradients of the output layer and a block, all activations.
    assert step().peak == 1200 + 1200 + 2 * 300 + 4 * 5000
    few = step(ranks=1, activations=10)
    assert (few.peak, few.gathered) == (20 * 1000, 0)  # AdamW's step
    # Where activations are small, one block's gradients on their way weigh more than its activations.
    assert step(activations=10).peak == 1200 + 1200 + 2 * 300 + 3 * 10 + 4 * 200
