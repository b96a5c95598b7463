"""Ranks that do not go on: stopped, deaf, in a loop, asleep in C, in collectives that do not match."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from faults.audit import audit, written
from faults.workers import TORCH_HEAD, at_work, launcher, script
from lab import launch, running, torchrun, until

from labtui.catalog import sources
from labtui.runs import control, start, state
from labtui.runs.records import FAILED, STOPPED, TIMED_OUT


def test_a_rank_that_is_stopped_is_named(own_folders: Path, tmp_path: Path) -> None:
    """SIGSTOP, or ctrl-z in somebody's debugger: such a process answers nothing, and dies of SIGKILL only."""
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, "wait_for('done')")), stall_s=2.0)
    status = at_work(folder)
    before = written(folder)
    os.kill(status.ranks[1].pid or 0, signal.SIGSTOP)
    ended = audit(folder, TIMED_OUT, "no event and no output for 2 s: ", before=before)
    assert "rank 1 is stopped (SIGSTOP)" in ended.reason
    assert "train.py" in (folder.stacks / "rank0.txt").read_text()


@pytest.mark.slow
def test_a_rank_that_is_stopped_keeps_the_others_waiting(own_folders: Path, tmp_path: Path) -> None:
    body = """
        def main(lab):
            x = torch.ones(4)
            dist.all_reduce(x)
            starting.set()
            report.note("rank is here")
            print("is here", flush=True)
            while not (run / "go").exists():
                time.sleep(0.02)
            dist.all_reduce(x)
        group.run(main)
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body, TORCH_HEAD)), stall_s=3.0, device="cpu")
    status = at_work(folder)
    before = written(folder)
    os.kill(status.ranks[1].pid or 0, signal.SIGSTOP)
    (folder.path / "go").touch()
    ended = audit(folder, TIMED_OUT, "no event and no output for 3 s: rank 0 waits in all_reduce #2", before=before)
    assert ended.reason.endswith("for rank 1: it is stopped (SIGSTOP)")


@pytest.mark.slow
def test_ranks_that_ignore_sigterm(own_folders: Path, tmp_path: Path) -> None:
    body = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        report.note("deaf")
        wait_for_ever()
    """
    environment = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}
    folder = launch(own_folders, torchrun(script(tmp_path, body)), environment=environment)
    at_work(folder)
    until(lambda: all("deaf" in folder.rank_events(rank).read_text() for rank in (0, 1)), "both are deaf")
    before = written(folder)
    control.stop(folder)
    audit(folder, STOPPED, "stopped on request", before=before)


LOOP = """
    def busy():
        while True:
            pass                # the line it spins in
    busy() if rank == 1 else wait_for_ever()
"""
ASLEEP = """
    import ctypes
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    def asleep():
        libc.pthread_mutex_lock(mutex)      # a deadlock in C that holds the GIL, as a native library may
    asleep() if rank == 1 else wait_for_ever()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("body", "function"), [(LOOP, "busy"), (ASLEEP, "asleep")], ids=["a loop", "asleep in C"])
def test_where_a_rank_hangs_is_told(own_folders: Path, tmp_path: Path, body: str, function: str) -> None:
    folder = launch(own_folders, launcher(tmp_path, script(tmp_path, body)), stall_s=3.0)
    at_work(folder)
    before = written(folder)
    ended = audit(folder, TIMED_OUT, "no event and no output for 3 s: ", before=before)
    assert f" in {function}" in ended.reason and "rank 1 is at train.py:" in ended.reason
    assert f"in {function}" in (folder.stacks / "rank1.txt").read_text()


@pytest.mark.slow
def test_a_blocked_collective_is_told(own_folders: Path, tmp_path: Path) -> None:
    """One rank reduces what the other one broadcasts: both wait for ever."""
    body = """
        def main(lab):
            x = torch.ones(4)
            dist.all_reduce(x)
            report.check("it began", passed=True)
            starting.set()
            if lab.rank == 0:
                dist.all_reduce(x)
            else:
                dist.barrier()
                dist.barrier()
        group.run(main)
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body, TORCH_HEAD)), stall_s=3.0, device="cpu")
    running(folder, 2)
    until(lambda: all("it began" in _text(folder.rank_events(rank)) for rank in (0, 1)), "both began")
    before = written(folder)
    ended = audit(folder, TIMED_OUT, "no event and no output for 3 s: ", before=before)
    assert "all_reduce #2" in ended.reason and "barrier" in ended.reason, ended.reason


@pytest.mark.slow
def test_all_reduces_of_different_sizes(own_folders: Path, tmp_path: Path) -> None:
    """gloo notices on one rank, which ends with an abort or an error; the others lose their peer."""
    body = """
        def main(lab):
            dist.all_reduce(torch.ones(4))
            report.check("it began", passed=True)
            starting.set()
            dist.all_reduce(torch.ones(4 + 1000 * lab.rank))
        group.run(main)
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body, TORCH_HEAD)), device="cpu", stall_s=30)
    running(folder, 2)
    ended = audit(folder, FAILED)
    assert "SIGABRT" in ended.reason or "train.py:" in ended.reason, ended.reason
    assert [check["name"] for check in ended.checks] == ["it began"] * 2


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
def test_one_rank_raises_while_the_others_wait(own_folders: Path, tmp_path: Path) -> None:
    body = """
        def main(lab):
            x = torch.ones(4)
            dist.all_reduce(x)
            report.check("it began", passed=True)
            starting.set()
            if lab.rank == 1:
                raise ValueError("no gradients today")
            dist.all_reduce(x)
        group.run(main)
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body, TORCH_HEAD)), device="cpu")
    running(folder, 2)
    audit(folder, FAILED, "rank 1 raised ValueError: no gradients today (train.py:")


@pytest.mark.slow
def test_a_rank_leaves_with_0_before_it_is_done(own_folders: Path, tmp_path: Path) -> None:
    body = """
        def main(lab):
            x = torch.ones(4)
            dist.all_reduce(x)
            report.check("it began", passed=True)
            starting.set()
            while not (run / "go").exists():
                time.sleep(0.02)
            if lab.rank == 1:
                os._exit(0)
            dist.all_reduce(x)
        group.run(main)
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body, TORCH_HEAD)), device="cpu")
    running(folder, 2)
    (folder.path / "go").touch()
    audit(folder, FAILED, "rank 1 left early with exit code 0; rank 0, which needed it, then failed")
    assert state.observe(folder).exit_code == 1


EXPERIMENT = """
format = 1
title = "Leaves"
question = "Is it done?"
topic = "data"
order = 1
launch = "python"
devices = ["cpu"]
minutes = 0.1
[processes]
default = 1
minimum = 1
maximum = 1
"""


def test_an_experiment_leaves_with_0_before_it_is_done(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "own" / "leaves"
    place.mkdir(parents=True)
    (place / "experiment.toml").write_text(EXPERIMENT)
    body = "import os\nfrom labtui.bench import report\nreport.progress(3, 12)\nos._exit(0)\n"
    (place / "main.py").write_text(body)
    (place / "guide.md").write_text("# Leaves\n\n## Run it\n\nIt leaves.\n")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(place.parent))
    (folder,) = start.start(own_folders, sources.find("leaves"), [""], {}, start.Options())
    reason = "ended with exit code 0 before it was done: rank 0 at 3 of 12, no checks reported"
    assert audit(folder, FAILED, reason).exit_code == 0
