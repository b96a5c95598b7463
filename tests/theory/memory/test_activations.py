"""Activations against table 2 of arXiv 2205.05198, and a Llama-like layer against what torch was seen to save."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import memory
from labtui.theory.llama import Experts, LlamaShape
from labtui.theory.memory.activations import outside_layers
from labtui.theory.models import GptShape

SHAPE = GptShape(layers=48, heads=64, width=6144, context=2048, vocabulary=51200, tied=True)


@given(s=st.integers(1, 8192), b=st.integers(1, 64), t=st.sampled_from((1, 2, 4, 8, 16, 64)))
def test_table_2(s: int, b: int, t: int) -> None:
    a, h = SHAPE.heads, SHAPE.width
    sbh, core = s * b * h, 5 * a * s / h

    def bytes_of(**ways: object) -> float:
        return memory.activation_bytes_per_layer(SHAPE, s, b, tp=t, **ways)  # type: ignore[arg-type]

    assert bytes_of() == pytest.approx(sbh * (10 + 24 / t + core / t))
    assert bytes_of(sequence_parallel=True) == pytest.approx(sbh * (34 / t + core / t))
    assert bytes_of(recompute="selective") == pytest.approx(sbh * (10 + 24 / t))
    assert bytes_of(recompute="selective", sequence_parallel=True) == pytest.approx(sbh * 34 / t)
    assert bytes_of(recompute="full") == pytest.approx(2 * sbh)
    # A fused kernel stores as little of attention's core as selective recomputation.
    assert bytes_of(fused_attention=True) == bytes_of(recompute="selective")


def test_without_dropout_and_in_float32() -> None:
    s, b, h, a = 128, 2, 6144, 64
    plain = memory.activation_bytes_per_layer(SHAPE, s, b, dropout=False)
    assert plain == s * b * h * 32 + 2 * a * s * s * b  # no masks, softmax only
    single = memory.activation_bytes_per_layer(SHAPE, s, b, dropout=False, element=4)
    assert single == 2 * plain


def test_a_llama_layer_keeps_what_autograd_saved() -> None:
    """Storages that torch 2.13's saved_tensors_hooks counted in bf16 for a block of width 256, MLP 704, 2 sequences of
    128 tokens, fused attention: 3,287,040 with 8 KV heads, 3,090,432 with 2. The norms there are not fused and keep
    two fp32 tensors and a row of 1,024 bytes where a fused one keeps its input; the kernel's own sums of rows are
    8,192 bytes."""
    norms, rows = 2 * (2 * 128 * 256 * 4) * 2 + 2 * 1024, 8192
    for kv_heads, saved in ((8, 3_287_040), (2, 3_090_432)):
        shape = LlamaShape(2, 8, 256, 704, 128, 100, kv_heads)
        ours = memory.activation_bytes_per_layer(shape, 128, 2, fused_attention=True)
        fused_norms = 2 * (2 * 128 * 256 * 2)
        assert ours - fused_norms == saved - norms - rows


def test_few_kv_heads_are_copied_not_cut() -> None:
    shape = LlamaShape(80, 64, 8192, 28672, 4096, 32000, kv_heads=8)
    inside = 2 * 8192 + 4 * 28672
    for t, kv_width in ((8, 2 * 1024 / 8), (16, 2 * 1024 / 8)):  # one KV head is 128 wide
        ours = memory.activation_bytes_per_layer(shape, 1, 1, tp=t, fused_attention=True)
        assert ours == 2 * (4 * 8192 + inside / t + kv_width)


def test_layers_in_flight() -> None:
    flight = memory.layers_in_flight
    assert [flight(8, 4, stage) for stage in range(4)] == [8, 6, 4, 2]  # p - i of 2 layers
    assert flight(8, 4, micro_batches=1) == 2
    assert flight(96, 8, interleave=3) == 96 * (1 + 7 / 24)  # figure 1's factor
    assert flight(96, 8, 0, micro_batches=8, interleave=3) == 96  # no more than there is
    assert flight(8, 4, gpipe=True, micro_batches=6) == 12
    assert flight(8, 1) == 8
    # The chunks of Megatron's schedule: 11, 9, 7, 5 of v = 2 on 4 ranks.
    assert [flight(8, 4, stage, interleave=2) for stage in range(4)] == [11, 9, 7, 5]


def test_logits_and_the_embeddings_mask() -> None:
    s, b, h, v = 2048, 4, 6144, 51200  # section 4.3: s b h p/t and 4 s b h/t (1 + v/h)
    assert outside_layers(SHAPE, s, b, tp=8, last=False, in_flight=4) == s * b * h * 4 / 8
    assert outside_layers(SHAPE, s, b, tp=8, first=False) == pytest.approx(4 * s * b * h / 8 * (1 + v / h))


def test_what_can_not_be_is_refused() -> None:
    layer, flight = memory.activation_bytes_per_layer, memory.layers_in_flight
    with pytest.raises(ValueError, match="64 heads can't be cut among 3 tensor-parallel ranks: 3 must divide them"):
        layer(SHAPE, 1, 1, tp=3)
    with pytest.raises(ValueError, match="recompute is 'half', none, selective, full expected"):
        layer(SHAPE, 1, 1, recompute="half")
    with pytest.raises(ValueError, match="at least 1 token and 1 sequence, not 0 and 1"):
        layer(SHAPE, 0, 1, recompute="full")
    with pytest.raises(ValueError, match="6 KV heads can neither be cut"):
        layer(LlamaShape(2, 12, 48, 64, 8, 8, kv_heads=6), 1, 1, tp=4)
    mixture = LlamaShape(2, 4, 16, 32, 8, 8, experts=Experts(4, 2, 16))
    with pytest.raises(ValueError, match="known with full recomputation only"):
        layer(mixture, 1, 1)
    assert layer(mixture, 3, 2, recompute="full") == 2 * 3 * 2 * 16
    with pytest.raises(ValueError, match="10 layers can't be cut into 4 stages evenly"):
        flight(10, 4)
    with pytest.raises(ValueError, match="their number is needed"):
        flight(8, 4, gpipe=True)
    with pytest.raises(ValueError, match="no stage 4"):
        flight(8, 4, 4)
