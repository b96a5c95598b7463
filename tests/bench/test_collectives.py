"""Every collective and dtype in real processes: right as it is, wrong when damaged, timed alike on all ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

import torch

from labtui.bench import collectives

SCRIPT = """
from labtui.bench import group
import json, torch, torch.distributed as dist
from labtui.bench import clock, collectives, p2p

def proved(operation, spoil=False):
    operation.fill()
    before = operation.wrong()
    operation.run()
    if spoil:
        operation.damage()
    return before, operation.wrong()

def main(me):
    found = {}
    for name, make in collectives.ALL.items():
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for size in (1, 1024, 5000):
                operation = make(me, size, dtype)
                before, after = proved(operation)
                _, spoilt = proved(operation, spoil=me.rank == 1)
                found[f"{name} {dtype} {size}"] = [before, after, spoilt, operation.size, operation.count]
    for src, dst in ((0, 2), (2, 1)):
        operation = collectives.pair(me, 1000, torch.float32, src, dst)
        found[f"pair {src} {dst}"] = [*proved(operation), operation.size, operation.count]
    # Both ways at once, pieces of different length and empty ones.
    arrived = []
    for length in (0, 3, 5):
        landing = torch.zeros(length)
        transfer = p2p.exchange(torch.full((length,), me.rank + 1.0), (me.rank + 1) % 3, landing, (me.rank - 1) % 3)
        transfer.wait()
        arrived.append([transfer.sent, landing.tolist()])
    times = clock.measure(me, lambda: dist.barrier(), 0.01)
    found["p2p"], found["times"] = arrived, [times.median, times.least, times.p95, times.slowest_rank, times.runs]
    found["fastest"] = times.fastest
    print(f"found{me.rank} " + json.dumps(found) + "\\n", end="", flush=True)
group.run(main)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict]:
    """What each of three ranks found."""
    script = tmp_path_factory.mktemp("bench") / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", str(script)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABTUI_DEVICE": "cpu"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("found"))
    return [json.loads(line.partition(" ")[2]) for line in lines]


def test_all_collectives_are_right_and_a_single_damaged_element_is_counted(found):
    cases = [case for case in found[0] if "torch" in case]
    assert len(cases) == 6 * 3 * 3
    for case in cases:
        for rank, mine in enumerate(found):
            before, after, spoilt, size, count = mine[case]
            assert after == 0, case
            assert spoilt == (1 if rank == 1 else 0), case
            # An output that nobody wrote to would not pass.
            if count >= 100 and not (case.startswith("broadcast") and rank == 0):
                assert before > 0, case
            asked = int(case.split()[-1])
            assert size <= max(asked, 12)
            shared = case.split()[0] in ("all_gather", "reduce_scatter", "all_to_all")
            assert size == count * (3 if shared else 1) * (4 if "float32" in case else 2)


def test_only_a_pairs_receiver_proves_anything(found):
    assert [mine["pair 0 2"][:2] for mine in found] == [[0, 0], [0, 0], [250, 0]]
    assert [mine["pair 2 1"][:2] for mine in found] == [[0, 0], [250, 0], [0, 0]]
    assert {tuple(mine["pair 0 2"][2:]) for mine in found} == {(1000, 250)}


def test_messages_pass_both_ways_at_once(found):
    for rank, mine in enumerate(found):
        before = (rank - 1) % 3 + 1.0
        assert mine["p2p"] == [[0, []], [12, [before] * 3], [20, [before] * 5]]


def test_all_ranks_agree_on_the_times(found):
    assert found[0]["times"] == found[1]["times"] == found[2]["times"]
    median, least, p95, slowest, runs = found[0]["times"]
    assert 0 < least <= median <= p95
    assert found[0]["fastest"] <= median
    assert slowest in (0, 1, 2)
    assert 3 <= runs <= 1000


def test_memory_is_known_before_it_is_taken():
    size, f32 = 2**30, torch.float32
    assert collectives.bytes_needed("all_reduce", size, f32, 8, "nccl") == size * 5 // 4
    assert collectives.bytes_needed("all_gather", size, f32, 8, "nccl") == size * 11 // 8
    assert collectives.bytes_needed("reduce_scatter", size, f32, 2, "gloo") == size * 11 // 4
    assert collectives.bytes_needed("all_to_all", size, torch.bfloat16, 8, "nccl") == size * 5 // 2
