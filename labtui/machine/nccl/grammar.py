"""What NCCL and RCCL print, as patterns over bytes, for every version from 2.2 on.

The formats were read off the format strings of NVIDIA's nccl (2.2 to 2.32) and AMD's rccl, in their public sources and
released libraries. Patterns say how a message looks; what it means for the job is said in `messages`.
All are bounded or anchored, so that no text, however odd, makes them slow.
"""

from __future__ import annotations

import re

# Where a message begins: host:pid:thread [device] file:line (function) NCCL LEVEL ... ---------------------------------

_HOST = rb"[^\s:()\[\]|\"'\x00]"
MARK = re.compile(rb"NCCL (INFO|WARN|ATTN|TRACE|CALL)(?: |$)")
MARK_2_2 = re.compile(rb"(?<=[\]\d] )(INFO|WARN) ")
"""NCCL 2.2 does not say its own name; only behind a whole head is this a mark."""

HEAD = re.compile(
    rb"(?:(?<!" + _HOST + rb")(" + _HOST + rb"{0,255}):(\d{1,10}):(\d{1,10}) )?\[(\d{1,4})\] "
    rb"(?:([^\s\[\]]{1,400}):\d{1,7} (?:\([^)\s]{1,200}\) )?)?$"
)
"""The end of what stands before a mark: host, pid, thread, device, and for warnings the file."""
FILE = re.compile(rb"(?:^|\s)([^\s\[\]]{1,400}):\d{1,7} (?:\([^)\s]{1,200}\) )?$")
"""The same where nothing but the file is left (logs whose heads were cut off)."""
HEAD_REACH = 700
"""Bytes before a mark in which its head is looked for."""

# Connections ----------------------------------------------------------------------------------------------------------

TRANSPORT = (
    rb"(P2P/(?:direct pointer|common device|IPC|CUMEM|MNNVL|indirect/\d{1,7}\[[0-9a-f]{1,16}\])(?:/read)?(?:/CE)?(?!/)"
    rb"|SHM/(?:direct|CE)(?:/(?:direct|CE))?(?!/)"
    rb"|direct shared memory"
    rb"|NET/[^/:()\[\]\r\n]{1,60}/\d{1,4}(?:\(\d{1,7}\))?(?:/GDRDMA(?:\(PCI\))?)?(?:/GDCopy)?"
    rb"(?:/flush=[A-Za-z]+)?(?:/Shared)?(?:/flush=[A-Za-z]+)?(?![/(\d]))"
)
"""A whole one: what is cut short matches nowhere."""
_PLACE = rb" ?(?:\[[0-9a-fx]{1,18}\])?"
CONNECTION = re.compile(
    rb"(?:(?:Channel|Ring) (\d{1,4})(?:/\d{1,4})? : )?(?<!\d)(\d{1,7})" + _PLACE + rb" -> (\d{1,7})" + _PLACE
    + rb" (?:\[(send|receive)\] )?via " + TRANSPORT
)  # fmt: skip
"""Wherever it stands in a line. Groups: channel, from, to, side, transport."""
USUAL_CONNECTION = re.compile(
    rb"(?:Channel|Ring) (\d{1,4})(?:/\d{1,4})? : (\d{1,7})(?:\[[0-9a-f]{1,16}\])? -> (\d{1,7})(?:\[[0-9a-f]{1,16}\])? "
    rb"(?:\[(send|receive)\] )?via " + TRANSPORT + rb"(?: comm 0x[0-9a-f]+ nRanks \d+)?"
)
"""The same for a whole message as it mostly comes, with the same groups: the quick way for long logs."""
COLLNET = re.compile(
    rb"Coll(?:Net)? (\d{1,4})(?:/\d{1,4})? : (\d{1,7}) \[(?:send|receive)\] via "
    rb"(COLLNET/[^/:()\[\]\r\n]{1,60})/\d{1,4}(/GDRDMA(?:\(PCI\))?)?(?![/(\d])"
)

# Communicators, rings, trees ------------------------------------------------------------------------------------------

