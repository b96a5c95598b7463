"""A gradient that is missing, or a number that is none, is never taken for a right one."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch

from labtui.bench import tensor_parallel as measures

ALONE = SimpleNamespace(rank=0, world_size=1, largest=lambda value: value)


@pytest.mark.parametrize("values", [[1e-9, math.nan], [math.nan, 1e-9], [1e-9, math.nan, 1.0]])
def test_the_worst_difference_is_the_one_that_is_unknown(values):
    assert math.isnan(measures._worst(values))
    assert measures._worst([value for value in values if value == value]) == max(v for v in values if v == v)


def test_nothing_to_compare_is_no_agreement():
    right = torch.ones(4)
    assert measures._relative(ALONE, right.clone(), right, right) == 0
    assert measures._relative(ALONE, right + 0.5, right, 2 * right) == 0.25
    assert math.isnan(measures._relative(ALONE, None, right, right))
    assert math.isnan(measures._relative(ALONE, torch.ones(2), right, right))
    assert math.isnan(measures._relative(ALONE, torch.full((4,), math.nan), right, right))


def test_each_rank_has_as_many_tokens():
    tokens = torch.arange(8).reshape(1, 8, 1)
    pieces = [measures.own_tokens(SimpleNamespace(rank=rank, world_size=4))(tokens) for rank in range(4)]
    assert [piece.flatten().tolist() for piece in pieces] == [[0, 1], [2, 3], [4, 5], [6, 7]]
