"""The owner of a run, with real torchrun processes: how runs end, and that nothing is left of any of them.

What happens when somebody is killed, or a disk fills: see tests/faults.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
from lab import assert_nothing_left, end, launch, running, torchrun, until

from labtui.runs import control, lost, process, start, state
from labtui.runs.folder import RunFolder
from labtui.runs.records import FAILED, LOST, STOPPED, SUCCEEDED, TIMED_OUT

# Ranks that import no torch: the owner treats them like any others, and they start in a tenth of the time.
PLAIN = """
    import os, signal, sys, time
    rank = int(os.environ["RANK"])
    print(f"rank {rank} is here", flush=True)
    def wait_for_ever():
        while True:
            time.sleep(0.05)
"""


def script(tmp_path: Path, body: str, head: str = PLAIN) -> Path:
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(head) + textwrap.dedent(body))
    return path


def test_a_run_succeeds_and_is_a_folder_of_plain_files(own_folders: Path, tmp_path: Path) -> None:
    body = """
        from labtui.bench import report
        report.check("one is one", 1, equal=1)
        report.result("answer", 42, "1")
        report.prediction("bytes", 10, 10, "B")
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body)), environment={"NCCL_DEBUG": "WARN"})
    status = end(folder)

    assert (status.state, status.reason, status.exit_code) == (SUCCEEDED, "all 2 checks passed", 0)
    assert [check["rank"] for check in status.checks] == [0, 1]
    assert len(status.predictions) == len(status.results) == 2
    assert status.events == {"rank0": 4, "rank1": 4, "bad_lines": 0}
    assert status.started is not None and status.ended is not None and status.ended >= status.started
    for rank in status.ranks:
        assert (folder.path / str(rank.stdout)).read_text() == f"rank {rank.rank} is here\n"
    assert folder.request().environment == {"NCCL_DEBUG": "WARN"}
    machine = json.loads(folder.machine_file.read_text())
    assert machine["cores"] and machine["versions"]["python"] and set(machine["ranks"]) == {"0", "1"}
    samples = [json.loads(line) for path in folder.telemetry.iterdir() for line in path.read_text().splitlines()]
    assert samples and all("host" in sample for sample in samples)
    assert not (folder.path / ".reserve").exists()


def test_a_rank_that_raises_is_named_with_its_error_and_place(own_folders: Path, tmp_path: Path) -> None:
    body = """
        if rank == 1:
            raise ValueError("no gradients today")
        wait_for_ever()
    """
    status = end(launch(own_folders, torchrun(script(tmp_path, body))))
    assert (status.state, status.exit_code) == (FAILED, 1)
    assert status.reason == "rank 1 raised ValueError: no gradients today (train.py:10)"


def test_a_rank_that_left_early_with_0_is_blamed_rather_than_the_one_it_let_down(
    own_folders: Path, tmp_path: Path
) -> None:
    body = """
        import json
        def ranks():
            with open(os.environ["LABTUI_RUN_DIR"] + "/status.json") as file:
                return [p for p in json.load(file)["processes"] if p["role"] == "rank"]
        while len(ranks()) < 2:
            time.sleep(0.02)
        if rank == 0:
            other = next(p["pid"] for p in ranks() if p["rank"] == 1)
            try:
                while open(f"/proc/{other}/stat").read().rpartition(")")[2].split()[0] != "Z":
                    time.sleep(0.001)
            except FileNotFoundError:
                pass  # torchrun has reaped it
            raise RuntimeError("Connection closed by peer")
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body)))
    status = end(folder)
    assert status.state == FAILED
    # Without seeing the order of departures only torchrun's word is left, and that names rank 0.
    assert status.reason.startswith("rank 1 left early with exit code 0; rank 0, which needed it, then failed"), (
        status.reason
    )


def test_a_second_stop_does_not_wait(own_folders: Path, tmp_path: Path) -> None:
    body = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
        wait_for_ever()
    """
    environment = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3600"}
    folder = launch(own_folders, torchrun(script(tmp_path, body)), environment=environment)
    ranks = running(folder, 2).ranks
    until(lambda: all("deaf" in (folder.path / str(r.stdout)).read_text() for r in ranks), "both are deaf")
    control.stop(folder)
    until(lambda: "SIGTERM to command" in folder.agent_log.read_text(), "the ladder's first rung")
    control.stop(folder)
    assert end(folder).state == STOPPED


def test_a_time_limit_ends_the_run(own_folders: Path, tmp_path: Path) -> None:
    folder = launch(own_folders, torchrun(script(tmp_path, "wait_for_ever()")), timeout_s=4.0)
    status = end(folder)
    assert status.state == TIMED_OUT
    assert status.reason.startswith("not done after its time limit of 4 s")


