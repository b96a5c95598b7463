"""The diagnosis: one sentence that names the cause rather than its consequences, and says what to try. Pure."""

from __future__ import annotations

from collections import Counter

from labtui.machine.nccl import causes, network_causes, torch_causes
from labtui.machine.nccl.outline import Outline, family

SENTENCES = causes.SENTENCES | network_causes.SENTENCES | torch_causes.SENTENCES

_GRAVITY = (
    "imex", "fabric_manager", "nvls", "duplicate_gpu", "shm_no_space", "shm_attach", "shm_denied", "cuda_oom",
    "p2p_ipc", "p2p_broken", "pci_path", "version_mismatch", "mismatch", "calls", "ib_create", "memlock",
    "ib_port", "ib_modify", "ofi", "no_interface", "segfault", "sigbus", "sigkill", "cuda_error", "unhandled",
    "socket_no_route", "socket_timeout", "socket_connect_failed", "socket_connect_refused", "ib_completion",
    "address_in_use", "gloo", "joined", "rendezvous_closed", "rendezvous", "watchdog", "gloo_timeout",
    "watchdog_stuck", "store_socket_no_route", "store_socket_timeout", "store_socket_connect_failed",
    "store_socket_connect_refused", "no_algorithm", "proxy", "closed", "store_closed", "lone_ranks", "rings",
    "start", "child", "collnet", "ib_port,told", "p2p_unavailable", "unknown_warning", "cuda_lib", "ibverbs",
    "benign",
)  # fmt: skip
"""Causes, those first from which the others follow."""
_RANK = {cause: place for place, cause in enumerate(_GRAVITY)}
_HARMLESS = ("cuda_lib", "ibverbs", "benign")
_VIRTUAL = ("veth", "virbr", "docker", "br-", "cali", "flannel", "cni", "vnet", "tap")

TOPOLOGY = "This is a topology matrix of nvidia-smi, no log: `labtui topo` reads it."


def gravity(kind: str, cause: str) -> tuple[int, str]:
    """Sorts warnings: what others follow from comes first."""
    return _RANK.get(cause, len(_RANK)), kind


def nothing(lines: int) -> str:
    """Where no line is NCCL's, gloo's or torchrun's."""
    if not lines:
        return "There is no whole line in it."
    return f"None of its {lines:,} lines is one of NCCL, RCCL, gloo or torchrun: run with NCCL_DEBUG=INFO to have some."


def sentence(outline: Outline) -> str:
    """The one sentence."""
    for warned in outline.warned:
        if warned.cause in SENTENCES and warned.cause not in _HARMLESS:
            text = SENTENCES[warned.cause](outline, warned)
            return text[:-1] + _harmless(outline)
        if warned.cause in _SHORT:
            return _SHORT[warned.cause]
        if warned.cause == "unknown_warning":
            said = warned.line.partition("NCCL WARN ")[2] or warned.line
            return f"{_shape(outline)}; {outline.library} warns of something unknown to this reader: '{said[:200]}'."
    return _healthy(outline)


_SHORT = {
    "memlock": (
        "The InfiniBand/RoCE driver refused to register memory, nearly always because the limit of locked memory is "
        "too low for the process; raise memlock (`ulimit -l`) to unlimited where the job really runs."
    ),
    "version_mismatch": (
        "The ranks run different versions of NCCL, which don't understand each other; install the same NCCL (the "
        "same PyTorch build) on every node."
    ),
    "no_algorithm": (
        "NCCL found no algorithm and protocol for a collective, because the settings exclude all that would work; "
        "remove NCCL_ALGO and NCCL_PROTO, or name ones that this collective has."
    ),
}


def _harmless(outline: Outline) -> str:
    return "; the missing libibverbs is harmless without InfiniBand." if outline.has("ibverbs_missing") else "."


# Nothing wrong --------------------------------------------------------------------------------------------------------


def _healthy(outline: Outline) -> str:
    facts = outline.facts
    if outline.kind != "nccl":
        return "Lines of PyTorch's launcher or store, and none of them tells of a failure."
    if outline.nranks == 1:
        return (
            "Only one GPU takes part (a communicator of one rank), so there is no link to show and nothing is wrong; "
            "if more were meant, check the number of processes and CUDA_VISIBLE_DEVICES."
        )
    if facts.calls.count and not outline.links:
        ranks = facts.calls.origins(facts.calls.largest)
        return (
            f"Only a trace of {facts.calls.count:,} collective calls (NCCL_DEBUG_SUBSYS=COLL): the {ranks} ranks seen "
            "make the same calls in the same order, so nothing is mismatched; it says nothing about transports."
        )
    if not facts.informed:
        return f"{outline.library} says little here, and nothing that matters; NCCL_DEBUG=INFO would show the links."
    text = f"{_shape(outline)}{_means(outline)}{_state(outline)}; {_verdict(outline)}"
    notes = _notes(outline)
    return f"{text} ({'; '.join(notes)})." if notes else f"{text}."


