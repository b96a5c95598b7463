"""How a run's processes are launched: the exact command and the environment of its ranks.

Pure but for `bridge`, which makes a folder to import labtui from. Why each variable is set stands beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labtui.machine.link import PER_RANK, Link, prefix
from labtui.runs.folder import RunFolder
from labtui.runs.ladder import RUN_ID, TORCHRUN_GRACE_S
from labtui.runs.masking import is_masked
from labtui.runs.records import Document, Request

REAL_COMMAND = "LABTUI_REAL_COMMAND"
"""Carries a command that holds secrets from the starter to the agent: run.json has it masked, and /proc/PID/environ,
unlike a command line, is readable by its owner only."""

_OWN = (
    REAL_COMMAND, RUN_ID, "LABTUI_RUN_DIR", "LABTUI_DEVICE", "LABTUI_RUNTIME_DIR", "LABTUI_AGENT_PID", "LABTUI_PROFILE",
    "LABTUI_LINK", "LABTUI_LINK_RANKS",
)  # fmt: skip


def torchrun_command(
    python: str, script: Path, nproc: int, parameters: Mapping[str, Any], ranks: Path, link: Document | None = None
) -> tuple[str, ...]:
    """torchrun on one node. --standalone takes a free port of its own, so that two runs never collide.

    On a link with a rate per rank each rank first enters the namespace where it has that.
    """
    enter = ("-m", "labtui.bench.enter") if link is not None and link["model"] == PER_RANK else ()
    return (
        python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc),
        "--log-dir", str(ranks), "--redirects", "3", *enter, str(script), *arguments(parameters),
    )  # fmt: skip


def python_command(python: str, script: Path, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """One process without torchrun."""
    return (python, "-u", str(script), *arguments(parameters))


def arguments(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Parameters as an experiment reads them: name=JSON."""
    return tuple(f"{name}={json.dumps(value)}" for name, value in parameters.items())


def starter_environment(environ: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """What the agent is started with: the user's environment and what they set for this run, secrets unmasked.

    A run started from within a run must not carry the outer one's id, or it would be ended with it.
    """
    return {**{name: value for name, value in environ.items() if name not in _OWN}, **user}


def worker_environment(
    environ: Mapping[str, str], request: Request, folder: RunFolder, runtime: Path | None
) -> dict[str, str]:
    """The environment of torchrun and its ranks. What the user set wins over what is only sensible."""
    environment = {name: value for name, value in environ.items() if name not in _OWN}
    environment.update((name, value) for name, value in request.environment.items() if not is_masked(value))

    sensible = {
        # A rank that dies must not take its last lines along in a buffer.
        "PYTHONUNBUFFERED": "1",
        # A crash in C++ then leaves a Python traceback in stderr.
        "PYTHONFAULTHANDLER": "1",
        # CUDA numbers by speed otherwise, NVML by bus: the two must name the same GPU.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        # torchrun waits 30 s for a stubborn rank otherwise; a torch without this variable ignores it.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(int(TORCHRUN_GRACE_S)),
    }
    if request.launch == "command":
        # By environment rather than by editing arguments: so it also reaches a torchrun that a script calls.
        sensible |= {"PET_LOG_DIR": str(folder.ranks), "PET_REDIRECTS": "3"}
    else:
        sensible |= {
            # Restarts with gloo hang otherwise: survivors find the old attempt's store (pytorch#135712).
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            # torch 2.13 renamed collectives and says so once per rank and name; and that it misses NumPy, on each.
            "PYTHONWARNINGS": "ignore::FutureWarning,ignore:Failed to initialize NumPy:UserWarning",
        }
        if request.device == "cpu":
            # Two spinning thread pools on one core make a step many times slower.
            sensible["OMP_NUM_THREADS"] = "1"
    if request.device != "cpu" and not request.quiet_nccl:
        sensible |= nccl_settings(folder)
    for name, value in sensible.items():
        environment.setdefault(name, value)

    environment[RUN_ID] = folder.id
    environment["LABTUI_RUN_DIR"] = str(folder.path)
    environment["LABTUI_AGENT_PID"] = str(os.getpid())
    if request.device is not None:
        environment["LABTUI_DEVICE"] = request.device
    if request.profile is not None:
        environment["LABTUI_PROFILE"] = json.dumps(request.profile)
    if runtime is not None:
        environment["LABTUI_RUNTIME_DIR"] = str(runtime)
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(runtime / "python"), *([before] if before else [])])
    return environment


def nccl_settings(folder: RunFolder) -> dict[str, str]:
    """Makes NCCL tell which paths it takes, each process in a file of its own (%h is the host, %p the pid).

    The subsystems that name links, rings, networks and overrides (NCCL user guide, "Logging"; a version that lacks
    one of the names ignores it); not COLL, which writes a line per collective.
    """
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,P2P,NET,NVLS",
        "NCCL_DEBUG_FILE": str(folder.nccl / "%h.%p.log"),
    }


def gpus_of(request: Request, environ: Mapping[str, str]) -> frozenset[str]:
    """The GPUs that a run wants, as CUDA_VISIBLE_DEVICES names them; empty for a run on the CPU.

    The user's own command says neither device nor count: it is taken to want what CUDA_VISIBLE_DEVICES shows it, and
    nothing where that is not set, since then nothing is known.
    """
    visible = request.environment.get("CUDA_VISIBLE_DEVICES", environ.get("CUDA_VISIBLE_DEVICES"))
    names = [name.strip() for name in visible.split(",") if name.strip()] if visible is not None else None
    if request.device == "cpu":
        return frozenset()
    if request.device is None:
        return frozenset(names or ())
    count = request.nproc or 1
    return frozenset((names if names is not None else [str(index) for index in range(count)])[:count])


def bridge(runtime: Path) -> None:
    """Makes `runtime`/python, from which only labtui can be imported.

    An experiment may run in another environment (the one the user trains in). The folder that holds labtui may be a
    site-packages with everything else in it, so it can't be put on that environment's path itself.
    """
    import labtui

    path = runtime / "python"
    path.mkdir()
    (path / "labtui").symlink_to(Path(labtui.__file__).parent, target_is_directory=True)


def real_command(environ: Mapping[str, str], request: Request) -> Sequence[str]:
    """The command to start: the recorded one, or the unmasked one that the starter handed over; on its link."""
    command: Sequence[str] = json.loads(environ[REAL_COMMAND]) if REAL_COMMAND in environ else request.command
    if request.link is None:
        return command
    shaped = Link(request.link["rate_bits"], request.link["model"])
    return (*prefix(shaped, request.nproc or 1), *command)
