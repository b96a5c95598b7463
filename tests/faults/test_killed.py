"""Somebody is killed: front ends, the owner, torchrun, ranks. And the terminal hangs up."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from faults.audit import Process, audit, identity, written
from faults.workers import at_work, launcher, only_run, script
from lab import launch, torchrun, until
from test_terminal import Terminal

from labtui.runs import control, state, welcome
from labtui.runs.folder import RunFolder
from labtui.runs.records import FAILED, LOST, RUNNING, STOPPED, SUCCEEDED

GOES_ON = "wait_for('done')"


@pytest.mark.slow
def test_the_command_line_is_killed(own_folders: Path, tmp_path: Path) -> None:
    command = launcher(tmp_path, script(tmp_path, GOES_ON))
    front = subprocess.Popen([sys.executable, "-m", "labtui", "run", "--", *command], stderr=subprocess.DEVNULL)
    folder = only_run(own_folders)
    at_work(folder)
    before = written(folder)
    front.kill()
    front.wait()
    assert state.observe(folder).state == RUNNING
    (folder.path / "done").touch()
    audit(folder, SUCCEEDED, "all 2 checks passed", before=before)


def test_the_terminal_hangs_up(own_folders: Path, tmp_path: Path) -> None:
    command = launcher(tmp_path, script(tmp_path, GOES_ON))
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "labtui", "run", "--", *command])
    folder = only_run(own_folders)
    at_work(folder)
    before = written(folder)
    os.close(terminal)  # SIGHUP to everything in the terminal's foreground
    os.waitpid(pid, 0)
    assert state.observe(folder).state == RUNNING
    (folder.path / "done").touch()
    audit(folder, SUCCEEDED, "all 2 checks passed", before=before)


TINY = """
    format = 1
    title = "Tiny zebra"
    question = "Does it go on?"
    topic = "data"
    order = 0
    launch = "python"
    devices = ["cpu"]
    minutes = 0.1
    [processes]
    default = 1
    minimum = 1
    maximum = 1
"""
TINY_MAIN = """
    import os, time
    from pathlib import Path
    from labtui.bench import report
    report.check("it began", passed=True)
    print("rank 0 is here", flush=True)
    while not Path(os.environ["LABTUI_RUN_DIR"], "done").exists():
        time.sleep(0.02)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "hang-up"])
def test_the_ui_that_started_the_run_is_killed(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    own = tmp_path / "own" / "zebra"
    own.mkdir(parents=True)
    (own / "experiment.toml").write_text(textwrap.dedent(TINY))
    (own / "main.py").write_text(textwrap.dedent(TINY_MAIN))
    (own / "guide.md").write_text("# Zebra\n\n## Run it\n\nIt goes on.\n")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(own.parent))
    assert welcome.is_first_start()  # now it is not any more
    app = Terminal()
    try:
        app.until(b"labtui run zebra")  # the first of the list
        app.press(b"\r")
        folder = only_run(own_folders)
        at_work(folder, 1)
        before = written(folder)
        if how == "SIGKILL":
            os.kill(app.pid, signal.SIGKILL)
            assert app.end() == 128 + signal.SIGKILL
        else:
            app.close()
            assert app.end() != 0  # by the signal, or because nothing can be read any more: whichever comes first
    finally:
        if app.code is None:
            os.kill(app.pid, signal.SIGKILL)
            os.waitpid(app.pid, 0)
        app.close()
    assert state.observe(folder).state == RUNNING
    (folder.path / "done").touch()
    audit(folder, SUCCEEDED, "its check passed", before=before)


@pytest.mark.parametrize(
    "deaf",
    [
        pytest.param(False, id="ranks that hear SIGTERM", marks=pytest.mark.slow),
        pytest.param(True, id="ranks that ignore it"),
    ],
)
def test_the_agent_is_killed(own_folders: Path, tmp_path: Path, deaf: bool) -> None:
    head = "import subprocess\nsubprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
    head += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\n" if deaf else ""
    environment = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3600"}
    command = torchrun(script(tmp_path, head + "wait_for_ever()"))
    folder = launch(own_folders, command, environment=environment)
    status = at_work(folder)
    if deaf:
        until(lambda: all("deaf" in (folder.path / str(r.stdout)).read_text() for r in status.ranks), "both are deaf")
    before = written(folder)
    assert status.agent is not None
    os.kill(status.agent.pid, signal.SIGKILL)
    until(lambda: state.observe(folder).state == LOST, "the run is called lost")
    ended = audit(folder, LOST, f"its agent (pid {status.agent.pid}) is gone and left no last word", before=before)
    assert "of its processes w" in ended.reason and ended.reason.endswith("been ended")


def test_torchrun_is_killed(own_folders: Path, tmp_path: Path) -> None:
    folder = launch(own_folders, torchrun(script(tmp_path, "wait_for_ever()")))
    status = at_work(folder)
    before = written(folder)
    os.kill(next(p.pid or 0 for p in status.processes if p.role == "command"), signal.SIGKILL)
    audit(folder, FAILED, "command was killed by SIGKILL, often out of memory", before=before)


def test_one_rank_is_killed(own_folders: Path, tmp_path: Path) -> None:
    folder = launch(own_folders, torchrun(script(tmp_path, "wait_for_ever()")))
    status = at_work(folder)
    before = written(folder)
    os.kill(status.ranks[1].pid or 0, signal.SIGKILL)
    audit(folder, FAILED, "rank 1 was killed by SIGKILL, often out of memory", before=before)


@pytest.mark.slow
def test_all_ranks_are_killed(own_folders: Path, tmp_path: Path) -> None:
    folder = launch(own_folders, torchrun(script(tmp_path, "wait_for_ever()")))
    status = at_work(folder)
    before = written(folder)
    for rank in status.ranks:
        os.kill(rank.pid or 0, signal.SIGKILL)
    ended = audit(folder, FAILED, before=before)
    assert ended.reason in {f"rank {rank} was killed by SIGKILL, often out of memory" for rank in (0, 1)}


def children_of(folder: RunFolder, names: list[str]) -> list[Process]:
    """The processes whose pids the script wrote down."""
    for name in names:
        until(lambda name=name: (folder.path / name).exists(), name)
    return [identity(int((folder.path / name).read_text())) for name in names]


def test_a_rank_forks_children_of_its_own(own_folders: Path, tmp_path: Path) -> None:
    """Also such as hide: in a session of their own, without the run's environment, with a parent that is gone."""
    body = """
        import subprocess
        def noted(name, command, **options):
            child = subprocess.Popen(command, **options)
            (run / f".{name}").write_text(str(child.pid))
            (run / f".{name}").rename(run / name)
        if rank == 0:
            noted("plain", ["sleep", "3600"])
            noted("session", ["sleep", "3600"], start_new_session=True)
            noted("bare", ["sleep", "3600"], start_new_session=True, env={})
            # The parent of this one ends at once, as a daemon's does.
            place = run / "orphan"
            inner = f"import os, subprocess; c = subprocess.Popen(['sleep', '3600'], start_new_session=True, env={{}});"
            inner += f"open('{place}.new', 'w').write(str(c.pid)); os.rename('{place}.new', '{place}'); os._exit(0)"
            subprocess.run([sys.executable, "-c", inner])
        wait_for_ever()
    """
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, body)))
    at_work(folder)
    children = children_of(folder, ["plain", "session", "bare", "orphan"])
    before = written(folder)
    control.stop(folder)
    audit(folder, STOPPED, "stopped on request", before=before, also_gone=children)
