"""What this run's devices can take, found out before it is tried. All functions are collectives: every rank calls them.

`refuse_...` end the run with exit code 2 and one sentence where something is asked that can't be had.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

from labtui.bench import report
from labtui.bench.device import refuse
from labtui.bench.group import Group

GB = 1e9


def refuse_beyond_memory(group: Group, needed: int, what: str) -> None:
    """Where a rank has less free memory than `needed` bytes, says so; `what` is what needs it, with what to do."""
    free = free_memory(group)
    if free is not None and needed > free:
        refuse(f"{what}: needs {_amount(needed)} per rank, {_amount(free)} are free")


def free_memory(group: Group) -> float | None:
    """Bytes that each rank can still take, on the rank that has least; None where a rank can't find out.

    Of a GPU: what its driver calls free. On the CPU: an equal share of what the host, or the container around this
    process, has left.
    """
    if group.device.type == "cuda":
        mine: float | None = float(torch.cuda.mem_get_info(group.device)[0])
    else:
        mine = _free_on_host()
        if mine is not None:
            mine /= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    least = -group.largest(float("nan") if mine is None else -mine)
    return None if least != least else least


def _free_on_host() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        (available,) = (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError):
        return None
    return min([float(available), *_left_in_cgroups()])


def _left_in_cgroups(root: Path = Path("/sys/fs/cgroup")) -> list[float]:
    """Bytes that each memory limit around this process leaves (cgroup v2). Page cache that can go counts as free."""
    try:
        (own,) = (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, ValueError):
        return []
    left: list[float] = []
    folder = root / own.strip("/")
    for place in [folder, *folder.parents]:
        try:
            limit = int((place / "memory.max").read_text())
            used = int((place / "memory.current").read_text())
            stat = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
            left.append(limit - used + int(stat["inactive_file"]))
        except (OSError, ValueError, KeyError):
            pass  # "max" is no limit, and the topmost folder has no such files
        if place == root:
            break
    return left


def refuse_missing_dtype(group: Group, dtype: torch.dtype) -> None:
    """bfloat16 on a GPU that lacks it would be emulated, many times slower."""
    if dtype != torch.bfloat16 or group.device.type != "cuda":
        return
    major, minor = torch.cuda.get_device_capability(group.device)
    oldest = -group.largest(-(10 * major + minor))
    if oldest < 80:
        refuse(
            f"bfloat16 needs GPUs of compute capability 8.0 (Ampere) or newer, here is one of {oldest / 10:.1f}: "
            "take float16"
        )


def note_mixed_gpus(group: Group) -> None:
    """Reports a note where the ranks' GPUs differ: then the slowest sets the pace of all."""
    if group.device.type != "cuda":
        return
    own = torch.cuda.get_device_properties(group.device)
    traits = (own.major * 10 + own.minor, own.multi_processor_count, own.total_memory)
    if any([group.largest(trait) != -group.largest(-trait) for trait in traits]):  # noqa: C419 - all ranks take part
        report.note(f"the ranks' GPUs differ (rank {group.rank} has {own.name}): the slowest sets the pace of all")


def _amount(size: float) -> str:
    return f"{size / GB:.1f} GB" if size >= 0.1 * GB else f"{size / 1e6:.1f} MB"
