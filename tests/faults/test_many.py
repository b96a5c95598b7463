"""Many at once: front ends on one logs folder while runs come and go, twenty runs on two cores, a port taken away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.audit import assert_index_true, audit, next_run_works
from faults.workers import HEAD, launcher, script
from lab import assert_nothing_left, end, launch, torchrun
from test_terminal import Terminal

from labtui.cli.main import main
from labtui.runs import control, welcome
from labtui.runs.find import run_names
from labtui.runs.folder import RunFolder
from labtui.runs.records import FAILED, STOPPED, SUCCEEDED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@contextmanager
def terminals(count: int) -> Iterator[list[Terminal]]:
    opened = [Terminal() for _ in range(count)]
    try:
        yield opened
    finally:
        for app in opened:
            if app.code is None:
                os.kill(app.pid, signal.SIGKILL)
                os.waitpid(app.pid, 0)
            app.close()


def test_two_uis_and_three_command_lines_on_one_folder(own_folders: Path, tmp_path: Path) -> None:
    welcome.is_first_start()
    path = script(tmp_path, "wait_for('done')")
    labtui = [sys.executable, "-m", "labtui"]
    with terminals(2) as apps:
        for app in apps:
            app.until(b"leave")
            app.press(b"3")  # the list of runs
        folders = [launch(own_folders, launcher(tmp_path, path)) for _ in range(4)]
        loops = [
            subprocess.Popen(["sh", "-c", 'for i in 1 2 3 4; do "$@" || exit $?; done', "sh", *labtui, *arguments],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for arguments in (["runs", "--json"], ["run", "--json", "--", sys.executable, "-c", "print(1)"],
                              ["show", folders[0].id])
        ]  # fmt: skip
        control.stop(folders[0])
        for folder in folders[1:3]:
            (folder.path / "done").touch()
        subprocess.run([*labtui, "note", folders[2].id, "seen"], check=True, stdout=subprocess.DEVNULL)
        for loop in loops:
            out, err = loop.communicate(timeout=300)
            assert loop.returncode == 0 and "Traceback" not in out + err, err
        (folders[3].path / "done").touch()
        for app in apps:
            app.until(b"seen")
            app.press(b"q")
        for app in apps:
            assert app.end() == 0
            assert b"Traceback" not in app.output
    assert len(run_names(own_folders)) == 8
    for name in run_names(own_folders):
        folder = RunFolder(own_folders / name)
        expected = STOPPED if folder.id == folders[0].id else SUCCEEDED
        assert end(folder).state == expected
    assert folders[2].labels().note == "seen"
    audit(folders[1], SUCCEEDED, "all 2 checks passed")


def test_twenty_runs_at_once(own_folders: Path, tmp_path: Path) -> None:
    """Some by torchrun, some queued: each has its own id, port, folder and last word."""
    path = script(tmp_path, "report.result('rank', rank, '1')")
    started = []
    for number in range(20):
        command = torchrun(path) if number % 5 == 0 else launcher(tmp_path, path)
        started.append(launch(own_folders, command, queue=number % 7 == 3))
    assert len({folder.id for folder in started}) == 20
    for folder in started:
        status = control.wait(folder)
        assert_nothing_left(folder, status)
        assert (status.state, status.reason) == (SUCCEEDED, "all 2 checks passed"), folder.id
        assert sorted(result["value"] for result in status.results) == [0, 1]
        for rank in (0, 1):
            shown = {str(process.stdout) for process in status.ranks if process.rank == rank}
            assert [(folder.path / name).read_text() for name in shown] == [f"rank {rank} is here\n"]
    assert_index_true(own_folders)
    next_run_works(own_folders)


def test_a_port_that_is_taken_between_its_choice_and_its_use(
    own_folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """torchrun looks for a free port and closes it again; rank 0 opens it a second later."""
    body = """
        import socket
        port = int(os.environ["MASTER_PORT"])
        if rank == 1:
            thief = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
            (run / "taken").touch()
        wait_for("taken")
        import torch.distributed as dist
        if rank == 0:
            dist.init_process_group("gloo")
        wait_for_ever()
    """
    environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # as labtui sets it for its own experiments
    folder = launch(own_folders, torchrun(script(tmp_path, body, HEAD)), environment=environment)
    status = audit(folder, FAILED)
    words = "was taken by somebody else before rank 0 could listen on it: run it again"
    assert status.reason.startswith("port ") and status.reason.endswith(words), status.reason
    assert main(["show", folder.id]) == 0
