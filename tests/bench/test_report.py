"""The reporter: what it writes is whole, strict JSON, and nothing it meets ends the training."""

from __future__ import annotations

import ast
import faulthandler
import importlib.util
import io
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import labtui.bench.report

SOURCE = Path(labtui.bench.report.__file__)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ModuleType]]:
    """Makes reporters as a new process would have them; under labtui, with the run folder tmp_path/run."""
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("LABTUI_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("RANK", raising=False)
    made: list[ModuleType] = []

    def make() -> ModuleType:
        spec = importlib.util.spec_from_file_location("fresh_report", SOURCE)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made.append(module)
        return module

    yield make
    for module in made:
        if module._out.fd is not None:
            os.close(module._out.fd)
        if module._stacks_file is not None:
            faulthandler.unregister(signal.SIGUSR1)
            module._stacks_file.close()


def strict(line: bytes | str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    return json.loads(line, parse_constant=refuse)


def events(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    raw = (folder / "run" / "events" / f"rank{rank}.jsonl").read_bytes()
    assert raw.endswith(b"\n")
    return [strict(line) for line in raw.decode().splitlines()]


def test_events_have_the_fields_of_the_format(fresh, tmp_path):
    report = fresh()
    report.metric("loss", 2.31, 10)
    report.metric("loss", 2.31, 10, way="hooks")
    report.result("busbw", 11.2, "GB/s", collective="all_reduce", size_bytes=67108864)
    report.check("close", 3e-8, at_most=1e-6)
    report.prediction("bytes", 6442450, 6442451, "B")
    report.progress(3, 12)
    report.add_span("communication", "bucket 1", 1764417796.2, 1764417796.28)
    report.note("2 ranks share one core")
    hello, *rest = events(tmp_path)
    assert hello["kind"] == "hello"
    assert hello["pid"] == os.getpid()
    assert hello["start"] == int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert hello["stacks"] == "signal"
    assert hello["versions"]["python"].startswith("3.")
    assert all(event.pop("rank") == 0 and event.pop("t") > 1.7e9 for event in rest)
    assert rest == [
        {"kind": "metric", "name": "loss", "value": 2.31, "step": 10, "unit": ""},
        {"kind": "metric", "name": "loss", "value": 2.31, "step": 10, "unit": "", "labels": {"way": "hooks"}},
        {"kind": "result", "name": "busbw", "value": 11.2, "unit": "GB/s",
         "labels": {"collective": "all_reduce", "size_bytes": 67108864}},
        {"kind": "check", "name": "close", "value": 3e-8, "at_most": 1e-6, "passed": True},
        {"kind": "prediction", "name": "bytes", "predicted": 6442450, "measured": 6442451, "unit": "B"},
        {"kind": "progress", "done": 3, "total": 12},
        {"kind": "span", "lane": "communication", "name": "bucket 1", "start": 1764417796.2, "end": 1764417796.28},
        {"kind": "note", "text": "2 ranks share one core"},
    ]  # fmt: skip


def test_hello_said_with_more_is_said_once(fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    report = fresh()
    report.hello({"mine": "1.0"}, socket="/tmp/r3.sock")
    report.note("x")
    hello, note = events(tmp_path, rank=3)
    assert hello["rank"] == note["rank"] == 3
    assert hello["socket"] == "/tmp/r3.sock"
    assert hello["versions"]["mine"] == "1.0"


class Tensor:
    """Stands for a tensor or a numpy scalar, which are read with .item()."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.mark.parametrize(
    ("value", "written", "why"),
    [
        (math.nan, None, "nan"),
        (math.inf, None, "inf"),
        (-math.inf, None, "-inf"),
        (Tensor(math.nan), None, "nan"),
        (Tensor(2.5), 2.5, None),
        (Tensor(7), 7, None),
        (Fraction(1, 4), 0.25, None),
        (True, 1, None),
        (None, None, None),
        ("fast", None, "no number: fast"),
        (Tensor(RuntimeError("CUDA error")), None, "RuntimeError: CUDA error"),
        ([1, 2], None, "TypeError: float() argument must be a string or a real number, not 'list'"),
    ],
)
def test_what_json_cannot_hold_is_null_with_its_reason(fresh, tmp_path, value, written, why):
    fresh().metric("m", value)
    event = events(tmp_path)[1]
    assert event["value"] == written
    assert event.get("why") == why


@pytest.mark.parametrize(
    ("value", "bounds", "passed"),
    [
        (1.0, {"at_most": 1.0}, True),
        (1.1, {"at_most": 1.0}, False),
        (1.0, {"at_least": 1.0}, True),
        (0.9, {"at_least": 1.0}, False),
        (0.9, {"at_least": 0.5, "at_most": 0.8}, False),
        (3, {"equal": 3}, True),
        (3, {"equal": 4}, False),
        ("abc", {"equal": "abc"}, True),
        ("abc", {"at_most": 1}, False),
        (Tensor(3.0), {"equal": 3}, True),
        (0.5, {"at_most": Tensor(1.0)}, True),
        (math.nan, {"at_most": 1.0}, False),
        (math.nan, {"at_least": 1.0}, False),
        (math.nan, {"equal": math.nan}, False),
        (math.nan, {"passed": True}, False),
        (0.5, {"at_most": math.nan}, False),
        (math.inf, {"at_least": 1.0}, True),
        (-math.inf, {"at_least": 1.0}, False),
        (math.inf, {"at_most": 1.0}, False),
        (None, {"at_most": 1.0}, False),
        (None, {"passed": True}, True),
        (2.0, {"passed": True, "at_most": 1.0}, False),
        (True, {}, True),
        (False, {}, False),
        (1.0, {}, False),
    ],
)
def test_check_passes_only_if_every_bound_holds(fresh, tmp_path, value, bounds, passed):
    assert fresh().check("c", value, **bounds) is passed
    event = events(tmp_path)[1]
    assert event["passed"] is passed
    assert set(bounds) - {"passed"} <= set(event)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=5) | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
names = st.text(st.characters(), max_size=10)  # lone surrogates and line separators too


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names, value=anything, label=anything, text=names)
def test_whatever_is_reported_becomes_one_line_of_json(fresh, tmp_path, name, value, label, text):
    report = fresh()
    (tmp_path / "run" / "events" / "rank0.jsonl").unlink(missing_ok=True)
    report.metric(name, value)
    report.result(name, value, text, label=label)
    report.check(name, value, at_most=1)
    report.prediction(name, value, value)
    report.progress(value, 3)
    report.note(text)
    written = events(tmp_path)
    assert [event["kind"] for event in written[1:]] == ["metric", "result", "check", "prediction", "progress", "note"]
    assert written[1]["name"] == name
    assert written[6]["text"] == text
    os.close(report._out.fd)
    report._out.fd = None


def test_labels_that_refer_to_themselves_are_cut(fresh, tmp_path):
    loop: list[Any] = [math.nan]
    loop.append(loop)
    fresh().result("r", 1, loop=loop)
    assert events(tmp_path)[1]["labels"]["loop"][0] is None


def test_a_short_write_spoils_one_line_only(fresh, tmp_path, monkeypatch, capsys):
    report = fresh()
    report.note("before")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:20]))
    report.note("torn")
    monkeypatch.setattr(os, "write", write)
    report.note("after")
    lines = (tmp_path / "run/events/rank0.jsonl").read_bytes().splitlines()
    good, bad = [], []
    for line in lines:
        try:
            good.append(strict(line).get("text"))
        except ValueError:
            bad.append(line)
    assert len(bad) == 1
    assert good[1:] == ["before", "after", "1 events before this one could not be written"]
    assert capsys.readouterr().err.count("can't report") == 1


def test_an_earlier_attempts_torn_line_spoils_no_other(fresh, tmp_path):
    (tmp_path / "run/events").mkdir()
    (tmp_path / "run/events/rank0.jsonl").write_text('{"t": 1, "ra')
    fresh().note("second attempt")
    torn, hello, note = (tmp_path / "run/events/rank0.jsonl").read_text().splitlines()
    assert torn == '{"t": 1, "ra'
    assert strict(hello)["kind"] == "hello"
    assert strict(note)["text"] == "second attempt"


def test_a_full_disk_is_said_once_and_the_loop_goes_on(fresh, tmp_path, capsys):
    (tmp_path / "run/events").mkdir()
    (tmp_path / "run/events/rank0.jsonl").symlink_to("/dev/full")
    report = fresh()
    for step in range(3):
        report.metric("loss", 1.0, step)
    assert report.check("c", 1, equal=1) is True
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "No space left on device" in err


def test_a_removed_run_folder_is_not_made_again(fresh, tmp_path, capsys):
    (tmp_path / "run").rmdir()
    report = fresh()
    report.note("x")
    report.note("y")
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().err.count("can't report") == 1


def test_a_span_is_reported_also_when_its_block_raises(fresh, tmp_path):
    report = fresh()
    with pytest.raises(KeyError), report.span("compute", "forward"):
        raise KeyError
    span = events(tmp_path)[1]
    assert (span["lane"], span["name"]) == ("compute", "forward")
    assert 0 <= span["end"] - span["start"] < 1
    assert abs(span["t"] - span["end"]) < 1


def test_threads_and_forked_processes_write_whole_lines(fresh, tmp_path):
    report = fresh()

    def say(who: str) -> None:
        for number in range(200):
            report.note(f"{who} {number} " + "x" * 300)

    threads = [threading.Thread(target=say, args=(f"thread{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    children = []
    for i in range(3):
        child = os.fork()
        if child == 0:
            say(f"child{i}")
            os._exit(0)
        children.append(child)
    say("parent")
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    written = events(tmp_path)
    assert [event["kind"] for event in written].count("hello") == 1
    assert len({event["text"] for event in written if event["kind"] == "note"}) == 200 * 8


def test_a_process_forked_while_a_thread_reports_can_report(fresh, tmp_path):
    report = fresh()
    with report._out.lock:  # as a thread holds it that says the first hello
        inside: list[int] = []

        def fork() -> None:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                report.note("from the child")
                os._exit(0)
            inside.append(os.waitpid(child, 0)[1])

        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    assert inside == [0]
    assert events(tmp_path)[-1]["text"] == "from the child"


class Stdout(io.StringIO):
    """Counts writes: two ranks on one terminal stay apart only if a line is one write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


def test_without_labtui_each_event_is_a_readable_line(fresh, monkeypatch):
    monkeypatch.delenv("LABTUI_RUN_DIR")
    monkeypatch.setattr(sys, "stdout", out := Stdout())
    report = fresh()
    report.metric("loss", 2.31, 10)
    report.result("busbw", 11.25, "GB/s", size_bytes=1024)
    report.check("gradients equal", 3e-8, at_most=1e-6)
    report.check("weights\nequal", math.nan, equal=0)
    report.prediction("bytes", 100, None, "B", why="no socket")
    report.prediction("bytes", 100, 101, "B")
    report.progress(3, 12)
    report.add_span("compute", "forward", 1.0, 1.0125)
    report.note("a note")
    assert out.writes[0].startswith(f"[rank 0] hello: pid {os.getpid()}, python 3.")
    assert out.writes[1:] == [
        "[rank 0] metric loss = 2.31  [step 10]\n",
        "[rank 0] result busbw = 11.25 GB/s  [size_bytes=1024]\n",
        "[rank 0] check passed: gradients equal: 3e-08, at most 1e-06\n",
        "[rank 0] check FAILED: weights equal, equal 0 (nan)\n",
        "[rank 0] prediction bytes: predicted 100 B, not measured (no socket)\n",
        "[rank 0] prediction bytes: predicted 100 B, measured 101 B\n",
        "[rank 0] progress 3 of 12\n",
        "[rank 0] span compute: forward: 12.500 ms\n",
        "[rank 0] note: a note\n",
    ]


def test_a_stdout_that_is_gone_or_knows_only_ascii_ends_nothing(fresh, monkeypatch, capsys):
    monkeypatch.delenv("LABTUI_RUN_DIR")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    report = fresh()
    report.note("größer → 2")
    assert raw.getvalue().splitlines()[1] == rb"[rank 0] note: gr\xf6\xdfer \u2192 2"
    sys.stdout.close()
    report.note("nobody hears this")
    monkeypatch.setattr(sys, "stdout", None)
    report.note("nor this")
    assert capsys.readouterr().err.count("can't report") == 1


def test_sigusr1_writes_the_stacks(fresh, tmp_path):
    fresh().hello()
    os.kill(os.getpid(), signal.SIGUSR1)
    text = (tmp_path / "run/stacks/rank0.txt").read_text()
    assert "test_sigusr1_writes_the_stacks" in text


@pytest.mark.parametrize("disposition", [signal.SIG_IGN, lambda *_: None])
def test_a_training_that_uses_sigusr1_keeps_it(fresh, tmp_path, disposition):
    before = signal.signal(signal.SIGUSR1, disposition)
    try:
        fresh().hello()
        assert signal.getsignal(signal.SIGUSR1) is disposition
        assert events(tmp_path)[0]["stacks"] is None
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_it_needs_only_the_standard_library_of_python_3_9():
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 9))
    modules = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert modules <= sys.stdlib_module_names | {"__future__"}


def test_importing_it_loads_neither_torch_nor_the_rest_of_labtui():
    code = (
        "import sys; from labtui.bench import report;"
        "print(sorted(n for n in sys.modules if n.startswith(('labtui', 'torch', 'numpy'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['labtui', 'labtui.bench', 'labtui.bench.report']"
