"""A shaped link: network namespaces with token buckets, in which a laptop's ranks feel a link of a known rate.

    python -P -m labtui.machine.link MODEL RATE RANKS -- COMMAND ...

lays the link out, then becomes COMMAND (same pid). Two models:

per_rank  Each rank has a namespace, joined by a bridge in the command's own: full duplex, the rate in each direction.
          Ranks enter theirs themselves (`python -m labtui.bench.enter`), as LABTUI_LINK_RANKS tells them.
bus       The command and all ranks share one namespace, and its loopback's rate.

Without root this happens in a user namespace. Nothing of it has a name or a process of its own: it goes with the
command and its ranks. Inside there is no other network, so nothing can be downloaded. Knows no runs and no torch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

from labtui.machine import netns
from labtui.machine.netns import LIMIT_REACHED, Namespace, NamespaceError

PER_RANK, BUS = "per_rank", "bus"
SLOWEST, FASTEST = 1e6, 100e9

_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_NETWORK = "198.18"
"""The first half of all addresses. It is set aside for measurements (RFC 2544): no real name server lies there, which
ranks would take to be near and wait for."""
_INTERFACE = "eth0"
_TOOLS_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""ip and tc are for administrators: they may lie where users' PATH does not look."""
_REFUSAL = "a shaped link can't be had here: "
_FRAME = 62_500
"""Bytes of a frame, half a millisecond at 1 Gbit/s.

Large, so that headers and acknowledgements are nothing beside the data, and few cores keep up: with Ethernet's usual
1500 bytes they took 5 % of the rate, and two busy cores reached a third of 1 Gbit/s.
"""
_HEADER = 64
"""Bytes by which a frame with its Ethernet header may be longer than what IP puts in it, and more than enough."""
_TOOL_TIMEOUT_S, _ATTEMPT_TIMEOUT_S = 10.0, 20.0
_FREED_S = 2.0


class LinkError(ValueError):
    """A link can't be had, or is asked for in words that can't be understood. The message is one sentence."""


@dataclass(frozen=True)
class Link:
    """A link as run.json has it."""

    rate_bits: float
    """Bits per second: of each rank in each direction, or of all ranks together on a bus."""
    model: str
    """"per_rank" or "bus"."""
    why: str = ""
    """Why it is a bus, where a rate per rank could not be had."""

    def document(self) -> dict[str, float | str]:
        """As JSON data."""
        return {"rate_bits": self.rate_bits, "model": self.model, **({"why": self.why} if self.why else {})}


