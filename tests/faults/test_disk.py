"""The disk fills up in the middle; logs/ is removed, moved, read-only, or on a file system without locks."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from faults.audit import assert_index_true, audit, next_run_works, written
from faults.workers import at_work, launcher, only_run, script
from lab import end, launch, until

from labtui.cli.main import main
from labtui.runs import closing, process, state
from labtui.runs.find import run_names
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.index import open_index
from labtui.runs.ladder import RUN_ID
from labtui.runs.records import LOST, RUNNING, SUCCEEDED
from labtui.runs.tail import read_events
from labtui.runs.telemetry import Sampler

FULL = """
    filler = open(run.parent / f"filler{rank}", "ab", buffering=0)
    def fill():
        size = 1 << 16
        while size:
            try:
                filler.write(b"x" * size)
            except OSError:
                size //= 2
    def outside(name):
        return Path(os.environ["OUTSIDE"], name)
    while not outside("fill").exists():
        time.sleep(0.02)
    for step in range(1, 3000):
        if step % 100 == 1:
            fill()
        report.metric("loss", 1.0 / step, step=step)
    outside(f"full{rank}").touch()
    while not outside("free").exists():
        time.sleep(0.02)
    if os.environ.get("FREES"):
        os.truncate(filler.name, 0)
        while not outside("again").exists():
            time.sleep(0.02)
        report.result("answer", 42, "1")
    outside(f"goes_on{rank}").touch()
    while not outside("done").exists():
        time.sleep(0.02)
