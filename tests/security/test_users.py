"""A logs folder that several users share: others' runs can be read, say whose they are, and can't be stopped.

And what a folder of theirs says makes nobody signal their own processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.conftest import Done
from lab import end, launch, until

from labtui.runs import control, ownership, process, spawn, state
from labtui.runs.folder import RunFolder
from labtui.runs.ladder import RUN_ID
from labtui.runs.records import LOST, QUEUED, RUNNING, STOPPED, SUCCEEDED, Owner, RunProcess

Labtui = Callable[..., Done]
NOBODY = 65534
ROOT = Path(__file__).parents[2]

only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user, or become one")


@pytest.fixture
def victim() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Processes of ours that have nothing to do with labtui."""
    started: list[subprocess.Popen[bytes]] = []

    def start(**environment: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], env={**os.environ, **environment}, start_new_session=True))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def give_away(folder: RunFolder, records_only: bool = False) -> None:
    for path in folder.path.rglob("*") if not records_only else (folder.status_file,):
        os.chown(path, NOBODY, NOBODY)
    if not records_only:
        os.chown(folder.path, NOBODY, NOBODY)


@only_root
@pytest.mark.parametrize("records_only", [False, True], ids=["whole folder", "status.json"])
def test_a_folder_of_others_ends_no_process_of_ours(
    labtui: Labtui, make_run, victim: Callable[..., subprocess.Popen[bytes]], records_only: bool
) -> None:
    """It says that it is ours, that its agent is gone, and that our processes are its ranks."""
    run_id = "20251129-120312-trap-abcd"
    sleeping, carrying = victim(), victim(**{RUN_ID: run_id})
    stat = process.read_stat(sleeping.pid)
    assert stat is not None
    folder = make_run(
        RUNNING,
        id=run_id,
        request={"uid": os.getuid()},
        status={
            "agent": Owner(2**22 + 1, 1, process.boot_id(), os.uname().nodename),
            "processes": (RunProcess("torchrun", stat.pid, stat.start), RunProcess("rank", stat.pid, stat.start, 0, 0)),
        },
    )
    give_away(folder, records_only)
    written = folder.status_file.read_bytes()
    compare, export = ("compare", run_id, run_id), ("export", run_id, "--format", "md")
    for command in (("runs",), ("show", run_id), ("logs", run_id), compare, export):
        labtui(*command)
    assert LOST in labtui("show", run_id).out
    assert sleeping.poll() is None and carrying.poll() is None
    assert folder.status_file.read_bytes() == written and not folder.agent_log.exists()
    give_back(folder)
    assert control.wait(folder).state == LOST, "the same folder, were it ours, is cleared up"
    assert sleeping.wait(10) == carrying.wait(10) == -signal.SIGKILL


def give_back(folder: RunFolder) -> None:
    for path in (folder.path, *folder.path.rglob("*")):
        os.chown(path, 0, 0)


@only_root
def test_no_process_of_ours_is_taken_for_the_agent_of_others(
    labtui: Labtui, make_run, victim: Callable[..., subprocess.Popen[bytes]]
) -> None:
    sleeping = victim()
    stat = process.read_stat(sleeping.pid)
    assert stat is not None
    owner = Owner(stat.pid, stat.start, process.boot_id(), os.uname().nodename)
    folder = make_run(RUNNING, request={"uid": os.getuid()}, status={"agent": owner})
    give_away(folder)
    for command in (("stop", "last", "--detach"), ("show", "last", "--stacks")):
        assert "belongs to nobody: only they can do that" in labtui(*command).sentence
    assert sleeping.poll() is None


