"""A guide's blocks beside real runs: numbers are found, or their absence explained; verdicts say what they rest on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.catalog.guide import FACTS, Bound, Expect, Quiz
from labtui.runs import lesson, progress
from labtui.runs.compare import Compared
from labtui.runs.lesson import GOOD, HIGH, LOW, UNKNOWN, Known, Missing
from labtui.runs.progress import Progress
from labtui.runs.records import SUCCEEDED, Request, Status


def reported(name: str, value: float | None, unit: str = "", why: str | None = None, **labels: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "labels": labels} | ({"why": why} if why else {})


def run(*results: dict[str, Any], machine: Any = None, predictions: Any = (), **asked: Any) -> Compared:
    request = Request("id", "x", (), "p", "h", "u", 0, 1.0, **{"nproc": 4, "device": "cpu", **asked})
    return Compared(request, Status(SUCCEEDED, 1.0, results=results, predictions=tuple(predictions)), machine)


def test_a_number_is_found_by_name_and_labels() -> None:
    sweep = run(
        reported("busbw", 4.0, "GB/s", size=1, collective="all_reduce"),
        reported("busbw", 9.0, "GB/s", size=2, collective="all_reduce"),
        reported("busbw", 9.5, "GB/s", size=2, collective="all_reduce"),
        reported("gone", None, why="nan"),
    )
    assert lesson.result(sweep, "busbw", {"size": 2}) == Known(9.5, "GB/s", "busbw"), "the newest word counts"
    assert lesson.result(sweep, "busbw", {}) == Missing("2 results busbw fit: the guide must say which (where)")
    assert lesson.result(sweep, "busbw", {"size": 3}) == Missing("the run reported no busbw with size 3")
    assert lesson.result(sweep, "gone", {}) == Missing("gone is no number: nan")


def test_the_one_with_just_these_labels_counts() -> None:
    """A run may report a number for each count of ranks, and once more as the number of the run."""
    scaled = run(reported("e", 1.0, ranks=1), reported("e", 0.8, ranks=2), reported("e", 0.7))
    assert lesson.result(scaled, "e", {}) == Known(0.7, "", "e")
    assert lesson.result(scaled, "e", {"ranks": 2}) == Known(0.8, "", "e")


def test_of_quantiles_the_median_with_its_spread() -> None:
    timed = run(*(reported("step", value, "ms", way="a", stat=stat) for stat, value in
                  (("median", 10.0), ("p10", 9.0), ("p90", 12.0), ("p95", 13.0))))  # fmt: skip
    assert lesson.result(timed, "step", {}) == Known(10.0, "ms", "step", (9.0, 12.0))
    assert lesson.result(timed, "step", {"stat": "p95"}) == Known(13.0, "ms", "step")
    two = run(*timed.status.results, reported("step", 1.0, "ms", way="b", stat="median"))
    assert isinstance(lesson.result(two, "step", {}), Missing)
    assert isinstance(lesson.result(two, "step", {"way": "a"}), Known)


def test_a_verdict_with_its_range() -> None:
    block = Expect("base", "busbw", 1, at_least=Bound(0.6, "link.ceiling"), at_most=Bound(1.0, "link.ceiling"),
                   good="fine", low="slow", high="strange")  # fmt: skip
    for value, word, sentence in ((0.1, GOOD, "fine"), (0.05, LOW, "slow"), (0.2, HIGH, "strange")):
        on_a_link = run(reported("busbw", value), link={"rate_bits": 1e9, "model": "per_rank"})
        found = lesson.verdict(block, on_a_link)
        assert (found.word, found.sentence) == (word, sentence)
        assert found.low == Known(0.6 * 0.125, "GB/s", "0.6 x link.ceiling (the shaped link's rate)")
    nowhere = lesson.verdict(block, run(reported("busbw", 1.0)))
    assert nowhere.word == UNKNOWN and not nowhere.sentence
    assert isinstance(nowhere.low, Missing) and "memory" in nowhere.low.why
    assert lesson.verdict(block, run()).word == UNKNOWN
    # One bound that is known is enough to be too low.
    half = Expect("base", "busbw", 1, at_least=Bound(2.0), at_most=Bound(1.0, "link.ceiling"), low="slow")
    assert lesson.verdict(half, run(reported("busbw", 1.0))).word == LOW


def test_facts_are_the_runs_own() -> None:
    machine = {
        "cores": 64,
        "gpus": [{"name": "NVIDIA H100 80GB HBM3", "memory": 85e9}, {"name": "NVIDIA A100-SXM4-80GB", "memory": 86e9}],
        "topology": {"ceilings": [{"pair": [0, 1], "gb_per_s": 450.0, "what": "NVLink"}, {"gb_per_s": 31.5}]},
    }
    on_gpus = run(machine=machine, device="cuda", profile={"beta": 11.5},
                  predictions=[{"name": "bytes", "predicted": 100, "unit": "B"}])  # fmt: skip
    found = {name: lesson.fact(name, on_gpus) for name in (*FACTS, "prediction:bytes")}
    values = {name: known.value for name, known in found.items() if isinstance(known, Known)}
    assert values == {
        "world_size": 4, "host.cores": 64, "link.measured": 11.5, "link.ceiling": 31.5, "gpu.memory": 85e9,
        "gpu.peak_tflops": 312, "prediction:bytes": 100,
    }  # fmt: skip
    for name in (*FACTS, "prediction:x"):
        if name != "world_size":
            assert isinstance(lesson.fact(name, run()), Missing), name
    strange = run(machine={"gpus": [{"name": "Secret"}]}, device="cuda")
    assert lesson.fact("gpu.peak_tflops", strange) == Missing("no published peak is known for Secret")
    bus = run(link={"rate_bits": 1e9, "model": "bus"})
    assert lesson.fact("link.ceiling", bus) == Known(0.125 / 4, "GB/s", "each rank's part of the shaped bus")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), (" 1.5e9 ", 1.5e9), ("1,5", 1.5), ("3/11", 3 / 11), ("27.3 %", 0.273), ("64 MiB", 64 * 2**20),
        ("2k", 2000), ("3 GB", 3e9), ("1_000", 1000), ("-4", -4), ("", None), ("abc", None), ("1/0", None),
        ("nan", None), ("inf", None), ("1e999", None), ("٣", None), ("1/2/4", 2),
    ],
)  # fmt: skip
def test_numbers_as_people_type_them(text: str, value: float | None) -> None:
    assert lesson.parse_number(text) == (pytest.approx(value) if value is not None else None)


@given(st.text(max_size=30))
def test_no_typed_text_breaks_it(text: str) -> None:
    lesson.parse_number(text)


def test_answers_and_guesses() -> None:
    quiz = Quiz("q", 1, number=0.226, tolerance=0.005)
    assert lesson.is_right(quiz, 0.231) and not lesson.is_right(quiz, 0.24) and not lesson.is_right(quiz, [0])
    choice = Quiz("q", 1, choices=("a", "b", "c"), correct=(0, 2))
    assert lesson.is_right(choice, [2, 0]) and not lesson.is_right(choice, [0]) and not lesson.is_right(choice, 0.0)
    words = [lesson.guess_words(guess, 10.0) for guess in (10.0, 10.5, 15.0, 42.0, 5.0, 1.0, -1.0)]
    assert words == ["exactly", "within 10 %", "50 % too high", "4.2 times too high", "2 times too low",
                     "10 times too low", "too low"]  # fmt: skip


def test_progress_is_kept_and_never_in_the_way() -> None:
    assert progress.read("ring") == Progress()
    begun = Progress().at(2).with_run("base", "id-1").with_guess("how fast?", 12.0).with_answer("which?", [0, 2])
    progress.write("ring", begun.with_answer("how many?", 0.25))
    assert progress.read("ring") == begun.with_answer("how many?", 0.25)
    assert progress.read("another") == Progress()
    for text in ("", "[]", "{", '{"step": -1, "runs": 3}', '{"step": true, "guesses": {"a": 1e999, "b": null}}',
                 json.dumps({"guesses": {"a": 10**400}, "answers": {"b": [1, "x"], "c": {}}})):  # fmt: skip
        progress.file_of("ring").write_text(text)
        assert progress.read("ring") == Progress(), text
    assert progress.file_of("../../etc/passwd").name == "unnamed.json"