"""


def telemetry(folder: RunFolder) -> tuple[int, int]:
    """How many of the run's telemetry lines can be read, and how many can't."""
    good = bad = 0
    for path in folder.telemetry.glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            try:
                good += isinstance(json.loads(line)["host"], dict)
            except ValueError:
                bad += 1
    return good, bad


@pytest.mark.parametrize(
    "frees",
    [
        pytest.param("", id="and stays full", marks=pytest.mark.slow),
        pytest.param("1", id="and has room again"),
    ],
)
def test_the_disk_fills_up(
    small_disk: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frees: str
) -> None:
    logs, outside = small_disk("3m"), tmp_path / "outside"
    outside.mkdir()
    environment = {"OUTSIDE": str(outside), "FREES": frees}
    folder = launch(logs, launcher(tmp_path, script(tmp_path, FULL)), environment=environment)
    at_work(folder)
    before = written(folder)
    (outside / "fill").touch()
    until(lambda: all((outside / f"full{rank}").exists() for rank in (0, 1)), "the disk is full")
    until(lambda: "telemetry is lost: No space left on device" in _log(folder) or not _room(logs), "telemetry stands")
    assert state.observe(folder).state == RUNNING
    (outside / "free").touch()
    until(lambda: _room(logs) > 1 << 19 or not frees, "there is room again")
    (outside / "again").touch()
    until(lambda: all((outside / f"goes_on{rank}").exists() for rank in (0, 1)), "the ranks go on")
    if frees:
        good, _ = telemetry(folder)
        until(lambda: telemetry(folder)[0] > good + 1, "telemetry goes on")
    (outside / "done").touch()
    status = end(folder)
    assert (status.state, status.reason) == (SUCCEEDED, "all 2 checks passed")
    for rank in (0, 1):
        (logs / f"filler{rank}").unlink()
    audit(folder, SUCCEEDED, "all 2 checks passed", before=before)
    assert not (folder.path / ".reserve").exists()
    events, bad_lines = read_events(folder)
    if frees:
        assert [result["value"] for result in status.results] == [42, 42]
        notes = [event["text"] for event in events if event["kind"] == "note"]
        assert notes and all(note.endswith("events before this one could not be written") for note in notes)
    assert bad_lines <= 2 and telemetry(folder)[1] <= 1, "at most the line that was being written is torn"


def _log(folder: RunFolder) -> str:
    return folder.agent_log.read_text()


def _room(place: Path) -> int:
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def test_a_torn_telemetry_line_spoils_no_other(own_folders: Path, make_run: Callable[..., RunFolder]) -> None:
    """A disk that is nearly full takes a part of a line and says nothing."""
    sampler = Sampler(make_run("running"), {}, lambda line: None)
    line = json.dumps({"t": 1.0, "host": {}, "pad": "x" * 100}).encode()
    sampler._take(line)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (sampler.path.stat().st_size + 10, hard))
    try:
        sampler._take(line)
        sampler._take(line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    sampler._take(line)
    lines = sampler.path.read_bytes().splitlines()
    assert lines == [line, line[:10], line]


def test_others_take_what_room_is_left(small_disk: Callable[[str], Path], make_run: Callable[..., RunFolder]) -> None:
    """The room kept for the last word is not given back to those who fill the disk, but used for it."""
    logs = small_disk("1m")
    folder = make_run("running", root=logs)
    closing.make_reserve(folder)
    for rank in (0, 1):
        with folder.rank_events(rank).open("w") as file:
            for number in range(600):
                result = {"kind": "result", "name": "busbw", "value": number, "labels": {"size": number}, "t": 1.0}
                print(json.dumps(result), file=file)
    greedy = "import sys, time\nfile = open(sys.argv[1], 'ab', buffering=0)\nprint(1, flush=True)\nsize = 4096\n"
    greedy += "while True:\n    try:\n        file.write(b'x' * 512)\n    except OSError:\n        pass\n"
    eater = subprocess.Popen([sys.executable, "-c", greedy, str(logs / "filler")], stdout=subprocess.PIPE)
    try:
        until(lambda: _room(logs) == 0, "the disk is full")
        status = closing.gather(folder, folder.status(), ())
        assert len(status.results) == 1200
        last = replace(status, state=SUCCEEDED, reason="all 2 checks passed", ended=status.created + 5)
        said: list[str] = []
        assert closing.write_last_word(folder, last, said.append, patience_s=0), said
    finally:
        eater.kill()
        eater.wait()
    assert folder.status().state == SUCCEEDED
    assert folder.status().reason == "all 2 checks passed (results left out: the disk is full)"
    assert not (folder.path / ".reserve").exists()


def test_a_disk_that_comes_back_gets_the_last_word(
    make_run: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel makes a disk with errors read-only; a file server restarts. Neither is the end of all disks."""
    folder = make_run("running")
    left = [OSError(errno.EROFS, "Read-only file system"), OSError(errno.ESTALE, "Stale file handle")]

    def failing(path: Path, document: object) -> None:
        if left:
            raise left.pop(0)
        write_json(path, document)

    monkeypatch.setattr(closing, "write_json", failing)
    monkeypatch.setattr(closing.time, "sleep", lambda seconds: None)
    said: list[str] = []
    last = replace(folder.status(), state=SUCCEEDED, reason="all 2 checks passed", ended=folder.status().created + 5)
    assert closing.write_last_word(folder, last, said.append)
    assert folder.status() == last
    assert said == [
        "status.json can't be written: Read-only file system", "status.json can't be written: Stale file handle",
    ]  # fmt: skip


def removed(path: Path) -> None:
    """As somebody does who tries again when rm says that a folder is not empty, since the run still writes."""

    def gone() -> bool:
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()

    until(gone, "it is removed")


@pytest.mark.parametrize("what", ["all of logs", pytest.param("the run's folder", marks=pytest.mark.slow)])
def test_what_is_removed_while_it_runs_is_ended(own_folders: Path, tmp_path: Path, what: str) -> None:
    """Nobody could find it any more, nor stop it: it would hold its GPUs for ever."""
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, "wait_for_ever()")))
    status = at_work(folder)
    assert status.agent is not None
    processes = [(known.pid or 0, known.start or 0) for known in status.processes]
    processes.append((status.agent.pid, status.agent.start))
    removed(folder.path if what == "the run's folder" else own_folders)
    until(lambda: not any(process.alive(*known) for known in processes), "its processes are gone")
    until(lambda: not process.carrying(RUN_ID, folder.id), "nothing carries its id")
    assert not folder.path.exists(), "what somebody removed does not come back"
    next_run_works(own_folders)
    assert_index_true(own_folders)


