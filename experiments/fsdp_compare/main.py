"""The same GPT and the same batches: a whole copy on every rank (DDP), and one model cut among the ranks by FSDP2.

FSDP2 leaves a rank 1/N of every weight. A block's weights are collected when its forward needs them, dropped, collected
again for its backward; its gradients are added up and cut again. What is saved, and what does it cost? That depends on
a handful of switches, and each is a way here. Every way must see DDP's losses, and no way may lose a bit on its way
through a checkpoint that fewer ranks load.

Run it with `labtui run fsdp_compare --variants all`, or bare:
`torchrun --nproc-per-node 2 experiments/fsdp_compare/main.py way=no_reshard`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
import torch
import toy  # beside this file
from torch import nn
from torch.distributed import fsdp
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from labtui.bench import checkpoint, fsdp_limits, fsdp_look, fsdp_measures, gpt, parameters, shards, text
from labtui.theory import models

LEARNING_RATE = 3e-4
# How far a way may be from DDP: losses relative to themselves; gradients, their difference relative to their length.
# Another order of adding up float32 moves the last bits; a bfloat16 keeps 8 of a float32's 24.
ROUNDING = {"float32": (2e-5, 1e-4), "mixed": (2e-3, 2e-2), "bf16": (5e-3, 3e-2)}


def shard(model, way, mesh, reshard_to, one_unit=False):
    """Cuts a model among the ranks of the mesh: each block is a unit, and what no block has is another."""
    how = {"mesh": mesh}
    if way == "mixed":  # weights are kept in float32, but collected and used in bfloat16; sums are made in float32
        how["mp_policy"] = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if way == "bf16":  # nothing is kept in float32, AdamW's averages neither
        model.to(torch.bfloat16)
    if way == "offload":  # what a rank keeps waits in the host's memory, and AdamW runs there
        how["offload_policy"] = fsdp.CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda")
    # Fewer ranks, that load a checkpoint, may be too few to leave anything cut among `reshard_to` of them.
    among = reshard_to if mesh.size() % reshard_to == 0 else True
    after_forward = {"no_reshard": False, "reshard_to": among}.get(way, True)
    for number, block in enumerate(model.blocks):
        if way == "recompute":  # inside the unit, so that recomputing finds the weights that backward has collected
            model.blocks[number] = block = checkpoint_wrapper(block)
        if not one_unit:
            fsdp.fully_shard(block, reshard_after_forward=after_forward, **how)
    return fsdp.fully_shard(model, **how)  # its own unit is what is left: embeddings, the last norm, the output layer


class Training:
    """The model, shared out in one way among the ranks of a mesh, and how it takes a step on this rank's share.

    Way "alone": one process without the others, on the whole batch.
    """

    def __init__(self, me, settings, words, way, mesh):
        self.me, self.settings, self.words, self.way, self.mesh = me, settings, words, way, mesh
        self.shape = models.size(settings.size, len(words.characters))
        self.mistake = settings.mistake if way == settings.way else "none"
        self.steps = 0
        model = gpt.make(self.shape, me.seed, me.device)
        if way in ("ddp", "zero1"):
            model = DistributedDataParallel(model, process_group=mesh.get_group())
        elif way != "alone":
            model = shard(model, way, mesh, settings.reshard_to, one_unit=self.mistake == "one_unit")
        self.model = model
        if way == "zero1":  # the weights are whole on each rank, AdamW's state of them isn't
            self.optimizer = ZeroRedundancyOptimizer(
                model.parameters(), torch.optim.AdamW, process_group=mesh.get_group(), lr=LEARNING_RATE, foreach=True
            )
        else:
            self.optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, foreach=True)

    def batch(self):
        """This rank's parts of the next batch, each (inputs, targets) of `micro_batch` sequences.

        However many train, they see the same batch: one part for each rank of the run.
        """
        parts, size = self.me.world_size, self.settings.micro_batch
        batch = self.words.batch(self.me.seed, self.steps, parts * size, self.shape.context)
        x, y = (tokens.to(self.me.device) for tokens in batch)
        if self.way == "alone":
            return [(x, y)]
        rank = 0 if self.mistake == "same_data" else self.mesh.get_local_rank()
        each = parts // self.mesh.size()
        return list(zip(x.split(size), y.split(size), strict=True))[rank * each : (rank + 1) * each]

    def step(self, parts):
        """Trains on these parts; returns their mean loss."""
        self.optimizer.zero_grad()
        loss = 0.0
        for inputs, targets in parts:
            scores = self.model(inputs).float()  # a loss in bfloat16 would have steps of 0.016
            part = F.cross_entropy(scores.flatten(0, 1), targets.flatten()) / len(parts)
            part.backward()
            loss += part.detach()
        self.norm = self.clip()
        self.optimizer.step()
        self.steps += 1
        return loss

    def clip(self):
        """Scales all gradients alike, so that together they are no longer than `clip`; returns their length before."""
        weights = list(self.model.parameters())
        gradients = [shards.on(self.me.device, weight.grad) for weight in weights]
        if self.mistake == "local_norm":
            gradients = [gradient.to_local() for gradient in gradients]
        # Of tensors that are cut, torch adds up squares over all ranks before it takes the root: one small all-reduce.
        norm = shards.whole(self.me.device, nn.utils.get_total_norm(gradients, foreach=True))
        nn.utils.clip_grads_with_norm_(weights, self.settings.clip, norm, foreach=True)
        return norm.item()


def main(me):
    settings = parameters.read(__file__)
    if settings.size == "toy":
        toy.main(me, settings)
        return
    words = text.read()
    fsdp_limits.refuse_what_cant_be(me, settings, models.size(settings.size, len(words.characters)))
    everybody = me.mesh((me.world_size,), ("dp",))

    def start(way):
        training = Training(me, settings, words, way, everybody)
        if settings.load:
            checkpoint.load(settings.load, training, everybody.get_group())
        return training

    bound = ROUNDING.get(settings.way, ROUNDING["float32"])
    course = fsdp_look.Course(settings)
    training = start(settings.way)
    seen = fsdp_look.look(me, course, training)
    fsdp_measures.report_look(me, settings, training, seen)
    beside = other = None
    if settings.beside:
        beside = start(fsdp_limits.against(settings.way))
        other = fsdp_look.look(me, course, beside)
    fsdp_measures.race(me, settings, course, training, seen, beside, other, *bound)
    fsdp_measures.report_memory(me, training, seen, beside, other)
    del beside
    if fsdp_limits.saves(settings):
        resume_on_fewer(me, settings, training, bound[0])


def resume_on_fewer(me, settings, training, bound):
    """Saves on all ranks, loads on fewer, and trains on with both: the same state, then the same losses."""
    fewer = fsdp_limits.next_fewer(me.world_size)
    some, mesh = fsdp_measures.first_ranks(me, fewer)
    resumed = Training(me, settings, training.words, settings.way, mesh) if me.rank < fewer else None
    with checkpoint.folder(me, settings.save) as folder:
        checkpoint.save(folder, training)
        checkpoint.spoil(me, folder, settings.mistake)
        checkpoint.load(folder, resumed, some, weights_only=settings.mistake == "weights_only")
    fsdp_measures.compare_resumed(me, training, resumed, some, fewer, bound)


if __name__ == "__main__":
    group.run(main)
