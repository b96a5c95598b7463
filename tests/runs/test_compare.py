"""Runs laid side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labtui.runs.compare import Compared, checks, differs, document, predictions, results
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
        "results": [
            {
                "name": "t", "unit": "s", "labels": {"way": "x"}, "values": [2.0, 1.0], "relative": [1.0, 0.5],
                "difference": [0.0, -1.0], "spreads": None,
            }
        ],
        "checks": [],
        "predictions": [],
    }  # fmt: skip
    turned = document(["one", "two"], [a, b], baseline=1)
    assert turned["baseline"] == "two" and turned["results"][0]["relative"] == [2.0, 1.0]


def test_quantiles_are_the_spread_of_their_median() -> None:
    def measured(*values: float) -> list[dict[str, Any]]:
        stats = zip(("median", "p10", "p90"), values, strict=True)
        return [result("step_time", value, "ms", way="x", stat=stat) for stat, value in stats]

    a, b, c = run(*measured(10, 9, 11)), run(*measured(10.5, 10, 12)), run(*measured(20, 19, 21))
    (row,) = results([a, b, c])
    assert row.values == (10, 10.5, 20) and row.labels == {"way": "x", "stat": "median"}
    assert row.spreads == ((9, 11), (10, 12), (19, 21))
    assert [row.apart(place) for place in range(3)] == [False, False, True]
    # A median of a run that says no more has no spread, and p95 is a result of its own.
    rows = results([a, run(result("step_time", 10.0, "ms", way="x", stat="median")),
                    run(result("step_time", 30.0, "ms", way="x", stat="p95"))])  # fmt: skip
    assert [row.labels["stat"] for row in rows] == ["median", "p95"]
    assert rows[0].spreads == ((9, 11), None, None) and rows[0].apart(1) is None


def test_checks_and_predictions_lie_side_by_side() -> None:
    def proved(*checks: dict[str, Any], **predicted: float) -> Compared:
        told = tuple({"name": name, "predicted": 10, "measured": value} for name, value in predicted.items())
        return Compared(
            Request("id", "x", (), "p", "h", "u", 0, 1.0), Status(SUCCEEDED, 1.0, checks=checks, predictions=told)
        )

    ok, failed = {"name": "sum", "passed": True}, {"name": "sum", "passed": False}
    a, b = proved(ok, failed, bytes=12), proved({**failed, "expected": False}, {"name": "order", "passed": True})
    assert [(row.name, row.verdicts) for row in checks([a, b])] == [
        ("sum", ("failed", "expected")),
        ("order", (None, "ok")),
    ]
    assert [(row.name, row.values) for row in predictions([a, b])] == [("bytes", (1.2, None))]


def test_machine_versions_and_paths_differ_only_where_both_are_known() -> None:
    def on(gpu: str, torch: str, way: str) -> Compared:
        machine = {"cpu": "x", "cores": 8, "gpus": [{"name": gpu}] * 2, "versions": {"torch": torch}}
        return replace(run(), machine=machine, nccl={"pairs": [[0, 1, way], [1, 0, way]]})

    a, b = on("RTX 4090", "2.12", "SHM"), on("RTX 5090", "2.13", "P2P/IPC")
    assert differs([a, b, run()]) == {
        "machine.gpus": ["2 x RTX 4090", "2 x RTX 5090", None],
        "versions.torch": ["2.12", "2.13", None],
        "path 0-1": ["SHM", "P2P/IPC", None],
        "path 1-0": ["SHM", "P2P/IPC", None],
    }
    assert differs([a, run()]) == {}
