"""Bytes of parameters, gradients and optimizer state against the published formulas."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import memory
from labtui.theory.memory.state import OPTIMIZERS, PRECISIONS

RECIPES = [memory.recipe(precision, optimizer) for precision in PRECISIONS for optimizer in OPTIMIZERS]


@given(psi=st.floats(1, 1e13), ranks=st.integers(1, 4096))
def test_the_zero_papers_formulas(psi: float, ranks: int) -> None:
    total = {stage: memory.state_bytes(psi, ranks, stage).total for stage in memory.STAGES}
    assert total["ddp"] == pytest.approx(16 * psi)
    assert total["zero1"] == pytest.approx(4 * psi + 12 * psi / ranks)
    assert total["zero2"] == pytest.approx(2 * psi + 14 * psi / ranks)
    assert total["zero3"] == pytest.approx(16 * psi / ranks)


@given(psi=st.floats(1, 1e13), ranks=st.integers(1, 4096), recipe=st.sampled_from(RECIPES))
def test_each_stage_holds_at_most_what_the_one_before_holds_and_all_ranks_together_everything(psi, ranks, recipe):
    held = [memory.state_bytes(psi, ranks, stage, recipe) for stage in memory.STAGES]
    assert all(after.total <= before.total for before, after in pairwise(held))
    assert held[-1].total * ranks == pytest.approx(held[0].total) == pytest.approx(psi * recipe.total)


def test_megatrons_distributed_optimizer_is_zero_1() -> None:
    # NVIDIA/Megatron-LM at d98e8a64: 4 + 16/d, 6 + 12/d, 8 + 8/d.
    for precision, whole, cut in (("mixed-both-grads", 4, 16), ("mixed-fp32-grads", 6, 12), ("fp32", 8, 8)):
        for ranks in (1, 2, 8, 64):
            held = memory.state_bytes(1.0, ranks, "zero1", memory.recipe(precision)).total
            assert held == pytest.approx(whole + cut / ranks)


@pytest.mark.parametrize(
    ("precision", "optimizer", "each"),
    [
        ("mixed", "adam", (2, 2, 12)),
        ("fp32", "adam", (4, 4, 8)),
        ("fp32", "momentum", (4, 4, 4)),
        ("fp32", "sgd", (4, 4, 0)),
        ("bf16", "adam", (2, 2, 4)),
        ("mixed-fp32-grads", "adam-bf16", (2, 4, 8)),  # DeepSeek-V3
    ],
)
def test_recipes(precision: str, optimizer: str, each: tuple[float, float, float]) -> None:
    recipe = memory.recipe(precision, optimizer)
    assert (recipe.parameters, recipe.gradients, recipe.optimizer) == each
    assert recipe.source


def test_8_bit_adam_takes_a_little_over_a_quarter() -> None:
    averages = memory.recipe("fp32", "adam-8bit").optimizer
    assert 2 < averages < 2.01


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(ValueError, match="'zero4' is no stage: ddp, zero1, zero2, zero3"):
        memory.state_bytes(1, 1, "zero4")
    with pytest.raises(ValueError, match="at least 1 rank, not 0"):
        memory.state_bytes(1, 0, "ddp")
    with pytest.raises(ValueError, match="at least 0 parameters, not nan"):
        memory.state_bytes(float("nan"), 1, "ddp")
    with pytest.raises(ValueError, match="'fp8' is no precision: mixed"):
        memory.recipe("fp8")
    with pytest.raises(ValueError, match="'lion' is no optimizer: adam"):
        memory.recipe("mixed", "lion")
