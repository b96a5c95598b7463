"""The fit against curves that others measured, against curves made up to be exact, and against a network that falls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory.collectives import bus_factor
from labtui.theory.fit import MOST_POINTS, Drop, drops, fit
from labtui.theory.published import collectives as published

TABLES = json.loads((Path(__file__).parents[1] / "data/vtrain_allreduce.json").read_text())
CURVES = TABLES["curves"]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: f"{curve['gpu']}-{curve['n']}")
def test_the_fit_is_no_worse_than_the_published_one(curve):
    """On the same rows: what vTrain's tables were fitted with (by least squares, over all 1024 points) and our fit."""
    factor = bus_factor("all_reduce", curve["n"])
    sizes, seconds = [row[0] for row in curve["rows"]], [row[1] * 1e-6 for row in curve["rows"]]
    alpha, beta = curve["fit"]["alpha_us"] * 1e-6, curve["fit"]["busbw_GBps"] * 1e9
    theirs = [abs(alpha + factor * s / beta - t) / t for s, t in zip(sizes, seconds, strict=True)]
    ours = fit(sizes, seconds, factor)
    assert ours.mean_error <= sum(theirs) / len(theirs)
    assert ours.largest_error <= 0.235  # "up to 23 % at the small end"
    # The plateau is a property of the machine, so both fits must see the same.
    assert ours.bytes_per_s == pytest.approx(beta, rel=0.05)
    assert ours.half_size == pytest.approx(ours.latency_s * ours.bytes_per_s / factor)


@given(
    alpha=st.floats(1e-6, 1e-2), beta=st.floats(1e8, 1e12), factor=st.floats(0.5, 2),
    sizes=st.lists(st.integers(1, 2**34), min_size=2, max_size=15, unique=True),
    spoilt=st.floats(1, 50),
)  # fmt: skip
def test_exact_times_give_back_their_latency_and_bandwidth(alpha, beta, factor, sizes, spoilt):
    seconds = [alpha + factor * size / beta for size in sizes]
    assert fit(sizes, seconds, factor).mean_error == pytest.approx(0, abs=1e-6)
    if len(sizes) > 4 and max(sizes) > 100 * min(sizes) and factor * max(sizes) / beta > alpha / 100:
        # One size at which the machine hiccuped doesn't bend the line.
        middle = sorted(range(len(sizes)), key=lambda index: sizes[index])[len(sizes) // 2]
        seconds[middle] *= spoilt
        found = fit(sizes, seconds, factor)
        assert found.mean_error <= (spoilt - 1) / spoilt / len(sizes) + 1e-6


def test_half_the_plateau_is_reached_where_latency_takes_half_the_time():
    found = fit([1e3, 1e6, 1e9], [1e-4 + 1.5 * size / 1e10 for size in (1e3, 1e6, 1e9)], 1.5)
    time = found.latency_s + 1.5 * found.half_size / found.bytes_per_s
    assert 1.5 * found.half_size / time == pytest.approx(found.bytes_per_s / 2)
    assert found.latency_s == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("sizes", "seconds", "factor", "sentence"),
    [
        ([1], [1], 1, "at least 2 different sizes"),
        ([1, 1], [1, 2], 1, "at least 2 different sizes"),
        ([1, 2], [1], 1, "a time for each"),
        ([1, 2], [1, 2], 0, "above 0"),
        ([1, 2], [0, 2], 1, "above 0"),
        (range(1, MOST_POINTS + 2), range(1, MOST_POINTS + 2), 1, "at most"),
    ],
)
def test_what_cannot_be_fitted_is_refused(sizes, seconds, factor, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit(sizes, seconds, factor)


def test_times_that_shrink_with_size_still_get_a_line_that_could_be():
    found = fit([1, 2, 4], [4.0, 2.0, 1.0], 1)
    assert found.latency_s >= 0
    assert found.bytes_per_s > 0


def test_a_sick_network_falls_and_healthy_ones_do_not():
    def found(curve):
        return drops([row[0] for row in curve.rows], [row[2] for row in curve.rows])

    assert found(published.SICK) == [Drop(size=2**26, before=29.5, after=5.27, lasting=True)]
    assert found(published.A100) == found(published.RTX_4090) == []
    for curve in CURVES:
        assert drops([row[0] for row in curve["rows"]], [row[2] for row in curve["rows"]]) == []


def test_a_kink_comes_back():
    assert drops([1, 2, 4, 8], [1, 10, 5, 9]) == [Drop(size=4, before=10, after=5, lasting=False)]
    assert drops([1, 2, 4, 8], [1, 10, 5, 4]) == [Drop(size=4, before=10, after=5, lasting=True)]
    assert [drop.size for drop in drops([1, 2, 4, 8, 16], [10, 5, 9, 5, 5])] == [2, 8]
    assert drops([], []) == []
    with pytest.raises(ValueError, match="growing sizes"):
        drops([2, 1], [1, 1])


@given(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=20))
def test_bandwidth_that_never_shrinks_has_no_drops(values):
    assert drops(range(len(values)), sorted(values)) == []
