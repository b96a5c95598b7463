"""labtui validate: published values, ours, the error; and that a value that is off is seen."""

from __future__ import annotations

from typing import Any

import pytest

from labtui.theory import published
from labtui.theory.published import Value

RIGHT = Value("memory", "a right one", "Somebody, table 1", 31.4, "GB", 0.1, lambda: 31.40625, "one digit")
WRONG = Value("pipeline", "a wrong one", "Somebody, table 2", 27.3, "%", 0.05, lambda: 28.0)
BROKEN = Value("pipeline", "no number", "Somebody, table 2", 1.0, "%", 0.05, lambda: float("nan"))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[Value]:
    values = [RIGHT]
    monkeypatch.setattr(published, "everything", lambda: tuple(values))
    return values


def test_everything_that_is_known_agrees(labtui: Any) -> None:
    done = labtui("validate")
    assert done.code == 0 and "0 are out of tolerance" in done.out
    assert done.out.isascii() and max(map(len, done.out.splitlines())) <= 80
    assert "ZeRO, arXiv 1910.02054, table 1" in done.out and "31.406" in done.out


def test_one_json_document(labtui: Any, known: list[Value]) -> None:
    done = labtui("validate", "--json")
    assert done.code == 0 and (done.json["count"], done.json["outside"]) == (1, 0)
    (value,) = done.json["values"]
    assert value == {
        "topic": "memory", "what": "a right one", "source": "Somebody, table 1", "printed": 31.4, "ours": 31.40625,
        "unit": "GB", "error": pytest.approx(0.00625), "relative_error": pytest.approx(0.000199, abs=1e-6),
        "tolerance": 0.1, "why": "one digit", "agrees": True, "refused": None,
    }  # fmt: skip


def test_a_value_out_of_tolerance_is_exit_code_1(labtui: Any, known: list[Value]) -> None:
    known += [WRONG, BROKEN]
    done = labtui("validate")
    assert done.code == 1 and "3 published values, 2 are out of tolerance" in done.out
    (line,) = [line for line in done.out.splitlines() if "a wrong one" in line]
    assert line.split() == ["a", "wrong", "one", "27.3", "%", "28.000", "+2.56%", "!"]
    assert [value["agrees"] for value in labtui("validate", "--json").json["values"]] == [True, False, False]
    bad = labtui("validate", "--bad")
    assert bad.code == 1 and "a right one" not in bad.out and "no number" in bad.out


def test_one_that_theory_refuses_is_named_and_hides_no_other(labtui: Any, known: list[Value]) -> None:
    def refuses() -> float:
        raise ValueError("there is no schedule 'zb-9'")

    known.insert(0, Value("pipeline", "of a schedule", "Somebody, table 3", 1.0, "%", 0.05, refuses))
    done = labtui("validate")
    assert done.code == 1 and "there is no schedule 'zb-9'" in done.out and "a right one" in done.out
    first, second = labtui("validate", "--json").json["values"]
    assert (first["ours"], first["error"], first["agrees"]) == (None, None, False) and second["agrees"]


def test_one_topic(labtui: Any, known: list[Value]) -> None:
    known += [WRONG]
    assert labtui("validate", "memory").code == 0
    assert labtui("validate", "pipeline", "--json").json["count"] == 1
    assert labtui("validate", "weather").sentence == "there is no topic 'weather': memory, pipeline"
