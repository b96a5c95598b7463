"""Runs laid side by side."""

from __future__ import annotations

from typing import Any

from labtui.runs.compare import Compared, differs, document, results
from labtui.runs.records import SUCCEEDED, Request, Status


def result(name: str, value: float | None, unit: str = "", **labels: Any) -> dict[str, Any]:
    return {"kind": "result", "rank": 0, "name": name, "value": value, "unit": unit, "labels": labels}


def run(*found: dict[str, Any], **asked: Any) -> Compared:
    request = Request("id", "x", (), "p", "h", "u", 0, 1.0, **{"nproc": 2, **asked})
    return Compared(request, Status(SUCCEEDED, 1.0, results=found))


def test_only_what_differs_is_named() -> None:
    a = run(variant="a", parameters={"n": 1, "m": 2}, environment={"NCCL_P2P_DISABLE": "1"})
    b = run(variant="b", parameters={"n": 1, "m": 3}, link={"rate_bits": 1e9, "model": "per_rank"})
    assert differs([a, b]) == {
        "variant": ["a", "b"],
        "link": [None, "1 Gbit/s per_rank"],
        "parameters.m": [2, 3],
        "environment.NCCL_P2P_DISABLE": ["1", None],
    }
    assert differs([a, a]) == {}


def test_results_meet_by_name_and_labels() -> None:
    a = run(result("busbw", 10.0, "GB/s", size=1), result("busbw", 20.0, "GB/s", size=2), result("only_a", 1.0))
    b = run(result("busbw", 5.0, "GB/s", size=2), result("busbw", 7.0, "GB/s", size=3))
    rows = {(row.name, row.labels.get("size")): row for row in results([a, b])}
    assert rows["busbw", 2].values == (20.0, 5.0) and rows["busbw", 2].relative == (1.0, 0.25)
    assert rows["busbw", 1].values == (10.0, None) and rows["busbw", 1].relative == (1.0, None)
    assert rows["busbw", 3].values == (None, 7.0) and rows["busbw", 3].relative == (None, None)
    assert rows["only_a", None].values == (1.0, None)


def test_a_label_that_is_the_difference_keeps_nothing_apart() -> None:
    """Two ranks against four: every result carries the world size."""
    a = run(result("time", 1.0, size=1, world_size=2), result("time", 2.0, size=2, world_size=2), nproc=2)
    b = run(result("time", 3.0, size=1, world_size=4), result("time", 4.0, size=2, world_size=4), nproc=4)
    assert [(row.labels, row.values) for row in results([a, b])] == [
        ({"size": 1}, (1.0, 3.0)),
        ({"size": 2}, (2.0, 4.0)),
    ]


def test_unknown_is_no_zero_and_the_newest_word_counts() -> None:
    a = run(result("x", None), result("y", 0.0), result("z", 1.0), result("z", 2.0))
    b = run(result("x", 1.0), result("y", 1.0), result("z", 4.0))
    assert [(row.values, row.relative) for row in results([a, b])] == [
        ((None, 1.0), (None, None)),
        ((0.0, 1.0), (None, None)),
        ((2.0, 4.0), (1.0, 2.0)),
    ]


def test_the_document_is_as_formats_say() -> None:
    a, b = run(result("t", 2.0, "s", way="x"), variant="a"), run(result("t", 1.0, "s", way="x"), variant="b")
    assert document(["one", "two"], [a, b]) == {
        "baseline": "one",
        "runs": ["one", "two"],
        "differs": {"variant": ["a", "b"]},
        "results": [{"name": "t", "unit": "s", "labels": {"way": "x"}, "values": [2.0, 1.0], "relative": [1.0, 0.5]}],
    }
