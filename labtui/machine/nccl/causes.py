"""A sentence for each cause of trouble: what it is, and what to try. Pure; words only.

Each function gets the job in outline and the warning; all texts that come from logs are put in as they stand, and are
cleaned by whoever prints them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from labtui.machine.nccl.outline import Outline, Warned

Sentence = Callable[[Outline, Warned], str]


def on(warned: Warned) -> str:
    """on node-a; nothing where no host or too many are named."""
    return f" on {' and '.join(warned.hosts)}" if 0 < len(warned.hosts) <= 3 else ""


def found_in(pattern: str, warned: Warned, fallback: str = "") -> str:
    for line in warned.lines:
        match = re.search(pattern, line)
        if match:
            return next((group for group in match.groups() if group), fallback)
    return fallback


def _duplicate(outline: Outline, warned: Warned) -> str:
    pairs: dict[str, str] = {}
    for line in warned.lines:
        match = re.search(r"rank (\d+) and rank (\d+) both on CUDA device (\w+)", line)
        if match:
            pairs.setdefault(match[3], " and ".join(sorted(match.groups()[:2], key=int)))
    who = ", ".join(f"{ranks} on {gpu}" for gpu, ranks in pairs.items())
    return (
        f"Ranks were given the same GPU{on(warned)}{f' ({who})' if who else ''}, because more processes run on a "
        "node than it has GPUs or local ranks repeat; start one process per GPU and let each choose its own by "
        "LOCAL_RANK."
    )


def _imex(outline: Outline, warned: Warned) -> str:
    return (
        f"The machines offer NVLink across nodes (MNNVL), but the processes{on(warned)} may not use it because the "
        "IMEX channel is missing or not permitted; start the IMEX service and give the container "
        "/dev/nvidia-caps-imex-channels, or set NCCL_MNNVL_ENABLE=0 to use the network instead."
    )


def _fabric(outline: Outline, warned: Warned) -> str:
    return (
        f"CUDA itself is not ready{on(warned)} (error 802, system not yet initialized): on machines with NVSwitch "
        "the Fabric Manager is not running or does not match the driver; start or reinstall nvidia-fabricmanager in "
        "the driver's version."
    )


def _nvls(outline: Outline, warned: Warned) -> str:
    code = found_in(r"(?:failure|error) (\d+)", warned)
    return (
        "Setting up NVLink SHARP (NVLS) multicast memory "
        f"failed{on(warned)}{f' with CUDA error {code}' if code else ''}, which points at the Fabric Manager or the "
        "state of the NVSwitches rather than at the program; restart the Fabric Manager or reboot, or set "
        "NCCL_NVLS_ENABLE=0 to go on without it."
    )


def _shm_space(outline: Outline, warned: Warned) -> str:
    size = found_in(r"(?:\(size |to )(\d+)", warned)
    need = f" (a segment of {int(size) / 1e6:.1f} MB did not fit)" if size else ""
    more = "; the socket errors of other ranks only follow from it" if _sockets(outline) else ""
    return (
        f"/dev/shm{on(warned)} is too small for NCCL's shared-memory buffers{need}, as in a container with the "
        "default of 64 MB; start the container with a larger --shm-size (or --ipc=host), or mount a larger memory "
        f"volume on /dev/shm{more}."
    )


def _sockets(outline: Outline) -> bool:
    return any(outline.has(kind) for kind in ("proxy_failed", "socket_closed_by_peer", "socket_connect_failed"))


def _shm_attach(outline: Outline, warned: Warned) -> str:
    return (
        f"A shared-memory file that another process made could not be opened{on(warned)}: the processes do not share "
        "/dev/shm (different containers), or something deletes the files (RemoveIPC, clean-up scripts), or this NCCL "
        "release has a bug; share /dev/shm between the containers (--ipc=host) and try another NCCL version."
    )


def _shm_denied(outline: Outline, warned: Warned) -> str:
    return (
        f"NCCL was not permitted to make or open its files in /dev/shm{on(warned)}; give the processes the same user "
        "and write access to /dev/shm, or set NCCL_SHM_DISABLE=1 as a slow way around."
    )


def _oom(outline: Outline, warned: Warned) -> str:
    follows = "; what other ranks then say of sockets or internal errors only follows" if _sockets(outline) else ""
    device = found_in(r"\[(\d+)\] \S+:\d+ (?:\(\S+\) )?NCCL WARN", warned)
    gpu = f"GPU {device}" if device else "A GPU"
    return (
        f"{gpu}{on(warned)} ran out of memory while buffers were allocated{follows}; leave more memory free (smaller "
        "batch, more sharding, no second process on the GPU), or lower NCCL_BUFFSIZE or the number of channels."
    )


def _p2p_ipc(outline: Outline, warned: Warned) -> str:
    code = found_in(r": (\d+) |failure (\d+)", warned)
    return (
        f"NCCL chose peer access between two GPUs{on(warned)}, but opening the other process's memory "
        f"failed{f' (CUDA error {code})' if code else ''}: the processes see different GPUs (CUDA_VISIBLE_DEVICES, "
        "separate containers) or the cards do not support it; let every process see all GPUs of the node, or set "
        "NCCL_P2P_DISABLE=1."
    )


def _cuda(outline: Outline, warned: Warned) -> str:
    match = re.search(r"(?:[Ff]ailure|error:?) ?(?:(\d+) )?'?([^']*)", warned.line)
    text = (match[2].strip() if match else "") or "unknown"
    if outline.facts.memory_limit and "invalid argument" in text:
        wanted, has = outline.facts.memory_limit
        return (
            "A kernel launch failed because this NCCL build wants more shared memory per block than the card offers "
            f"({wanted:,} against {has:,} bytes){_detour(outline)}; take a newer NCCL that knows this GPU."
        )
    if any(host.upper().startswith(("DESKTOP-", "LAPTOP-", "WIN-")) for host in warned.hosts):
        return (
            f"Under Windows (WSL2) a CUDA call failed with '{text}'{_detour(outline)}, a known limitation of older "
            "NCCL and drivers there; update the driver and NCCL, or run on native Linux."
        )
    return (
        f"A CUDA call inside {outline.library} failed{on(warned)} with '{text}'{_detour(outline)}; look for an "
        "earlier error of the same process (dmesg for Xid), and check that driver, CUDA and NCCL versions fit each "
        "other and the GPU."
    )


def _detour(outline: Outline) -> str:
    if outline.families == {"SHM"}:
        level = outline.facts.overrides.get("NCCL_P2P_LEVEL") == "LOC"
        why = (
            " because peer access is switched off (NCCL_P2P_LEVEL=LOC, as NCCL_P2P_DISABLE=1 also prints)"
            if level
            else ""
        )
        return f" (the GPUs talk through shared memory{why})"
    return ""


def _segfault(outline: Outline, warned: Warned) -> str:
    when = ""
    if outline.kind == "nccl" and outline.links:
        when = (
            " after links inside the machines were chosen"
            if "NET" not in outline.families
            else " after links were chosen"
        )
    hint = " or of a setting" if outline.facts.overrides else ""
    names = ", ".join(sorted(outline.facts.overrides)[:3])
    take = f", and remove what was set ({names})" if names else ""
    return (
        f"A process crashed with a segmentation fault{when}, which is a bug of the library{hint} rather than of the "
        f"wiring; take another NCCL version{take}, and look at the stack to see in which library it was."
    )


def _hang(outline: Outline, warned: Warned) -> str:
    if warned.cause == "start":
        return (
            f"The log stops after all {outline.nranks} ranks began to initialise: they hang while they exchange "
            "addresses or read the machine's topology; check the bootstrap interface (NCCL_SOCKET_IFNAME) and look "
            "at the stacks of the processes."
        )
    connected = re.match(r"(\d+) of (\d+)", warned.line)
    who = (
        f"only {connected[1]} of {connected[2]} ranks report"
        if connected and connected[1] != "0"
        else "no rank reports"
    )
    where = "peer access between GPUs" if "P2P" in outline.families else "shared memory or the network"
    return (
        f"The log stops after all links were chosen and {who} connected rings, so it hangs in {where}, often caused "
        "by IOMMU or ACS; disable IOMMU/ACS in the BIOS, or test with NCCL_P2P_DISABLE=1."
    )


def _lone(outline: Outline, warned: Warned) -> str:
    return (
        f"{warned.count} processes each built a communicator of their own with one rank, so they never talk to each "
        "other; start them by one launcher (torchrun, or mpirun with an NCCL program built for MPI) so that they "
        "share rank, world size and master address."
    )


def _collnet(outline: Outline, warned: Warned) -> str:
    net = _path(outline)
    return (
        "CollNet (SHARP) was asked for, but no usable plugin is there, so NCCL ignores it and goes on with rings and "
        f"trees{net}; install or enable the SHARP plugin, or drop NCCL_ALGO=COLLNET (NCCL_COLLNET_ENABLE)."
    )


def _path(outline: Outline) -> str:
    if any("GDRDMA" in link.transport for link in outline.links):
        return f" over {outline.network} with GPUDirect RDMA"
    return f" over {outline.network}" if outline.network else ""


def _p2p_off(outline: Outline, warned: Warned) -> str:
    pairs = sorted({(min(link.source, link.target), max(link.source, link.target)) for link in outline.links})
    named = ", ".join(f"{one}-{other}" for one, other in pairs[:4])
    between = f" between ranks {named}" if named and len(pairs) <= 4 and outline.families == {"SHM"} else ""
    geforce = any("GeForce" in name or "RTX" in name for name in outline.facts.gpus)
    why = (
        "the driver switches it off on GeForce cards"
        if geforce
        else "normal for GeForce cards and for clouds that don't pass it through"
    )
    return (
        f"The GPUs cannot use peer access{between}, so NCCL moves that data through host memory ({why}); slower, but "
        "correct: nothing needs to be done unless NVLink or peer access was expected (nvidia-smi topo -p2p r)."
    )


def _p2p_broken(outline: Outline, warned: Warned) -> str:
    pair = re.search(r"GPUs (\d+) and (\d+)", warned.line)
    which = f"GPUs {pair[1]} and {pair[2]}" if pair else "two GPUs"
    return (
        f"{which} are connected by NVLink, but the driver reports peer access between them as disabled{on(warned)}, "
        "probably because of the hardware; reset or reboot the node and check nvidia-smi topo -p2p r, or go on "
        "without them (CUDA_VISIBLE_DEVICES)."
    )


SENTENCES: dict[str, Sentence] = {
    "duplicate_gpu": _duplicate,
    "imex": _imex,
    "fabric_manager": _fabric,
    "nvls": _nvls,
    "shm_no_space": _shm_space,
    "shm_attach": _shm_attach,
    "shm_denied": _shm_denied,
    "cuda_oom": _oom,
    "p2p_ipc": _p2p_ipc,
    "cuda_error": _cuda,
    "unhandled": _cuda,
    "segfault": _segfault,
    "rings": _hang,
    "start": _hang,
    "lone_ranks": _lone,
    "collnet": _collnet,
    "p2p_unavailable": _p2p_off,
    "p2p_broken": _p2p_broken,
}
