"""group.run in real processes: alone, under torchrun, ending well, ending badly, and losing torchrun."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]

GREET = """
from labtui.bench import group
import torch, torch.distributed as dist
def main(me):
    total = torch.full((3,), float(me.rank + 1))
    dist.all_reduce(total)
    mine = torch.rand(1, generator=me.generator())
    shared = torch.rand(1)
    print(f"{me} total={total.tolist()} mine={mine.item()} shared={shared.item()} largest={me.largest(me.rank)}\\n",
          end="", flush=True)
group.run(main)
"""


@pytest.fixture
def script(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu", **more}


def run(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=90, check=False)


def test_alone_without_torchrun(script):
    done = run([sys.executable, script(GREET)])
    assert done.returncode == 0, done.stderr
    assert "rank=0, local_rank=0, world_size=1" in done.stdout
    assert "total=[1.0, 1.0, 1.0]" in done.stdout
    assert "hello: pid" in done.stdout


@pytest.mark.slow
def test_four_ranks_end_clean(script):
    """A normal exit of the interpreter aborts some runs like this one; see group.run."""
    done = run([*TORCHRUN, "--nproc-per-node", "4", script(GREET)])
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "total=" in line]
    assert len(lines) == 4
    assert all("total=[10.0, 10.0, 10.0]" in line and line.endswith("largest=3.0") for line in lines)
    assert len({line.partition(" mine=")[2].split()[0] for line in lines}) == 4
    assert len({line.partition(" shared=")[2].split()[0] for line in lines}) == 1


@pytest.mark.slow
def test_twelve_runs_of_four_ranks_with_ddp_end_clean(script):
    path = script("""
from labtui.bench import group
import torch
from torch import nn
def main(me):
    layers = nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)])
    model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=1)
    for _ in range(5):
        model(torch.randn(8, 256)).sum().backward()
group.run(main)
""")
    assert [run([*TORCHRUN, "--nproc-per-node", "4", path]).returncode for _ in range(12)] == [0] * 12


RAISE = """
from labtui.bench import group
def main(me):
    raise ValueError("the reason")
group.run(main)
"""


def test_an_exception_leaves_its_traceback_and_torchruns_error_file(script, tmp_path):
    done = run([sys.executable, script(RAISE)], TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    assert done.returncode == 1
    assert "ValueError: the reason" in done.stderr
    message = json.loads((tmp_path / "error.json").read_text())["message"]
    assert message["message"] == "ValueError: the reason"
    assert "in main" in message["extraInfo"]["py_callstack"]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"LABTUI_COLLECTIVE_TIMEOUT_S": "soon"}, "a number of seconds above 0 expected"),
        ({"LABTUI_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": ""}, "sees no GPU"),
    ],
)
def test_wrong_settings_get_one_sentence(script, setting, sentence):
    done = run([sys.executable, script(GREET)], **setting)
    assert done.returncode == 2
    assert [sentence in line for line in done.stderr.splitlines() if "warn" not in line.lower()] == [True]


WAIT = """
from labtui.bench import group, report
import time, torch.distributed as dist
def main(me):
    report.note("ready")
    if me.rank == 1:
        time.sleep(600)
    dist.barrier()
group.run(main)
"""


def test_ranks_answer_while_stuck_and_die_with_torchrun(script, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    runtime = (
        Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"labtui-test-{os.getpid()}"
    )  # a socket's path is short
    runtime.mkdir(mode=0o700)
    torchrun = subprocess.Popen(
        [*TORCHRUN, "--nproc-per-node", "2", script(WAIT)],
        env=environment(LABTUI_RUN_DIR=str(folder), LABTUI_RUNTIME_DIR=str(runtime)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    hellos: list[dict] = []
    try:
        wait_for(lambda: all("ready" in read(folder / f"events/rank{rank}.jsonl") for rank in (0, 1)))
        hellos = [json.loads(read(folder / f"events/rank{rank}.jsonl").splitlines()[0]) for rank in (0, 1)]
        assert [Path(hello["socket"]).is_socket() for hello in hellos] == [True, True]
        # Rank 0 is inside a collective, in C++.
        os.kill(hellos[0]["pid"], signal.SIGUSR1)
        wait_for(lambda: "in main" in read(folder / "stacks/rank0.txt"))
        assert "in barrier" in read(folder / "stacks/rank0.txt")
        torchrun.kill()
        torchrun.wait()
        wait_for(lambda: not any(alive(hello["pid"]) for hello in hellos))
    finally:
        torchrun.kill()
        torchrun.wait()
        for hello in hellos:
            if alive(hello["pid"]):
                os.kill(hello["pid"], signal.SIGKILL)
        shutil.rmtree(runtime)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
