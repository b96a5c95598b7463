"""The parallel layers by hand: a matrix cut by columns, one cut by rows, and what ranks exchange around them.

Forward and backward of an exchange are a pair. Where forward hands the same thing to all ranks, backward must add up
what each of them sends back; where forward adds up, backward hands the same gradient to all. autograd knows nothing of
other ranks, so each pair is a Function here. All shapes are [sequences, tokens, features].
"""

import torch
import torch.distributed as dist
from torch.nn import functional as F

from labtui.bench import timeline


def summed(x):
    total = x.clone(memory_format=torch.contiguous_format)  # a gradient may be somebody else's too: it stays as it is
    with timeline.span("communication", "all_reduce"):
        dist.all_reduce(total)
    return total


def gathered(own):
    everyones = [torch.empty_like(own, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
    with timeline.span("communication", "all_gather"):
        dist.all_gather(everyones, own.contiguous())
    return torch.cat(everyones, dim=1)


def summed_and_scattered(x):
    parts = [part.contiguous() for part in x.chunk(dist.get_world_size(), dim=1)]
    own = torch.empty_like(parts[0])
    with timeline.span("communication", "reduce_scatter"):
        dist.reduce_scatter(own, parts)
    return own


# ---- All tokens on all ranks: Megatron's f and g.


class Enter(torch.autograd.Function):
    """f, before a matrix cut by columns: every rank uses the same x, so x's gradient is the sum of all ranks'."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return summed(gradient)


class Leave(torch.autograd.Function):
    """g, after a matrix cut by rows: every rank has a summand, and each summand's gradient is that of the sum."""

    @staticmethod
    def forward(context, part):
        return summed(part)

    @staticmethod
    def backward(context, gradient):
        return gradient


class AllReduces:
    """Two all-reduces for a pair of cut matrices: one in forward, one in backward."""

    def columns(self, x, *layers):
        x = Enter.apply(x)
        return [layer(x) for layer in layers]

    def rows(self, x, layer):
        # The bias after the sum: added before, it would be in every summand, and in the sum t times.
        return Leave.apply(F.linear(x, layer.weight)) + layer.bias


# ---- Between the matrices each rank has its own tokens only: sequence parallelism.


class Gather(torch.autograd.Function):
    """Own tokens -> all tokens. Every rank used them all, so backward adds up, and keeps its own tokens' part."""

    @staticmethod
    def forward(context, own):
        return gathered(own)

    @staticmethod
    def backward(context, gradient):
        return summed_and_scattered(gradient)


class Scatter(torch.autograd.Function):
    """Summands of all tokens -> the sum, own tokens only. Backward needs all tokens' gradients again."""

    @staticmethod
    def forward(context, part):
        return summed_and_scattered(part)

    @staticmethod
    def backward(context, gradient):
        return gathered(gradient)


class SequenceParallel:
    """A ring all-reduce *is* a reduce-scatter and then an all-gather. Here the two are only apart: same bytes."""

    def columns(self, x, *layers):
        x = Gather.apply(x)
        return [layer(x) for layer in layers]

    def rows(self, x, layer):
        return Scatter.apply(F.linear(x, layer.weight)) + layer.bias


class GatherAndMultiply(torch.autograd.Function):
    """Own tokens -> all tokens, times each matrix; keeps for backward only the own tokens, and gathers once more."""

    @staticmethod
    def forward(context, own, *weights):
        context.save_for_backward(own, *weights)
        tokens = gathered(own)
        return tuple(tokens @ weight.t() for weight in weights)

    @staticmethod
    def backward(context, *gradients):
        own, *weights = context.saved_tensors
        tokens = gathered(own).flatten(0, 1)  # the price: a fifth exchange where four would do
        into = sum(gradient @ weight for gradient, weight in zip(gradients, weights, strict=True))
        of_weights = [gradient.flatten(0, 1).t() @ tokens for gradient in gradients]
        return summed_and_scattered(into), *of_weights


class SequenceParallelLean(SequenceParallel):
    """As SequenceParallel, but no rank keeps what it has gathered: all that a block keeps is then cut by the ranks."""

    def columns(self, x, *layers):
        products = GatherAndMultiply.apply(x, *(layer.weight for layer in layers))
        pairs = zip(products, layers, strict=True)
        return [product if layer.bias is None else product + layer.bias for product, layer in pairs]


class Nothing:
    """The same products without any exchange: wrong, of course. It tells what computing alone takes."""

    def columns(self, x, *layers):
        return [layer(x) for layer in layers]

    def rows(self, x, layer):
        return layer(x)


# ---- After backward.


def sum_parts(parameters, ranks):
    """Adds up gradients of which each of `ranks` (a process group) has found a part: one message for all of them."""
    gradients = [parameter.grad for parameter in parameters]
    if not gradients:
        return  # a part of the block that has none of these
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat, group=ranks)
    for gradient, total in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(total.view_as(gradient))
