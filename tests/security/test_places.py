"""Run ids, names and paths never lead out of the folders that they belong to, whatever a folder says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.conftest import Done

from labtui.catalog import sources
from labtui.catalog.reading import CatalogError
from labtui.export import formats
from labtui.runs import lost, ownership, progress, spawn, state
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import QUEUED, SUCCEEDED, Owner, RunProcess
from labtui.runs.watch import Watch

Labtui = Callable[..., Done]
SECRET = "the secret outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no run may touch, beside logs/."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.txt").write_text(SECRET)
    return folder


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RunFolder]]:
    """Agents that would have been started."""
    started: list[RunFolder] = []
    monkeypatch.setattr(spawn, "spawn", lambda folder, environment: started.append(folder))
    yield started


@pytest.mark.parametrize(
    "run", ["../outside", "..", "/", ".", "a/../../outside", "./", "\0", "~/", "../logs", "*", "%2e%2e"]
)
def test_a_run_argument_names_a_run_or_nothing(labtui: Labtui, make_run, outside: Path, monkeypatch, run: str) -> None:
    make_run()
    monkeypatch.chdir(outside)
    for command in (
        ("show", run), ("logs", run), ("export", run, "--format", "json"), ("rm", run), ("note", run, "x"),
        ("tag", run, "x"), ("stop", run), ("compare", run, "last"), ("rerun", run), ("attach", run),
    ):  # fmt: skip
        assert labtui(*command).sentence
    assert [path.name for path in outside.iterdir()] == ["precious.txt"]


def test_a_folder_with_a_run_json_that_is_no_runs_is_not_deleted(labtui: Labtui, make_run, outside: Path) -> None:
    """Many a program has a run.json."""
    (outside / "run.json").write_text('{"scripts": {}}')
    assert "is not deleted, since it is no run: run.json lacks id" in labtui("rm", str(outside)).sentence
    assert (outside / "precious.txt").read_text() == SECRET


def test_a_link_in_logs_is_not_followed_to_delete(
    labtui: Labtui, make_run, outside: Path, own_folders: Path, tmp_path: Path
) -> None:
    real = make_run(root=tmp_path / "elsewhere")
    link = own_folders / real.id
    link.symlink_to(real.path)
    assert "is a link to" in labtui("rm", real.id).sentence
    assert real.request_file.exists() and link.is_symlink()


@pytest.mark.parametrize("next_run", ["../outside/run", "..", "/etc", "", "a\0b", "20251129-120312-x/../../..-0000"])
def test_a_group_leads_nowhere_else(
    labtui: Labtui, make_run, spawned: list[RunFolder], outside: Path, next_run: str
) -> None:
    trap = make_run(QUEUED, root=outside, id="run")
    trap.agent_log.unlink(missing_ok=True)
    folder = make_run(request={"group": next_run, "next": next_run, "uid": os.getuid()})
    said: list[str] = []
    ownership.start_next(folder, next_run, SUCCEEDED, {}, said.append)
    assert spawned == [] and not trap.agent_log.exists()
    assert "which is no run's id" in said[0]
    assert "which is no run's id" in labtui("compare", folder.id, "--group").sentence
    queued = make_run(QUEUED, created=1.0, request={"group": next_run})
    assert state.observe(queued).state == "lost"


def test_a_group_that_goes_in_a_circle_ends(labtui: Labtui, make_run, spawned: list[RunFolder]) -> None:
    first, second = "20251129-120312-a-0001", "20251129-120313-b-0002"
    for own, other in ((first, second), (second, first)):
        asked = {"group": first, "next": other, "uid": os.getuid()}
        folder = make_run(id=own, request=asked, status={"agent": None})
        folder.agent_log.touch()
    third = make_run(QUEUED, created=1.0, request={"group": first})
    assert state.observe(third).state == "lost"
    ownership.start_next(folder, other, SUCCEEDED, {}, [].append)
    assert spawned == []
    assert labtui("compare", first, "--group").code == 0


@pytest.mark.parametrize("kind", ["relative", "absolute", "link", "link as output"])
def test_logs_outside_are_nobodys_logs(labtui: Labtui, make_run, outside: Path, kind: str) -> None:
    secret = outside / "precious.txt"
    place = {"relative": "../../outside/precious.txt", "absolute": str(secret)}.get(kind, "ranks/0.log")
    folder = make_run(status={"processes": (RunProcess("rank", 1, 1, 0, 0, place, place),)})
    if kind == "link":
        (folder.path / place).symlink_to(secret)
    elif kind == "link as output":
        folder.output.symlink_to(secret)
    for command in (
        ("logs", "last"),
        ("logs", "last", "--json"),
        ("show", "last"),
        ("export", "last", "--format", "md"),
    ):
        done = labtui(*command)
        assert SECRET not in done.out + done.err and done.code == 0
    snapshot = Watch(folder).poll(0.0)
    assert all(log.path.resolve().is_relative_to(folder.path) for log in snapshot.logs)
    assert "agent" in {log.name for log in snapshot.logs}


@pytest.mark.parametrize(
    "record", ["run.json", "status.json", "labels.json", "nccl.json", "machine.json", "output.log"]
)
@pytest.mark.parametrize("kind", ["pipe", "folder", "huge"])
def test_what_is_no_file_holds_nobody_up(labtui: Labtui, make_run, record: str, kind: str) -> None:
    folder = make_run()
    path = folder.path / record
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif record != "output.log":
        with path.open("wb") as file:
            file.truncate(1 << 40)  # a hole: takes no disk
    for command in (("runs",), ("runs", "--json"), ("show", folder.id), ("logs", folder.id), ("compare", folder.id,
    folder.id),
                    ("export", folder.id, "--format", "md"), ("export", folder.id, "--format", "json")):  # fmt: skip
        assert labtui(*command).code in (0, 2)
    Watch(folder).poll(0.0)


def test_pipes_among_events_and_telemetry(labtui: Labtui, make_run) -> None:
    folder = make_run()
    os.mkfifo(folder.events / "rank0.jsonl")
    os.mkfifo(folder.telemetry / "host.jsonl")
    for format in formats.FORMATS:
        assert labtui("export", folder.id, "--format", format).code == 0
    assert labtui("export", folder.id, "--format", "csv", "--telemetry").code == 0


def test_an_export_stays_where_it_was_asked_for(labtui: Labtui, make_run, tmp_path: Path) -> None:
    folder = make_run(request={"id": "../../../escaped", "experiment": "../../escaped"})
    into = tmp_path / "exports"
    into.mkdir()
    for format in formats.FORMATS:
        assert formats.write_beside(folder, format, into).parent == into
    assert not list(tmp_path.glob("**/*escaped*"))
    kept = into / "kept.md"
    kept.write_text("mine")
    assert "--force replaces it" in labtui("export", "last", "--format", "md", "--output", str(kept)).sentence
    assert kept.read_text() == "mine"


def test_what_a_lost_run_is_called_deletes_no_folder(make_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id makes the name of the folder of its sockets."""
    monkeypatch.setattr(spawn, "_runtime_root", lambda: tmp_path)
    victims = [tmp_path / name for name in ("labtui-x-y-z", "home/u-home-z")]
    for victim in victims:
        victim.mkdir(parents=True)
    for run_id in ("*", "*/../home/u", "*/../../*/home*/u/..home", "", "../home/u"):
        spawn.remove_runtime(run_id)
        dead = Owner(2**22 + 1, 1, "another", os.uname().nodename)
        folder = make_run("running", request={"id": run_id, "uid": os.getuid()}, status={"agent": dead})
        assert lost.bury(folder).state == "lost"
    assert all(victim.is_dir() for victim in victims)


