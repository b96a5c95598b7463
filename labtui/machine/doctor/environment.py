"""Variables that a shell, a job or a file left behind: they change every run without anybody having asked for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labtui.machine.doctor.finding import Finding, Level, listed
from labtui.machine.host import ROOT, read_text

_INHERITED = ("NCCL_", "GLOO_", "TORCH_", "PET_")
_HARMLESS = frozenset({"NCCL_VERSION"})
"""NVIDIA's CUDA images set it; NCCL doesn't read it."""
_SECRET = re.compile(r"(?i)(^|_)(key|token|secret|passw(or)?d|passwd|pwd|credentials?|auth|psk)($|_)")
_LOGGED = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"
"""What labtui sets so that it can read the paths that NCCL takes, unless somebody else did."""


@dataclass(frozen=True)
class Effect:
    """What a variable does to runs, where its value is one of those."""

    name: str
    does: Callable[[str], bool]
    why: str
    level: Level = "warn"
    gpus: bool = True
    """Whether it matters to runs on GPUs only."""


def _on(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false")


def _several_machines(value: str) -> bool:
    """Whether torchrun's number of machines, `2` or `1:4`, is at least two."""
    least = value.strip().partition(":")[0]
    return least.isdecimal() and int(least) > 1


EFFECTS = (
    Effect(
        "NCCL_P2P_DISABLE",
        lambda value: value.strip() not in ("", "0"),
        "NCCL uses neither NVLink nor peer access over PCIe: each byte goes through host memory",
    ),
    Effect(
        "NCCL_P2P_LEVEL",
        lambda value: value.strip().upper() in ("LOC", "0"),
        "NCCL uses neither NVLink nor peer access over PCIe: each byte goes through host memory",
    ),
    Effect(
        "NCCL_SHM_DISABLE",
        lambda value: value.strip() not in ("", "0"),
        "ranks of one machine without peer access talk over the network instead of shared memory",
    ),
    Effect(
        "NCCL_ALGO",
        bool,
        "it takes the choice by message size away from NCCL: slower, and collectives without that algorithm may fail",
    ),
    Effect(
        "NCCL_PROTO",
        bool,
        "it takes the choice by message size away from NCCL; LL128 where it isn't safe corrupts data (NCCL user guide)",
    ),
    Effect(
        "NCCL_COMM_ID",
        bool,
        "all runs meet at this one address: two at a time collide, and it must be an address of this machine",
    ),
    Effect(
        "NCCL_TOPO_FILE",
        lambda value: bool(value) and not os.access(value, os.R_OK),
        "there is no such file: NCCL warns, and looks for the topology itself",
    ),
    Effect(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        lambda value: value.strip() == "0",
        "torch then never ends a rank that hangs in a collective",
    ),
    Effect(
        "NCCL_ASYNC_ERROR_HANDLING",
        lambda value: value.strip() == "0",
        "torch then never ends a rank that hangs in a collective",
    ),
    Effect(
        "TORCH_NCCL_BLOCKING_WAIT",
        _on,
        "each collective holds up its rank until it is done: nothing overlaps",
    ),
    Effect(
        "CUDA_LAUNCH_BLOCKING",
        _on,
        "each kernel is waited for: slow, nothing overlaps, and NCCL 2.14 to 2.16 hang (pytorch pull request 97843)",
    ),
    Effect(
        "PET_NNODES",
        _several_machines,
        "torchrun waits for other machines, so that no run starts",
        "fail",
        gpus=False,
    ),
    Effect(
        "PET_NO_PYTHON",
        _on,
        "torchrun takes scripts for programs, so that no run starts",
        "fail",
        gpus=False,
    ),
    Effect(
        "PET_MODULE",
        _on,
        "torchrun takes the path of a script for a module's name, so that no run starts",
        "fail",
        gpus=False,
    ),
    Effect(
        "TORCH_DISTRIBUTED_DEBUG",
        lambda value: value.strip().upper() == "DETAIL",
        "in torch 2.13 DistributedDataParallel crashes with it (a segmentation fault in its constructor)",
        gpus=False,
    ),
)


