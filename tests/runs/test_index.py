from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labtui.runs import rows, store
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.index import Index, cache_file, open_index
from labtui.runs.records import Labels


@pytest.fixture
def index(own_folders: Path) -> Iterator[Index]:
    opened = open_index(own_folders)
    yield opened
    opened.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that the index reads, as it reads them."""
    seen: list[str] = []

    def noted(root: Path, name: str) -> rows.Look:
        seen.append(name)
        return rows.look(root, name)

    monkeypatch.setattr(store, "look", noted)
    return seen


def ids(listed: list[rows.Row]) -> list[str]:
    return [row.id for row in listed]


def newest(root: Path) -> list[str]:
    """What a command that starts now would list; says whether it needed to read folders directly."""
    opened = open_index(root)
    assert opened.trouble == ""
    listed = ids(opened.newest())
    opened.close()
    return listed


def age(root: Path) -> None:
    """Makes the logs folder look as if it had not changed for a while."""
    before = time.time() - 60
    os.utime(root, (before, before))


def test_a_row_holds_what_the_folder_says(index: Index, make_run) -> None:
    folder = make_run(
        "failed",
        request={"variant": "uneven", "group": "g", "user": "bob", "device": "cuda", "nproc": 4, "host": "far"},
        status={"reason": "rank 1 was killed by SIGKILL", "exit_code": 9},
        labels=Labels(tags=("a", "b"), note="why?", star=True),
    )
    index.refresh()
    (row,) = index.newest()
    assert row == rows.Row(
        id=folder.id, experiment="ddp_by_hand", variant="uneven", group="g", state="failed",
        reason="rank 1 was killed by SIGKILL", exit_code=9, created=row.created, started=row.created + 0.5,
        ended=row.created + 10, nproc=4, device="cuda", user="bob", host="far", tags=("a", "b"), note="why?", star=True,
    )  # fmt: skip
    assert row.seconds(now=0.0) == pytest.approx(9.5)
    assert not row.live


def test_unknown_stays_unknown(index: Index, make_run) -> None:
    make_run("queued", request={"nproc": None, "device": None})
    index.refresh()
    (row,) = index.newest()
    assert (row.nproc, row.device, row.exit_code, row.started, row.ended, row.seconds(1e12)) == (None,) * 6


def test_newest_first_with_a_limit_and_filters(index: Index, make_run) -> None:
    made = [make_run("failed" if n % 2 else "succeeded", "sweep" if n < 3 else "ddp_by_hand").id for n in range(6)]
    index.refresh()
    assert ids(index.newest()) == made[::-1]
    assert ids(index.newest(2)) == made[:3:-1]
    assert ids(index.newest(experiment="sweep")) == made[2::-1]
    assert ids(index.newest(state="failed")) == [made[5], made[3], made[1]]
    assert ids(index.newest(1, experiment="sweep", state="succeeded")) == [made[2]]
    assert index.newest(experiment="nothing") == []
    assert sorted(index.names()) == made and index.count() == 6


def test_no_logs_folder_holds_no_runs(tmp_path: Path) -> None:
    assert newest(tmp_path / "nowhere") == []


def test_copied_renamed_and_deleted_folders_are_found(own_folders: Path, make_run, tmp_path: Path) -> None:
    first, second = make_run(), make_run()
    assert newest(own_folders) == [second.id, first.id]
    copied = make_run(root=tmp_path / "elsewhere")
    shutil.copytree(copied.path, own_folders / copied.id)
    shutil.rmtree(first.path)
    second.path.rename(own_folders / "renamed")
    (own_folders / "README.md").write_text("no run")
    assert newest(own_folders) == [copied.id, "renamed"]


def test_an_unchanged_logs_folder_is_not_read_again(own_folders: Path, make_run, looks: list[str]) -> None:
    made = [make_run().id for _ in range(3)]
    age(own_folders)
    assert newest(own_folders) == made[::-1]
    assert sorted(looks) == made
    looks.clear()
    assert newest(own_folders) == made[::-1]
    assert looks == []


def test_a_folder_made_within_the_same_time_stamp_is_not_missed(own_folders: Path, make_run) -> None:
    first = make_run()
    stamp = own_folders.stat().st_mtime_ns
    assert newest(own_folders) == [first.id]
    second = make_run()
    os.utime(own_folders, ns=(stamp, stamp))
    assert newest(own_folders) == [second.id, first.id]


def test_changed_records_of_shown_rows_are_read_again(own_folders: Path, index: Index, make_run) -> None:
    folder = make_run()
    age(own_folders)
    index.refresh()
    assert index.newest()[0].note == ""
    write_json(folder.labels_file, Labels(note="kept").document())
    assert index.newest()[0].note == "kept"
    write_json(folder.status_file, replace(folder.status(), state="failed").document())
    assert ids(index.newest(state="succeeded")) == []
    assert ids(index.newest(state="failed")) == [folder.id]


def test_live_runs_are_always_looked_at(own_folders: Path, index: Index, make_run) -> None:
    running, queued = make_run("running"), make_run("queued", created=time.time())
    make_run()
    age(own_folders)
    index.refresh()
    assert ids(index.live()) == [queued.id, running.id]
    status = running.status()
    assert status.agent is not None
    # The owner goes without a word: nothing in the folder changes.
    stamp = running.status_file.stat().st_mtime_ns
    gone = replace(status, agent=replace(status.agent, start=1))
    write_json(running.status_file, gone.document())
    os.utime(running.status_file, ns=(stamp, stamp))
    assert ids(index.live()) == [queued.id]
    assert ids(index.newest(state="lost")) == [running.id]
    # And its last word, if it comes after all, is heard.
    write_json(running.status_file, replace(status, state="succeeded", ended=status.created + 9).document())
    assert ids(index.newest(state="lost")) == []
    assert index.newest(state="succeeded")[-1].id == running.id


def test_a_queued_run_that_counted_as_lost_is_heard_of_again(index: Index, make_run, monkeypatch) -> None:
    folder = make_run("queued")
    index.refresh()
    assert ids(index.newest(state="lost")) == [folder.id]
    # Its files stay as they are, but somebody is there again who will start it.
    monkeypatch.setattr("labtui.runs.state.observe", RunFolder.status)
    assert ids(index.live()) == [folder.id]


def test_a_deleted_live_run_is_gone(own_folders: Path, index: Index, make_run) -> None:
    folder = make_run("running")
    index.refresh()
    shutil.rmtree(folder.path)
    assert index.newest() == [] and index.live() == [] and index.broken() == []


def test_unreadable_folders_hide_no_others(own_folders: Path, index: Index, make_run) -> None:
    good = make_run()
    torn, empty, wrong, infinite, half = (make_run() for _ in range(5))
    torn.status_file.write_text('{"state": "succ')
    empty.request_file.unlink()
    write_json(wrong.request_file, {**wrong.request().document(), "nproc": "two"})
    infinite.request_file.write_text(infinite.request_file.read_text().replace('"nproc": 2', f'"nproc": {10**30}'))
    half.request_file.write_text(half.request_file.read_text().replace('"ann"', '"\\ud800"'))
    index.refresh()
    assert ids(index.newest()) == [good.id]
    said = dict(index.broken())
    assert list(said) == sorted((torn.id, empty.id, wrong.id, infinite.id, half.id), reverse=True)
    assert said[torn.id].startswith("status.json is no JSON: ")
    assert said[empty.id] == "run.json can't be read: No such file or directory"
    assert said[wrong.id] == "run.json: nproc is str, int or null expected"
    assert said[infinite.id] == f"run.json: nproc is {10**30}, which can't be"
    assert said[half.id] == "run.json: user holds half a character"
    assert index.count() == 6


def test_a_folder_that_becomes_readable_is_a_run(own_folders: Path, make_run) -> None:
    """A run's folder is there a moment before its run.json: who lists in between mustn't get stuck with that."""
    folder = make_run()
    text = folder.request_file.read_text()
    folder.request_file.unlink()
    age(own_folders)
    assert newest(own_folders) == []
    folder.request_file.write_text(text)
    assert newest(own_folders) == [folder.id]


def test_a_run_whose_labels_cannot_be_read_is_still_a_run(index: Index, make_run) -> None:
    folder = make_run()
    folder.labels_file.write_text('{"tags": [1], "note": "n"}')
    index.refresh()
    assert [(row.id, row.note, row.tags) for row in index.newest()] == [(folder.id, "", ())]
    assert index.broken() == [(folder.id, "labels.json: tags holds int, text expected")]
    assert index.count() == 1
    write_json(folder.labels_file, Labels(note="better").document())
    assert index.newest()[0].note == "better"
    assert index.broken() == []


def test_a_deleted_index_is_built_anew(own_folders: Path, make_run) -> None:
    folder = make_run()
    assert newest(own_folders) == [folder.id]
    cache_file(own_folders).unlink()
    assert newest(own_folders) == [folder.id]


@pytest.mark.parametrize("damage", ["no database", "cut", "no tables", "older", "strange row", "empty file"])
def test_a_damaged_index_is_built_anew(own_folders: Path, make_run, damage: str) -> None:
    folder = make_run()
    age(own_folders)
    file = cache_file(own_folders)
    assert newest(own_folders) == [folder.id]
    if damage == "no database":
        file.write_bytes(b"this is no database, but somebody's notes" * 100)
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:5000])
    elif damage == "empty file":
        file.write_bytes(b"")
    else:
        db = sqlite3.connect(file)
        db.executescript(
            {
                "no tables": "DROP TABLE runs",
                "older": "ALTER TABLE runs DROP COLUMN note; PRAGMA user_version = -1",
                "strange row": "UPDATE runs SET tags = 'no JSON'",
            }[damage]
        )
        db.close()
    assert newest(own_folders) == [folder.id]
    assert newest(own_folders) == [folder.id]


def test_an_index_damaged_while_it_is_open(own_folders: Path, index: Index, make_run) -> None:
    folder = make_run()
    index.refresh()
    assert ids(index.newest()) == [folder.id]
    db = sqlite3.connect(index.file)
    db.execute("DROP TABLE runs")
    db.close()
    assert ids(index.newest()) == [folder.id]
    assert index.trouble == ""


def test_a_newer_index_is_left_alone(own_folders: Path, make_run) -> None:
    folder = make_run()
    newest(own_folders)
    file = cache_file(own_folders)
    db = sqlite3.connect(file)
    db.execute("PRAGMA user_version = 99")
    db.close()
    second = make_run()
    opened = open_index(own_folders)
    assert ids(opened.newest()) == [second.id, folder.id]
    assert opened.trouble == "the run index was written by a newer labtui"
    db = sqlite3.connect(file)
    assert db.execute("PRAGMA user_version").fetchone() == (99,)
    assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    db.close()


def test_an_index_of_another_logs_folder_is_left_alone(own_folders: Path, make_run, tmp_path: Path) -> None:
    folder = make_run()
    newest(own_folders)
    other = make_run(root=tmp_path / "other")
    opened = Index(tmp_path / "other", cache_file(own_folders))
    opened.refresh()
    assert ids(opened.newest()) == [other.id]
    assert opened.trouble == "the run index belongs to another logs folder"
    assert newest(own_folders) == [folder.id]


def test_a_locked_index_delays_no_listing(own_folders: Path, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_S", 0.01)
    first = make_run()
    newest(own_folders)
    second = make_run()
    holder = sqlite3.connect(cache_file(own_folders), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    opened = open_index(own_folders)
    assert ids(opened.newest(1)) == [second.id]
    assert ids(opened.newest()) == [second.id, first.id]
    assert opened.trouble == "the run index is in use by another process"
    holder.execute("COMMIT")
    holder.close()
    opened.refresh()
    assert opened.trouble == ""
    assert ids(opened.newest()) == [second.id, first.id]
    opened.close()


@pytest.mark.parametrize("obstacle", ["a file in its place", "a folder in its place"])
def test_a_cache_folder_that_cannot_be_used(own_folders: Path, make_run, obstacle: str) -> None:
    folder, broken = make_run(), make_run()
    broken.request_file.write_text("[]")
    cache = Path(os.environ["XDG_CACHE_HOME"])
    if obstacle == "a file in its place":
        cache.write_text("")
    else:
        cache_file(own_folders).mkdir(parents=True)
    opened = open_index(own_folders)
    assert opened.trouble.startswith("the run index can't be ")
    assert ids(opened.newest()) == [folder.id]
    assert opened.broken() == [(broken.id, "run.json is no JSON object")]
    assert sorted(opened.names()) == [folder.id, broken.id]
    assert opened.count() == 2


def test_a_python_without_sqlite(own_folders: Path, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run()
    monkeypatch.setitem(__import__("sys").modules, "sqlite3", None)
    opened = open_index(own_folders)
    assert ids(opened.newest()) == [folder.id]
    assert opened.trouble == "this Python has no sqlite3"


def test_without_an_index_only_what_is_shown_is_read(own_folders: Path, make_run, monkeypatch) -> None:
    made = [make_run().id for _ in range(9)]
    Path(os.environ["XDG_CACHE_HOME"]).write_text("")
    seen: list[str] = []
    monkeypatch.setattr("labtui.runs.index.look", lambda root, name: seen.append(name) or rows.look(root, name))
    assert ids(open_index(own_folders).newest(2)) == made[:-3:-1]
    assert seen == made[:-3:-1]


class WithoutSharedMemory(sqlite3.Connection):
    """SQLite as on a file system where WAL doesn't work."""

    def execute(self, sql: str, *values):  # type: ignore[no-untyped-def]
        if "WAL" in sql:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMMAP
            raise error
        return super().execute(sql, *values)


