"""Whether the GPUs that a run wants are somebody else's at this moment: asked once, right before it starts.

labtui's own runs queue for GPUs (see queue); of other programs nobody knows how long they stay, so a run is refused
rather than left waiting. Asks NVML; a driver that does not answer holds nothing up.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterable, Mapping
from pathlib import Path

from labtui.machine import gpu_processes
from labtui.machine.gpu_processes import Other
from labtui.machine.gpus import Gpus
from labtui.machine.host import ROOT
from labtui.machine.visible import nvml_index, visible
from labtui.runs import process
from labtui.runs.ladder import RUN_ID
from labtui.runs.records import Request

_SERVICES = ("nvidia-cuda-mps", "nvidia-persiste")
"""Programs of the driver's own, which compute nothing (names as the kernel cuts them, after 15 characters)."""


def busy(request: Request, environ: Mapping[str, str], root: Path = ROOT) -> str:
    """Why the run may not have its GPUs: one sentence that names who is on them; empty where they are free.

    Empty, too, for a run on the CPU, one that shares (`--share`), and a command that doesn't say which GPUs it takes.
    """
    environ = {**environ, **request.environment}
    chosen = request.device == "cuda" or (request.device is None and "CUDA_VISIBLE_DEVICES" in environ)
    if request.share or not chosen:
        return ""
    gpus = Gpus.open(environ)
    try:
        documents = [gpu.document() for gpu in gpus.gpus()]
        uuids = visible(documents, environ)
        wanted = {nvml_index(documents, uuid) for uuid in (uuids[: request.nproc] if request.nproc else uuids)}
        owners = gpu_processes.sort_out((each for each in gpus.read() if each.index in wanted), {}, root)
    finally:
        gpus.close()
    others = [other for other in owners.others if not _is_no_program_of_others(other)]
    told = [f"GPU {gpu} by {_names(each for each in others if each.gpu == gpu)}" for gpu in _gpus(others)]
    told += [f"GPU {gpu} by {gpu_processes.outside_words(count)}" for gpu, count in sorted(owners.outside.items())]
    return f"used by others: {'; '.join(told)} (--share runs beside them)" if told else ""


def _is_no_program_of_others(other: Other) -> bool:
    return other.name.startswith(_SERVICES) or RUN_ID in (process.environment(other.pid) or {})


def _gpus(others: Iterable[Other]) -> list[int]:
    return sorted({other.gpu for other in others})


def _names(others: Iterable[Other]) -> str:
    return ", ".join(f"{other.name} of {_user(other.uid)} (pid {other.pid}{_memory(other)})" for other in others)


def _user(uid: int | None) -> str:
    if uid is None:
        return "somebody"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _memory(other: Other) -> str:
    return f", {other.memory / 1e9:.1f} GB" if other.memory is not None else ""
