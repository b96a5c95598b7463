"""The same for what goes wrong between processes: sockets, proxies, NICs, collectives. Pure."""

from __future__ import annotations

import re

from labtui.machine.nccl.causes import Sentence, found_in, on
from labtui.machine.nccl.outline import Outline, Warned


def _interface(outline: Outline) -> str:
    names = outline.facts.interfaces
    return f" on interface {names[0]}" if len(names) == 1 else ""


def _no_route(outline: Outline, warned: Warned) -> str:
    peer = found_in(r"[Cc]onnect to (\S+?)[<\s]", warned, "another rank's host")
    return (
        f"There is no route{on(warned)} to {peer}{_interface(outline)}: NCCL picked an interface or address that the "
        "other host can't reach; set NCCL_SOCKET_IFNAME (and GLOO_SOCKET_IFNAME) to the interface that all nodes "
        "share, and check the firewall."
    )


def _refused(outline: Outline, warned: Warned) -> str:
    peer = found_in(r"[Cc]onnect to (\S+?)[<\s]", warned, "another rank")
    return (
        f"The connection to {peer} was refused{on(warned)}: nobody listens there, because that process has already "
        "ended or a wrong interface was announced; look for the first error of the other rank, then at "
        "NCCL_SOCKET_IFNAME and firewalls."
    )


def _timeout(outline: Outline, warned: Warned) -> str:
    peer = found_in(r"[Cc]onnect to (\S+?)[<\s]", warned, "the other rank")
    return (
        f"A rank{on(warned)} never reached {peer}: the TCP connection{_interface(outline)} timed out; check that all "
        "machines can reach each other on that interface (firewall, routing), or name the right one by "
        "NCCL_SOCKET_IFNAME."
    )


def _connect(outline: Outline, warned: Warned) -> str:
    peer = found_in(r"[Cc]onnect to (\S+?)[<\s]", warned, "another rank")
    text = found_in(r"failed : (.+)$", warned) or found_in(r"\(([A-Z][\w ]+)\)", warned)
    return (
        f"A connection to {peer} failed{on(warned)}{f' ({text})' if text else ''}; look for the first error of the "
        "rank there, and check with NCCL_SOCKET_IFNAME that all nodes use an interface that the others can reach."
    )


def _no_interface(outline: Outline, warned: Warned) -> str:
    wanted = outline.facts.overrides.get("NCCL_SOCKET_IFNAME")
    named = f" NCCL_SOCKET_IFNAME={wanted} names none that is there;" if wanted else ""
    return (
        f"NCCL found no network interface to start with{on(warned)};{named} see `ip -br addr` for what there is and "
        "set NCCL_SOCKET_IFNAME to one that is up."
    )


def _closed(outline: Outline, warned: Warned) -> str:
    peer = found_in(r"(?:remote peer|recv from|closed by peer) \[?([^\s<\]]+)", warned)
    return (
        f"A rank{on(warned)} lost its connection{f' to {peer}' if peer else ''} because the process there has ended "
        "or was killed; this only follows: look for the first error among the ranks of the other host."
    )


def _proxy(outline: Outline, warned: Warned) -> str:
    rank = found_in(r"from rank (\d+)", warned)
    operation = found_in(r"execute operation (\w+)", warned).lower()
    what = f"rank {rank}'s {operation or 'request'} failed" if rank else "a request to it failed"
    if outline.network == "Socket" and "NET" in outline.families:
        no_card = outline.facts.announced.get("IB") is False
        names = ", ".join(outline.facts.interfaces[:4])
        first = "No InfiniBand card was found, so the machines talk by TCP" if no_card else "The machines talk by TCP"
        return (
            f"{first}{f' over {names}' if names else ''}, and {what}; check that every one of these interfaces "
            "reaches its counterpart, or name the good ones by "
            f"NCCL_SOCKET_IFNAME{', and install the driver if there is an InfiniBand card' if no_card else ''}."
        )
    return (
        f"NCCL's proxy, the helper thread that sets up connections, gave up{on(warned)} ({what}); this mostly "
        "follows from an earlier error of this or another rank: look for the first warning of all ranks, with "
        "NCCL_DEBUG=INFO if it is not shown."
    )