@pytest.mark.slow
def test_the_command_line_says_that_the_folder_is_gone(own_folders: Path, tmp_path: Path) -> None:
    command = launcher(tmp_path, script(tmp_path, "wait_for_ever()"))
    front = subprocess.Popen([sys.executable, "-m", "labtui", "run", "--", *command], stderr=subprocess.PIPE, text=True)
    folder = only_run(own_folders)
    at_work(folder)
    removed(folder.path)
    _, said = front.communicate(timeout=60)
    assert front.returncode == 1 and "Traceback" not in said
    assert said.splitlines()[-1] == f"labtui: {folder.id} is gone: its folder was removed, which ends the run"


@pytest.mark.slow
def test_a_folder_that_is_moved_keeps_its_run(own_folders: Path, tmp_path: Path) -> None:
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, "wait_for('done')")))
    at_work(folder)
    before = written(folder)
    moved = RunFolder(tmp_path / "elsewhere" / folder.path.name)
    moved.path.parent.mkdir()
    folder.path.rename(moved.path)
    agent = moved.status().agent
    assert agent is not None and state.observe(moved).state == RUNNING
    # The ranks look for the file where their folder was.
    folder.path.mkdir()
    (folder.path / "done").touch()
    until(lambda: not process.alive(agent.pid, agent.start), "its agent is gone")
    shutil.rmtree(folder.path)
    audit(moved, SUCCEEDED, "all 2 checks passed", before=before)


@pytest.mark.slow
def test_logs_that_are_read_only(
    small_disk: Callable[[str], Path],
    make_run: Callable[..., RunFolder],
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = small_disk("1m")
    ended, dead = make_run(root=logs), make_run("running", root=logs, request={"uid": os.getuid()})
    status = dead.status()
    assert status.agent is not None
    write_json(dead.status_file, replace(status, agent=replace(status.agent, pid=2**22 + 1)).document())
    dead.agent_log.write_text("")
    subprocess.run(["mount", "-o", "remount,ro", str(logs.parent)], check=True)
    try:
        assert main(["run", "--", "true"]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == (
            "",
            f"labtui: {logs} can't be written (Read-only file system): set LABTUI_LOGS to a folder of yours\n",
        )
        assert main(["runs"]) == 0
        out, err = capsys.readouterr()
        assert ended.id in out and dead.id in out and "lost" in out and "Traceback" not in err
        assert main(["show", ended.id]) == 0
        assert main(["show", dead.id]) == 0
        assert "is gone and left no last word" in capsys.readouterr().out
        assert main(["note", ended.id, "x"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert main(["rm", ended.id]) == 2
        assert capsys.readouterr().err == f"labtui: {ended.path} can't be deleted: Read-only file system\n"
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(logs.parent)], check=True)
    audit(dead, LOST, "is gone and left no last word")
    assert main(["show", ended.id]) == 0


@pytest.mark.slow
def test_a_file_system_without_locks(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strange_library: Path
) -> None:
    """Queueing takes a lock, and so does SQLite: both do without."""
    environment = {**os.environ, "LD_PRELOAD": str(strange_library), "STRANGE_NO_LOCKS": "1"}
    listing = [sys.executable, "-m", "labtui", "runs"]
    for _ in range(2):
        code = "from labtui.bench import report; report.check('it works', passed=True)"
        command = [sys.executable, "-m", "labtui", "run", "--queue", "--", sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr + done.stdout
    listed = subprocess.run(listing, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert all(name in listed.stdout for name in run_names(own_folders)), listed.stdout
    assert listed.stderr == "labtui: the run index is in use by another process; the folders were read directly\n"
    index = open_index(own_folders)
    assert [row.state for row in index.newest()] == [SUCCEEDED, SUCCEEDED]
    index.close()
    audit(RunFolder(own_folders / run_names(own_folders)[0]), SUCCEEDED, "its check passed")
