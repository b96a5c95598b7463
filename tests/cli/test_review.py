from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from labtui.runs.folder import write_json
from labtui.runs.records import Labels


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """stdout becomes a terminal of that width."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.fileno", lambda: 1, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((columns, 24)))


def test_no_runs_yet(labtui, own_folders: Path) -> None:
    done = labtui("runs")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"labtui: there are no runs in {own_folders} yet: `labtui run NAME` starts one\n"
    assert labtui("runs", "--json").json == []


def test_the_newest_runs_as_a_table(labtui, make_run) -> None:
    old = make_run("failed", "sweep", request={"variant": "p2p_off"}, status={"reason": "rank 1 exited\nwith 3\x1b[2J"})
    new = make_run()
    done = labtui("runs")
    assert (done.code, done.err) == (0, "")
    header, first, second = done.out.splitlines()
    assert header.split() == ["state", "run", "experiment", "variant", "created", "took", "reason"]
    assert first.split()[:4] == ["succeeded", new.id, "ddp_by_hand", "-"]
    assert second.split()[:4] == ["failed", old.id, "sweep", "p2p_off"]
    assert second.endswith("9.5 s  rank 1 exited with 3")


def test_limit_state_and_experiment(labtui, make_run) -> None:
    made = [make_run("failed" if n % 2 else "succeeded", "sweep" if n < 3 else "ddp_by_hand").id for n in range(6)]

    def listed(*arguments: str) -> list[str]:
        return [document["id"] for document in labtui("runs", "--json", *arguments).json]

    assert listed() == made[::-1]
    assert listed("--limit", "2") == made[:3:-1]
    assert listed("--limit", "0") == made[::-1]
    assert listed("--state", "failed", "--experiment", "sweep") == [made[1]]
    assert labtui("runs", "--limit", "2").err == "labtui: the newest 2 of 6 runs; --limit 0 lists all\n"
    assert labtui("runs", "--state", "lost").err == "labtui: no run fits\n"


def test_json_lists_whole_documents(labtui, make_run) -> None:
    checks = ({"kind": "check", "name": "same", "passed": True},)
    folder = make_run(request={"parameters": {"n": 3}}, status={"checks": checks})
    (document,) = labtui("runs", "--json").json
    assert (document["parameters"], document["checks"], document["error"]) == ({"n": 3}, list(checks), None)
    assert document == labtui("show", folder.id, "--json").json


def test_unreadable_folders_are_said_and_hide_no_others(labtui, make_run) -> None:
    good = make_run()
    broken = [make_run() for _ in range(7)]
    for folder in broken:
        folder.status_file.write_text("{")
    done = labtui("runs")
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == [good.id]
    said = done.err.splitlines()
    assert len(said) == 6
    assert said[0].startswith(f"labtui: {broken[-1].id}: status.json is no JSON")
    assert said[-1] == "labtui: 7 run folders can't be read in all"
    documents = labtui("runs", "--json").json
    assert [document["id"] for document in documents] == [good.id] + [folder.id for folder in broken[::-1]]
    assert documents[1]["error"].startswith("status.json is no JSON") and "state" not in documents[1]


@pytest.mark.parametrize("columns", [20, 40, 80, 100, 200])
def test_the_table_fits_the_terminal(labtui, make_run, monkeypatch, columns: int) -> None:
    make_run(status={"reason": "check failed: gradients equal the full batch's is 0.3, at most 1e-06 expected " * 2})
    terminal(monkeypatch, columns)
    lines = labtui("runs").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[1].startswith("succeeded")


def test_an_index_that_cannot_be_used_stops_no_listing(labtui, make_run) -> None:
    folder = make_run()
    Path(os.environ["XDG_CACHE_HOME"]).write_text("in the way")
    done = labtui("runs")
    assert done.code == 0 and folder.id in done.out
    assert done.err.startswith("labtui: the run index can't be written: ")
    assert done.err.endswith("the folders were read directly\n")


def test_a_lost_run_gets_its_last_word(labtui, make_run) -> None:
    folder = make_run("running", request={"uid": os.getuid()})
    status = folder.status()
    assert status.agent is not None
    write_json(folder.status_file, replace(status, agent=replace(status.agent, start=1)).document())
    done = labtui("runs")
    assert done.out.splitlines()[1].split()[0] == "lost"
    assert folder.status().state == "lost"


def test_many_new_folders_are_read_with_a_word(labtui, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labtui.cli.review.PROGRESS_FROM", 2)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    make_run()
    assert labtui("runs").err == ""
    make_run()
    make_run()
    assert labtui("runs").err == "\rlabtui: reading run folders into the index: 2 of 2\n"


# rm -----------------------------------------------------------------------------------------------------------------


def test_rm_deletes_what_is_named(labtui, make_run) -> None:
    first, second, third = make_run(), make_run(), make_run()
    assert labtui("rm", first.id, "last", second.id, first.id).out.splitlines() == [
        f"removed {first.id}",
        f"removed {third.id}",
        f"removed {second.id}",
    ]
    assert not any(folder.path.exists() for folder in (first, second, third))


def test_rm_finds_all_before_it_deletes_one(labtui, make_run) -> None:
    folder = make_run()
    assert labtui("rm", folder.id, "zzzz").sentence.startswith("no run fits 'zzzz'")
    assert folder.path.exists()


def test_rm_refuses_live_runs_and_says_what_went(labtui, make_run) -> None:
    ended, running = make_run(), make_run("running")
    done = labtui("rm", ended.id, running.id)
    assert (done.code, done.out) == (2, f"removed {ended.id}\n")
    assert f"{running.id} is running: stop it first" in done.err
    assert running.path.exists()
    last = make_run()
    assert labtui("rm", last.id, "--json").json == {"removed": [last.id]}


# note, tag ----------------------------------------------------------------------------------------------------------


def test_notes(labtui, make_run) -> None:
    folder = make_run(labels=Labels(tags=("kept",), star=True))
    assert (
        labtui("note", "last", "slower", "than yesterday").out
        == f"{folder.id}: tags kept; note: slower than yesterday\n"
    )
    assert folder.labels() == Labels(tags=("kept",), note="slower than yesterday", star=True)
    assert labtui("runs", "--json").json[0]["note"] == "slower than yesterday"
    assert labtui("note", "last", "", "--json").json == {"id": folder.id, "tags": ["kept"], "note": "", "star": True}


def test_tags(labtui, make_run) -> None:
    folder = make_run()
    labtui("tag", "last", "a", "b", "a")
    assert labtui("tag", "last", "c", "a").out == f"{folder.id}: tags a, b, c\n"
    assert labtui("tag", "last", "--remove", "b", "a", "--json").json["tags"] == ["c"]
    assert labtui("tag", "last", "--remove", "zzz").sentence == f"{folder.id} has no tag 'zzz': it has c"
    labtui("tag", "last", "--remove", "c")
    assert labtui("tag", "last", "--remove", "c").sentence == f"{folder.id} has no tag 'c': it has none"
    assert labtui("tag", "last", " \x1b[2J").sentence == "a tag needs at least one visible character"
    assert folder.labels() == Labels()


def test_labels_of_what_cannot_be_read_or_written(labtui, make_run, tmp_path: Path, monkeypatch) -> None:
    folder = make_run()
    assert labtui("note", "last", "\udcff").sentence == "what was typed is no UTF-8"
    folder.labels_file.write_text("{")
    assert labtui("note", "last", "text").sentence.startswith("labels.json is no JSON")
    folder.labels_file.unlink()
    folder.request_file.write_text("{")
    assert labtui("tag", "last", "text").sentence.startswith("run.json is no JSON")
    assert not folder.labels_file.exists()


def test_a_note_shows_up_at_once(labtui, make_run, own_folders: Path) -> None:
    """The index believes a row until its files change, also right after they were read."""
    make_run()
    before = time.time() - 60
    os.utime(own_folders, (before, before))
    labtui("runs")
    labtui("note", "last", "seen")
    assert labtui("runs", "--json").json[0]["note"] == "seen"
