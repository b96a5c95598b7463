"""Predictable values: exact in every dtype and order, and wrong where anything was lost, doubled or misplaced."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st

from labtui.bench import exact

CPU = torch.device("cpu")
dtypes = st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16])
ranks = st.integers(1, 64)


def filled(period: torch.Tensor, count: int) -> torch.Tensor:
    tensor = torch.empty(count, dtype=period.dtype)
    exact.write(tensor, period)
    return tensor


@given(ranks=ranks, dtype=dtypes, count=st.integers(0, 600), seed=st.integers(0, 2**31))
def test_sums_are_exact_in_any_order(ranks, dtype, count, seed):
    values = exact.Pattern(ranks, dtype, CPU)
    everyones = [filled(values.of_rank(rank), count) for rank in range(ranks)]
    order = torch.randperm(ranks, generator=torch.Generator().manual_seed(seed)).tolist()
    total = torch.zeros(count, dtype=dtype)
    for rank in order:
        total += everyones[rank]
    assert exact.wrong(total, values.total()) == 0


@given(ranks=ranks, dtype=dtypes, count=st.integers(1, 600), place=st.integers(0, 10**6))
def test_each_wrong_element_is_counted(ranks, dtype, count, place):
    values = exact.Pattern(ranks, dtype, CPU)
    right = filled(values.total(), count)
    for damage in (lambda x: x + 1, lambda x: x * float("nan")):
        wrong = right.clone()
        wrong[place % count] = damage(wrong[place % count])
        assert exact.wrong(wrong, values.total()) == 1
    assert exact.wrong(torch.full_like(right, float("nan")), values.total()) == count


@given(ranks=st.integers(2, 64), dtype=dtypes)
def test_what_is_missing_doubled_or_misplaced_is_seen(ranks, dtype):
    values = exact.Pattern(ranks, dtype, CPU)
    count = 1000
    right, one = filled(values.total(), count), filled(values.of_rank(0), count)
    assert exact.wrong(right - one, values.total()) > 0
    assert exact.wrong(right + one, values.total()) > 0
    assert exact.wrong(right.roll(1), values.total()) > 0
    assert exact.wrong(filled(values.of_rank(1), count), values.of_rank(0)) > 0


@given(ranks=ranks, offset=st.integers(0, 10**6), count=st.integers(1, 300))
def test_an_offset_is_where_a_part_begins(ranks, offset, count):
    values = exact.Pattern(ranks, torch.float32, CPU)
    start = offset % 1000
    whole = filled(values.of_rank(ranks - 1), start + count)
    assert exact.wrong(whole[start:], values.of_rank(ranks - 1, offset=start)) == 0
    assert exact.wrong(filled(values.total(), start + count)[start:], values.total(offset=start)) == 0


def test_a_dtype_too_small_for_so_many_ranks_is_refused():
    with pytest.raises(ValueError, match="can't hold the sum over 256 ranks"):
        exact.Pattern(256, torch.bfloat16, CPU)
