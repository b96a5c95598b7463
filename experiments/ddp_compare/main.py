"""The same model and the same batches: trained by one process, and by many that average their gradients in some way.

A step adds up the gradients of several micro-batches before it changes a weight. Replicas must agree on that sum, and
only on that: an all-reduce after every micro-batch sends what the last one would have sent anyway. What does leaving
the others out save (`no_sync`)? What does it save to send half the bytes (`bf16_hook`), and what does that cost?

Run it with `labtui run ddp_compare --variants all`, or bare:
`torchrun --nproc-per-node 2 experiments/ddp_compare/main.py way=no_sync`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
import contextlib
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from labtui.bench import ddp_measures, gpt, hardware, parameters, report, text, throughput, timeline
from labtui.bench.device import refuse
from labtui.theory import models

# How far two loss curves may be apart, relative to the loss. Adding the same float32 numbers in another order moves the
# last bits; a bfloat16 keeps 8 of a float32's 24, so rounded gradients lead another way, if not far away.
ROUNDING = {"one": 1e-4, "every_micro_batch": 1e-4, "no_sync": 1e-4, "bf16_hook": 1e-3}


def all_reduce_in_bfloat16(processes, bucket):
    """What DDP does with a full bucket, if asked to: send it as bfloat16, half the bytes."""
    start, name = timeline.mark(), f"bucket {bucket.index()}"
    if bucket.buffer().is_cuda:
        future = default_hooks.bf16_compress_hook(processes, bucket)  # torch's own, which takes NCCL only
        timeline.follow(SimpleNamespace(get_future=lambda: future), name, start)  # it keeps the work to itself
        return future
    small = bucket.buffer().to(torch.bfloat16).div_(processes.size())
    work = dist.all_reduce(small, group=processes, async_op=True)
    timeline.follow(work, name, start)
    return work.get_future().then(lambda done: bucket.buffer().copy_(done.value()[0]))


class Training:
    """One replica of the model, and how it takes a step on its share of a batch.

    `processes`: those that train together; None for one that trains alone, on the shares of `replicas` replicas.
    """

    def __init__(self, me, settings, words, processes=None, replicas=1, watched=False):
        self.me, self.settings, self.words, self.processes = me, settings, words, processes
        self.shape = models.size(settings.size, len(words.characters))
        self.model = self.forward = gpt.make(self.shape, me.seed, me.device)
        self.replicas, self.shares = replicas, slice(None)
        if processes is not None:
            self.replicas = processes.size()
            each = settings.micro_batch * settings.micro_batches
            self.shares = slice(me.rank * each, (me.rank + 1) * each)
            self.forward = DistributedDataParallel(
                self.model, process_group=processes, bucket_cap_mb=settings.bucket_mb
            )
            if settings.way == "bf16_hook":
                self.forward.register_comm_hook(processes, all_reduce_in_bfloat16)
            elif watched:
                timeline.watch(self.forward)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)

    def step(self, number, communicate=True):
        """Trains on batch `number`; returns the mean loss over this replica's share of it."""
        settings = self.settings
        # Every rank draws the whole batch and takes its share: together they see what one process would see.
        batch = settings.micro_batch * settings.micro_batches * self.replicas
        x, y = (tokens[self.shares] for tokens in self.words.batch(self.me.seed, number, batch, self.shape.context))
        micro_batches = list(zip(x.split(settings.micro_batch), y.split(settings.micro_batch), strict=True))
        self.optimizer.zero_grad()
        loss = 0.0
        for place, (inputs, targets) in enumerate(micro_batches, 1):
            last = place == len(micro_batches)
            with self.averaging(communicate and (last or settings.way == "every_micro_batch")):
                with timeline.span("compute", f"forward {place}"), self.precision():
                    part = self.forward(inputs.to(self.me.device), targets.to(self.me.device)) / len(micro_batches)
                part.backward()  # adds to what the micro-batches before have left in .grad
            loss += part.detach()
        with timeline.span("compute", "optimizer"):
            self.optimizer.step()
        return loss

    def averaging(self, wanted):
        """Whether DDP averages the gradients of the next backward over all replicas."""
        return contextlib.nullcontext() if wanted or self.processes is None else self.forward.no_sync()

    def precision(self):
        return torch.autocast(self.me.device.type, torch.bfloat16, enabled=self.settings.autocast)


def main(me):
    settings = parameters.read(__file__)
    words = text.read()
    shape = models.size(settings.size, len(words.characters))
    refuse_what_cant_be(me, settings, shape)
    if me.rank == 0:
        model = gpt.make(shape, me.seed, me.device)
        report.check("parameters by formula and by counting", gpt.parameters(model), equal=models.parameters(shape))
        throughput.report_flops(model, me.device)
        del model

    everybody = dist.group.WORLD if me.world_size > 1 else None

    def one_process(replicas):
        return Training(me, settings, words, replicas=replicas)

    def replica(processes=everybody, **how):
        return Training(me, settings, words, processes, **how)

    course = ddp_measures.Course(me, settings)
    ddp_measures.compare_losses(me, settings, course, one_process, replica, at_most=ROUNDING[settings.way])
    ddp_measures.report_timeline(me, settings.way, replica(watched=True))
    tokens_per_s = ddp_measures.report_speed(me, settings, course, replica())
    tokens = settings.micro_batch * settings.micro_batches * shape.context  # of a rank, in each step
    ddp_measures.report_scaling(me, settings, course, replica, tokens, tokens_per_s)


def refuse_what_cant_be(me, settings, shape):
    if settings.way == "one" and me.world_size > 1:
        refuse(f"way=one is one process, not {me.world_size}: leave the number of processes to the variant, or say 1")
    if settings.way != "one" and me.world_size == 1:
        report.note("one process has no replicas to average with: shown are its speed, memory and FLOPs")
    if settings.autocast or settings.way == "bf16_hook":
        hardware.refuse_missing_dtype(me, torch.bfloat16)
    # And one more copy of the gradients: one process's, to compare with, later the all-reduces that are timed alone.
    needed = models.training_bytes(shape, settings.micro_batch, replicas=me.world_size > 1)
    needed += 4 * models.parameters(shape)
    hardware.refuse_beyond_memory(me, needed, f"training size={settings.size} with micro_batch={settings.micro_batch}")
    hardware.note_mixed_gpus(me)


if __name__ == "__main__":
    group.run(main)
