"""Published values: that ours agree, that the tolerance can be missed, and that every value names its source."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from labtui.theory import published
from labtui.theory.published import Value, agrees

VALUES = published.everything()


@pytest.mark.parametrize("topic", sorted({value.topic for value in VALUES}))
def test_ours_agree(topic: str) -> None:
    wrong = [
        (value.what, value.source, value.printed, value.ours())
        for value in VALUES
        if value.topic == topic and not agrees(value, value.ours())
    ]
    assert not wrong


def test_all_tables_are_there() -> None:
    counts = Counter(value.source for value in VALUES)
    assert counts["Rajbhandari et al., ZeRO, arXiv 1910.02054, table 1"] == 54
    assert counts["Korthikanti et al., arXiv 2205.05198, figure 1"] == 12
    assert counts["Korthikanti et al., arXiv 2205.05198, figure 7"] == 16
    assert counts["Narayanan et al., arXiv 2104.04473, table 2"] == 12
    topics = Counter(value.topic for value in VALUES)
    assert topics["memory"] >= 150 and topics["throughput"] >= 70 and topics["parameters"] >= 30
    assert topics["collectives"] >= 48


def test_every_value_says_what_it_is() -> None:
    for value in VALUES:
        assert value.topic and value.what and value.source and value.tolerance >= 0, value
        assert math.isfinite(value.printed)
        # A tolerance as large as the value would prove nothing.
        assert value.tolerance <= 0.15 * abs(value.printed) or value.printed <= 2, value
    names = Counter((value.topic, value.source, value.what) for value in VALUES)
    assert [name for name, count in names.items() if count > 1] == []


def test_figure_1_of_korthikanti_is_met_to_the_last_digit() -> None:
    exact = [value for value in VALUES if value.source.endswith("2205.05198, figure 1")]
    assert [value.ours() for value in exact] == [value.printed for value in exact]


def test_a_wrong_value_is_told_from_a_right_one() -> None:
    value = Value("memory", "x", "nobody", 31.4, "GB", 0.1, lambda: 31.4)
    assert agrees(value, 31.4) and agrees(value, 31.5) and agrees(value, 31.3)
    assert not agrees(value, 31.51) and not agrees(value, 31.29)
    assert not agrees(value, math.nan) and not agrees(value, math.inf)
    exact = Value("memory", "x", "nobody", 0.3, "s", 0, lambda: 0.3)
    assert agrees(exact, 0.1 + 0.2) and not agrees(exact, 0.3001)