COMMUNICATOR = re.compile(rb"\brank (\d{1,7}) n[rR]anks (\d{1,7})\b")
COMMUNICATOR_SIZE = re.compile(rb"\bcomm 0x[0-9a-f]{1,16} nRanks (\d{1,7})\b")
"""As RCCL adds it to every line of a communicator."""
NODES = re.compile(rb"\bnRanks (\d{1,7}) nNodes (\d{1,7})\b")
RING_ORDER = re.compile(rb"Channel (\d{1,4})(?:/(\d{1,4}))? :((?: +\d{1,7}(?=\s|$))+)(?! *->)")
RING_STEP = re.compile(rb"Ring (\d{1,4}) : (\d{1,7}) -> (\d{1,7}) -> (\d{1,7})\b")
TREE = re.compile(rb"\[(\d{1,4})\] (-?\d[-\d/]{0,40})->(\d{1,7})->(-?\d[-\d/]{0,40})")
TREE_STEP = re.compile(rb"Tree (\d{1,4}) : (-?\d{1,7}) -> (\d{1,7}) -> (-?\d{1,7}(?:/-?\d{1,7}){0,2})")
CHANNEL_COUNT = re.compile(rb"(\d{1,4}) coll channels")

# Settings and versions ------------------------------------------------------------------------------------------------

VERSION = re.compile(rb"\b(NCCL|RCCL) version {0,4}:? {0,4}(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]\d)")
VERSION_CODE = re.compile(rb"nccl-(?:library|headers)=(\d{4,6})\b")
"""nccl-tests name the library by its code: 22809 is 2.28.9."""
VERSION_OF_VLLM = re.compile(rb"nccl==(\d{1,3}\.\d{1,3}\.\d{1,3})")
OVERRIDE = re.compile(rb"\b([A-Z][A-Z0-9_]{2,80}) set by environment to (.*?)(?:\s{1,9}\[repeated .*)?$")
NETWORK = re.compile(rb"Using (?:internal |external )?[nN]etwork (.{1,80}?)(?:\s{1,9}\[repeated .*|\s{2}.*)?$")
INTERFACE = re.compile(rb"(?:\[\d{1,4}\]|Using |interface )([A-Za-z][\w.@-]{0,30}):[0-9a-fA-F]")
DEVICE_OF_TESTS = re.compile(
    rb"# +Rank +(\d{1,7})(?: +Group +\d+)? +Pid +(\d{1,10}) on +(\S+) +device +\d+ \[[^\]]*\] (.{1,80})"
)
"""nccl-tests' table of ranks: rank, pid, host, GPU."""
SHARED_MEMORY_LIMIT = re.compile(rb"ncclMaxSharedMem (\d+) exceeds device/fn maxSharedMem (\d+)")

# What is chosen and called --------------------------------------------------------------------------------------------

CHOICE = re.compile(rb"(\w{1,40}): (\d{1,18}) Bytes -> Algo (\w{1,24}) proto (\w{1,12})(?: time \d| channel|\b)")
CHOICE_BY_NUMBER = re.compile(rb"^(\d{1,18}) Bytes -> Algo (\d) proto (\d) time")
CALL = re.compile(
    rb"(\w{1,40}): opCount ([0-9a-f]{1,16}) sendbuff \S+ recvbuff \S+ count (\d{1,18}) datatype (\d{1,3}) "
    rb"op (\d{1,12}) root (-?\d{1,7}) comm (0x[0-9a-f]{1,16}) \[nranks=(\d{1,7})\]"
)
FAILURE = re.compile(rb"(?:Cuda|CUDA|HIP|Hip) failure:? (?:(\d{1,4}) )?'?([^'\n]{0,200})")
RETURNED = re.compile(rb"[\w./-]{1,300}:\d{1,7} -> \d{1,3}\b")
"""file:line -> result: the way an error took up the stack."""


def transport_name(text: bytes) -> str:
    """How a transport is called: without the network's device, PXN's proxy rank, and the GPU of an indirect path."""
    if text.startswith(b"NET/"):
        text = re.sub(rb"/flush=[A-Za-z]+", b"", text)
        text = re.sub(rb"^(NET/[^/]+)/\d+(?:\(\d+\))?", rb"\1", text)
    elif text.startswith(b"P2P/indirect/"):
        text = re.sub(rb"/\d+\[[0-9a-f]+\]", b"", text)
    return text.decode(errors="replace")


def version_tuple(version: str | None) -> tuple[int, ...]:
    """2.18.3 -> (2, 18, 3); () where it isn't known."""
    return tuple(int(part) for part in (version or "").split(".") if part.isdigit())


def version_of_code(code: int) -> str:
    """22809 -> 2.28.9; before 2.9 the code had a digit less (2804 is 2.8.4)."""
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
