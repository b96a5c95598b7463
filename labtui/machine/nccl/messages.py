"""What NCCL's information lines mean: each message is taken into the facts by the word that it begins with.

Knows what messages say, not where in a line they stand (`reader`) nor what follows from all of them (`report`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from enum import Enum

from labtui.machine.nccl import grammar, graphs
from labtui.machine.nccl.calls import Call
from labtui.machine.nccl.facts import Facts, Origin, room
from labtui.machine.nccl.problems import Finding

Handler = Callable[[Facts, Origin, bytes], None]

MOST_SETTINGS = 1000
LONGEST_VALUE = 4096
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_NO_P2P = Finding("p2p_unavailable", "p2p_unavailable")
_PORT = Finding("ib_port_failed", "ib_port,told")
_BEGINNINGS = tuple(b"Bootstrap NET cudaDriverVersion ENV Using NCCL RCCL ROCr".split())
"""First words of a start."""


class Telling(Enum):
    """How often a message tells something."""

    NEVER = 0
    ONCE = 1
    """To be told it again by the same origin changes nothing."""
    ALWAYS = 2


def take(facts: Facts, origin: Origin, message: bytes) -> Telling:
    """Takes one information message into the facts; counts it as unknown if nothing is known of it."""
    facts.taken += 1
    if facts.taken <= 20 and not facts.began and message.startswith(_BEGINNINGS):
        facts.began = True
    if b"rccl" in message or b"RCCL" in message:
        facts.rccl = True
    word = message.split(b" ", 1)[0]
    handler = _HANDLERS.get(word)
    if handler is not None:
        handler(facts, origin, message)
        return Telling.ALWAYS if word in _COUNTED and (b">" in message or word in _REFUSED) else Telling.ONCE
    if b".cc:" in word or word in _KNOWN:
        return Telling.NEVER
    if b" via " in message and graphs.connections(facts, origin, message):
        return Telling.ALWAYS
    if b" set by environment to " in message:
        _override(facts, origin, message)
    elif word[:1].isdigit() and b" coll channels" in message:
        graphs.channel_count(facts, origin, message)
    elif b" Bytes -> Algo " in message:
        _choice(facts, message)
        return Telling.ALWAYS
    elif b": opCount " in message:
        _call(facts, origin, message)
        return Telling.ALWAYS
    elif word.startswith(b"NET/"):
        _net(facts, origin, message)
        return Telling.ALWAYS if b"async" in message else Telling.ONCE
    elif b" nranks " in message or b"nRanks" in message:
        _communicator(facts, origin, message)
    elif (
        word.rstrip(b":") in _KNOWN or word.startswith(_KNOWN_BEGINNINGS) or not word or grammar.RETURNED.match(message)
    ):
        return Telling.NEVER
    else:
        facts.puzzle(message)
        return Telling.ALWAYS
    return Telling.ONCE


def version(facts: Facts, text: bytes) -> None:
    """The first version that is named, and whether it is AMD's library."""
    match = grammar.VERSION.search(text)
    if match:
        facts.rccl = facts.rccl or match[1] == b"RCCL"
        if facts.version is None:
            facts.version = match[2].decode()


def _override(facts: Facts, origin: Origin, message: bytes) -> None:
    for name, value in grammar.OVERRIDE.findall(message):
        value = re.sub(rb"\s{1,99}\([^()]{0,200}pid=[^()]{0,200}\)\s*$", b"", value[:LONGEST_VALUE]).strip()
        text = value.removesuffix(b".").decode(errors="replace")
        key = name.decode()
        if facts.overrides.setdefault(key, text) != text:
            facts.disputed.add(key)
        if len(facts.overrides) > MOST_SETTINGS:
            facts.overrides.popitem()