def _shape(outline: Outline) -> str:
    ranks = f"{outline.nranks} ranks" if outline.nranks else outline.library
    where = ""
    if outline.nnodes:
        where = f" on {outline.nnodes} node{'s' if outline.nnodes > 1 else ''}"
    return ranks + where


def _means(outline: Outline) -> str:
    if not outline.links:
        return ", no links shown"
    lines: Counter[str] = Counter()
    for link in outline.links:
        lines[link.transport] += 1
    count = outline.channels
    channels = f" over {count} channel{'s' if count > 1 else ''}" if count else ""
    if len(lines) == 1:
        return f", all links {next(iter(lines))}{channels}"
    inside = [name for name in lines if family(name) != "NET"]
    between = [name for name in lines if family(name) == "NET"]
    if inside and between and (outline.nnodes or 2) > 1:
        return f", {_and(inside)} inside a node and {_and(between)} between nodes{channels}"
    return f", links by {_and(list(lines))}{channels}"


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _state(outline: Outline) -> str:
    origins = outline.facts.origins.values()
    if any(origin.completed or origin.rings for origin in origins) or outline.facts.coll_channels:
        return ""
    return ", before the initialisation is complete"


def _verdict(outline: Outline) -> str:
    slow = _slow(outline)
    return slow or "nothing wrong was logged"


def _slow(outline: Outline) -> str:
    """What makes a healthy job slow."""
    transports = {link.transport for link in outline.links}
    facts = outline.facts
    if "NET/Socket" in transports:
        if facts.announced.get("IB"):
            return (
                "nothing failed, but it uses TCP sockets although an InfiniBand/RoCE card is there: look at "
                "NCCL_NET, NCCL_IB_DISABLE and NCCL_IB_HCA"
            )
        plugin = "the libfabric or InfiniBand plugin" if outline.library == "RCCL" else "InfiniBand/RoCE or a plugin"
        return f"nothing failed, but TCP sockets bound the speed between nodes: use {plugin} if the hardware is there"
    remote = [name for name in transports if name.startswith("NET/")]
    if remote and not any("GDRDMA" in name for name in remote):
        told = " (GDR 0)" if facts.gdr is False else ""
        return f"nothing failed, but without GPUDirect RDMA{told} data between nodes is copied through host memory"
    if transports and {family(name) for name in transports} == {"SHM"}:
        off = facts.overrides.get("NCCL_P2P_DISABLE") == "1" or facts.overrides.get("NCCL_P2P_LEVEL") == "LOC"
        why = (
            "peer access is switched off by a setting"
            if off
            else "the GPUs have no peer access (GeForce, virtual machines) or none is near enough"
        )
        return f"nothing failed, but all data goes through host memory because {why}"
    return ""


def _notes(outline: Outline) -> list[str]:
    facts = outline.facts
    notes = []
    virtual = [name for name in facts.interfaces if name.startswith(_VIRTUAL)]
    if len(virtual) >= 2:
        real = next((name for name in facts.interfaces if not name.startswith(_VIRTUAL) and name != "lo"), None)
        hint = f": set NCCL_SOCKET_IFNAME={real}" if real else ""
        notes.append(
            f"{len(virtual)} virtual interfaces (such as {virtual[0]}) would disturb a job of several nodes{hint}"
        )
    chosen = sorted({key[1] for key in facts.choices})
    if chosen:
        notes.append(f"algorithms chosen: {', '.join(chosen)}")
    elif facts.nvls:
        notes.append("NVLink SHARP (NVLS) is available")
    if facts.disputed:
        notes.append(f"the ranks differ in {', '.join(sorted(facts.disputed)[:3])}")
    if facts.folded:
        notes.append("Ray has folded repeated lines, so counts are lower bounds")
    if facts.cut_connections:
        notes.append("some lines are cut")
    if outline.has("ibverbs_missing"):
        notes.append("the missing libibverbs is harmless without InfiniBand")
    if any(warned.cause == "cuda_lib" for warned in outline.warned):
        notes.append("NCCL did not find libcuda.so at first: is a CUDA driver installed where it runs?")
    return notes
