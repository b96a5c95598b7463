"""FLOPs against published formulas, training runs and ratios, and what can be hidden behind backward."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import flops, models

# Models of Korthikanti et al., arXiv 2205.05198, tables 3 and 5: layers, heads, width, batch, GPUs, seconds per
# iteration, printed MFU and HFU in percent. A100, 312 TFLOP/s; context 2048, vocabulary 51200.
KORTHIKANTI = (
    (48, 64, 6144, 4, 8, 1.10, 41.5, 43.7),
    (96, 96, 12288, 64, 64, 13.75, 51.4, 52.8),
    (105, 128, 20480, 280, 280, 37.83, 56.0, 57.0),
    (128, 160, 25600, 512, 512, 71.49, 56.3, 57.0),
)


@pytest.mark.parametrize(("layers", "heads", "width", "batch", "gpus", "seconds", "mfu", "hfu"), KORTHIKANTI)
def test_published_utilization_follows_from_the_printed_time(layers, heads, width, batch, gpus, seconds, mfu, hfu):
    shape = models.GptShape(layers, heads, width, context=2048, vocabulary=51200, tied=True)
    s, h, v = 2048, width, 51200
    model = 72 * batch * layers * s * h**2 * (1 + s / (6 * h) + v / (12 * h * layers))
    hardware = 72 * batch * layers * s * h**2 * (1 + s / (3 * h) + v / (12 * h * layers))
    assert flops.training(shape, batch) == pytest.approx(model, rel=1e-12)
    found = 100 * flops.utilization(flops.training(shape, batch) / seconds / gpus, 312)
    assert found == pytest.approx(mfu, abs=0.2)  # the smallest model's time is printed with three digits
    # Their hardware count recomputes attention's core, and counts that in forward and backward.
    redone = flops.training(shape, batch, recompute="selective") + 2 * layers * _core(shape, batch)
    assert redone == pytest.approx(hardware, rel=1e-12)
    assert 100 * flops.utilization(redone / seconds / gpus, 312) == pytest.approx(hfu, abs=0.2)


def _core(shape: models.GptShape, batch: int) -> float:
    return flops.layer_forward(shape, batch).attention_core


def test_full_recomputation_is_narayanans_formula():
    b, s, layers, h, v = 1536, 2048, 80, 12288, 51200  # arXiv 2104.04473
    shape = models.GptShape(layers, 96, h, s, v, tied=True)
    formula = 96 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert flops.training(shape, b, recompute="full") == pytest.approx(formula, rel=1e-12)


def test_six_nd_tells_how_fast_deepseeks_gpus_were():
    # DeepSeek-V3: 37e9 active parameters, 14.8e12 tokens, 2.664e6 GPU-hours.
    operations = flops.six_nd(37e9, 14.8e12)
    assert operations / (2.664e6 * 3600) / 1e12 == pytest.approx(342.6, abs=0.05)
    mfu = flops.utilization(342.6e12, 989)
    assert flops.gpu_hours(operations, 989, mfu) == pytest.approx(2.664e6, rel=1e-3)


@pytest.mark.parametrize(
    ("parameters", "tokens", "gpus", "tflops", "days"),
    [(175e9, 300e9, 1024, 140, 33.9), (1008e9, 450e9, 3072, 163, 83.9)],
)
def test_days_of_two_published_trainings(parameters, tokens, gpus, tflops, days):
    # Narayanan et al.: 8 T P / (n X), since everything is recomputed: four thirds of 6ND.
    hours = flops.gpu_hours(flops.six_nd(parameters, tokens) * 4 / 3, 312, tflops / 312)
    assert hours / gpus / 24 == pytest.approx(days, abs=0.05)


def test_per_layer_the_products_add_up():
    shape = models.size("baby")
    layer = flops.layer_forward(shape, 4)
    tokens, h = 4 * 256, 384
    assert layer.total == 24 * tokens * h**2 + 4 * tokens * 256 * h
    assert layer.mlp == 2 * (layer.queries_keys_values + layer.projection)
    assert layer.attention_core == layer.scores + layer.values == 4 * tokens * 256 * h
    # Twice as long: weights cost twice as much, the core four times.
    longer = flops.layer_forward(shape, 4, length=512)
    assert (longer.mlp, longer.scores) == (2 * layer.mlp, 4 * layer.scores)
    assert flops.training(shape, 4) == 3 * flops.forward(shape, 4)


def test_what_torch_misses_on_the_cpu():
    # Measured with torch 2.13: 65.4 GFLOP counted of 73.9 for 4 sequences of the baby model.
    shape = models.size("baby")
    assert flops.missed_by_torch_on_cpu(shape, 4) == pytest.approx(8.456e9, rel=1e-3)
    assert flops.training(shape, 4) == pytest.approx(72.65e9, rel=1e-3)


def test_impossible_machines_are_refused():
    with pytest.raises(ValueError, match="recompute is 'half', none, selective, full expected"):
        flops.training(models.size("tiny"), 1, recompute="half")
    with pytest.raises(ValueError, match="peak is above 0"):
        flops.utilization(1, 0)
    with pytest.raises(ValueError, match="an MFU lies above 0"):
        flops.gpu_hours(1, 312, 1.1)
    with pytest.raises(ValueError, match="more than 0 GB/s"):
        flops.flops_per_byte(1, 0)
    with pytest.raises(ValueError, match="at least 1 rank"):
        flops.tokens_to_hide(1, 0, 4)


def test_published_balances():
    found = [round(machine.flops_per_byte) for machine in flops.PUBLISHED_BALANCES]
    assert found == [9700, 6181, 19780]  # "about 10 thousand", "about 6 thousand", "about 20 thousand"


def test_tokens_to_hide_is_the_playbooks_ratio_put_right():
    # Its appendix A3 with bytes instead of elements: 64 ranks, 16384 tokens, bf16, H100 over 50 GB/s.
    needed = flops.tokens_to_hide(flops.flops_per_byte(989, 50), 64, element=2)
    assert needed / 16384 == pytest.approx(1.1884, abs=1e-4)
    assert flops.tokens_to_hide(1e4, 1, 4) == 0  # nobody to talk to


def test_exposed_time_of_one_and_of_many_buckets():
    assert flops.exposed_seconds([10], [3]) == 3  # full only at the end: nothing is hidden
    assert flops.hidden_share([10], [3]) == 0
    assert flops.exposed_seconds([2, 10], [3, 1]) == 1
    assert flops.hidden_share([2, 10], [3, 1]) == 0.75
    assert flops.exposed_seconds([2, 4, 6], [10, 10, 10]) == 26  # backward is too short
    assert flops.hidden_share([], []) == 0
    with pytest.raises(ValueError, match="2 buckets and 1 transfers"):
        flops.exposed_seconds([1, 2], [1])


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=8))
def test_the_last_bucket_is_never_hidden_and_nothing_is_hidden_twice(pairs):
    steps, transfers = zip(*pairs, strict=True)
    ready = [sum(steps[: index + 1]) for index in range(len(steps))]
    exposed = flops.exposed_seconds(ready, transfers)
    assert transfers[-1] - 1e-9 <= exposed <= sum(transfers) + 1e-9
    assert -1e-9 <= flops.hidden_share(ready, transfers) <= 1


def test_one_bucket_hides_exactly_nothing_whatever_the_rounding() -> None:
    for backward in (0.1, 1 / 3, 0.0317, 7.3e-4, 2.2):
        assert flops.hidden_share([backward], [0.0085598]) == 0.0
