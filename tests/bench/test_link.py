"""A run on a shaped link knows it, and takes as long as theory says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from labtui.bench import link
from labtui.bench.link import Link
from labtui.machine import link as shaped
from labtui.theory.collectives import all_reduce_bytes

SCRIPT = """
import time, torch, torch.distributed as dist
from labtui.bench import link, report, timing
from labtui.bench.group import run
from labtui.theory.collectives import all_reduce_bytes

def main(group):
    x = torch.ones(1 << 21)
    times = [timing.timed(lambda: dist.all_reduce(x), group.device)[0] for _ in range(6)]
    # The first one meets a link that has rested; and what disturbs a busy machine only ever adds.
    took = min(timing.slowest(times, group.device)[1:])
    if group.rank == 0:
        on = link.current()
        sent = all_reduce_bytes(x.nbytes, group.world_size)
        report.prediction("all_reduce", on.seconds(sent, group.world_size), took, "s", on.words())

run(main)
"""


def test_without_a_shaped_link_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABTUI_LINK", raising=False)
    assert link.current() is None


def test_a_run_reads_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABTUI_LINK", json.dumps({"rate_bits": 1e9, "model": "bus", "why": "x"}))
    assert link.current() == Link(1e9, "bus")
    assert link.current().words() == "1 Gbit/s shared by all ranks (a bus)"


@pytest.mark.parametrize("text", ["1gbit", "{}", "[]", '{"rate_bits": null, "model": "bus"}'])
def test_a_broken_link_gets_a_sentence(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("LABTUI_LINK", text)
    with pytest.raises(SystemExit):
        link.current()
    assert capsys.readouterr().err.startswith("LABTUI_LINK is ")


def test_a_bus_carries_everybodys_bytes_one_after_the_other() -> None:
    size, ranks = 64e6, 4
    sent = all_reduce_bytes(size, ranks)
    assert Link(1e9, "per_rank").seconds(sent, ranks) == pytest.approx(2 * 3 / 4 * size / 125e6)
    assert Link(1e9, "bus").seconds(sent, ranks) == pytest.approx(2 * 3 * size / 125e6)


def test_a_script_that_is_on_no_link_hears_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labtui.bench.enter", "x.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "labtui.bench.enter is for ranks on a shaped link: LABTUI_LINK_RANKS is not set\n"


@pytest.mark.slow
def test_an_all_reduce_takes_as_long_as_theory_says(tmp_path: Path) -> None:
    try:
        found = shaped.find(500e6, 2)
    except shaped.LinkError as error:
        pytest.skip(str(error))
    script = tmp_path / "main.py"
    script.write_text(SCRIPT)
    (tmp_path / "events").mkdir()
    enter = ["-m", "labtui.bench.enter"] if found.model == shaped.PER_RANK else []
    done = subprocess.run(
        [
            *shaped.prefix(found, 2), sys.executable, "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node", "2", *enter, str(script),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_RUN_DIR": str(tmp_path), "LABTUI_DEVICE": "cpu",
             "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "events/rank0.jsonl").read_text().splitlines()]
    (said,) = [event for event in events if event["kind"] == "prediction"]
    assert "0.5 Gbit/s" in said["why"]
    assert 0.97 <= said["measured"] / said["predicted"] <= 1.2