BENCH = """
    import os, sys, threading, time
    starting = threading.Event()
    def sign_of_life():
        while not starting.wait(0.2):
            print(".", end="", flush=True)  # importing torch takes as long as it takes: that is no stall
    threading.Thread(target=sign_of_life, daemon=True).start()
    from labtui.bench import group, report
    import torch
    import torch.distributed as dist
"""


@pytest.mark.slow
def test_a_stall_names_the_rank_that_did_not_come_and_its_line(own_folders: Path, tmp_path: Path) -> None:
    body = """
        def main(lab):
            starting.set()
            x = torch.ones(4)
            dist.all_reduce(x)
            if lab.rank == 1:
                while True:      # the line that keeps the others waiting
                    time.sleep(0.05)
            dist.all_reduce(x)
        group.run(main)
    """
    path = script(tmp_path, body, BENCH)
    folder = launch(own_folders, torchrun(path), stall_s=3.0, device="cpu")
    status = end(folder)
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "sleep" in text)
    assert status.state == TIMED_OUT
    assert status.reason.startswith("no event and no output for 3 s: rank 0 waits in all_reduce #2")
    assert f"for rank 1: it is at train.py:{line} in main" in status.reason or f"train.py:{line - 1}" in status.reason
    assert "train.py" in (folder.stacks / "rank0.txt").read_text()


def test_stacks_on_request_and_a_lost_agent_with_bench_ranks(own_folders: Path, tmp_path: Path) -> None:
    body = """
        def main(lab):
            starting.set()
            dist.all_reduce(torch.ones(4))
            if lab.rank == 1:
                time.sleep(3600)
            dist.barrier()
        group.run(main)
    """
    folder = launch(own_folders, torchrun(script(tmp_path, body, BENCH)), device="cpu")
    status = running(folder, 2)
    until(lambda: all(rank.stacks == "signal" for rank in state.observe(folder).ranks), "both said hello")
    until(lambda: "sleep" in str(control.request_stacks(folder)["ranks"][1]["line"] or "")
          or "main" in str(control.request_stacks(folder)["ranks"][1]["line"] or ""), "rank 1 sleeps")  # fmt: skip
    until(lambda: control.request_stacks(folder)["sentence"].startswith("rank 0 waits in"), "rank 0 waits")
    sentence = control.request_stacks(folder)["sentence"]
    assert "for rank 1: it is at train.py" in sentence
    assert state.observe(folder).live, "a look at the stacks ends nothing"

    assert status.agent is not None
    os.kill(status.agent.pid, signal.SIGKILL)
    until(lambda: state.observe(folder).state == LOST, "the run is called lost")
    until(lambda: not any(process.alive(p.pid, p.start) for p in status.processes), "all have followed the agent")
    assert lost.bury(folder).state == LOST
    assert_nothing_left(folder, folder.status())


def test_a_script_that_knows_no_sigusr1_survives_a_request_for_stacks(own_folders: Path, tmp_path: Path) -> None:
    folder = launch(own_folders, torchrun(script(tmp_path, "wait_for_ever()")))
    before = running(folder, 2)
    summary = control.request_stacks(folder)
    assert [rank["rank"] for rank in summary["ranks"]] == [0, 1]
    if before.ranks[0].stacks is None:
        assert "py-spy" in summary["ranks"][0]["why"]
    assert all(process.alive(rank.pid, rank.start) for rank in before.ranks)
    control.stop(folder)
    assert end(folder).state == STOPPED


@pytest.mark.slow
def test_two_runs_at_once_do_not_collide(own_folders: Path, tmp_path: Path) -> None:
    path = script(tmp_path, "time.sleep(1)")
    # The second by way of a script: log settings reach torchrun all the same.
    wrapped = ["sh", "-c", '"$@"; exit $?', "train.sh", *torchrun(path)]
    folders = [launch(own_folders, command) for command in (torchrun(path), wrapped)]
    assert [end(folder).state for folder in folders] == [SUCCEEDED, SUCCEEDED]
    first, second = (folder.status() for folder in folders)
    assert first.started is not None and second.started is not None and first.ended is not None
    assert second.started < first.ended, "they ran at the same time"
    for folder in folders:
        for rank in folder.status().ranks:
            assert (folder.path / str(rank.stdout)).read_text() == f"rank {rank.rank} is here\n"


def test_a_busy_port_is_one_sentence(own_folders: Path, tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "--master-addr=127.0.0.1"]
        command += [
            f"--master-port={port}",
            str(script(tmp_path, "import torch.distributed as d\nd.init_process_group('gloo')")),
        ]
        status = end(launch(own_folders, command))
    assert (status.state, status.reason) == (FAILED, f"port {port} is in use")


