"""Distributed checkpoints: every rank writes what it holds, and any number of ranks can load it.

torch.distributed.checkpoint does the work; what is added here is that a damaged checkpoint is refused before anything
of it is loaded, and that it works without NumPy. A training is anything with `model`, `optimizer`, `steps` (how many it
has taken) and `me`. Knows no particular model.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from labtui.bench import shards
from labtui.bench.device import refuse
from labtui.bench.group import Group

METADATA = ".metadata"
MISTAKES = ("missing_shard", "short_shard", "flipped_bit")
"""What `spoil` can do."""


@contextmanager
def folder(me: Group, wanted: str = "") -> Iterator[Path]:
    """The folder of this name, empty and to stay; without a name one that is removed in the end. A collective.

    All ranks must see it: they are on one host, or it is on a shared disk.
    """
    place = Path(wanted).expanduser() if wanted else Path(_common(me, _temporary))
    if me.rank == 0:
        place.mkdir(parents=True, exist_ok=True)
    dist.barrier()
    try:
        yield place
    finally:
        if not wanted and me.rank == 0:
            shutil.rmtree(place, ignore_errors=True)


def parent(wanted: str = "") -> Path:
    """The existing folder on whose disk `folder` puts it: of a run its own, else the system's for temporary files."""
    if not wanted:
        return Path(os.environ.get("LABTUI_RUN_DIR") or tempfile.gettempdir())
    place = Path(wanted).expanduser().absolute()
    return next(each for each in (place, *place.parents) if each.exists())


def save(place: Path, training: Any) -> None:
    """Writes weights, optimizer state and the number of steps taken. A collective: each rank writes its share."""
    from torch.distributed import checkpoint  # takes a second to load

    with _objects_without_numpy():
        checkpoint.save(_state(training), checkpoint_id=place, process_group=_processes(training))


def load(place: str | Path, training: Any, processes: Any, *, weights_only: bool = False) -> None:
    """Puts what was saved into `training`, whatever number of ranks saved it, on the ranks of `processes`.

    A collective of all ranks: those with nothing to load (`training` None) look at it, too, and a checkpoint that isn't
    whole, or one of another model, ends the run with one sentence on each. `weights_only` leaves the optimizer as it
    is, which is a mistake.
    """
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict

    place = Path(place).expanduser()
    refused = damage(place)
    if refused is None and training is not None:
        refused = _mismatch(place, training)
    dist.barrier()  # a rank that ended before the others have looked would take them with it
    if refused is not None:
        refuse(refused)
    if training is None:
        return
    state = _state(training)
    if weights_only:
        del state["optimizer"]
    with _objects_without_numpy():
        checkpoint.load(state, checkpoint_id=place, process_group=processes)
    set_model_state_dict(training.model, state["model"])
    if not weights_only:
        set_optimizer_state_dict(training.model, training.optimizer, state["optimizer"])
    training.steps = state["steps"]


def damage(place: Path) -> str | None:
    """Why this checkpoint can't be loaded whole, in one sentence with the file's name; None if all of it is there.

    A checkpoint is a .metadata file, written last, and shard files; the metadata says which bytes of which file each
    piece is in. There are no check sums, so bits that have changed can't be found.
    """
    from torch.distributed.checkpoint import FileSystemReader

    if not place.is_dir():
        return f"{place} is no folder with a checkpoint"
    if not (place / METADATA).is_file():
        return f"checkpoint can't be loaded whole: {place / METADATA} is missing, so it was never finished"
    try:
        metadata = FileSystemReader(place).read_metadata()
        ends: dict[str, int] = {}
        for piece in metadata.storage_data.values():
            end = piece.offset + piece.length
            ends[piece.relative_path] = max(end, ends.get(piece.relative_path, 0))
    except Exception as error:  # noqa: BLE001 - a damaged pickle may raise anything
        return f"checkpoint can't be loaded whole: {place / METADATA} can't be read ({type(error).__name__}: {error})"
    for name, end in sorted(ends.items()):
        try:
            size = (place / name).stat().st_size
        except OSError:
            return f"checkpoint can't be loaded whole: {place / name} is missing, one of {len(ends)} shards"
        if size < end:
            return f"checkpoint can't be loaded whole: {place / name} was cut short, {size:,} bytes of {end:,}"
    return None


