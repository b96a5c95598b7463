"""Files that hold something else than what was meant: torn, binary, endless, empty. And a damaged index."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.audit import assert_index_true, audit, next_run_works, written
from faults.workers import at_work, launcher, script
from lab import end, launch, until

from labtui.cli.main import main
from labtui.runs.folder import RunFolder
from labtui.runs.index import cache_file, open_index
from labtui.runs.records import SUCCEEDED
from labtui.runs.tail import read_events

RUBBISH = """
    events = os.open(run / "events" / f"rank{rank}.jsonl", os.O_WRONLY | os.O_APPEND)
    wait_for("go")
    if rank == 1:
        os.write(events, b'{"t": 1, "rank": 1, "kind": "metric", "na\\n')            # torn in the middle
        os.write(events, bytes(range(256)) + b"\\n")                                   # binary: holds a newline
        os.write(events, b'{"kind": "note", "text": "' + b"x" * (1 << 20) + b'"}\\n')  # longer than any line of ours
        os.write(events, b"[" * 100_000 + b"\\n")                                      # nested without end
        os.write(events, b"null\\n42\\n[]\\n\\n")                                       # JSON, but no events
    report.metric("loss", 0.5, step=1)
    report.check("it goes on", passed=True)
    if rank == 1:
        os.write(events, b'{"t": 1, "rank": 1, "kind": "check", "name": "torn", "pas')  # killed in the middle
"""
BAD = 1 + 2 + 1 + 1 + 4


def test_rubbish_between_events_costs_no_event(
    own_folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, RUBBISH)))
    at_work(folder)
    before = written(folder)
    (folder.path / "go").touch()
    status = audit(folder, SUCCEEDED, "all 4 checks passed", before=before)
    assert status.events["bad_lines"] == BAD
    assert [event["name"] for event in read_events(folder, {"metric"})[0]] == ["loss"] * 4
    for command in (["show"], ["logs"], ["export", "--format", "json"], ["export", "--format", "csv"]):
        assert main([command[0], folder.id, *command[1:]]) == 0, command
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and f"{BAD} lines of its events can't be read" in out


RUBBISH_FILES = [
    pytest.param(b"", id="empty"),
    pytest.param(b"\0" * 512, id="zeros", marks=pytest.mark.slow),
    pytest.param(b'{"state": "succ', id="torn", marks=pytest.mark.slow),
    pytest.param(b"\xff\x8e" * 32, id="binary", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("rubbish", RUBBISH_FILES)
def test_a_status_that_can_not_be_read(
    own_folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rubbish: bytes
) -> None:
    """As after a power cut, or a copy onto a full disk: the run is named, and all else of it can be read."""
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, "")))
    whole = end(folder)
    good = folder.status_file.read_bytes()
    folder.status_file.write_bytes(rubbish)
    capsys.readouterr()

    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    sentence = "status.json is empty" if not rubbish else "status.json is no JSON"
    assert f"labtui: {folder.id}: {sentence}" in err and "Traceback" not in err
    assert main(["show", folder.id]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"labtui: {sentence}") and err.count("\n") == 1
    assert main(["logs", folder.id]) == 0
    assert capsys.readouterr().out == "[0] rank 0 is here\n[1] rank 1 is here\n"
    assert read_events(folder, {"check"})[0][0]["name"] == "it began"
    assert_index_true(own_folders)
    next_run_works(own_folders)

    folder.status_file.write_bytes(good)
    assert audit(folder, SUCCEEDED, "all 2 checks passed") == whole
    folder.status_file.write_bytes(rubbish)
    assert main(["rm", folder.id]) == 0
    assert not folder.path.exists()


@pytest.mark.slow
def test_a_status_that_is_emptied_while_the_run_goes_on(own_folders: Path, tmp_path: Path) -> None:
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, "wait_for('done')")))
    at_work(folder)
    before = written(folder)
    folder.status_file.write_bytes(b"")
    (folder.path / "done").touch()
    until(lambda: folder.status_file.stat().st_size, "the agent writes it anew")
    audit(folder, SUCCEEDED, "all 2 checks passed", before=before)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["rubbish", "of a newer labtui", "locked", "cut", "not writable"])
def test_a_damaged_index_hides_no_run(
    own_folders: Path,
    make_run: Callable[..., RunFolder],
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    ended = [make_run().id for _ in range(3)]
    assert_index_true(own_folders)
    file = cache_file(own_folders)
    holder = None
    if fault == "rubbish":
        file.write_bytes(os.urandom(8192))
    elif fault == "cut":
        file.write_bytes(file.read_bytes()[:5000])
    elif fault == "not writable":
        file.unlink()
        file.mkdir()
    else:
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("PRAGMA user_version = 99" if fault == "of a newer labtui" else "BEGIN EXCLUSIVE")
    said = {
        "of a newer labtui": "the run index was written by a newer labtui",
        "locked": "the run index is in use by another process",
        "not writable": "the run index can't be used: unable to open database file",
    }
    # A run that is started meanwhile, queued so that its agent asks the index, too.
    folder = launch(own_folders, [sys.executable, "-c", "print('said')"], queue=True)
    assert (end(folder).state, folder.output.read_text()) == (SUCCEEDED, "said\n")
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    out, err = capsys.readouterr()
    assert {run["id"] for run in json.loads(out)} == {*ended, folder.id}
    if fault in said:
        assert err == f"labtui: {said[fault]}; the folders were read directly\n"
    else:
        assert err == ""
    if holder is not None:
        holder.execute("PRAGMA user_version = 0" if fault == "of a newer labtui" else "COMMIT")
        holder.close()
    if fault == "of a newer labtui":
        file.unlink()
    if fault == "not writable":
        file.rmdir()
    assert_index_true(own_folders)
    index = open_index(own_folders)
    assert index.count() == 4
    index.close()