def _communicator(facts: Facts, origin: Origin, message: bytes) -> None:
    for rank, size in grammar.COMMUNICATOR.findall(message):
        origin.size = int(size)
        facts.largest = max(facts.largest, origin.size)
        if not room(origin.ranks, origin.size):
            continue
        origin.ranks.setdefault(origin.size, int(rank))
        if b"Init COMPLETE" in message:
            origin.completed.add(origin.size)
        elif b"Init START" in message:
            origin.started.add(origin.size)
    for size, nodes in grammar.NODES.findall(message):
        if room(facts.nodes, int(size)):
            facts.nodes.setdefault(int(size), int(nodes))
    facts.mnnvl = facts.mnnvl or message.rstrip().endswith(b"MNNVL 1")


def _connected(facts: Facts, origin: Origin, message: bytes) -> None:
    graphs.note_size(facts, origin, message)
    if b"all rings" in message:
        origin.rings += 1
        if b" GDR " in message:
            facts.gdr = b" GDR 1" in message
    elif b"trees" in message:
        origin.trees += 1


def _using(facts: Facts, origin: Origin, message: bytes) -> None:
    match = grammar.NETWORK.search(message)
    if match:
        _count(facts.networks, match[1].strip())


def _count(names: Counter[str], name: bytes) -> None:
    text = name.decode(errors="replace")
    if room(names, text):
        names[text] += 1


def _plugin(facts: Facts, origin: Origin, message: bytes) -> None:
    match = re.search(rb"(?:Initialized|Assigned) NET plugin (\S.{0,60}?)(?: to comm.*)?$", message)
    if match:
        _count(facts.plugins, match[1])


def _net(facts: Facts, origin: Origin, message: bytes) -> None:
    name = re.match(rb"NET/([^\s:]{1,40})", message)
    if name is None or name[1] == b"Plugin":
        return
    if b" set by environment to " in message:
        _override(facts, origin, message)
    if b"async" in message and b"event" in message:
        facts.note(_PORT, message, origin.host)
    text = name[1].decode(errors="replace")
    if not room(facts.announced, text):
        return
    if b"No device found" in message or b"No IP interface" in message:
        facts.announced.setdefault(text, False)
    elif (
        b"Using" in message
        or b"Selected" in message
        or b"interfaces found" in message
        or b"elected provider" in message
        or b": [" in message
    ):
        found = b"Using [RO]" not in message and b"Using ;" not in message and b"sideband" not in message
        facts.announced[text] = facts.announced.get(text, False) or found
        _interfaces(facts, message)


def _interfaces(facts: Facts, message: bytes) -> None:
    names = tuple(name.decode() for name in grammar.INTERFACE.findall(message.partition(b"OOB")[0]))
    if len(names) > len(facts.interfaces) and b"NET/IB" not in message:
        facts.interfaces = names


def _bootstrap(facts: Facts, origin: Origin, message: bytes) -> None:
    _interfaces(facts, message)


def _no_peer_access(facts: Facts, origin: Origin, message: bytes) -> None:
    if (
        b"P2P between" in message
        or b"peer query failed" in message
        or b"P2P is disabled" in message
        or b"P2P not supp" in message
    ):
        facts.note(_NO_P2P, message, origin.host)


def _nvls(facts: Facts, origin: Origin, message: bytes) -> None:
    facts.nvls = facts.nvls or b"multicast support is available" in message


def _limit(facts: Facts, origin: Origin, message: bytes) -> None:
    match = grammar.SHARED_MEMORY_LIMIT.search(message)
    if match:
        facts.memory_limit = (int(match[1]), int(match[2]))


def _fabric(facts: Facts, origin: Origin, message: bytes) -> None:
    facts.mnnvl = facts.mnnvl or message.startswith(b"MNNVL 1 ")


def _amd(facts: Facts, origin: Origin, message: bytes) -> None:
    facts.rccl = True


def _version(facts: Facts, origin: Origin, message: bytes) -> None:
    version(facts, message)


