"""Data parallelism by hand: four ways to give every rank the gradient of the whole batch.

Every rank holds the same model and its share of the batch. The loss is a mean over examples, and the derivative of a
sum is the sum of the derivatives: so the mean of the ranks' gradients is the gradient of the whole batch, as long as
all shares are equally large. An all-reduce gives that mean to every rank. Left to choose: when, and how much at once.

Run it with `labtui run ddp_by_hand`, or bare: `torchrun --nproc-per-node 2 experiments/ddp_by_hand/main.py`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from labtui.bench import agreement, mlp, parameters, race, report, timeline, wire
from labtui.theory import collectives

MIB = 2**20
# Two orders of summing the same float32 numbers differ in their last bits, here by up to 1e-7. A mistake would be as
# large as the gradients themselves ("largest_gradient"). Only rounding gets smaller when all is repeated in float64.
ROUNDING = {"float32": 1e-6, "float64": 1e-14}


# ---- The four ways. Each takes a model and returns what to call for the forward pass, and how to do backward.


def per_parameter(model, bucket_bytes):
    """(a) Let backward end. Then average one gradient after the other."""

    def backward(loss):
        loss.backward()
        for number, parameter in enumerate(model.parameters()):
            with timeline.span("communication", f"all_reduce {number}"):
                dist.all_reduce(parameter.grad)  # in place: now the sum over all ranks
            parameter.grad /= dist.get_world_size()

    return model, backward


class Bucket:
    """Some parameters whose gradients travel as one flat tensor."""

    def __init__(self, name, parameters):
        self.name, self.parameters = name, parameters

    def pack(self):
        self.flat = torch.cat([parameter.grad.flatten() for parameter in self.parameters])
        return self.flat

    def unpack(self):
        self.flat /= dist.get_world_size()
        pieces = self.flat.split([parameter.numel() for parameter in self.parameters])
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)


def make_buckets(model, bucket_bytes):
    # Backward begins at the last layer: in this order the first bucket is also the first to be full.
    backwards = list(model.parameters())[::-1]
    filled = collectives.fill_buckets([parameter.nbytes for parameter in backwards], bucket_bytes)
    return [Bucket(f"bucket {number}", [backwards[i] for i in some]) for number, some in enumerate(filled)]


def flat_buckets(model, bucket_bytes):
    """(b) Also after backward, but in a few large messages: each start costs time, however little it moves."""
    buckets = make_buckets(model, bucket_bytes)

    def backward(loss):
        loss.backward()
        for bucket in buckets:
            flat = bucket.pack()
            with timeline.span("communication", bucket.name):
                dist.all_reduce(flat)
            bucket.unpack()

    return model, backward


def hooks(model, bucket_bytes):
    """(c) Send each bucket the moment it is full, while backward still computes the layers below."""
    buckets = make_buckets(model, bucket_bytes)
    line = []  # the buckets not sent yet

    def ready(bucket, parameter):  # called within backward: this parameter's gradient is final
        bucket.missing -= 1
        # Collectives match by their order alone, so all ranks must send in one order: a bucket waits for its turn.
        while line and line[0].missing == 0:
            first = line.pop(0)
            flat, start = first.pack(), timeline.mark()
            first.work = dist.all_reduce(flat, async_op=True)  # comes back at once
            timeline.follow(first.work, first.name, since=start)

    for bucket in buckets:
        for parameter in bucket.parameters:
            parameter.register_post_accumulate_grad_hook(partial(ready, bucket))

    def backward(loss):
        line[:] = buckets
        for bucket in buckets:
            bucket.missing = len(bucket.parameters)
        loss.backward()
        for bucket in buckets:
            bucket.work.wait()  # until the sum is there
            bucket.unpack()

    return model, backward


def ddp(model, bucket_bytes):
    """(d) DistributedDataParallel: hooks and buckets like these, in C++ and for every kind of model."""
    wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bucket_bytes / MIB)
    return wrapped, lambda loss: loss.backward()


WAYS = {"per_parameter": per_parameter, "flat_buckets": flat_buckets, "hooks": hooks, "ddp": ddp}


# ---- The experiment: the same model and batch four times, compared with one process that has the whole batch.


class Training:
    """One replica of the model, trained one of the four ways on this rank's share (x, y) of the batch."""

    def __init__(self, way, model, bucket_bytes, x, y, weight):
        self.model, self.x, self.y, self.weight = model, x, y, weight
        self.forward, self.backward = WAYS[way](model, bucket_bytes)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def gradients(self):
        self.optimizer.zero_grad()
        with timeline.span("compute", "forward"):
            loss = self.weight * F.mse_loss(self.forward(self.x), self.y)
        self.backward(loss)
        return loss.detach()

    def step(self):
        loss = self.gradients()
        with timeline.span("compute", "optimizer"):
            self.optimizer.step()
        return loss


