"""sharded_step: what a step holds is what torch's tracker counts, what it sends follows from ZeRO's counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import models, sharded_step
from labtui.theory.models import SIZES

TINY = SIZES["tiny"]
BLOCK = models.layer_parameters(TINY)
ROOT = models.parameters(TINY) - TINY.layers * BLOCK
FSDP = [name for name, way in sharded_step.WAYS.items() if way.stage == "zero3"]

# The most that FSDPMemTracker of torch 2.13 counts in a step of 4 sequences, bench.gpt on fake tensors with AdamW
# (foreach), GB: by size, ranks and way.
TRACKED = {
    ("300m", 1): {"reshard": 10.250, "no_reshard": 11.409, "mixed": 6.950, "bf16": 5.129, "recompute": 6.071},
    ("1b", 1): {"reshard": 27.872, "no_reshard": 32.505, "mixed": 24.221, "bf16": 13.940, "recompute": 24.221},
    ("300m", 4): {"reshard": 7.569, "no_reshard": 8.677, "mixed": 4.243, "bf16": 3.788, "recompute": 1.819},
    ("1b", 4): {"reshard": 17.175, "no_reshard": 21.640, "mixed": 10.408, "bf16": 8.591, "recompute": 6.162},
}


@pytest.mark.parametrize(("size", "ranks"), list(TRACKED))
def test_the_peak_is_what_torch_counts(size, ranks):
    for way, tracked in TRACKED[size, ranks].items():
        assert sharded_step.memory(way, SIZES[size], 4, ranks).peak / 1e9 == pytest.approx(tracked, rel=0.02), way


def test_state_by_way():
    psi = models.parameters(TINY)
    kept = {name: sharded_step.memory(name, TINY, 4, 4) for name in sharded_step.WAYS}
    assert kept["alone"].kept == 16 * psi
    assert kept["ddp"].kept == 20 * psi  # and buckets
    assert kept["zero1"].kept == (12 + 8 / 4) * psi
    assert kept["reshard"].kept == 16 * psi / 4
    assert kept["bf16"].kept == 8 * psi / 4
    assert sharded_step.memory("offload", TINY, 4, 4, offloaded=True).kept == 0
    halfway = sharded_step.memory("reshard_to", TINY, 4, 4, reshard_to=2).gathered
    assert kept["reshard"].gathered < halfway < kept["no_reshard"].gathered
    assert "buckets" not in kept["reshard"].parts() and "gathered" not in kept["ddp"].parts()


def test_calls_and_bytes_of_a_step():
    """As torch 2.13 does it on two ranks: 4 blocks, so 9 all-gathers with resharding, 5 without."""
    ways = {name: sharded_step.sent(name, BLOCK, 4, ROOT, 53, 2) for name in sharded_step.WAYS}
    assert dict(ways["reshard"].calls) == {"all_gather": 9, "reduce_scatter": 5, "all_reduce": 1}
    assert dict(ways["reshard"].bytes) == {"all_gather": 6452224, "reduce_scatter": 3279872, "all_reduce": 212}
    assert ways["no_reshard"].calls["all_gather"] == 5
    assert ways["ddp"].ideal == ways["ddp"].gloo == 3279872
    assert ways["zero1"].ideal == 1.5 * 3279872
    assert ways["no_reshard"].ideal == 3279872 + 212  # DDP's bytes, and the norms
    assert ways["no_reshard"].gloo / ways["no_reshard"].ideal == pytest.approx(1.5, rel=1e-3)
    assert ways["reshard"].gloo / ways["reshard"].ideal == pytest.approx(4 / 3, rel=0.01)
    assert ways["alone"] == sharded_step.Sent()


def test_resharding_to_fewer_ranks_lies_between():
    sent = {to: sharded_step.sent("reshard_to", BLOCK, 4, 0, 0, 4, reshard_to=to).ideal for to in (2, 4)}
    whole = 4 * 4 * BLOCK
    assert sent[2] == pytest.approx((3 / 4 + 1 / 2 + 3 / 4) * whole)
    assert sent[4] == pytest.approx(9 / 4 * whole)


@given(st.sampled_from(FSDP), st.integers(1, 512), st.integers(1, 16))
def test_more_ranks_never_hold_more(way, ranks, sequences):
    few, many = (sharded_step.memory(way, TINY, sequences, count) for count in (ranks, 2 * ranks))
    assert many.peak <= few.peak
    assert few.kept <= few.peak <= sum(few.parts().values()) + few.parameters + 4 * models.parameters(TINY)


@given(st.sampled_from(list(sharded_step.WAYS)))
def test_one_rank_sends_nothing(way):
    assert sharded_step.sent(way, BLOCK, 4, ROOT, 53, 1) == sharded_step.Sent()


def test_an_unknown_way():
    with pytest.raises(ValueError, match="'zero4' is no way to share out training"):
        sharded_step.memory("zero4", TINY, 1, 1)