def _mismatch(outline: Outline, warned: Warned) -> str:
    sizes = re.search(r"local size (\d+) remote size (\d+)|receiv(?:ed|ing) (\d+) bytes instead of (\d+)", warned.line)
    found = [number for number in (sizes.groups() if sizes else ()) if number]
    how = f" ({found[0]} against {found[1]} bytes)" if len(found) == 2 else ""
    if warned.cause == "calls":
        how = f" ({warned.line})"
    return (
        f"Two ranks entered the same collective with different calls or sizes{how}, so they run different code, "
        "tensor shapes or NCCL settings; check that every node has the same program, data shapes, NCCL version and "
        "NCCL_* variables."
    )


def _ib_create(outline: Outline, warned: Warned) -> str:
    what = "a completion queue" if warned.kind == "ib_cq_create_failed" else "a queue pair"
    gdr = (
        ", and note that GPUDirect RDMA is not in use"
        if outline.links and not any("GDRDMA" in link.transport for link in outline.links) and "NET" in outline.families
        else ""
    )
    return (
        f"The InfiniBand/RoCE driver refused to create {what}{on(warned)}, nearly always because the limit of locked "
        "memory is too low for the process; raise memlock (`ulimit -l`) to unlimited where the job really runs "
        f"(service, Slurm step, container){gdr}."
    )


def _ib_modify(outline: Outline, warned: Warned) -> str:
    return (
        f"An InfiniBand/RoCE queue pair could not be brought up{on(warned)}: the two NICs do not reach each other; "
        "check link state, that all nodes use the same fabric (NCCL_IB_HCA), and on RoCE the GID index "
        "(NCCL_IB_GID_INDEX)."
    )


def _ib_completion(outline: Outline, warned: Warned) -> str:
    status = found_in(r"(?:status=|with error )\(?([\w()]+)", warned)
    peer = found_in(r"from peer (\S+?)[<\s]", warned)
    retry = (
        " (retries exhausted: the peer is gone or the fabric loses packets)"
        if status.startswith("12") or "RETRY" in status
        else ""
    )
    return (
        f"An InfiniBand/RoCE transfer{on(warned)}{f' with {peer}' if peer else ''} failed with status "
        f"{status or 'unknown'}{retry}; look for the first error of the peer, check cables and link errors (ibstat, "
        "perfquery) and the GID index on RoCE, and raise NCCL_IB_TIMEOUT only if the fabric is known to be slow."
    )


def _ib_port(outline: Outline, warned: Warned) -> str:
    event = found_in(r"async (?:error |fatal )?event ?:? ?(.+)$", warned)
    nic = found_in(r"NET/IB : ([\w.]+:\d+)", warned)
    return (
        f"A network card reported an event of its port{on(warned)}{f' ({nic}: {event})' if event else ''}: the link "
        "went down, changed or failed over; check cable, switch port and `ibstat` or `ip link`, and the kernel log "
        "of that node."
    )


def _ofi(outline: Outline, warned: Warned) -> str:
    text = found_in(r"NET/OFI (.{1,160})", warned)
    return (
        f"The libfabric plugin (NET/OFI, as for AWS EFA) reported an error{on(warned)}: "
        f"{text.rstrip('.') or 'no text'}; check that the security group lets all traffic of the group itself "
        "through, and that EFA driver, libfabric and aws-ofi-nccl fit each other."
    )


def _pci(outline: Outline, warned: Warned) -> str:
    path = found_in(r"real path of (\S+)", warned)
    return (
        f"NCCL could not resolve the PCI path of a device in /sys{on(warned)}{f' ({path})' if path else ''}, as "
        "under WSL2 or in containers and virtual machines that do not show it; take a newer NCCL, mount /sys, or "
        "give the topology by NCCL_TOPO_FILE."
    )


SENTENCES: dict[str, Sentence] = {
    "socket_no_route": _no_route,
    "socket_connect_refused": _refused,
    "socket_timeout": _timeout,
    "socket_connect_failed": _connect,
    "no_interface": _no_interface,
    "closed": _closed,
    "proxy": _proxy,
    "mismatch": _mismatch,
    "calls": _mismatch,
    "ib_create": _ib_create,
    "ib_modify": _ib_modify,
    "ib_completion": _ib_completion,
    "ib_port": _ib_port,
    "ib_port,told": _ib_port,
    "ofi": _ofi,
    "pci_path": _pci,
}
