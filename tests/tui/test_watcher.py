"""The threads that read: they post what is new, once, and pause and end when told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_lab import Posted, at_work, event, filled_run, made_run, write_events
from textual.message import Message

from labtui.catalog.manifest import Experiment
from labtui.runs import tail
from labtui.runs.folder import RunFolder, write_json
from labtui.tui.log_reader import LogReader
from labtui.tui.messages import CatalogRead, Crashed, HistoryRead, LogRead, RunGrew
from labtui.tui.watcher import CatalogReader, HistoryWatcher, Poller, RunWatcher


class Counting(Poller):
    def __init__(self, post: Callable[[Message], object]) -> None:
        super().__init__("counting", post)
        self.looks = 0
        self.fail = False

    def look(self) -> float:
        self.looks += 1
        if self.fail:
            raise RuntimeError("never thought of")
        return 0.005


def test_a_poller_pauses_resumes_and_ends() -> None:
    posted = Posted()
    counting = Counting(posted.append)
    assert counting.looks == 0
    with at_work(counting):
        posted_at = time.monotonic()
        while counting.looks < 3:
            assert time.monotonic() - posted_at < 20
        counting.pause()
        seen = threading.Event()
        before = -1
        while before != counting.looks:  # a look that has begun comes to its end
            before = counting.looks
            seen.wait(0.05)
        counting.resume()
        while counting.looks == before:
            assert time.monotonic() - posted_at < 20


def test_an_unknown_error_in_a_thread_is_not_lost() -> None:
    posted = Posted()
    counting = Counting(posted.append)
    counting.fail = True
    with at_work(counting):
        assert str(posted.until(lambda m: isinstance(m, Crashed)).error) == "never thought of"


def test_a_run_that_grows_is_posted(own_folders: Path) -> None:
    folder = made_run(own_folders, "running")
    posted = Posted()
    following = RunWatcher(posted.append)
    with at_work(following):
        following.follow(folder)
        posted.until(lambda m: isinstance(m, RunGrew))
        write_events(folder, event("progress", done=1, total=2))
        posted.until(lambda m: isinstance(m, RunGrew) and m.snapshot.progress)


def test_an_ended_run_is_posted_once(own_folders: Path) -> None:
    folder = filled_run(own_folders, "succeeded")
    posted = Posted()
    following = RunWatcher(posted.append)
    looks = 0
    look = following.look

    def counted() -> float:
        nonlocal looks
        looks += 1
        return look()

    following.look = counted  # type: ignore[method-assign]
    with at_work(following):
        following.follow(folder)
        posted.until(lambda m: isinstance(m, RunGrew) and m.snapshot.events)
        looks = 0
        while looks < 5:
            time.sleep(0.005)
        assert sum(isinstance(message, RunGrew) for message in posted) == 1


def test_a_run_that_is_opened_again_is_posted_again(own_folders: Path) -> None:
    folder = filled_run(own_folders, "succeeded")
    posted = Posted()
    following = RunWatcher(posted.append)
    with at_work(following):
        for _ in range(2):
            posted.clear()
            following.follow(folder)
            posted.until(lambda m: isinstance(m, RunGrew) and m.snapshot.events)


def test_a_folder_that_is_deleted_under_the_watcher_is_a_sentence(own_folders: Path) -> None:
    folder = filled_run(own_folders)
    posted = Posted()
    following = RunWatcher(posted.append)
    with at_work(following):
        following.follow(folder)
        posted.until(lambda m: isinstance(m, RunGrew) and m.snapshot.events)
        folder.path.rename(own_folders / "elsewhere")
        gone = posted.until(lambda m: isinstance(m, RunGrew) and m.snapshot.errors)
        assert gone.snapshot.errors == (f"the folder of {folder.id} is gone",)
        assert gone.snapshot.curves, "what was read stays"


def test_a_log_is_read_where_it_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {n}\n" for n in range(1000)))
    posted = Posted()
    reader = LogReader(posted.append)
    with at_work(reader):
        reader.show(None, 10)
        reader.open("0", path)
        window = posted.until(lambda m: isinstance(m, LogRead) and m.window.total == 1000).window
        assert window.lines[-1] == "line 999" and len(window.lines) < 300
        reader.show(500, 10)
        posted.until(lambda m: isinstance(m, LogRead) and "line 500" in m.window.lines and "line 509" in m.window.lines)
        with path.open("a") as file:
            file.write("one more\n")
        posted.until(lambda m: isinstance(m, LogRead) and m.window.total == 1001)
        reader.open("none", None)
        posted.until(lambda m: isinstance(m, LogRead) and m.window.name == "none" and m.window.total == 0)


def test_a_log_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, seconds: float = 0.02) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tail.LogIndex, "poll", refuse)
    posted = Posted()
    reader = LogReader(posted.append)
    with at_work(reader):
        reader.open("0", tmp_path / "stdout.log")
        window = posted.until(lambda m: isinstance(m, LogRead)).window
        assert window.trouble == "stdout.log can't be read: Permission denied"


def test_the_history_is_posted_when_it_changes(own_folders: Path) -> None:
    posted = Posted()
    history = HistoryWatcher(posted.append, own_folders, 2)
    with at_work(history):
        posted.until(lambda m: isinstance(m, HistoryRead) and m.history.total == 0)
        for number in range(3):
            made_run(own_folders, "running" if number == 2 else "succeeded", number=number)
        read = posted.until(lambda m: isinstance(m, HistoryRead) and m.history.total == 3).history
        assert len(read.rows) == 2 and [row.state for row in read.live] == ["running"]
        (own_folders / "20251129-120312-torn-0001").mkdir()
        # Not the first broken one: a folder of above may have been looked at while it was being made.
        name = "20251129-120312-torn-0001"
        posted.until(lambda m: isinstance(m, HistoryRead) and name in [broken for broken, _ in m.history.broken])


def test_the_catalog_is_read_once(lab: Experiment) -> None:
    posted = Posted()
    reader = CatalogReader(posted.append)
    with at_work(reader):
        entries = posted.until(lambda m: isinstance(m, CatalogRead)).entries
        assert [entry.name for entry in entries] == ["lab_test", "other_test", "odd"]


def test_a_status_that_is_torn_leaves_the_last_one(own_folders: Path) -> None:
    folder: RunFolder = made_run(own_folders, "running")
    posted = Posted()
    following = RunWatcher(posted.append)
    with at_work(following):
        following.follow(folder)
        posted.until(lambda m: isinstance(m, RunGrew))
        folder.status_file.write_text("{")
        torn = posted.until(lambda m: isinstance(m, RunGrew) and m.snapshot.errors).snapshot
        assert torn.status is not None and torn.status.state == "running"
        write_json(folder.status_file, torn.status.document())
