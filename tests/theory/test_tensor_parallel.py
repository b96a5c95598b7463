"""Cut blocks: what is kept follows the published formulas, what is sent and waited for follows from the definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import collectives, models
from labtui.theory import tensor_parallel as theory
from labtui.theory.memory.activations import activation_bytes_per_layer
from labtui.theory.tensor_parallel import Block

BLOCK = Block(sequences=4, tokens=128, width=256, heads=8, kv_heads=8)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Block, int]:
    """A block, and a number of ranks that can share it; as many heads of keys and values as of queries."""
    ranks = draw(st.sampled_from([1, 2, 4, 8]))
    heads = ranks * draw(st.integers(1, 4))
    sizes = st.integers(1, 64)
    return Block(draw(sizes), ranks * draw(sizes), heads * draw(sizes), heads, heads), ranks


def large(kept: dict[str, float]) -> float:
    """Without what the paper leaves out."""
    small = kept["means and deviations"] + kept["softmax's denominators"]
    return sum(kept.values()) - small


@given(blocks(), st.sampled_from([2, 4, 8]))
def test_what_is_kept_is_the_published_formula_without_dropout(shared: tuple[Block, int], element: int) -> None:
    block, ranks = shared
    shape = models.GptShape(1, block.heads, block.width, block.tokens, vocabulary=1)
    for layout, sequence_parallel in ((theory.ALL_REDUCES, False), (theory.SEQUENCE_PARALLEL_LEAN, True)):
        published = activation_bytes_per_layer(
            shape, block.tokens, block.sequences, tp=ranks, sequence_parallel=sequence_parallel, fused_attention=True,
            dropout=False, element=element,
        )  # fmt: skip
        assert large(theory.kept(block, ranks, element, layout)) == pytest.approx(published)


def test_34_bytes_a_number_are_16_tensors_and_two_masks() -> None:
    tokens, h = BLOCK.sequences * BLOCK.tokens, BLOCK.width
    assert large(theory.kept(BLOCK, 1, 2)) + 2 * tokens * h == 34 * tokens * h
    assert large(theory.kept(BLOCK, 8, 2)) + 2 * tokens * h == (10 + 24 / 8) * tokens * h
    assert large(theory.kept(BLOCK, 8, 2, theory.SEQUENCE_PARALLEL)) == 2 * (2 + 14 / 8) * tokens * h


@given(blocks())
def test_only_the_lean_layout_divides_everything(shared: tuple[Block, int]) -> None:
    block, ranks = shared
    everywhere, cut, lean = (sum(theory.kept(block, ranks, 4, layout).values()) for layout in theory.LAYOUTS)
    alone = sum(theory.kept(block, 1, 4).values())
    assert lean == pytest.approx(alone / ranks)
    assert lean <= cut <= everywhere <= alone
    assert (lean < cut < everywhere < alone) == (ranks > 1)


def test_few_heads_of_keys_and_values_are_copied_but_never_cut() -> None:
    grouped = Block(4, 128, 256, heads=8, kv_heads=2)
    assert theory.share(grouped, 2) == theory.Share(heads=4, kv_heads=1, copies=1)
    assert theory.share(grouped, 4) == theory.Share(heads=2, kv_heads=1, copies=2)
    assert theory.share(grouped, 8) == theory.Share(heads=1, kv_heads=1, copies=4)
    inside = "queries, keys, values, result"
    whole = theory.kept(grouped, 1, 4)[inside]
    assert theory.kept(grouped, 2, 4)[inside] == whole / 2
    assert theory.kept(grouped, 4, 4)[inside] > whole / 4


@pytest.mark.parametrize(
    ("numbers", "ranks", "sentence"),
    [
        ((4, 128, 256, 8, 8), 3, "8 heads can't be shared equally by 3 ranks: one head can't be cut"),
        ((4, 128, 252, 12, 3), 2, "3 heads of keys and values fit 2 ranks only if one number divides the other"),
        ((4, 128, 250, 8, 8), 2, "a width of 250 can't be shared equally by 8 heads"),
        ((4, 128, 256, 8, 3), 2, "8 heads can't share 3 heads of keys and values equally"),
        ((4, 0, 256, 8, 8), 2, "a block has at least one sequence, token, feature and head"),
        ((4, 128, 256, 8, 8), 0, "a block is shared by at least 1 rank, not 0"),
    ],
)
def test_what_cant_be_shared_gets_one_sentence(numbers: tuple[int, ...], ranks: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        theory.share(Block(*numbers), ranks)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="'dense' is no layout: all_reduces"):
        theory.kept(BLOCK, 2, 4, "dense")


def test_a_block_counts_as_a_gpts_does() -> None:
    shape = models.GptShape(1, 8, 256, 128, vocabulary=1)
    assert BLOCK.parameters == models.layer_parameters(shape) - BLOCK.width  # keys have no bias here


@given(blocks(), st.floats(1, 1e6))
def test_waiting_over_computing_is_what_its_parts_give(shared: tuple[Block, int], flops_per_byte: float) -> None:
    block, ranks = shared
    link = collectives.Link(latency_s=0.0, bytes_per_s=1e9)
    exchange = collectives.cost("all_reduce", theory.exchanged(block, 2), ranks).seconds(link)
    scores = 4 * block.sequences * block.tokens**2 * block.width
    computing = (block.forward_flops - scores) / ranks / (flops_per_byte * 1e9)
    found = theory.waiting_over_computing(flops_per_byte, ranks, block.width, element=2)
    assert found == pytest.approx(2 * exchange / computing)


def test_a_wide_model_on_nvlink_and_between_nodes() -> None:
    # H100: 989 TFLOP/s over 450 GB/s inside a node, 50 GB/s between nodes; bfloat16, 8 ranks, width 12288 as GPT-3.
    assert theory.waiting_over_computing(989e12 / 450e9, 8, 12288, 2) == pytest.approx(0.417, abs=0.001)
    assert theory.waiting_over_computing(989e12 / 50e9, 8, 12288, 2) == pytest.approx(3.756, abs=0.001)
    with pytest.raises(ValueError, match="at least 1 rank"):
        theory.waiting_over_computing(1, 0, 256, 4)


@given(st.floats(1, 1e12), st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_at_the_paying_rate_both_take_the_same(sent: float, alone: float, shared: float) -> None:
    rate = theory.paying_rate(sent, alone, shared)
    if shared >= alone:
        assert rate is None
    else:
        assert rate is not None
        assert shared + sent / rate == pytest.approx(alone)
