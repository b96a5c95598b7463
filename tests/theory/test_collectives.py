"""The formulas against the thing itself, counted step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory.collectives import all_reduce_bytes, all_reduce_messages, fill_buckets


def ring(ranks: int, chunk: int) -> tuple[list[set[int]], int, int]:
    """A ring all-reduce of `ranks` chunks per rank: whose values reached rank 0's chunks, messages and bytes sent."""
    have = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
    messages = sent = 0
    for step in range(2 * (ranks - 1)):
        moving = []
        for rank in range(ranks):
            index = (rank - step) % ranks
            moving.append(((rank + 1) % ranks, index, have[rank][index]))
        for to, index, values in moving:
            # First half: the receiver adds; second half: it takes the finished sum.
            have[to][index] = have[to][index] | values if step < ranks - 1 else values
        messages += 1
        sent += chunk
    return have[0], messages, sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_a_ring_sends_what_the_formula_says(ranks):
    sums, messages, sent = ring(ranks, chunk=10)
    assert all(values == set(range(ranks)) for values in sums)
    assert messages == all_reduce_messages(ranks)
    assert sent == all_reduce_bytes(10 * ranks, ranks)


def test_published_example():
    """1.5e9 parameters in bfloat16 on 4 cards: 3/2 of the 3 GB."""
    assert all_reduce_bytes(2 * 1.5e9, 4) == 4.5e9


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 100))
def test_buckets_keep_the_order_and_close_when_full(sizes, capacity):
    buckets = fill_buckets(sizes, capacity)
    assert [index for bucket in buckets for index in bucket] == list(range(len(sizes)))
    filled = [[sizes[index] for index in bucket] for bucket in buckets]
    assert all(sum(bucket) >= capacity for bucket in filled[:-1])
    assert all(sum(bucket[:-1]) < capacity for bucket in filled)


@pytest.mark.parametrize(
    "wrong", [lambda: all_reduce_bytes(1, 0), lambda: all_reduce_bytes(-1, 2), lambda: all_reduce_messages(0),
              lambda: fill_buckets([1], 0)],
)  # fmt: skip
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="at least"):
        wrong()
