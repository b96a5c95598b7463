"""What fits, which cut makes it fit, and what the axes of parallelism send."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.theory import known_models
from labtui.theory.memory.axes import axes
from labtui.theory.memory.fits import gpus_needed, largest_micro_batch, remedy
from labtui.theory.memory.layout import Layout
from labtui.theory.memory.rank import Training, on_rank
from labtui.theory.memory.state import STAGES


def training(name: str = "llama-7b", **changes: object) -> Training:
    shape = known_models.known(name).shape
    return Training(known_models.parameters(shape), shape=shape, **changes)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(
    gb=st.floats(1, 400),
    zero=st.sampled_from(STAGES),
    recompute=st.sampled_from(("none", "full")),
    pipeline=st.sampled_from((1, 4)),
    beyond=st.booleans(),
)
def test_the_largest_micro_batch_fits_and_one_more_does_not(gb, zero, recompute, pipeline, beyond) -> None:
    asked = training("llama-7b", layout=Layout(4, 1, pipeline), sequence=1024, recompute=recompute)
    found = largest_micro_batch(asked, zero, gb * 1e9, beyond=beyond)

    def takes(count: int) -> float:
        held = on_rank(replace(asked, micro_batch=count), zero)
        return held.needed if beyond else held.total

    assert found == 0 or takes(found) <= gb * 1e9
    assert takes(found + 1) > gb * 1e9


@settings(max_examples=60, deadline=None)
@given(
    gb=st.floats(2, 200),
    zero=st.sampled_from(STAGES),
    name=st.sampled_from(("llama-7b", "gpt2-xl", "llama-70b")),
    data=st.sampled_from((1, 4, 8)),
    batch=st.sampled_from((None, 1, 16)),
)
def test_a_remedy_fits(gb, zero, name, data, batch) -> None:
    asked = training(name, layout=Layout(data), sequence=1024 if batch else None, micro_batch=batch)
    found = remedy(asked, zero, gb * 1e9)
    if found is None:
        # Then not even everything at once does: the strongest stage, on the host, recomputed.
        assert on_rank(asked, zero).needed > gb * 1e9
        return
    assert found.needed <= gb * 1e9
    assert on_rank(found.training, found.zero).needed == found.needed
    assert len(set(found.cuts)) == len(found.cuts)


def test_the_cheapest_cut_comes_first() -> None:
    asked = training(layout=Layout(data=8))
    assert remedy(asked, "ddp", 80e9).cuts[0].startswith("ZeRO-1")
    assert remedy(asked, "ddp", 30e9).cuts[0].startswith("ZeRO-2")
    assert remedy(asked, "ddp", 20e9).cuts[0].startswith("ZeRO-3")
    alone = training()
    assert "host" in remedy(alone, "ddp", 20e9).cuts[0]
    assert remedy(alone, "ddp", 5e9) is None


def test_gpus_needed_grow_by_doubling() -> None:
    asked = training("llama-70b", layout=Layout(data=8))
    needed = gpus_needed(asked, 80e9)
    assert needed == 16
    more = on_rank(replace(asked, layout=Layout(data=needed)), "zero3").needed
    less = on_rank(replace(asked, layout=Layout(data=needed // 2)), "zero3").needed
    assert more <= 80e9 < less
    assert gpus_needed(asked, 1e6) is None


def test_data_parallelism_sends_what_the_zero_paper_says() -> None:
    """2 Psi numbers for DDP, ZeRO-1 and ZeRO-2, 3 Psi for ZeRO-3, times (N-1)/N."""
    asked = training(layout=Layout(data=64), sequence=1, micro_batch=1)
    psi = asked.parameters
    sent = [axes(asked, zero)[0].bytes_per_step / (2 * psi * 63 / 64) for zero in STAGES]
    assert sent == pytest.approx([2, 2, 2, 3])


def test_tensor_parallelism_sends_narayanans_8_bsh() -> None:
    layout = Layout(tensor=8, pipeline=8, data=2, micro_batches=16)
    asked = training("gpt3-175b", layout=layout, sequence=2048, micro_batch=1)
    _, tensor, pipeline, expert = axes(asked, "ddp")
    b, s, h, t = 1, 2048, 12288, 8
    assert tensor.bytes_per_step == pytest.approx(
        2 * 8 * b * s * h * (t - 1) / t * 12 * 16
    )  # 12 layers, 16 micro-batches
    assert tensor.times == 4 * 12 * 16
    assert pipeline.bytes_per_step == 2 * b * s * h * 2 * 16  # forward and back, a stage in the middle
    assert (expert.times, expert.bytes_per_step) == (0, 0)
    cut = replace(asked, layout=replace(layout, sequence_parallel=True))
    assert axes(cut, "ddp")[1].bytes_per_step == tensor.bytes_per_step
    assert axes(cut, "ddp")[2].bytes_per_step == pipeline.bytes_per_step / 8
    again = replace(asked, recompute="full")
    assert axes(again, "ddp")[1].bytes_per_step == 1.5 * tensor.bytes_per_step


def test_two_stages_send_one_way_each_and_alone_nobody_sends() -> None:
    two = training(layout=Layout(pipeline=2, micro_batches=4), sequence=8, micro_batch=1)
    assert axes(two, "ddp")[2].bytes_per_step == 4 * 8 * 4096 * 2
    alone = training(sequence=8, micro_batch=1)
    assert [axis.bytes_per_step for axis in axes(alone, "zero3")] == [0, 0, 0, 0]
    assert [axis.times for axis in axes(alone, "ddp")] == [0, 0, 0, 0]


def test_experts_send_tokens_four_times_a_layer() -> None:
    asked = training("mixtral-8x7b", layout=Layout(data=8, expert=8), sequence=4096, micro_batch=1, recompute="full")
    expert = axes(asked, "ddp")[3]
    each = 4096 * 2 * 4096 * 2 * 7 / 8  # tokens, experts of a token, width, bytes, what leaves the GPU
    assert expert.times == 6 * 32  # full recomputation repeats the two of forward
    assert expert.bytes_per_step == pytest.approx(expert.times * each)
    with pytest.raises(ValueError, match="need the model's shape"):
        axes(Training(1e9), "ddp")
