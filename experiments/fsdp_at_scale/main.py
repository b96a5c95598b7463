"""One rank of many, on a machine that has none of the others: what it would hold, and what it would send.

FSDP2 is run as it is, by torch's own code. Only three things around it are pretended: the process group is torch's fake
one, which believes in 64 ranks and returns from a collective at once; tensors are fake ones, which have a shape and no
data; and memory is what their storages would take. So sizes are true and times mean nothing.

Can such figures be believed? With `beside` two real ranks train a small model first, and then each pretends to do the
same again: every category of memory and every collective must come out the same.

Run it with `labtui run fsdp_at_scale`, or bare: `python experiments/fsdp_at_scale/main.py ranks=512`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
from dataclasses import dataclass, replace

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from labtui.bench import at_scale, counted, gpt, hardware, parameters, pretended, report, tracker
from labtui.bench.device import refuse
from labtui.theory import models

WORDS = 50257  # GPT-2's vocabulary: at these sizes the embedding is no trifle
SHAPES = {
    "tiny": models.SIZES["tiny"],
    "baby": models.SIZES["baby"],
    "1b": replace(models.SIZES["1b"], vocabulary=WORDS),
    # As GPT-3 2.7B and 6.7B (Brown et al., arXiv 2005.14165, table 2.1).
    "3b": models.GptShape(layers=32, heads=32, width=2560, context=2048, vocabulary=WORDS),
    "7b": models.GptShape(layers=32, heads=32, width=4096, context=2048, vocabulary=WORDS),
}


@dataclass(frozen=True)
class Step:
    """What one training step held and sent on this rank."""

    memory: tracker.Tracked
    seen: counted.Counted
    parameters: int
    blocks: list  # of each block, the shapes of its tensors
    root: list  # and of what no block has: embeddings, the last norm, the output layer


def training_step(mesh, shape, settings, warm_up=True):
    """Shards a model over the mesh and takes one step with it; called with real tensors, and with fake ones."""
    model = gpt.Gpt(shape)
    counted_by_hand = gpt.parameters(model)
    blocks = [[tuple(p.shape) for p in block.parameters()] for block in model.blocks]
    root = [tuple(p.shape) for part in (model.embed, model.head) for p in part.parameters()]

    weights = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
    policy = MixedPrecisionPolicy(param_dtype=weights, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=settings.reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy)  # the rest: it is gathered once and stays until backward is through
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)  # many tensors at a time, which is usual on GPUs

    x, y = (torch.randint(0, shape.vocabulary, (settings.sequences, shape.context)) for _ in range(2))

    def step():
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()

    if warm_up:
        step()  # AdamW makes its averages in its first step, and on fake tensors of full size, for a moment
    seen = counted.Counted()

    def counted_step():
        with seen:
            step()

    memory = tracker.track(counted_step, model, optimizer, (x, y))
    return Step(memory, seen, counted_by_hand, blocks, root)


def main(me):
    settings = parameters.read(__file__)
    shape = SHAPES[settings.size]
    refuse_what_cant_be(me, settings, shape)
    if me.rank == 0:
        report.note("a simulation of memory and traffic, not of time: nothing is computed, and nothing is sent")

    real, ranks = None, settings.ranks
    if settings.beside:
        ranks = me.world_size
        real = training_step(me.mesh((ranks,), ("dp",)), shape, settings)
    mesh = pretended.join(me.rank, ranks)
    with FakeTensorMode():
        step = training_step(mesh, shape, settings, settings.warm_up)

    if real is not None:
        at_scale.compare(me.rank, real, step)
    if me.rank == 0:
        at_scale.report_step(shape, settings, ranks, step)


def refuse_what_cant_be(me, settings, shape):
    if settings.beside and me.world_size < 2:
        refuse("beside=true holds real ranks against pretended ones: at least 2 processes are needed")
    if not settings.beside and me.world_size > 1:
        alone = f"one process pretends to be one of ranks={settings.ranks}"
        refuse(f"{alone}: take 1 process, not {me.world_size}, or beside=true")
    tracker.refuse_old_torch()
    if settings.beside:
        needed = models.training_bytes(shape, settings.sequences, replicas=True)
        hardware.refuse_beyond_memory(me, needed, f"the real step of size={settings.size} (take a smaller one)")


if __name__ == "__main__":
    group.run(main)
