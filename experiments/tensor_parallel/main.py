"""One transformer block on many ranks, its matrices cut so that it takes two exchanges in each direction and no more.

The Megatron cut. Of two matrices with something elementwise between them, the first is cut by columns and the second
by rows: each rank computes its columns, applies the function, multiplies by its rows, and has a summand of the whole
result. One all-reduce adds the summands up. Attention is cut likewise, by heads. Here is the block of one process, then
the same block by hand on many ranks; what they exchange is in `layers.py`, and `by_dtensor.py` does it with PyTorch's
means. Each must find what one process finds.

Run it with `labtui run tensor_parallel`, or bare: `torchrun --nproc-per-node 2 experiments/tensor_parallel/main.py`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
from functools import partial

import by_dtensor  # these three are beside this file
import layers
import swapped
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from labtui.bench import hardware, parameters, report
from labtui.bench import tensor_parallel as measures
from labtui.bench.device import refuse
from labtui.theory import tensor_parallel as theory

# Relative to the largest element. Sums in another order differ in their last bits; wrong ones differ by about 1.
ROUNDING = {"float32": 1e-5, "float64": 1e-12}


def in_one_process():
    """The idea, with nobody to exchange with: four pieces of an MLP one after the other, and their sum."""
    numbers = torch.Generator().manual_seed(0)
    x, first, second = (torch.randn(*size, generator=numbers) for size in ((5, 8), (8, 32), (32, 8)))
    pieces = zip(first.chunk(4, dim=1), second.chunk(4, dim=0), strict=True)
    summands = [F.gelu(x @ columns) @ rows for columns, rows in pieces]
    return (sum(summands) - F.gelu(x @ first) @ second).abs().max().item()


# ---- One process. [sequences, tokens, width] -> the same, throughout.


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.head_width = shape.head_width
        self.queries = nn.Linear(shape.width, shape.width)
        # No bias on keys: it would add the same to all scores of a query, which softmax doesn't see.
        self.keys = nn.Linear(shape.width, shape.kv_heads * shape.head_width, bias=False)
        self.values = nn.Linear(shape.width, shape.kv_heads * shape.head_width)
        self.projection = nn.Linear(shape.width, shape.width)

    def forward(self, x):
        return self.projection(self.attend(self.queries(x), self.keys(x), self.values(x)))

    def attend(self, *queries_keys_values):  # each head by itself, so it works for any number of heads
        q, k, v = (each.unflatten(-1, (-1, self.head_width)).transpose(1, 2) for each in queries_keys_values)
        grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}  # several heads of queries to one of keys
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True, **grouped)
        return found.transpose(1, 2).flatten(2)


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.widen = nn.Linear(shape.width, 4 * shape.width)
        self.narrow = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x):
        return self.narrow(F.gelu(self.widen(x)))


class Block(nn.Module):
    def __init__(self, shape, attention, mlp):
        super().__init__()
        self.norm_attention, self.attention = nn.LayerNorm(shape.width), attention
        self.norm_mlp, self.mlp = nn.LayerNorm(shape.width), mlp

    def forward(self, x):
        x = x + self.attention(self.norm_attention(x))
        return x + self.mlp(self.norm_mlp(x))


# ---- Many ranks, by hand: the same steps, each rank with its piece of every matrix. Norms stay as they are.


class ParallelAttention(Attention):
    def __init__(self, shape, exchange):
        super().__init__(shape)
        self.exchange = exchange

    def forward(self, x):
        found = self.attend(*self.exchange.columns(x, self.queries, self.keys, self.values))  # own heads only
        return self.exchange.rows(found, self.projection)


class ParallelMlp(Mlp):
    def __init__(self, shape, exchange):
        super().__init__(shape)
        self.exchange = exchange

    def forward(self, x):
        (hidden,) = self.exchange.columns(x, self.widen)
        # GELU looks at each number by itself, so at each column: no rank needs what another one has.
        return self.exchange.rows(F.gelu(hidden), self.narrow)


# Which way each matrix is cut. nn.Linear stores its matrix transposed: rows of what it stores are columns.
MEGATRON = {"queries": "columns", "keys": "columns", "values": "columns", "projection": "rows",
            "widen": "columns", "narrow": "rows"}  # fmt: skip


def own_piece(cuts, shape, rank, ranks, name, whole):
    """This rank's piece of a parameter, or of its gradient."""
    layer, kind = name.split(".")[-2:]
    if cuts.get(layer) == "columns":
        # With fewer heads of keys and values than ranks, several ranks have the same head.
        pieces = min(ranks, shape.kv_heads) if layer in ("keys", "values") else ranks
        return whole.chunk(pieces)[rank * pieces // ranks]
    if cuts.get(layer) == "rows" and kind == "weight":
        return whole.chunk(ranks, dim=1)[rank]
    return whole  # norms, and biases that are added after the sum


def add_up_parts(module, same_keys, tokens_are_cut):
    """After backward: gradients that no rank knows alone, because each has seen a part of what they come from."""
    named = dict(module.named_parameters())
    if same_keys is not None:
        # Ranks with the same head of keys and values have each used it for their own heads of queries.
        layers.sum_parts([p for name, p in named.items() if name.split(".")[-2] in ("keys", "values")], same_keys)
    if tokens_are_cut:
        # And what is whole on every rank has seen its own tokens only.
        after = ("projection.bias", "narrow.bias")
        layers.sum_parts([p for name, p in named.items() if "norm" in name or name.endswith(after)], dist.group.WORLD)


# ---- The experiment.


class Ways:
    """The block of one process, and its parts, shared among all ranks by hand: a Trial for each way."""

    def __init__(self, me, shape, whole):
        self.me, self.shape, self.whole = me, shape, whole
        self.same_keys = None  # the ranks that have the same head of keys and values as this one
        copies = theory.share(shape, me.world_size).copies
        for first in range(0, me.world_size, copies) if copies > 1 else ():
            ranks = dist.new_group(list(range(first, first + copies)))  # a collective, for those outside too
            if first <= me.rank < first + copies:
                self.same_keys = ranks

    def shared(self, part, way, exchange, tokens_are_cut=False):
        with self.me.device:
            attention, mlp = ParallelAttention(self.shape, exchange), ParallelMlp(self.shape, exchange)
        return self._trial(part, way, attention, mlp, MEGATRON, tokens_are_cut)

    def swapped(self, part, way):
        with self.me.device:
            attention, mlp = ParallelAttention(self.shape, layers.AllReduces()), Mlp(self.shape)
        mlp = swapped.SwappedMlp(mlp, self.me.rank, self.me.world_size, exchanged=way == "swapped")
        return self._trial(part, way, attention, mlp, {**MEGATRON, "widen": "rows", "narrow": "columns"}, False)

    def _trial(self, part, way, attention, mlp, cuts, tokens_are_cut):
        with self.me.device:
            module = {"attention": attention, "mlp": mlp, "block": Block(self.shape, attention, mlp)}[part]
        piece = partial(own_piece, cuts, self.shape, self.me.rank, self.me.world_size)
        # Real training never has the whole. Here every rank made it, to compare with, and now keeps its pieces.
        for (name, own), whole in zip(module.named_parameters(), self.whole[part].parameters(), strict=True):
            own.data = piece(name, whole.detach()).clone()
        tokens = measures.own_tokens(self.me) if tokens_are_cut else measures.everything
        finish = partial(add_up_parts, module, self.same_keys, tokens_are_cut)
        return measures.Trial(part, way, module, tokens, piece, finish)


# By hand: what a block exchanges with, and what that must come to in forward and in backward.
BOTH = "2 all_gather + 2 reduce_scatter"
BY_HAND = {
    theory.ALL_REDUCES: ("by_hand", layers.AllReduces(), "2 all_reduce", "2 all_reduce"),
    theory.SEQUENCE_PARALLEL: ("by_hand_sp", layers.SequenceParallel(), BOTH, BOTH),
    theory.SEQUENCE_PARALLEL_LEAN: ("by_hand_sp_lean", layers.SequenceParallelLean(), BOTH,
                                    "4 all_gather + 2 reduce_scatter"),
}  # fmt: skip


def main(me):
    settings = parameters.read(__file__)
    shape = shape_to_share(me, settings)
    if me.rank == 0:
        report.result("difference_in_one_process", in_one_process(), "", pieces=4)
    torch.set_default_dtype(getattr(torch, settings.dtype))
    torch.manual_seed(me.seed)  # all ranks make the same block and the same tokens
    with me.device:
        attention, mlp = Attention(shape), Mlp(shape)
        whole = {"mlp": mlp, "attention": attention, "block": Block(shape, attention, mlp)}
        x, direction = torch.randn(2, shape.sequences, shape.tokens, shape.width)
    right = {part: measures.reference(module, x, direction) for part, module in whole.items()}
    ways, bound = Ways(me, shape, whole), ROUNDING[settings.dtype]
    if settings.cut != "right":
        for part in whole:
            trial = ways.swapped(part, settings.cut)
            measures.report_sent(me, trial, right[part], measures.prove(me, trial, right[part], bound))
        return

    for part in ("mlp", "attention"):
        trial = ways.shared(part, "by_hand", layers.AllReduces())
        measures.prove(me, trial, right[part], bound, "1 all_reduce", "1 all_reduce")
    measures.report_kept(me, measures.Trial("block", "one_process", whole["block"]), shape, x)
    ideal = {}
    for layout, (way, exchange, forward, backward) in BY_HAND.items():
        trial = ways.shared("block", way, exchange, tokens_are_cut=layout != theory.ALL_REDUCES)
        exchanges = measures.prove(me, trial, right["block"], bound, forward, backward)
        measures.report_kept(me, trial, shape, x, layout)
        measures.report_sent(me, trial, right["block"], exchanges)
        ideal[way] = exchanges.ideal
    if me.rank == 0:
        once, apart = ideal["by_hand"], ideal["by_hand_sp"]
        report.check("sequence parallelism sends what all-reduces send, ideally", apart, equal=once)
    by_dtensor.prove(me, whole, right, bound, heads_are_copied=ways.same_keys is not None)

    if me.world_size == 1:
        report.note("one process has nobody to exchange with: nothing is timed")
        return
    shared = ways.shared("block", "by_hand", layers.AllReduces())
    measures.report_timeline(me, shared, right["block"])
    silent = ways.shared("block", "silent", layers.Nothing())
    modules = {"one_process": whole["block"], "shared": shared.module, "silent": silent.module}
    measures.report_time(me, shape, settings.dtype, modules, x, direction, settings.seconds)


def shape_to_share(me, settings):
    """The block that is asked for; refuses the run, with one sentence, where these ranks can't share it."""
    try:
        shape = theory.Block(
            settings.sequences, settings.tokens, settings.width, settings.heads, settings.kv_heads or settings.heads
        )
        theory.share(shape, me.world_size)
    except ValueError as error:
        refuse(str(error))
    if shape.tokens % me.world_size:
        refuse(f"{shape.tokens} tokens can't be shared equally by {me.world_size} ranks, as sequence parallelism does")
    if settings.cut != "right" and me.world_size == 1:
        refuse(f"cut={settings.cut} takes at least 2 processes: with one nothing is cut")
    element = getattr(torch, settings.dtype).itemsize
    # Weights and gradients of the whole block twice, for DTensor's copy, and of a rank's pieces; then what passes.
    needed = element * 6 * shape.parameters + 3 * sum(theory.kept(shape, 1, element).values())
    hardware.refuse_beyond_memory(me, round(needed), f"a block of width={shape.width} with {shape.tokens} tokens")
    return shape


if __name__ == "__main__":
    group.run(main)
