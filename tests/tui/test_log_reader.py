"""The thread that reads logs: filters, searches, tracebacks, all ranks' logs as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_lab import Posted, at_work

from labtui.runs import tail
from labtui.runs.folder import RunFolder
from labtui.runs.tail import LogIndex
from labtui.runs.watch import Log
from labtui.tui import filtered_log
from labtui.tui.filtered_log import FilteredLog
from labtui.tui.log_lines import MERGED
from labtui.tui.log_reader import LogReader, merged_parts
from labtui.tui.log_search import pattern
from labtui.tui.messages import LogFound, LogRead


def numbered(path: Path, count: int, first: int = 0) -> Path:
    with path.open("a") as file:
        file.write("".join(f"line {n}\n" for n in range(first, first + count)))
    return path


def settle(lines: Any) -> None:
    while lines.poll(1.0) or lines.behind:
        pass


def test_a_filtered_log_grows_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_log, "STRETCH", 64)
    path = numbered(tmp_path / "log", 50)
    found = FilteredLog(LogIndex(path), pattern("9"))
    settle(found)
    assert found.read(0, 9) == ["line 9", "line 19", "line 29", "line 39", "line 49"]
    assert [found.number(n) for n in range(5)] == [9, 19, 29, 39, 49]
    with path.open("a") as file:
        file.write("half a line")
    settle(found)
    assert len(found) == 5
    with path.open("a") as file:
        file.write(" and 9\n")
    settle(found)
    assert found.read(5, 1) == ["half a line and 9"]
    path.write_text("a 9\n")
    settle(found)
    assert found.read(0, 9) == ["a 9"]


def test_a_filtered_log_forgets_with_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "LOG_LINES", 20)
    path = numbered(tmp_path / "log", 15)
    found = FilteredLog(LogIndex(path), pattern("line"))
    settle(found)
    numbered(path, 15, 15)
    settle(found)
    assert found.forgotten == 10 and found.read(0, 1) == ["line 10"] and found.read(19, 1) == ["line 29"]


def test_searches_go_both_ways_and_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labtui.tui.log_reader.STRETCH", 64)
    posted = Posted()
    reader = LogReader(posted.append)
    with at_work(reader):
        reader.open("0", numbered(tmp_path / "log", 300))
        posted.until(lambda m: isinstance(m, LogRead) and m.window.total == 300)
        for text, line, step, found, wrapped in (
            ("line 250", 0, 1, 250, False), ("line 250", 299, -1, 250, False), ("line 3", 100, 1, 3, True),
            ("line 3", 100, -1, 39, False), ("line 250", 10, -1, 250, True), ("no such", 10, 1, None, False),
        ):  # fmt: skip
            posted.clear()
            reader.find(pattern(text), line, step)
            event = posted.until(lambda m: isinstance(m, LogFound))
            assert (event.line, event.wrapped) == (found, wrapped), text
        posted.clear()
        reader.filter(pattern("99"))
        window = posted.until(lambda m: isinstance(m, LogRead) and m.window.total == 3).window
        assert window.lines == ("line 99", "line 199", "line 299")
        assert (window.filtered, window.whole) == ("99", 300)
        reader.find(pattern("199"), 0, 1)
        assert posted.until(lambda m: isinstance(m, LogFound)).line == 1, "among the filtered ones"
        posted.clear()
        reader.filter(pattern("nothing has this"))
        none = posted.until(lambda m: isinstance(m, LogRead) and m.window.filtered == "nothing has this").window
        assert (none.total, none.whole) == (0, 300)
        reader.filter(None)
        posted.until(lambda m: isinstance(m, LogRead) and not m.window.filtered and m.window.total == 300)


def test_the_first_traceback_is_that_of_who_fell_silent_first(tmp_path: Path) -> None:
    import os

    words = "Traceback (most recent call last):\n  here\n"
    logs = []
    for name, text, t in (("0", "fine\n", 5), ("1 stderr", "x\n" + words, 9), ("2 stderr", words, 7)):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (t, t))
        logs.append((name, tmp_path / name))
    posted = Posted()
    reader = LogReader(posted.append)
    with at_work(reader):
        reader.find_traceback(logs)
        event = posted.until(lambda m: isinstance(m, LogFound))
        assert (event.name, event.line) == ("2 stderr", 0)
        posted.clear()
        reader.find_traceback([logs[1], logs[2]])
        event = posted.until(lambda m: isinstance(m, LogFound))
        assert (event.name, event.line) == ("1 stderr", 1), "the one on show first"
        posted.clear()
        reader.find_traceback(logs[:1])
        assert posted.until(lambda m: isinstance(m, LogFound)).line is None


def test_all_ranks_as_one_with_their_names(tmp_path: Path) -> None:
    logs = [Log(name, tmp_path / name, 0) for name in ("0", "0 stderr", "1", "output", "agent")]
    for log in logs:
        log.path.write_text(f"{log.name} says\n")
    parts = merged_parts(logs)
    assert list(parts) == ["0", "0 stderr", "1"]
    posted = Posted()
    reader = LogReader(posted.append)
    with at_work(reader):
        reader.saw(RunFolder(tmp_path), logs, 17.0)
        reader.open(MERGED, parts)
        window = posted.until(lambda m: isinstance(m, LogRead) and m.window.total == 3).window
        assert window.sources == ("0", "0 stderr", "1") and window.since == 17.0
        assert window.lines == ("0 says", "0 stderr says", "1 says")
        reader.filter(pattern("stderr"))
        only = posted.until(lambda m: isinstance(m, LogRead) and m.window.total == 1).window
        assert only.sources == ("0 stderr",)