def inherited(environ: Mapping[str, str], gpus: int = 0, root: Path = ROOT, cores: int | None = None) -> list[Finding]:
    """What runs would inherit; `cores` is how many CPUs they may use (default: those that we may)."""
    filed = settings_files(environ, root)
    findings = [_listed(environ), *_filed(filed)]
    effective = {**{name: value for told in reversed(filed.values()) for name, value in told.items()}, **environ}
    for effect in EFFECTS:
        value = effective.get(effect.name)
        if value is None or (effect.gpus and not gpus) or not effect.does(value):
            continue
        findings.append(
            Finding(effect.name, effect.level, shown(effect.name, value), effect.why, _unset(effect.name, environ))
        )
    findings += [finding for finding in (_log(effective, gpus), _threads(environ, cores)) if finding is not None]
    return findings


def _listed(environ: Mapping[str, str]) -> Finding:
    names = sorted(name for name in environ if name.startswith(_INHERITED) and name not in _HARMLESS)
    why = "what a shell or a job left behind changes every run: NCCL_ and GLOO_ paths, TORCH_ debugging, PET_ torchrun"
    if not names:
        return Finding("environment", "ok", "no NCCL_, GLOO_, TORCH_ or PET_ variable is set", why)
    found = ", ".join(f"{name}={shown(name, environ[name])}" for name in names)
    advice = "unset what is not meant; for one run only: labtui run NAME --env NAME=VALUE"
    return Finding("environment", "note", found, why, advice)


def _unset(name: str, environ: Mapping[str, str]) -> str:
    return f"unset {name}" if name in environ else f"take {name} out of NCCL's file of settings"


# NCCL's files -------------------------------------------------------------------------------------------------------


def settings_files(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, dict[str, str]]:
    """The files that NCCL reads settings from, the one that wins first; what the environment sets wins over both."""
    home = environ.get("HOME")
    own = environ.get("NCCL_CONF_FILE") or (f"{home}/.nccl.conf" if home else "")
    told = {}
    for path, shown_as in ((Path(own), own), (root / "etc/nccl.conf", "/etc/nccl.conf")):
        settings = _settings(read_text(path) or "") if shown_as and path.is_file() else {}
        if settings:
            told[shown_as] = settings
    return told


def _settings(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals and name.strip()}


def _filed(filed: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    return [
        Finding(
            f"NCCL's {Path(path).name}" if len(filed) == 1 else path,
            "note",
            f"{path} sets {listed((f'{name}={shown(name, value)}' for name, value in told.items()), 12)}",
            "NCCL reads it in every run, and no environment shows it",
            "what the environment sets wins over it",
        )
        for path, told in filed.items()
    ]


# Others -------------------------------------------------------------------------------------------------------------


def _log(effective: Mapping[str, str], gpus: int) -> Finding | None:
    """Settings of NCCL's log that keep labtui from reading it."""
    told = {name: effective[name] for name in _LOGGED if effective.get(name)}
    if not gpus or not told or (list(told) == ["NCCL_DEBUG"] and told["NCCL_DEBUG"].upper() in ("INFO", "TRACE")):
        return None
    return Finding(
        "NCCL's log",
        "note",
        ", ".join(f"{name}={shown(name, value)}" for name, value in told.items()),
        "labtui leaves these as they are, and may then not learn which paths NCCL takes in a run",
        f"unset {' '.join(told)}",
    )


def _threads(environ: Mapping[str, str], cores: int | None) -> Finding | None:
    value = environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    if not value.isdecimal() or int(value) < 2 or int(value) * 2 <= cores:
        return None
    return Finding(
        "OMP_NUM_THREADS",
        "warn",
        f"{value}, on {cores} CPUs",
        "each rank on the CPU computes with so many threads, which wait by spinning: two ranks are then many times "
        "slower than with 1, which labtui sets where nobody else does",
        "unset OMP_NUM_THREADS",
    )


def shown(name: str, value: str) -> str:
    """A value for people: secrets masked, and nothing that a terminal obeys."""
    if _SECRET.search(name):
        return "***"
    return value if value.isprintable() else ascii(value)
