"""ZeRO by hand: data parallelism in which ranks stop, in three stages, to keep copies of the same things.

With plain data parallelism every rank holds all weights, all gradients and all of AdamW's state, N times the same.
ZeRO cuts them into N parts and leaves each rank one: first of the state, then of the gradients too, then of the weights
themselves. What a rank has given away must be sent to it whenever it is needed: that is the price.

To show when each such gather and release happens, AdamW is written out here, and the way through the layers without
autograd. A layer is one flat tensor (labtui/bench/flat_layer.py, which knows its derivative), so any number of ranks
can cut it. Beside all that stands one process with the whole batch, autograd and torch.optim.AdamW.

Run it with `labtui run zero_by_hand`, or bare: `torchrun --nproc-per-node 2 experiments/zero_by_hand/main.py`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
from functools import partial

import torch
import torch.distributed as dist
from torch.nn import functional as F

from labtui.bench import flat_layer, mlp, parameters, race, zero_measures
from labtui.bench.collectives import all_gather_single, reduce_scatter_single
from labtui.bench.timeline import span

# torch's own values, but for epsilon (1e-8). Where a gradient is all but zero, AdamW divides it by something all but
# zero, and a rounding error becomes a step like any other. The larger epsilon, the fewer such weights.
LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-6, 0.01


class AdamW:
    """Loshchilov and Hutter 2019, algorithm 2. No weight asks for another, so a rank can update any part alone."""

    def __init__(self, weights):
        self.steps, self.mean, self.mean_square = 0, torch.zeros_like(weights), torch.zeros_like(weights)

    def update(self, weights, gradient):
        self.steps += 1
        self.mean.lerp_(gradient, 1 - BETA1)
        self.mean_square.lerp_(gradient * gradient, 1 - BETA2)
        mean = self.mean / (1 - BETA1**self.steps)  # both began at zero, and are too small by a known factor
        root = (self.mean_square / (1 - BETA2**self.steps)).sqrt_()
        weights *= 1 - LEARNING_RATE * DECAY
        weights -= LEARNING_RATE * mean / (root + EPSILON)


# ---- The stages. Each is the one before it, but for what is said in it.


class Ddp:
    """Nothing is cut: every rank keeps all weights, all gradients and all of AdamW's state."""

    def __init__(self, me, layers, mistake):
        self.me, self.layers, self.activations, self.loss = me, layers, [], None
        self.mistake = mistake  # made on purpose, so that the checks have something to find
        for layer in layers:
            layer.adamw = AdamW(self.updated(layer))

    def step(self, x, y, look=lambda moment: None):
        """Trains on this rank's share of a batch; returns its loss. `look` is told of moments worth looking at."""
        self.activations = [x]  # and what each layer makes of it: backward needs them all
        for layer in self.layers:
            self.activations.append(layer.forward(self.whole(layer), self.activations[-1]))
        look("forward ends")
        self.backward(y)
        look("backward ends")
        for layer in self.layers:
            self.average_after_backward(layer)
        look("gradients averaged")
        for layer in self.layers:
            with span("compute", f"AdamW {layer.name}"):
                layer.adamw.update(self.updated(layer), layer.gradient)
            layer.gradient = None
            self.hand_out(layer)
        return self.loss

    def backward(self, y):
        outputs = self.activations.pop()
        self.loss, slope = F.mse_loss(outputs, y), 2 * (outputs - y) / len(y)
        for layer in reversed(self.layers):
            inputs = self.activations.pop()
            layer.gradient, slope = layer.backward(self.whole(layer), inputs, outputs, slope)
            self.average_in_backward(layer)
            outputs = inputs

    # What the stages change:

    def whole(self, layer):
        """All weights of a layer."""
        return layer.weights

    def updated(self, layer):
        """The weights that this rank updates."""
        return layer.weights

    def average_in_backward(self, layer):
        pass  # later

    def average_after_backward(self, layer):
        """From this rank's gradient to the mean of all ranks'."""
        with span("communication", f"all_reduce {layer.name}"):
            dist.all_reduce(layer.gradient)
        self.divide(layer.gradient)

    def hand_out(self, layer):
        pass  # every rank has updated everything

    def divide(self, total):
        total /= 1 if self.mistake == "sum" else self.me.world_size