def main(me):
    settings = parameters.read(__file__)
    torch.set_default_dtype(getattr(torch, settings.dtype))
    # Every rank makes the whole batch (the seed is the same) and takes its share.
    batch = settings.batch_per_rank * me.world_size
    x, y = mlp.make_batch(me, batch, settings.width)
    share = mlp.even_share(me, batch) if settings.split == "even" else mlp.uneven_share(me, batch)
    # An all-reduce counts every rank alike. Where shares differ, a rank must count by its number of examples instead.
    weight = me.world_size * len(x[share]) / batch if settings.weighted else 1.0

    def new_training(way):
        model = mlp.make_model(me, settings.layers, settings.width)
        return Training(way, model, settings.bucket_mb * MIB, x[share], y[share], weight)

    # The reference: the same weights, the whole batch, one process, no communication.
    reference = mlp.make_model(me, settings.layers, settings.width)
    F.mse_loss(reference(x), y).backward()
    if me.rank == 0:
        parameter, largest = agreement.weakest(reference)
        report.result("largest_gradient", largest, parameter=parameter)  # every other parameter has a larger one

    trainings = {way: new_training(way) for way in WAYS}
    for way in WAYS:
        prove(way, trainings[way], reference, settings, me)
    for way in WAYS:
        record(way, new_training(way), me)
    race.race(me, {way: trainings[way].step for way in WAYS}, settings.steps, against="ddp")


def prove(way, training, reference, settings, me):
    """Compares a step with the reference, and counts what it sends."""
    for _ in range(2):  # DDP arranges its buckets anew after its first backward
        training.gradients()
    traffic = wire.count(training.gradients, me.device)
    right = [parameter.grad for parameter in reference.parameters()]
    off = agreement.off_reference(me, (parameter.grad for parameter in training.model.parameters()), right)
    training.optimizer.step()
    apart = agreement.apart(me, training.model)
    if me.rank != 0:
        return
    report.check(f"gradients equal the full batch's ({way})", off, at_most=ROUNDING[settings.dtype])
    report.check(f"weights identical on all ranks ({way})", apart, equal=0)
    starts = len(right) if way == "per_parameter" else len(make_buckets(reference, settings.bucket_mb * MIB))
    report.prediction(f"collectives per step ({way})", starts, traffic.collectives)
    sent = collectives.all_reduce_bytes(sum(gradient.nbytes for gradient in right), me.world_size)
    report.prediction(f"bytes sent per rank and step ({way})", round(sent), traffic.sent, "B", why=traffic.why)
    report.result("gradient_difference", off, way=way)
    report.result("collectives", traffic.collectives, way=way)
    report.result("bytes_sent", traffic.sent, "B", way=way)


def record(way, training, me):
    """Puts one step on the timeline."""
    if way == "ddp":
        timeline.watch(training.forward)
    for _ in range(2):
        training.step()
    dist.barrier()
    with timeline.recording(way, training.model, me.device) as recording:
        training.step()
    if me.rank == 0 and me.world_size > 1:
        report.result("hidden_share", timeline.hidden_share(recording.spans), way=way)


if __name__ == "__main__":
    group.run(main)