def parse_rate(text: str) -> float:
    """Bits per second of a rate such as "1gbit", "2.5gbit" or "100mbit". Raises LinkError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmg]bit)(?:/s)?", text.strip().lower())
    rate = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not SLOWEST <= rate <= FASTEST:
        raise LinkError(f"link {text!r}: a rate in bits per second from 1mbit to 100gbit expected, such as 1gbit")
    return rate


def rate_text(rate_bits: float) -> str:
    """A rate as `parse_rate` reads it: "1gbit", "2500mbit"."""
    unit, size = ("gbit", 1e9) if rate_bits >= 1e9 and rate_bits % 1e8 == 0 else ("mbit", 1e6)
    return f"{rate_bits / size:.12g}{unit}"


def find(rate_bits: float, ranks: int) -> Link:
    """The best link of this rate that can be had here, found by laying it out for a moment (about 0.2 s).

    Raises LinkError, one sentence, where there is none at all.
    """
    refusal = _attempt(PER_RANK, rate_bits, ranks)
    if not refusal:
        return Link(rate_bits, PER_RANK)
    deadline = time.monotonic() + _FREED_S
    while True:
        try:
            return find_bus(rate_bits, refusal)
        except LinkError as error:
            # The kernel frees the namespaces of the first attempt a moment after their processes have ended.
            if LIMIT_REACHED not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def find_bus(rate_bits: float, why: str) -> Link:
    """A bus, for the reason given, if that can be had here. Raises LinkError."""
    refusal = _attempt(BUS, rate_bits, 1)
    if refusal:
        raise LinkError(f"{_REFUSAL}{refusal}")
    return Link(rate_bits, BUS, why)


def prefix(link: Link, ranks: int) -> tuple[str, ...]:
    """What to put before a command so that it runs on the link.

    It becomes that command, or ends with 1 and one line on stderr: "labtui: " and a sentence.
    """
    return (
        sys.executable, "-P", "-m", "labtui.machine.link", link.model, f"{link.rate_bits:.0f}", str(ranks), "--"
    )  # fmt: skip


def _attempt(model: str, rate_bits: float, ranks: int) -> str:
    """Why such a link can't be had; empty if it can. Not in this process, which would stay in the namespace."""
    try:
        done = subprocess.run(
            [*prefix(Link(rate_bits, model), ranks), "true"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ATTEMPT_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"laying it out took more than {_ATTEMPT_TIMEOUT_S:g} s"
    if done.returncode == 0:
        return ""
    words = done.stderr.strip().splitlines()[-1:] or [f"laying it out ended with code {done.returncode}"]
    return words[0].removeprefix(f"labtui: {_REFUSAL}")


# Laying it out, in a process that then becomes the command ---------------------------------------------------------


def lay_out(link: Link, ranks: int) -> dict[str, str]:
    """Moves this process onto the link and returns what the command's environment must say. Raises LinkError."""
    try:
        hub = netns.create()
        about = json.dumps(link.document())
        if link.model == BUS:
            _ip(f"link set lo mtu {_FRAME} gso_max_size {_FRAME}", "link set lo up")
            _tc(_bucket("lo", link.rate_bits))
            return {"LABTUI_LINK": about, "GLOO_SOCKET_IFNAME": "lo"}
        places = [_lay_out_rank(link.rate_bits, rank, hub) for rank in range(ranks)]
        hub.enter()
    except NamespaceError as error:
        raise LinkError(f"{_REFUSAL}the system refuses a network namespace ({error})") from None
    ports = [f"rank{rank}" for rank in range(ranks)]
    _ip(
        "link set lo up", "link add hub type bridge", "link set hub addrgenmode none", "link set hub up",
        *(f"link set {port} addrgenmode none" for port in ports),
        *(f"link set {port} master hub up" for port in ports),
    )  # fmt: skip
    # What a rank receives leaves the hub through its port.
    _tc(*(_bucket(port, link.rate_bits) for port in ports))
    for namespace, _ in places:
        namespace.survive_exec()
    told = [{"namespace": namespace.path, "address": address} for namespace, address in places]
    return {"LABTUI_LINK": about, "LABTUI_LINK_RANKS": json.dumps(told), "GLOO_SOCKET_IFNAME": _INTERFACE}


def _lay_out_rank(rate_bits: float, rank: int, hub: Namespace) -> tuple[Namespace, str]:
    """A rank's namespace, in which this process then is, with one interface, whose other end is in the hub."""
    namespace = netns.create()
    address = f"{_NETWORK}.{(rank + 1) // 256}.{(rank + 1) % 256}"
    _ip(
        "link set lo up",
        f"link add {_INTERFACE} mtu {_FRAME} type veth peer name rank{rank} mtu {_FRAME} netns {hub.path}",
        # No larger packets between TCP and the bucket, which would cut them up; no IPv6, of which gloo might take hold.
        f"link set {_INTERFACE} gso_max_size {_FRAME}",
        f"link set {_INTERFACE} addrgenmode none",
        f"address add {address}/16 dev {_INTERFACE}",
        f"link set {_INTERFACE} up",
    )
    _tc(_bucket(_INTERFACE, rate_bits))
    return namespace, address


def _bucket(interface: str, rate_bits: float) -> str:
    """The token bucket of one direction: what comes too fast waits, and nothing is dropped.

    It holds three frames, or 1.5 ms, so that the time which a late timer loses is gained back: with one frame an
    all-reduce of 64 MB took 2 % too long on two cores, with three below 1 %. What has been saved up in a pause is paid
    out at a tenth above the rate, or small messages would seem to be several times as fast as the link.
    """
    burst = max(3 * _FRAME, round(rate_bits / 8 * 1.5e-3))
    return (
        f"qdisc add dev {interface} root tbf rate {rate_bits:.0f}bit burst {burst} limit {64 << 20} "
        f"peakrate {1.1 * rate_bits:.0f}bit mtu {_FRAME + _HEADER}"
    )


def _ip(*lines: str) -> None:
    _tool("ip", lines)


def _tc(*lines: str) -> None:
    _tool("tc", lines)


def _tool(name: str, lines: tuple[str, ...]) -> None:
    """Runs a batch of ip's or tc's commands in the namespace where this process is. Raises LinkError."""
    path = shutil.which(name, path=_TOOLS_PATH)
    if path is None:
        raise LinkError(f"{_REFUSAL}the program {name} is missing (package iproute2 or iproute)")
    try:
        done = subprocess.run(
            [path, "-batch", "-"],
            input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinkError(f"{_REFUSAL}{name} failed: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        number = re.search(r"Command failed -:(\d+)", done.stderr)
        line = f"`{name} {lines[int(number[1]) - 1]}`" if number else name
        raise LinkError(f"{_REFUSAL}{line} failed: {said[0]}{netns.forbidding_settings()}")


def main(arguments: list[str]) -> int:
    """Becomes the command; returns 1 where it can't, 2 where the arguments are none."""
    try:
        model, rate_bits, ranks, _, *command = arguments
        link = Link(float(rate_bits), {PER_RANK: PER_RANK, BUS: BUS}[model])
        count = int(ranks)
    except (ValueError, KeyError):
        print(f"labtui: MODEL ({PER_RANK} or {BUS}), RATE in bit/s, RANKS, -- and a COMMAND expected", file=sys.stderr)
        return 2
    try:
        environment = lay_out(link, count)
        os.execvpe(command[0], command, {**os.environ, **environment})
    except LinkError as error:
        print(f"labtui: {error}", file=sys.stderr)
    except OSError as error:
        print(f"labtui: {command[0]} can't be started: {error.strerror}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
