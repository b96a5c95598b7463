"""What a step issues is counted: by name, bytes, group and phase, on a pretended group of four."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from labtui.bench import counted

# One process on torch's fake backend: collectives are issued, and nothing is sent.
SCRIPT = """
import dataclasses, json, os
import torch, torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from labtui.bench.counted import Counted

dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
everybody, found = dist.group.WORLD, {}

def classic():
    one, many = torch.ones(8), torch.empty(32)
    dist.all_reduce(one.view(2, 4)[0])  # a view counts as what it shows
    dist.all_gather([torch.empty(8) for _ in range(4)], one)
    dist.all_gather_into_tensor(many, one)
    dist.reduce_scatter_tensor(one, many)
    dist.reduce_scatter(one, list(many.chunk(4)))
    dist.broadcast(one, 0)
    dist.reduce(one, 0)
    dist.gather(one, None, 0)
    dist.scatter(one, None, 0)
    dist.all_to_all_single(many, many.clone())
    dist.all_to_all_single(torch.empty(8), torch.ones(10), [2, 2, 2, 2], [1, 6, 3, 0])
    dist.all_to_all(list(many.chunk(4)), list(many.clone().chunk(4)))
    dist.send(one, 0)
    dist.recv(one, 0)
    dist.barrier()

def with_autograd():
    x = torch.ones(8, dtype=torch.bfloat16, requires_grad=True)
    y = functional.all_gather_tensor_autograd(x, 0, everybody).sum()
    y = y + functional.reduce_scatter_tensor_autograd(x, "sum", 0, everybody).sum()
    y = y + functional.all_to_all_single_autograd(x, [2] * 4, [2] * 4, everybody).sum()
    y.backward()
    functional.all_reduce(x.detach(), "sum", everybody).sum()

def replica():
    model(torch.ones(2, 4)).sum().backward()

def shards():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model(torch.ones(2, 4)).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)

def axis():
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.all_reduce(torch.ones(8), group=mesh.get_group("tp"))

for act in (classic, with_autograd, shards, axis, replica):
    if act is replica:  # the fake backend returns nothing that DDP could take as an average
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        model = DistributedDataParallel(nn.Linear(4, 4))
    with Counted() as seen:
        act()
    found[act.__name__] = [dataclasses.asdict(call) for call in seen.calls]
    if act is shards:
        found["counts"] = [seen.counts(), seen.counts(backward=True), seen.counts(backward=False)]
        found["sent"] = [seen.sent(), seen.totals()["reduce_scatter"].sent, seen.totals()["reduce_scatter"].bytes]
print("found " + json.dumps(found), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def found() -> dict:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("found "))
    return json.loads(line[len("found ") :])


def short(calls: list[dict]) -> list[tuple]:
    return [(call["collective"], call["bytes"], call["sent"]) for call in calls]


def test_torch_distributeds_own(found):
    assert short(found["classic"]) == [
        ("all_reduce", 16, 24),  # 2 (N-1)/N
        ("all_gather", 128, 96),  # (N-1)/N of the whole
        ("all_gather", 128, 96),
        ("reduce_scatter", 128, 96),
        ("reduce_scatter", 128, 96),
        ("broadcast", 32, 32),
        ("reduce", 32, 32),
        ("gather", 128, 96),
        ("scatter", 128, 96),
        ("all_to_all", 128, 96),
        ("all_to_all", 40, 16),  # 6 of 10 rows stay with rank 1
        ("all_to_all", 128, 96),
        ("send", 32, 32),
        ("recv", 32, 0),
        ("barrier", 0, 0),
    ]
    assert {(call["ranks"], call["backward"]) for call in found["classic"]} == {(4, False)}


def test_functional_ones_count_once_forward_and_backward(found):
    forward = [("all_gather", 64, 48), ("reduce_scatter", 16, 12), ("all_to_all", 16, 12)]
    backward = [("all_to_all", 16, 12), ("all_gather", 16, 12), ("reduce_scatter", 64, 48)]
    calls = found["with_autograd"]
    assert short(calls) == [*forward, *backward, ("all_reduce", 16, 24)]
    assert [call["backward"] for call in calls] == [False] * 3 + [True] * 3 + [False]


def test_what_ddp_and_fsdp_issue_themselves(found):
    (call,) = found["replica"]
    assert (call["collective"], call["bytes"], call["ranks"], call["backward"], call["sent"]) == (
        "all_reduce", 80, 1, True, 0,
    )  # fmt: skip
    in_all, backward, forward = found["counts"]
    assert in_all == {"all_gather": 4, "reduce_scatter": 2, "all_reduce": 1}  # the last: of the gradients' norm
    assert backward == {"all_gather": 2, "reduce_scatter": 2}
    assert forward == {"all_gather": 2, "all_reduce": 1}
    # 20 numbers of 4 bytes in each layer, of which three quarters travel.
    assert found["sent"] == [4 * 60 + 2 * 60 + found["shards"][-1]["sent"], 120, 160]


def test_an_axis_of_a_mesh_is_named(found):
    (call,) = found["axis"]
    assert (call["ranks"], call["group"], call["sent"]) == (2, "mesh_tp", 32)


def test_a_rank_alone_sends_nothing():
    assert counted.ideal_sent("broadcast", 10, 1) == counted.ideal_sent("all_reduce", 10, 1) == 0
    with pytest.raises(ValueError, match="is none of"):
        counted.ideal_sent("rumour", 10, 2)