def test_experiments_stay_in_their_folders(labtui: Labtui, outside: Path, tmp_path: Path, monkeypatch) -> None:
    own = tmp_path / "own"
    for name in ("linked_main", "named_main", "linked_guide", "linked_manifest"):
        (own / name).mkdir(parents=True)
        (own / name / "guide.md").write_text("# A\n\n## B\n\nc\n")
        (own / name / "main.py").touch()
        main = 'main = "../../outside/main.py"\n' if name == "named_main" else ""
        (own / name / "experiment.toml").write_text(MANIFEST + main)
    (outside / "main.py").touch()
    for name, file in (
        ("linked_main", "main.py"),
        ("linked_guide", "guide.md"),
        ("linked_manifest", "experiment.toml"),
    ):
        (own / name / file).unlink()
        (own / name / file).symlink_to(outside / ("precious.txt" if file != "main.py" else file))
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(own))
    listed = {one["name"]: one for one in labtui("experiments", "--json").json}
    for name in ("linked_main", "named_main", "linked_guide", "linked_manifest"):
        assert "a file within its own folder expected" in listed[name]["error"], name
        assert SECRET not in json.dumps(listed[name])
    for name in ("../outside", "/etc", "..", "own/linked_main", "linked_main/../x", "\0"):
        with pytest.raises(CatalogError):
            sources.find(name)
        assert labtui("run", name).sentence


MANIFEST = """
format = 1
title = "T"
question = "Q?"
topic = "data"
devices = ["cpu"]
minutes = 1
"""


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "", "..", "a/b", "a\0", "n" * 300])
def test_progress_in_a_guide_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    folder = progress.file_of("x").parent
    assert progress.file_of(name).parent == folder
    progress.write(name, progress.Progress(step=2))
    assert progress.read(name).step == 2


def test_labels_are_written_into_the_runs_own_folder(labtui: Labtui, make_run, own_folders: Path) -> None:
    folder = make_run()
    before = sorted(own_folders.rglob("*"))
    labtui("tag", "last", "../../x", "/etc")
    labtui("note", "last", "../../x")
    assert sorted(own_folders.rglob("*")) == sorted([*before, folder.labels_file])


def test_a_rerun_of_a_hostile_run_asks_for_nothing_that_it_may_not(
    labtui: Labtui, make_run, spawned: list[RunFolder]
) -> None:
    """Odd links, parameters and interpreters: a sentence."""
    for request in (
        {"link": {"rate_bits": 1e9}, "device": "cuda"}, {"parameters": {"x": {"y": []}}}, {"experiment": "../x"},
        {"launch": "command", "command": ()}, {"launch": "command", "command": ("true",), "directory": "/none"},
        {"launch": "command", "command": ("\0",)},
    ):  # fmt: skip
        make_run(request=request)
        assert labtui("rerun", "last").sentence
    make_run()
    path = make_run().request_file
    for link in ({}, {"rate_bits": "x"}, {"rate_bits": 0}, {"rate_bits": 1e9, "model": 3}):
        write_json(path, {**json.loads(path.read_bytes()), "link": link})
        assert "link" in labtui("rerun", path.parent.name).sentence
    assert spawned == []
