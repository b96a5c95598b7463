"""labtui compare."""

from __future__ import annotations

from typing import Any

import pytest


def result(value: float, **labels: Any) -> dict[str, Any]:
    return {"kind": "result", "rank": 0, "name": "step_time", "value": value, "unit": "ms", "labels": labels}


@pytest.fixture
def two(make_run: Any) -> list[str]:
    first = make_run(request={"variant": "one"}, status={"results": (result(20.0, way="\x1b[31mx"),)})
    second = make_run(request={"variant": "two"}, status={"results": (result(10.0, way="\x1b[31mx"),)})
    return [first.id, second.id]


def test_a_table_for_people(labtui: Any, two: list[str]) -> None:
    done = labtui("compare", *two)
    assert done.code == 0 and "\x1b" not in done.out
    assert f"a  {two[0]}  (baseline)" in done.out and "variant" in done.out
    (row,) = (line for line in done.out.splitlines() if line.startswith("step_time"))
    assert row.split()[-4:] == ["20", "10", "-10", "0.500"]


def test_one_document_for_programs(labtui: Any, two: list[str]) -> None:
    document = labtui("compare", *two, "--json").json
    assert document["baseline"] == two[0] and document["runs"] == two
    assert document["differs"] == {"variant": ["one", "two"]}
    assert document["results"][0]["relative"] == [1.0, 0.5]


def test_a_group_by_one_of_its_runs(labtui: Any, make_run: Any) -> None:
    ids = ["20261129-120000-x-0001", "20261129-120000-x-0002"]
    for number, name in enumerate(ids):
        following = ids[number + 1] if number + 1 < len(ids) else None
        make_run(id=name, request={"group": ids[0], "next": following, "variant": str(number)})
    assert labtui("compare", "--group", ids[1], "--json").json["runs"] == ids


def test_what_can_not_be_compared_gets_a_sentence(labtui: Any, two: list[str]) -> None:
    assert labtui("compare", two[0]).sentence.endswith("2 to 26 runs can be compared, not 1")
    assert labtui("compare", "--group", two[0]).sentence.endswith("is in no group")
    assert "no run" in labtui("compare", two[0], "nothing").sentence
