"""A learner's file: what it returns becomes an order, and whatever else it does ends in one sentence and no process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from labtui.runs import learner
from labtui.runs.learner import LearnerError
from labtui.runs.process import carrying
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.schedules import build

ONE_F_ONE_B = """
def schedule(p, m):
    lists = []
    for s in range(p):
        w = min(p - s - 1, m)
        steady = [op for j in range(m - w) for op in (("F", w + j), ("B", j))]
        lists.append([("F", i) for i in range(w)] + steady + [("B", i) for i in range(m - w, m)])
    return lists
"""
GPIPE = 'def schedule(p, m):\n    return [[("F", i) for i in range(m)] + [("B", i) for i in range(m)]] * p\n'


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Asks a file of this text, and sees that none of its processes is left."""
    monkeypatch.setenv("LABTUI_TEST_LEARNER", str(tmp_path))
    printed: list[str] = []

    def ask(text: str, p: int = 2, m: int = 4, seconds: float = 30.0):
        path = tmp_path / "my.py"
        path.write_text(text)
        ask.printed = printed
        try:
            return learner.order(path, p, m, seconds=seconds, show=printed.append)
        finally:
            left = time.monotonic() + 10
            while carrying("LABTUI_TEST_LEARNER", str(tmp_path)):
                assert time.monotonic() < left, "a process of the file is left"
                os.sched_yield()

    return ask


def refusal(asked, text: str, **sizes) -> str:
    with pytest.raises(LearnerError) as raised:
        asked(text, **sizes)
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


def test_the_exercises_solution_is_1f1b(asked):
    assert asked(ONE_F_ONE_B, 4, 8).devices == build("1f1b", 4, 8).devices
    assert asked(ONE_F_ONE_B).name == "my"


def test_what_it_prints_is_shown_and_no_part_of_the_answer(asked):
    asked('import sys\nprint("[]\\x1b[31m", flush=True)\nprint("err", file=sys.stderr)\n' + GPIPE)
    assert asked.printed == ["[]\nerr"]


def test_nothing_of_it_runs_here_and_it_has_no_input(asked):
    order = asked(f"import os, sys\nassert os.getpid() != {os.getpid()} and sys.stdin.read() == ''\n" + GPIPE)
    assert order.devices == build("gpipe", 2, 4).devices


def test_its_neighbours_can_be_imported_but_not_in_place_of_pythons_own(asked, tmp_path):
    (tmp_path / "neighbour.py").write_text("KIND = 'F'\n")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n")
    asked("import json, neighbour\nassert neighbour.KIND == 'F' and json.dumps\n" + GPIPE)


def test_a_process_that_it_leaves_is_ended(asked):
    asked("import os, time\nif os.fork() == 0:\n    time.sleep(600)\n" + GPIPE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", "my.py defines no function schedule(p, m)"),
        ("def schedule_1f1b(p, m): ...", "my.py defines no function schedule(p, m), only schedule_1f1b"),
        ("def schedule(p, m)\n    ...", "my.py, line 1: SyntaxError: expected ':'"),
        ("def schedule(p): ...", "my.py: TypeError: schedule() takes 1 positional argument but 2 were given"),
        ("def schedule(p, m):\n    return 1 / 0", "my.py, line 2: ZeroDivisionError: division by zero"),
        ("def schedule(p, m):\n    return [\n        m[0]]", "my.py, line 3: TypeError: 'int' object is not"),
        ("import sys\n\nsys.exit(3)", "my.py, line 3: SystemExit: 3"),
        ("class E(Exception):\n  def __str__(self): 1 / 0\nraise E", "my.py, line 3: E"),
        ("raise ValueError('a\\nb' + 'x' * 1000)", "my.py, line 1: ValueError: a b" + "x" * 194 + "..."),
        ("import os\ndef schedule(p, m):\n    os._exit(3)", "my.py ended without an answer (exit code 3)"),
        ("import os\nos.kill(os.getpid(), 11)", "my.py ended without an answer (SIGSEGV)"),
        ("def schedule(p, m): ...", "my.py: a list for each of the 2 devices is expected, not None"),
        ("def schedule(p, m):\n    return {}", "my.py: a list for each of the 2 devices is expected, not a dict"),
        ("def schedule(p, m):\n    return [[('F', 0)]]", "my.py: a list for each of the 2 devices is expected, not 1"),
        ("def schedule(p, m):\n    input()", "my.py, line 2: EOFError: EOF when reading a line"),
        (
            "def schedule(p, m):\n    return {1, 2}",
            "my.py: schedule(2, 4) returns what is no list of operations for each device (there is a set in it)",
        ),
        (
            "def schedule(p, m):\n    return [[('F', 0)] * 100_000] * p",
            "my.py: schedule(2, 4) returns far more than the 16 operations of these sizes",
        ),
        ("def schedule(p, m):\n    return [[('F', float('nan'))]] * p", "my.py: device 0, operation 1: nan is no"),
        (GPIPE.replace('("B"', '("F"'), "my.py: device 0 has F0 of stage 0 twice"),
        (GPIPE.replace("range(m)]]", "range(m - 1)]]"), "my.py: device 0 has no backward (B, or I and W) of micr"),
    ],
)  # fmt: skip
def test_each_fault_has_its_sentence(asked, text, sentence):
    assert refusal(asked, text).startswith(sentence)


def test_a_deep_answer_is_no_list(asked):
    deep = "def schedule(p, m):\n    a = []\n    for _ in range(100_000):\n        a = [a]\n    return a"
    assert refusal(asked, deep).startswith(
        "my.py: schedule(2, 4) returns what is no list of operations for each device"
    )


@pytest.mark.parametrize("body", ["while True: print('x' * 4096)", "import time; time.sleep(600)"])
def test_what_takes_too_long_is_ended(asked, body):
    sentence = refusal(asked, f"def schedule(p, m):\n    {body}", seconds=0.5)
    assert sentence == "my.py: schedule(2, 4) did not answer within 0.5 s"
    assert sum(map(len, asked.printed)) < 100_000


def test_a_file_that_is_none():
    with pytest.raises(LearnerError, match=r"^there is no file nowhere/my\.py$"):
        learner.order(Path("nowhere/my.py"), 2, 4)
    with pytest.raises(LearnerError, match=r"^\. is a folder$"):
        learner.order(Path(), 2, 4)


def test_sizes_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(OrderError, match="at least 1 device"):
        learner.order(tmp_path / "none.py", 0, 4)
    with pytest.raises(OrderError, match="5,000,000"):
        learner.order(tmp_path / "none.py", 10_000, 10_000)
