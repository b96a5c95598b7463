"""The machine profile: what the newest successful run of link_vs_compute found out about this host's devices.

    {"alpha": 2.1e-4, "beta": 0.83, "tflops": {"float32": 0.147}, "date": "2026-11-29", "nproc": 2, "run": "..."}

alpha is seconds per message, beta GB/s of bus bandwidth, both absent where one process had no link to measure; tflops
is the best matrix product of one rank by dtype, in 1e12 FLOP/s. Whoever starts a run writes it into run.json, and its
ranks get it as LABTUI_PROFILE: so it stays known what a run's predictions rested on.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labtui.runs import find, launch, masking
from labtui.runs.folder import RunFolder
from labtui.runs.records import SUCCEEDED, Document, RecordError, Request, Status

EXPERIMENT = "link_vs_compute"


def newest(root: Path, request: Request) -> Document | None:
    """The profile for a run that was asked for like this; None if there is none.

    It is from the same host and kind of device, and all GPUs that are wanted now took part. Only runs of the default
    variant count, on the link as it is, and without NCCL or gloo settings that this request doesn't have. Reads names
    in `root`, then a few records, newest first; what can't be read is passed over.
    """
    try:
        # Names begin with the time of their making.
        names = sorted((name for name in find.run_names(root) if f"-{EXPERIMENT}-" in name), reverse=True)
    except find.FindError:
        return None
    for folder in (RunFolder(root / name) for name in names):
        try:
            measured = folder.request()
            if not _fits(measured, request):
                continue
            status = folder.status()
        except RecordError:
            continue
        profile = _read(folder, measured, status) if status.state == SUCCEEDED else None
        if profile is not None:
            return profile
    return None


def _fits(measured: Request, wanted: Request) -> bool:
    return (
        measured.experiment == EXPERIMENT
        and measured.variant == ""
        and measured.link is None
        and (measured.host, measured.device) == (wanted.host, wanted.device)
        and launch.gpus_of(wanted, {}) <= launch.gpus_of(measured, {})
        and _link_settings(measured) <= _link_settings(wanted)
    )


def _link_settings(request: Request) -> set[tuple[str, str]]:
    """What could lead the bytes another way; how much is logged does not."""
    return {
        (name, value)
        for name, value in request.environment.items()
        if name.startswith(("NCCL_", "GLOO_")) and not name.startswith("NCCL_DEBUG")
    }


def _read(folder: RunFolder, request: Request, status: Status) -> Document | None:
    """What that run's results say; None where they don't say how fast it computes."""
    tflops = {
        str(labels["dtype"]): value
        for labels, value in _results(status.results, "best_tflops")
        if "dtype" in labels and value > 0
    }
    if not tflops:
        return None
    link = {name: value for name in ("alpha", "beta") for _, value in _results(status.results, name)}
    if not (link.get("alpha", -1) >= 0 and link.get("beta", 0) > 0):
        link = {}
    date = time.strftime("%Y-%m-%d", time.localtime(request.created))
    return {**link, "tflops": tflops, "date": date, "nproc": request.nproc, "run": folder.id}


def _results(results: Iterable[Any], name: str) -> Iterable[tuple[Document, float]]:
    """(labels, value) of each result of that name that is a number."""
    for result in results:
        if not isinstance(result, dict) or result.get("name") != name:
            continue
        labels, value = result.get("labels"), result.get("value")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            continue
        yield labels if isinstance(labels, dict) else {}, float(value)


def of_this_machine(root: Path, environ: Mapping[str, str]) -> dict[str, Document]:
    """Kind of device -> the profile that a run of one process would get here now, without settings of its own.

    `environ` is the environment that the run would be started in.
    """
    found = {}
    for device in ("cuda", "cpu"):
        wanted = Request(
            id="", experiment="", command=(), python="", host=os.uname().nodename, user="", uid=os.getuid(),
            created=time.time(), environment=masking.recorded(environ), nproc=1, device=device,
        )  # fmt: skip
        profile = newest(root, wanted)
        if profile is not None:
            found[device] = profile
    return found
