"""The same cut by PyTorch's DTensor: the module stays as it is, and a plan says how each of its matrices lies.

A DTensor is a tensor that knows how it is shared out: Shard(dim), Replicate, or Partial (each rank has a summand). An
operation on DTensors works out what must be exchanged first. That is comfortable, and it does exactly what it is told.
"""

import copy

import torch

from labtui.bench import report
from labtui.bench import tensor_parallel as measures

# What it must exchange in forward and in backward.
BOTH = "2 all_gather + 2 reduce_scatter"
EXCHANGES = {
    ("attention", "dtensor"): ("1 all_reduce", "1 all_reduce"),
    ("block", "dtensor"): ("2 all_reduce", "2 all_reduce"),
    ("block", "dtensor_sp"): (BOTH, BOTH),
}
# And how many all-reduces it makes of a part whose input wasn't prepared: torch's choice and no mistake, so a
# prediction rather than a check.
UNPREPARED = {"attention": 4, "block": 6}
WHY = "each of queries, keys and values all-reduces the gradient of their common input"


def plan(way):
    # Here and not above: this takes a second or two to load, and an old torch has none of it.
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as tp

    between = Shard(1) if way == "dtensor_sp" else Replicate()  # how tokens lie outside the cut matrices
    columns, rows = tp.ColwiseParallel, tp.RowwiseParallel
    found = {f"attention.{name}": columns() for name in ("queries", "keys", "values")}
    found |= {"attention.projection": rows(output_layouts=between)}
    found |= {"mlp.widen": columns(), "mlp.narrow": rows(output_layouts=between)}
    if way != "dtensor_unprepared":
        # Makes one DTensor of the input. The gradients that come back to it from queries, keys and values are added up
        # while they are still summands, and then all-reduced once. Without it each of the three matrices makes a
        # DTensor of its own, and all-reduces its own gradient.
        prepared = tp.PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),))
        found |= {"attention": prepared, "mlp": prepared}
    if way == "dtensor_sp":
        found |= {"norm_attention": tp.SequenceParallel(), "norm_mlp": tp.SequenceParallel()}
    return found


def shared(me, whole, part, way):
    """A copy of one process's module whose parameters are DTensors, shared out as the way says."""
    from torch.distributed.tensor.parallel import parallelize_module

    wanted, module, mesh = plan(way), copy.deepcopy(whole), me.mesh((me.world_size,), ("tensor",))
    if part != "block":  # the names of this part's own layers, and "" for itself
        wanted = {name.partition(".")[2]: how for name, how in wanted.items() if name.partition(".")[0] == part}
    itself = wanted.pop("", None)
    if itself is not None:
        module = parallelize_module(module, mesh, itself)
    module = parallelize_module(module, mesh, wanted)
    tokens = measures.own_tokens(me) if way == "dtensor_sp" else measures.everything
    return measures.Trial(part, way, module, tokens)


def missing(ranks, heads_are_copied):
    """Why DTensor can't show this here, or ""."""
    if ranks == 1:
        return "DTensor's part is left out: for a single rank it cuts and exchanges nothing"
    try:
        from torch.distributed.tensor import parallel  # noqa: F401
    except ImportError:
        return f"DTensor's part is left out: it needs torch 2.5 or newer, this is {torch.__version__}"
    if heads_are_copied:
        return "DTensor's part is left out: it cuts a matrix into as many pieces as ranks, and there are fewer KV heads"
    return ""


def prove(me, whole, right, bound, heads_are_copied):
    trouble = missing(me.world_size, heads_are_copied)
    if trouble:
        if me.rank == 0:
            report.note(trouble)
        return
    for (part, way), words in EXCHANGES.items():
        trial = shared(me, whole[part], part, way)
        measures.report_sent(me, trial, right[part], measures.prove(me, trial, right[part], bound, *words))
    counts = {}
    for part, count in UNPREPARED.items():
        trial = shared(me, whole[part], part, "dtensor_unprepared")
        exchanges = measures.prove(me, trial, right[part], bound)
        measures.report_sent(me, trial, right[part], exchanges)
        counts[part] = exchanges.count
        if me.rank == 0:
            report.prediction(f"all-reduces ({trial.label})", count, exchanges.count, why=WHY)
    if me.rank == 0:
        report.note(f"all-reduces of a block by DTensor: 4 with a prepared input, {counts['block']} without: {WHY}")