@pytest.mark.parametrize(("kind", "journal"), [(sqlite3.Connection, "wal"), (WithoutSharedMemory, "delete")])
def test_where_wal_does_not_work_there_is_another_journal(own_folders, make_run, monkeypatch, kind, journal) -> None:
    folder = make_run()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **named: connect(*args, factory=kind, **named))
    assert newest(own_folders) == [folder.id]
    db = connect(cache_file(own_folders))
    assert db.execute("PRAGMA journal_mode").fetchone() == (journal,)
    db.close()


def test_progress_and_an_interrupted_build(own_folders: Path, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BATCH", 2)
    made = [make_run().id for _ in range(5)]
    told: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        told.append((done, total))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_index(own_folders, interrupt)
    assert told == [(2, 5), (4, 5)]
    told.clear()
    opened = open_index(own_folders, lambda done, total: told.append((done, total)))
    assert told == [(1, 1)]
    assert ids(opened.newest()) == made[::-1]
    opened.close()


def test_the_cache_file_depends_on_folder_and_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cache_file(tmp_path)
    assert here.parent == Path(os.environ["XDG_CACHE_HOME"]) / "labtui"
    assert cache_file(tmp_path / "x") != here
    elsewhere = os.uname_result(("Linux", "another-host", "6", "1", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: elsewhere)
    assert cache_file(tmp_path) != here


CHANGES = st.lists(
    st.tuples(st.sampled_from(["make", "delete", "end", "tear", "mend", "label", "list"]), st.integers(0, 5)),
    max_size=12,
)


@given(CHANGES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_the_index_says_what_the_folders_say(own_folders: Path, make_run, changes: list[tuple[str, int]]) -> None:
    """Whatever happens between two listings, the index and a direct reading agree."""
    for name in os.listdir(own_folders):
        shutil.rmtree(own_folders / name)
    index = open_index(own_folders)
    for change, which in changes:
        names = sorted(os.listdir(own_folders))
        if change == "make":
            make_run("running" if which % 2 else "succeeded")
        elif change == "list":
            index.refresh()
            index.newest()
        elif names:
            folder = RunFolder(own_folders / names[which % len(names)])
            if change == "delete":
                shutil.rmtree(folder.path)
            elif change == "label":
                write_json(folder.labels_file, Labels(note=f"note {which}").document())
            elif change == "tear":
                folder.status_file.write_text('{"state"')
            else:
                state = "stopped" if change == "end" else "succeeded"
                write_json(folder.status_file, {"state": state, "created": 1.0, "reason": f"{change} {which}"})
    index.refresh()
    listed = index.newest()
    found = [rows.look(own_folders, name) for name in os.listdir(own_folders)]
    readable = [item.row for item in found if item.row is not None]
    assert listed == sorted(readable, key=lambda row: (row.created, row.id), reverse=True)
    assert dict(index.broken()) == {item.name: item.trouble for item in found if item.trouble}
    assert index.live() == [row for row in listed if row.live]
    index.close()