def _choice(facts: Facts, message: bytes) -> None:
    match = grammar.CHOICE.search(message)
    if match:
        name, size, algorithm, protocol = match.groups()
        key = (name.decode(), _name(algorithm, _ALGORITHMS), _name(protocol, _PROTOCOLS))
    else:
        by_number = grammar.CHOICE_BY_NUMBER.search(message)
        if by_number is None:
            return
        size = by_number[1]
        key = ("", _name(by_number[2], _ALGORITHMS), _name(by_number[3], _PROTOCOLS))
    number = int(size)
    seen = facts.choices.get(key)
    if seen is None:
        if len(facts.choices) < MOST_SETTINGS:
            facts.choices[key] = [1, number, number]
    else:
        seen[:] = seen[0] + 1, min(seen[1], number), max(seen[2], number)


def _name(text: bytes, names: tuple[str, ...]) -> str:
    if text.isdigit() and int(text) < len(names):
        return names[int(text)]
    return text.decode(errors="replace").upper()


def _call(facts: Facts, origin: Origin, message: bytes) -> None:
    match = grammar.CALL.search(message)
    if match:
        name, operation, count, datatype, op, root, communicator, size = match.groups()
        origin.size = int(size)
        facts.largest = max(facts.largest, origin.size)
        call = Call(name.decode(), int(count), int(datatype), int(op), int(root))
        facts.calls.add(origin, communicator.decode(), origin.size, int(operation, 16), call)


_HANDLERS: dict[bytes, Handler] = {
    b"Channel": graphs.channel,
    b"Ring": graphs.ring,
    b"Trees": graphs.trees,
    b"Tree": graphs.tree_step,
    b"CollNet": graphs.channel,
    b"Coll": graphs.channel,
    b"comm": _communicator,
    b"rank": _communicator,
    b"[Rank": _communicator,
    b"Init": _communicator,
    b"MNNVL": _fabric,
    b"ROCr": _amd,
    b"HIP": _amd,
    b"Connected": _connected,
    b"Using": _using,
    b"Initialized": _plugin,
    b"Assigned": _plugin,
    b"Bootstrap": _bootstrap,
    b"Bootstrap:": _bootstrap,
    b"NET": _bootstrap,
    b"Could": _no_peer_access,
    b"peer": _no_peer_access,
    b"P2P": _no_peer_access,
    b"NVLS": _nvls,
    b"ncclMaxSharedMem": _limit,
    b"NCCL": _version,
    b"RCCL": _version,
}

_REFUSED = frozenset((b"Could", b"peer", b"P2P", b"CollNet", b"Coll"))
_COUNTED = _REFUSED | {b"Channel", b"Ring"}
"""First words of messages of which each line counts: what is refused, and connections (those with an arrow)."""
_KNOWN = frozenset(
    (
        b"threadThresholds Setting cudaDriverVersion Launch Check RAS ENV/Plugin TUNER/Plugin PROFILER/Plugin "
        b"GIN/Plugin RMA/Plugin Plugin Successfully Failed Comm CUDA Latency/AlgBw Max/Avg ncclTopoGetCpuAffinity "
        b"Socket Loaded DMA-BUF GPU Pattern Intel AMD ARM IBM NVLink PXN Enabled Allocated Duplicating proxy Proxy "
        b"Call Could include Topology TOPO/NET === ========================================== + CPU Trying Attribute "
        b"New Opened Dmabuf Kernel Skipping Adding Local Rank CUMEM UDS CC Max Dev Loading Unloading Bcast "
        b"Broadcast AllReduce AllGather Reduce ReduceScatter Register IPC timings bootstrap GDRCOPY GDRDMA Tuning "
        b"Child Dump Mem Message MSCCL Hipify Libnccl Librccl [Proxy [Service [Async hipDeviceAttribute "
        b"initAdapter Disabled Env Detected No [MSCCL NUMA enable Group"
    ).split()
)
"""First words of messages that are known, and of no use here."""
_KNOWN_BEGINNINGS = tuple(b"CPU/ GPU/ PCI/ NIC/ NET/ NVS/ NCCL_ RCCL_ /sys/ ==== nccl hip".split())
