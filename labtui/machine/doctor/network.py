"""Which network interfaces NCCL and gloo would take, whether the host's name leads anywhere, and RDMA.

Within one machine little of it matters; between machines it is what fails first.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from labtui.machine.doctor.finding import Finding, listed
from labtui.machine.host import ROOT, read_text

RESOLVING_S = 0.5
"""Waiting for the host's own name; a machine whose name server is away takes many seconds."""

_GUIDE = "NCCL user guide, Networking troubleshooting"
_LEFT_OUT = ("docker", "lo", "virbr")
"""What NCCL takes only where there is nothing else; older versions don't know virbr."""
_VIRTUAL = (
    "veth", "br-", "docker", "virbr", "cni", "cali", "flannel", "vnet", "tap", "tun", "wg", "tailscale", "zt", "lxc",
    "lxd", "podman", "kube", "dummy", "nerdctl",
)  # fmt: skip
"""How interfaces of containers, virtual machines and tunnels are mostly called."""
_UP = 0x1
_ROUTE_FIELDS = 4


# Interfaces ---------------------------------------------------------------------------------------------------------


def existing(root: Path = ROOT) -> list[str]:
    """All network interfaces of our network namespace, in the order of their numbers."""
    lines = (read_text(root / "proc/net/dev") or "").splitlines()[2:]
    names = [line.rpartition(":")[0].strip() for line in lines if ":" in line]
    numbers = {name: (read_text(root / "sys/class/net" / name / "ifindex") or "").strip() for name in names}
    return sorted(names, key=lambda name: int(numbers[name]) if numbers[name].isdecimal() else 1 << 30)


def interfaces(root: Path = ROOT) -> list[str]:
    """Those that are up and have an address, `lo` among them."""
    with_address = _with_address(root)
    up = []
    for name in existing(root):
        folder = root / "sys/class/net" / name
        flags = read_text(folder / "flags")
        # `operstate` is "unknown" for many virtual ones, and "down" for those that are up without a cable.
        down = (read_text(folder / "operstate") or "").strip() == "down"
        if (flags is None or _hex(flags) & _UP) and not down and (name in with_address or name == "lo"):
            up.append(name)
    return up


