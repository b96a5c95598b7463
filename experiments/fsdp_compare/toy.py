"""FSDP2 at its smallest, as the text this course began with shows it: 31 steps of a regression that 8 blocks learn.

Half of the parameters are on each of 2 ranks, and the losses come out all the same. DDP takes the first steps, too.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import fsdp
from torch.nn.parallel import DistributedDataParallel

from labtui.bench import fsdp_limits, fsdp_measures, report
from labtui.bench.device import refuse

BLOCKS, EXAMPLES, STEPS, DDP_STEPS = 8, 64, 31, 11
# What the text prints, for two ranks on a CPU.
PRINTED = {0: 2.3124, 10: 0.5224, 20: 0.1520, 30: 0.0490}


class Block(nn.Module):
    """An MLP that adds to what came in, as in a transformer."""

    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        return x + self.mlp(x)


def train(me, width, steps, mesh=None):
    """Returns the model, this rank's losses and their means over all ranks. Without a mesh it is DDP."""
    torch.manual_seed(0)  # the same weights on all ranks, and the same target
    with me.device:
        model = nn.Sequential(*(Block(width) for _ in range(BLOCKS)))
        target = torch.randn(width, width) / width**0.5
    if mesh is None:
        model = DistributedDataParallel(model)
    else:
        for block in model:
            fsdp.fully_shard(block, mesh=mesh)
        fsdp.fully_shard(model, mesh=mesh)
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-4)
    torch.manual_seed(1 + me.rank)  # each rank has data of its own
    x = torch.randn(EXAMPLES, width, device=me.device)
    own, means = [], []
    for _ in range(steps):
        loss = (model(x) - x @ target).pow(2).mean()
        adamw.zero_grad()
        loss.backward()
        adamw.step()
        own.append(loss.item())
        mean = loss.detach()
        dist.all_reduce(mean)
        means.append(mean.item() / me.world_size)
    return model, own, means


def main(me, settings):
    fsdp_limits.refuse_old_torch()
    if settings.way != "reshard" or settings.mistake != "none" or settings.save or settings.load:
        refuse("size=toy is shown as its text has it: way=reshard, no mistake, nothing saved or loaded")
    width = 1024 if me.device.type == "cuda" else 256
    model, own, means = train(me, width, STEPS, me.mesh((me.world_size,), ("dp",)))
    total = sum(weight.numel() for weight in model.parameters())
    local = sum(weight.to_local().numel() for weight in model.parameters())
    fsdp_measures.report_share(me, "reshard", me.largest(local) / total)
    _, _, ddp = train(me, width, DDP_STEPS)
    if me.rank != 0:
        return
    # A norm has 2 d, the matrices 4 d^2 each, their biases 4 d and d.
    report.check("parameters by formula and by counting", total, equal=BLOCKS * (8 * width**2 + 7 * width))
    report.result("parameters", total, "")
    as_printed = me.world_size == 2 and me.device.type == "cpu"
    for way, losses in (("reshard", means), ("ddp", ddp)):
        for step, loss in enumerate(losses):
            report.metric("loss", loss, step, way=way)
    for step, printed in PRINTED.items():
        report.result("toy_loss", own[step], "", step=step)
        if as_printed:  # shown, not checked: another CPU or torch may round otherwise
            report.prediction(f"loss at step {step}, as the text prints it", printed, own[step], why="of rank 0")
    apart = max(abs(mean / other - 1) for mean, other in zip(means, ddp, strict=False))
    report.check("losses equal DDP's", apart, at_most=1e-4)
