"""What fsdp_compare can't do with the ranks, the memory and the disk at hand, found out before anything starts.

`refuse_...` end the run with exit code 2 and one sentence. Functions that take a group are collectives.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from labtui.bench import checkpoint, hardware, report, tracker
from labtui.bench.device import refuse
from labtui.bench.group import Group
from labtui.theory import models, sharded_step
from labtui.theory.models import GptShape

GB = 1e9


def refuse_old_torch() -> None:
    """Ends the run where this torch has no FSDP2, or no tracker that knows it."""
    from torch.distributed import fsdp as installed

    if not hasattr(installed, "fully_shard"):
        refuse(f"torch {torch.__version__} has no FSDP2 (fully_shard): 2.6 or newer is needed")
    tracker.refuse_old_torch()


def refuse_what_cant_be(me: Group, settings: Any, shape: GptShape) -> None:
    """Ends the run with one sentence where it can't work, above all where memory will not suffice; says notes."""
    refuse_old_torch()
    way, ranks = settings.way, me.world_size
    if way == "reshard_to" and (settings.reshard_to > ranks or ranks % settings.reshard_to):
        refuse(f"reshard_to={settings.reshard_to} must divide the number of ranks, and here are {ranks}")
    if settings.mistake != "none":
        _refuse_impossible_mistake(settings, ranks)
    if settings.save or settings.load or settings.checkpoint:
        _refuse_impossible_checkpoint(settings)
    if way in ("bf16", "mixed"):
        hardware.refuse_missing_dtype(me, torch.bfloat16)
    _refuse_beyond_memory(me, settings, shape)
    if saves(settings):
        _refuse_beyond_disk(settings, shape)
    hardware.note_mixed_gpus(me)
    if me.rank == 0:
        how = "its allocator's peak" if me.device.type == "cuda" else "no allocator on a CPU, so by the same tracker"
        report.note(f"memory by category: {tracker.HOW}; peak_memory: {how}")
        if ranks == 1:
            report.note("one process has nobody to share with: nothing is cut, nothing is sent")
        if way == "zero1" and settings.checkpoint:
            report.note("no checkpoint: ZeroRedundancyOptimizer hands its state out only gathered on one rank")
        if way == "offload" and me.device.type == "cpu":
            report.note("on a CPU the device is the host: offload moves nothing, and saves nothing")
        if way == "reshard_to" and settings.reshard_to == ranks:
            report.note(f"reshard_to={ranks} of {ranks} ranks is the same as way=reshard: take more processes")


def saves(settings: Any) -> bool:
    """Whether this run makes a checkpoint."""
    return bool(settings.checkpoint) and settings.way != "zero1"


def _refuse_impossible_checkpoint(settings: Any) -> None:
    if settings.way == "zero1":
        if settings.save or settings.load:
            refuse("way=zero1 can neither save nor load: its optimizer hands its state out only gathered on one rank")
        return
    if settings.save and not settings.checkpoint:
        refuse("save says where the checkpoint stays, but checkpoint=false makes none")
    place = Path(settings.save).expanduser()
    if settings.save and (place.is_file() or (place.is_dir() and any(place.iterdir()))):
        refuse(f"save={settings.save} must be an empty folder, or none yet")
    if settings.checkpoint and not settings.save and os.environ.get("LOCAL_WORLD_SIZE") != os.environ.get("WORLD_SIZE"):
        refuse("ranks on several hosts need save=FOLDER, one that all hosts see, or checkpoint=false")


def _refuse_impossible_mistake(settings: Any, ranks: int) -> None:
    mistake = settings.mistake
    if mistake in (*checkpoint.MISTAKES, "weights_only"):
        if not saves(settings):
            refuse(f"mistake={mistake} happens to a checkpoint, and this run makes none")
    elif ranks == 1:
        refuse(f"mistake={mistake} takes at least 2 processes")
    elif mistake != "same_data" and sharded_step.WAYS[settings.way].stage != "zero3":
        refuse(f"mistake={mistake} can be made with FSDP2 only, and way={settings.way} is without")


def against(way: str) -> str:
    """Which way a way is held against: DDP, and DDP itself against one process with the whole batch."""
    return "alone" if way == "ddp" else "ddp"


def expected(me: Group, settings: Any, shape: GptShape, way: str) -> sharded_step.Memory:
    """What a step of this way should take on a rank of this run."""
    return sharded_step.memory(
        way,
        shape,
        settings.micro_batch * (me.world_size if way == "alone" else 1),
        me.world_size,
        reshard_to=settings.reshard_to,
        offloaded=way == "offload" and me.device.type == "cuda",
    )


def _refuse_beyond_memory(me: Group, settings: Any, shape: GptShape) -> None:
    own = expected(me, settings, shape, settings.way)
    needed, words = own.peak, _in_parts(own)
    advice = "take a smaller size or micro_batch"
    if settings.beside:
        other = expected(me, settings, shape, against(settings.way))
        needed = max(own.kept + other.peak, own.peak + other.kept)
        words += f"; and {against(settings.way)} beside it: {_in_parts(other)}"
        advice = "beside=false leaves that out"
    if saves(settings) and own.kept * me.world_size / next_fewer(me.world_size) + own.peak > needed:
        needed = own.kept * me.world_size / next_fewer(me.world_size) + own.peak
        words += "; and fewer ranks that load its checkpoint"
        advice = "checkpoint=false leaves that out"
    whole = 4 * models.parameters(shape)  # each rank makes the whole model before it is cut
    if whole > needed:
        needed, words = whole, f"the whole model, before it is cut, {whole / GB:.3g} GB"
    what = f"way={settings.way} size={settings.size} micro_batch={settings.micro_batch} ({words}; {advice})"
    hardware.refuse_beyond_memory(me, round(needed), what)


def _in_parts(memory: sharded_step.Memory) -> str:
    return ", ".join(f"{name} {size / GB:.3g}" for name, size in memory.parts().items()) + " GB"


def _refuse_beyond_disk(settings: Any, shape: GptShape) -> None:
    kept = sharded_step.WAYS[settings.way].kept
    needed = models.parameters(shape) * (kept.parameters + kept.optimizer)
    place = checkpoint.parent(settings.save)
    free = shutil.disk_usage(place).free
    if needed > free:
        refuse(f"a checkpoint of {needed / GB:.3g} GB doesn't fit into {place}, where {free / GB:.3g} GB are free")


def next_fewer(ranks: int) -> int:
    """The most ranks, fewer than these, that can share these ranks' batch evenly; 1 of 1."""
    return max([count for count in range(1, ranks) if ranks % count == 0], default=1)
