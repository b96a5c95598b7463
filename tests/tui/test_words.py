"""How numbers and states are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.runs import records
from labtui.tui import words


def test_every_state_has_two_letters_of_its_own_kind() -> None:
    for state in records.LIVE | records.ENDED:
        letters, role = words.mark(state)
        assert len(letters) == 2 and role
    assert words.mark(None) == words.NEVER_RUN
    assert words.mark("something new") == ("??", "bad")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "n/a"), (0.4, "00:00"), (41.9, "00:41"), (3723, "1:02:03"), (90_000, "1 d 01 h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert words.clock(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "n/a"), (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (6442450, "6.44 MB"), (812e6, "812 MB"),
     (999.9e6, "1 GB"), (1.94e12, "1.94 TB"), ("x", "n/a"), (float("nan"), "n/a")],
)  # fmt: skip
def test_sizes(value: Any, text: str) -> None:
    assert words.size(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(None, "ms", "n/a"), (True, "", "yes"), ("float32", "", "float32"), (18, "", "18"), (12.3456, "ms", "12.35 ms"),
     (5.96e-8, "", "5.96e-8"), (8416980, "B", "8.42 MB"), (0.1 + 0.2, "", "0.3")],
)  # fmt: skip
def test_quantities(value: Any, unit: str, text: str) -> None:
    assert words.quantity(value, unit) == text


@given(st.none() | st.floats() | st.integers() | st.text(max_size=3) | st.booleans())
def test_whatever_was_reported_can_be_written(value: Any) -> None:
    assert words.quantity(value, "B") or value == ""
    assert words.size(value)
    assert words.percent(value)


def test_moments() -> None:
    now = 1_764_417_800.0
    assert len(words.when(now, now)) == 5
    assert words.when(now - 86_400 * 3, now).split()[1].isalpha()
    assert words.when(now - 86_400 * 800, now).split()[-1] == "2023"
    assert words.when(1e300, now) == words.when(None, now) == "n/a"