EXPERIMENT = """
    format = 1
    title = "Three in a row"
    question = "Does each start the next?"
    topic = "data"
    order = 1
    launch = "python"
    devices = ["cpu"]
    minutes = 0.1
    [processes]
    default = 1
    minimum = 1
    maximum = 1
    [parameters.fail]
    type = "bool"
    default = false
    [variants.bad]
    title = "fails"
    parameters = { fail = true }
    [variants.wrong]
    title = "fails a check on purpose"
    parameters = { fail = true }
    expect_failure = ["it holds"]
    [variants.third]
    title = "the third"
"""
MAIN = """
    import sys
    from labtui.bench import report
    fail = "fail=true" in sys.argv
    report.check("it holds", passed=not fail)
    report.check("another", passed=True)
"""


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "own" / "chain"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(textwrap.dedent(EXPERIMENT))
    (folder / "main.py").write_text(textwrap.dedent(MAIN))
    (folder / "guide.md").write_text("# Chain\n\n## Run\n\nIt runs.\n")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(folder.parent))
    return "chain"


def members(root: Path) -> list[RunFolder]:
    return sorted((RunFolder(path) for path in root.iterdir()), key=lambda f: f.request().next or "~")


def test_a_group_goes_on_without_its_starter(own_folders: Path, experiment: str) -> None:
    """The starter is a process of its own, and is killed as soon as the folders are there."""
    import subprocess

    code = (
        "from labtui.catalog.sources import find; from labtui.runs import start, folder; import os, signal;"
        f"start.start(folder.logs_root(), find({experiment!r}), ['', 'wrong', 'third'], {{}}, start.Options());"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    folders = [RunFolder(path) for path in own_folders.iterdir()]
    assert len(folders) == 3
    assert len({folder.request().group for folder in folders}) == 1
    ends = {folder.request().variant: end(folder) for folder in folders}
    assert {name: status.state for name, status in ends.items()} == dict.fromkeys(("", "wrong", "third"), SUCCEEDED)
    assert ends["wrong"].reason == "1 of 2 checks passed, 1 failed as intended"
    assert [check.get("expected") for check in ends["wrong"].checks] == [False, None]
    order = sorted(ends, key=lambda name: ends[name].started or 0)
    assert order == ["", "wrong", "third"]
    assert all((ends[a].ended or 0) <= (ends[b].started or 0) for a, b in pairwise(order))


def test_fail_fast_ends_the_rest_of_a_group(own_folders: Path, experiment: str) -> None:
    from labtui.catalog.sources import find

    folders = start.start(own_folders, find(experiment), ["bad", "third"], {}, start.Options(fail_fast=True))
    first, second = (end(folder) for folder in folders)
    assert (first.state, first.reason) == (FAILED, "check failed: 'it holds' on rank 0")
    assert second.state == STOPPED and "earlier run of its group" in second.reason


def test_a_variant_made_to_fail_that_passes_has_failed(own_folders: Path, experiment: str) -> None:
    from labtui.catalog.sources import find

    (folder,) = start.start(own_folders, find(experiment), ["wrong"], {"fail": "no"}, start.Options())
    status = end(folder)
    assert (status.state, status.reason) == (FAILED, "check 'it holds' was made to fail and passed")


def test_a_queued_run_can_be_stopped_before_it_starts(own_folders: Path, tmp_path: Path) -> None:
    first = launch(own_folders, [sys.executable, "-c", "import time; time.sleep(3600)"])
    second = launch(own_folders, [sys.executable, "-c", "print(1)"], queue=True)
    until(lambda: state.observe(second).reason.startswith(f"waits for {first.id}"), "the second says what it waits for")
    third = launch(own_folders, [sys.executable, "-c", "print(1)"], queue=True)
    control.stop(second)
    assert (end(second).state, end(second).reason) == (STOPPED, "stopped before it started")
    control.stop(first)
    assert end(first).state == STOPPED
    assert end(third).state == SUCCEEDED


def test_secrets_reach_the_process_and_no_file(own_folders: Path, tmp_path: Path) -> None:
    body = "import os, sys; assert sys.argv[1:] == ['--api-key', 'hunter2'] and os.environ['HUB_TOKEN'] == 'swordfish'"
    command = [sys.executable, "-c", body.replace("hunter2", "hun' 'ter2").replace("swordfish", "sword' 'fish"),
               "--api-key", "hunter2"]  # fmt: skip
    folder = launch(own_folders, command, environment={"HUB_TOKEN": "swordfish"})
    status = end(folder)
    assert status.state == SUCCEEDED, folder.output.read_text()
    for path in folder.path.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert "hunter2" not in text and "swordfish" not in text, path


def test_a_command_that_can_not_be_found(own_folders: Path) -> None:
    with pytest.raises(start.StartError, match="no-such-program is no program that can be found here"):
        launch(own_folders, ["no-such-program"])
    assert list(own_folders.iterdir()) == []