def spoil(me: Group, place: Path, mistake: str) -> None:
    """Damages a checkpoint on purpose: removes a shard, cuts off its last byte, or flips one bit of a weight."""
    dist.barrier()
    if me.rank == 0 and mistake in MISTAKES:
        shard = max(place.glob("*.distcp"))
        if mistake == "missing_shard":
            shard.unlink()
        elif mistake == "short_shard":
            os.truncate(shard, shard.stat().st_size - 1)
        else:
            _flip_a_bit(place)
    dist.barrier()


def differences(mine: Any, theirs: Any | None) -> int | None:
    """How many numbers of two trainings' weights and optimizer state differ in any bit; None where one is None.

    A collective of all ranks of `mine` and, inside it, of those of `theirs`: they may be fewer.
    """
    ours, other = _tensors(mine), {} if theirs is None else _tensors(theirs)
    found = 0
    for name in sorted(ours):
        right = shards.whole(mine.me.device, ours[name])
        if theirs is not None:
            found += _differ(right, shards.whole(mine.me.device, other[name])) if name in other else right.numel()
    return None if theirs is None else found


def _state(training: Any) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, optimizer = get_state_dict(training.model, training.optimizer)
    return {"model": weights, "optimizer": optimizer, "steps": training.steps}


def _tensors(training: Any) -> dict[str, torch.Tensor]:
    """Weights and optimizer state by name."""
    state = _state(training)
    found = {f"model.{name}": value for name, value in state["model"].items()}
    for name, kept in state["optimizer"]["state"].items():
        found |= {f"optimizer.{name}.{kind}": value for kind, value in kept.items() if isinstance(value, torch.Tensor)}
    return found


def _differ(a: torch.Tensor, b: torch.Tensor) -> int:
    if a.shape != b.shape or a.dtype != b.dtype:
        return int(max(a.numel(), b.numel()))
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return int((a.view(bits) != b.view(bits)).sum())  # as bits: a NaN equals itself, and 0 isn't -0


def _mismatch(place: Path, training: Any) -> str | None:
    """Why this checkpoint is not one of this model; None if it is."""
    from torch.distributed.checkpoint import FileSystemReader

    saved = FileSystemReader(place).read_metadata().state_dict_metadata
    wanted = _tensors(training)
    for name, tensor in wanted.items():
        key = name.replace("optimizer.", "optimizer.state.", 1)
        if key not in saved:
            return f"{place} is a checkpoint of something else: it has no {key}"
        size = getattr(saved[key], "size", None)
        if size is not None and tuple(size) != tuple(tensor.shape):
            return f"{place} is a checkpoint of another model: {key} is {list(size)} there, {list(tensor.shape)} here"
    return None


def _flip_a_bit(place: Path) -> None:
    """The lowest bit of a byte in the middle of the largest piece that was saved."""
    from torch.distributed.checkpoint import FileSystemReader

    piece = max(FileSystemReader(place).read_metadata().storage_data.values(), key=lambda one: one.length)
    with (place / piece.relative_path).open("r+b") as file:
        file.seek(piece.offset + piece.length // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def _processes(training: Any) -> Any:
    return training.mesh.get_group()


def _temporary() -> str:
    return tempfile.mkdtemp(prefix="checkpoint-", dir=parent())


def _common(me: Group, choose: Any) -> str:
    """What rank 0 chooses, on every rank."""
    told = [choose() if me.rank == 0 else None]
    with _objects_without_numpy():
        dist.broadcast_object_list(told, src=0, device=me.device)
    return str(told[0])


@contextmanager
def _objects_without_numpy() -> Iterator[None]:
    """Lets ranks send each other Python objects where NumPy is missing, by which torch turns bytes into objects."""
    from torch.distributed import distributed_c10d

    try:
        torch.empty(0).numpy()
    except RuntimeError:
        pass
    else:
        yield
        return

    def to_object(tensor: torch.Tensor, size: Any, group: Any) -> Any:
        return distributed_c10d._unpickler(io.BytesIO(bytes(tensor.cpu().tolist()[: int(size)]))).load()

    replaced = distributed_c10d._tensor_to_object
    distributed_c10d._tensor_to_object = to_object
    try:
        yield
    finally:
        distributed_c10d._tensor_to_object = replaced