def _hex(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _with_address(root: Path) -> set[str]:
    """Interfaces with an IPv4 route of their own, or an IPv6 address; the kernel lists IPv4 addresses nowhere."""
    routes = (line.split() for line in (read_text(root / "proc/net/route") or "").splitlines()[1:])
    addresses = (line.split() for line in (read_text(root / "proc/net/if_inet6") or "").splitlines())
    return {fields[0] for fields in routes if len(fields) > _ROUTE_FIELDS} | {
        fields[-1] for fields in addresses if fields
    }


def _default(root: Path) -> str | None:
    """The interface of the default route."""
    for line in (read_text(root / "proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            return fields[0]
    return None


def chosen(up: Iterable[str], setting: str = "") -> list[str]:
    """What NCCL takes of the interfaces that are up; `setting` is NCCL_SOCKET_IFNAME.

    By its rules: prefixes, `=` for whole names, `^` for what to leave out. Without a setting: those that begin with
    ib, else all but docker, lo and virbr, else those.
    """
    up = list(up)
    if len(setting) > 1:
        return _matching(up, setting)
    for rule in ("ib", "^" + ",".join(_LEFT_OUT), *_LEFT_OUT):
        matching = _matching(up, rule)
        if matching:
            return matching
    return []


def _matching(up: list[str], rule: str) -> list[str]:
    without = rule.startswith("^")
    rule = rule[1:] if without else rule
    whole = rule.startswith("=")
    words = [word for word in (rule[1:] if whole else rule).split(",") if word]
    return [
        name for name in up if any(name == word if whole else name.startswith(word) for word in words) is not without
    ]


def nccl_interfaces(environ: Mapping[str, str], gpus: int, root: Path = ROOT) -> Finding | None:
    """What NCCL would take; None where there is no GPU, or the interfaces can't be read."""
    up = interfaces(root)
    if not gpus or not up:
        return None
    setting = environ.get("NCCL_SOCKET_IFNAME", "")
    taken = chosen(up, setting)
    if not taken:
        there = chosen(existing(root), setting)
        return Finding(
            "NCCL's interfaces",
            "warn" if there else "fail",
            f"NCCL_SOCKET_IFNAME={setting} fits {listed(there)}, down or without an address"
            if there
            else f"NCCL_SOCKET_IFNAME={setting} fits none of {listed(up)}",
            "NCCL stops at the start: no socket interface found",
            "unset NCCL_SOCKET_IFNAME, or name another interface of this machine",
        )
    if setting:
        return Finding("NCCL's interfaces", "ok", f"{listed(taken)}, by NCCL_SOCKET_IFNAME={setting}")
    virtual = [name for name in taken if name.startswith(_VIRTUAL)]
    if not virtual:
        return Finding("NCCL's interfaces", "ok", listed(taken))
    default = _default(root)
    better = f"NCCL_SOCKET_IFNAME=={default}" if default else "NCCL_SOCKET_IFNAME=^lo,docker,virbr,veth,br-"
    return Finding(
        "NCCL's interfaces",
        "warn" if len(virtual) > len(taken) - len(virtual) else "note",
        f"{listed(taken)}: {len(virtual)} of {len(taken)} look virtual, and NCCL_SOCKET_IFNAME is not set",
        "NCCL takes all of these for talking to other machines, and fails or hangs on those that don't lead there "
        f"({_GUIDE}); within one machine any will do",
        f"for runs over several machines: {better}",
    )


def gloo_interfaces(environ: Mapping[str, str], root: Path = ROOT) -> Finding | None:
    """Whether GLOO_SOCKET_IFNAME names interfaces of this machine; None where it isn't set."""
    setting = environ.get("GLOO_SOCKET_IFNAME", "")
    if not setting:
        return None
    up, there = interfaces(root), existing(root)
    missing = [name for name in setting.split(",") if name not in up]
    if up and missing:
        return Finding(
            "gloo's interface",
            "fail" if any(name not in there for name in missing) else "warn",
            f"GLOO_SOCKET_IFNAME={setting}; up, with an address, are {listed(up)}",
            f"gloo stops at the start: unable to find address for: {missing[0]} (it takes whole names only)",
            "unset GLOO_SOCKET_IFNAME, or name another interface of this machine",
        )
    return Finding("gloo's interface", "ok", f"{setting}, by GLOO_SOCKET_IFNAME")


# The host's name ----------------------------------------------------------------------------------------------------


def _addresses(name: str) -> list[str]:
    return list(dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(name, None)))


def host_name(
    environ: Mapping[str, str],
    name: str | None = None,
    resolve: Callable[[str], list[str]] = _addresses,
    wait_s: float = RESOLVING_S,
) -> Finding:
    """Where the host's own name leads: gloo binds to it where GLOO_SOCKET_IFNAME isn't set."""
    name = socket.gethostname() if name is None else name
    told: list[list[str] | OSError | UnicodeError] = []

    def ask() -> None:
        try:
            told.append(resolve(name))
        except (OSError, UnicodeError) as error:
            told.append(error)

    started = time.monotonic()
    asking = threading.Thread(target=ask, name="resolve", daemon=True)
    asking.start()
    asking.join(wait_s)
    if not told:
        return Finding(
            "host name",
            "warn",
            f"{name} is not resolved within {time.monotonic() - started:.1f} s",
            "torchrun and gloo ask for it, each rank anew: every start waits for as long as that takes",
            f"give it an address in /etc/hosts: 127.0.1.1 {name}",
        )
    answer = told[0]
    matters = "" if environ.get("GLOO_SOCKET_IFNAME") else "gloo takes the address of this name"
    if isinstance(answer, list) and answer and not all(_loopback(address) for address in answer):
        return Finding("host name", "ok", f"{name} is {listed(answer, 3)}", matters)
    found = f"{name} is {listed(answer, 3)}" if isinstance(answer, list) and answer else f"{name} has no address"
    if not matters:
        return Finding("host name", "ok", f"{found}; GLOO_SOCKET_IFNAME tells gloo what to take")
    return Finding(
        "host name",
        "note",
        found,
        f"{matters}, else the loopback address: fine within one machine; ranks on others can't reach it",
        "for runs over several machines: GLOO_SOCKET_IFNAME=INTERFACE",
    )


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


# RDMA ---------------------------------------------------------------------------------------------------------------


def rdma_devices(root: Path = ROOT) -> list[str]:
    """InfiniBand and RoCE devices, by name."""
    try:
        return sorted(os.listdir(root / "sys/class/infiniband"))
    except OSError:
        return []


def rdma(environ: Mapping[str, str], gpus: int, root: Path = ROOT) -> list[Finding]:
    """The state of RDMA devices, and whether GPUs may use them directly. Nothing where there are none."""
    devices = rdma_devices(root)
    if not devices:
        return []
    states = {device: _port_states(root / "sys/class/infiniband" / device) for device in devices}
    active = [device for device, ports in states.items() if "ACTIVE" in ports]
    found = listed(f"{device} ({', '.join(states[device]) or 'no port'})" for device in devices)
    if environ.get("NCCL_IB_DISABLE", "0").strip() not in ("", "0"):
        why, advice = "NCCL_IB_DISABLE keeps NCCL from them: machines talk over TCP", "unset it"
    elif not active:
        why, advice = "no port is active: NCCL talks over TCP between machines", "ibstat; the cable"
    else:
        why = advice = ""
    findings = [Finding("RDMA", "note" if why else "ok", found, why, advice)]
    if gpus and active:
        findings.append(_gpu_direct(root))
    return findings


def _port_states(device: Path) -> list[str]:
    """`ACTIVE`, `DOWN` ..., one a port; the file says `4: ACTIVE`."""
    try:
        ports = sorted(os.listdir(device / "ports"))
    except OSError:
        return []
    texts = (read_text(device / "ports" / port / "state") or "" for port in ports)
    return [text.rpartition(":")[2].strip() or "unknown" for text in texts]


def _gpu_direct(root: Path) -> Finding:
    module = next((name for name in ("nvidia_peermem", "nv_peer_mem") if (root / "sys/module" / name).is_dir()), None)
    if module is not None:
        return Finding("GPUDirect RDMA", "ok", f"{module} is loaded")
    if re.search(r"Open Kernel Module", read_text(root / "proc/driver/nvidia/version") or ""):
        return Finding(
            "GPUDirect RDMA", "ok", "no nvidia_peermem; NVIDIA's open driver does without (DMA-BUF), from Linux 5.12 on"
        )
    return Finding(
        "GPUDirect RDMA",
        "warn",
        "nvidia_peermem is not loaded",
        "without it each byte between a GPU and another machine goes through host memory",
        "modprobe nvidia-peermem, as root after each boot",
    )