class Zero1(Ddp):
    """The state is cut: each rank updates its part of the weights, then hands it out to all others."""

    def updated(self, layer):
        return layer.weights[layer.mine]

    def average_after_backward(self, layer):
        whole, layer.gradient = layer.gradient, torch.empty_like(layer.gradient[layer.mine])
        with span("communication", f"reduce_scatter {layer.name}"):
            reduce_scatter_single(layer.gradient, whole)  # adds up like all_reduce, but each part for one rank only
        self.divide(layer.gradient)

    def hand_out(self, layer):
        if self.mistake != "stale":
            with span("communication", f"all_gather {layer.name}"):
                all_gather_single(layer.weights, layer.weights[layer.mine])


class Zero2(Zero1):
    """The gradients are cut too: each layer's are averaged as soon as they are there, and a part of them is kept."""

    def average_in_backward(self, layer):
        if self.mistake == "keep":
            layer.forgotten = layer.gradient  # somebody still refers to the whole, so it isn't freed
        super().average_after_backward(layer)

    def average_after_backward(self, layer):
        pass  # done


class Zero3(Zero2):
    """The weights are cut too: a layer's are collected right before they are used, and dropped right after."""

    def __init__(self, me, layers, mistake):
        for layer in layers:
            layer.weights = layer.weights[layer.mine].clone()
        super().__init__(me, layers, mistake)

    def whole(self, layer):
        flat = layer.weights.new_empty(len(layer.weights) * self.me.world_size)
        with span("communication", f"all_gather {layer.name}"):
            all_gather_single(flat, layer.weights)
        return flat  # nobody but the caller refers to it: it is freed when forward or backward returns

    def updated(self, layer):
        return layer.weights

    def hand_out(self, layer):
        pass  # whoever needs them asks


STAGES = {"ddp": Ddp, "zero1": Zero1, "zero2": Zero2, "zero3": Zero3}


# ---- The experiment: the same training at each stage, and by one process that sees the whole batch.


def main(me):
    settings = parameters.read(__file__)
    torch.set_default_dtype(getattr(torch, settings.dtype))
    zero_measures.refuse_what_cant_be(me, settings)
    x, y = mlp.make_batch(me, settings.batch_per_rank * me.world_size, settings.width)
    batch = [whole[mlp.even_share(me, len(x))].clone() for whole in (x, y)]

    def start(stage):
        model = mlp.make_model(me, settings.layers, settings.width)
        return STAGES[stage](me, flat_layer.cut(model, me), settings.mistake)

    zero_measures.prove(me, settings, STAGES, start, batch, one_process(me, settings, x, y))
    race.race(me, {stage: partial(start(stage).step, *batch) for stage in STAGES}, settings.rounds, against="ddp")


def one_process(me, settings, x, y):
    """What the ranks must arrive at: the same steps on the whole batch, by autograd and torch's own AdamW."""
    model = mlp.make_model(me, settings.layers, settings.width)
    before = zero_measures.by_layer(model.parameters())
    adamw = torch.optim.AdamW(model.parameters(), LEARNING_RATE, (BETA1, BETA2), EPSILON, DECAY)
    for number in range(settings.steps):
        adamw.zero_grad()
        F.mse_loss(model(x), y).backward()
        if number == 0:
            gradients = zero_measures.by_layer(parameter.grad for parameter in model.parameters())
        adamw.step()
    return zero_measures.Right(before, gradients, zero_measures.by_layer(model.parameters()))


if __name__ == "__main__":
    group.run(main)