@only_root
def test_no_run_of_others_is_started(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They could have put it where the next run of a group should be."""
    monkeypatch.setattr(spawn, "spawn", lambda *_: pytest.fail("it was started"))
    theirs = make_run(QUEUED, request={"uid": os.getuid()})
    give_away(theirs)
    ours = make_run(request={"uid": os.getuid(), "next": theirs.id})
    said: list[str] = []
    ownership.start_next(ours, theirs.id, SUCCEEDED, {}, said.append)
    assert said == [f"{theirs.id} is not started: it belongs to nobody"]


def test_where_files_get_another_owner_ours_are_still_ours(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a home on NFS that maps root to nobody: what we make there belongs to whom our folders belong."""
    folder = make_run(request={"uid": 4711})
    assert not ownership.is_ours(folder)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert ownership.is_ours(folder)
    assert not list(folder.path.glob(".owner*"))


def test_a_listing_says_whose_runs_they_are_where_there_are_several(labtui: Labtui, make_run) -> None:
    make_run()
    assert "user" not in labtui("runs").out.splitlines()[0].split()
    make_run(request={"user": "bob\x1b[2J"})
    header, *lines = labtui("runs").out.splitlines()
    place = header.index("user")
    assert [line[place:].split()[0] for line in lines] == ["bob", "ann"]
    assert "bob at" in labtui("show", lines[0].split()[1]).out


# Somebody else, for real --------------------------------------------------------------------------------------------


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A logs folder that everybody can read and add to, as /tmp."""
    place = Path(tempfile.mkdtemp(prefix="labtui-shared-", dir="/tmp"))
    place.chmod(0o755)
    logs = place / "logs"
    logs.mkdir()
    logs.chmod(0o1777)
    (place / "home").mkdir()
    os.chown(place / "home", NOBODY, NOBODY)
    monkeypatch.setenv("LABTUI_LOGS", str(logs))
    yield logs
    for left in process.carrying("LABTUI_LOGS", str(logs)):
        process.send(left.pid, left.start, signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)


def nobody(logs: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """labtui as another user would call it."""
    home = logs.parent / "home"
    environment = {
        "PATH": os.environ["PATH"], "LABTUI_LOGS": str(logs), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "LANG": "C.UTF-8",
    }  # fmt: skip
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return subprocess.run(
        [*become, sys.executable, "-m", "labtui", *command], env=environment, cwd="/", capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


@only_root
def test_another_users_run_can_be_read_and_not_stopped(shared: Path, tmp_path: Path) -> None:
    code = "import time; print('hello from them', flush=True); time.sleep(600)"
    folder = launch(shared, [sys.executable, "-c", code])
    until(lambda: "hello" in folder.output.read_text(), "its output")
    until(lambda: state.observe(folder).state == RUNNING, "it runs")
    if shutil.which("setpriv") is None or nobody(shared, "--version").returncode != 0:
        control.stop(folder)
        end(folder)
        pytest.skip("no Python here that another user can run on this checkout")

    status = state.observe(folder)
    listed = nobody(shared, "runs", "--json")
    [document] = json.loads(listed.stdout)
    assert (document["id"], document["state"], document["user"]) == (folder.id, "running", folder.request().user)
    assert f"{folder.request().user} at" in nobody(shared, "show", folder.id).stdout
    assert "hello from them" in nobody(shared, "logs", folder.id).stdout
    assert nobody(shared, "export", folder.id, "--format", "json").returncode == 0
    for command in (
        ("stop", folder.id), ("rm", folder.id), ("note", folder.id, "mine"), ("tag", folder.id, "mine"),
        ("show", folder.id, "--stacks"),
    ):  # fmt: skip
        done = nobody(shared, *command)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, (command, done)
        assert "Traceback" not in done.stderr
    assert "belongs to root: only they can do that" in nobody(shared, "stop", folder.id).stderr
    assert state.observe(folder) == status

    # Once its agent is gone it is lost for everybody, but only its owner clears it up.
    assert status.agent is not None
    os.kill(status.agent.pid, signal.SIGSTOP)  # so that it ends nothing itself
    os.kill(status.agent.pid, signal.SIGKILL)
    until(lambda: not process.alive(status.agent.pid if status.agent else 0, status.agent.start), "the agent is gone")
    seen = nobody(shared, "show", folder.id).stdout
    assert "lost: its agent" in seen
    assert folder.status().state == RUNNING
    assert end(folder).state in (LOST, STOPPED)
