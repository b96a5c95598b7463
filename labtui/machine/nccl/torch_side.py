"""What PyTorch prints around a failed job: its launcher, its store, its NCCL watchdog, and gloo.

Formats from PyTorch's c10d and elastic sources, 1.10 to 2.13. Knows nothing of NCCL's own lines and loads no torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from labtui.machine.nccl.problems import Finding, errno_kind

MANY = 4096
"""Ranks, children or collectives of which details are kept; more are only counted."""

_WATCHDOG = re.compile(
    rb"\[Rank (\d{1,7})\] Watchdog caught collective operation timeout: WorkNCCL\("
    rb"(?:SeqNum=(\d{1,18}), )?OpType=(\w{1,40}).{0,300}?Timeout\(ms\)=(\d{1,12})"
)
_AT_WORK = re.compile(
    rb"Rank (\d{1,7})\].{0,200}?(?:Timeout at NCCL work: |watchdog at work(?: sequence id)?: )(\d{1,18})"
)
_STUCK = (
    b"watchdog got stuck for",
    b"Heartbeat monitor timed out",
    b"Received a dump signal due to a collective timeout",
)
_EXIT = re.compile(rb"failed \(exitcode: (-?\d{1,5})\) local_rank: (\d{1,7}) \(pid: (\d{1,10})\)")
_RANK = re.compile(rb"^\W*rank +: (\d{1,7}) \(local_rank: \d{1,7}\)")
_CODE = re.compile(rb"^\W*exitcode +: (-?\d{1,5}) \(pid: \d{1,10}\)")
_ROOT = b"Root Cause (first observed failure)"
_BIND = re.compile(rb"bind to .{0,80}?:(\d{1,5})\b")
_JOINED = re.compile(
    rb"Timed out after \d{1,9} seconds waiting for (?:clients|workers)\. (\d{1,7})/(\d{1,7}) (?:clients|workers) joined"
)
_ENDPOINT = re.compile(rb"connect to (?:any network address of )?[\[(]?([^\s,\])]{1,120})[\]:, ]{1,3}(\d{1,5})")
_RENDEZVOUS = re.compile(
    rb"Rendezvous(?:Timeout|Closed)Error|\bRendezvousConnectionError: |endezvous (?:has )?timed out"
)
_GLOO_FAILED = re.compile(
    rb"Gloo connectFullMesh failed"
    rb"|gloo/transport/\S{1,80}\] (?:connect|.{0,60}?onnection refused|.{0,60}?No route to host)"
    rb"|gloo/\S{1,80}\] ?.{0,40}?(?:timed out connecting|rv != -1|Unable to find address)"
)
_GLOO_WAITED = re.compile(
    rb"Timed out waiting (\d{1,12})ms for (?:recv|send)|failed to pass monitoredBarrier|timed out in monitoredBarrier"
)
_SIGNALS = {
    b"-9": Finding("sigkill", "sigkill"),
    b"-7": Finding("sigbus", "sigbus"),
    b"-11": Finding("segfault", "segfault"),
}
_LOST_STORE = (
    b"sendBytes failed on",
    b"recvValue failed on",
    b"recvValueWithTimeout failed on",
    b"Connection was likely closed",
)


@dataclass
class Facts:
    """What was learned from PyTorch's side of the log so far."""

    spoke: bool = False
    """Whether there is any line of PyTorch's."""
    gloo: bool = False
    timeouts: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    """(sequence number or -1, collective) -> the ranks whose watchdog ran out."""
    timeout_ms: int = 0
    children: dict[int, int] = field(default_factory=dict)
    """local rank -> exit code, as the launcher saw them go."""
    root: tuple[int, int] | None = None
    """(rank, exit code) of the first failure, by the launcher's own report."""
    joined: tuple[int, int] | None = None
    port: int | None = None
    endpoint: str | None = None
    in_root: bool = False
    """Whether the launcher is just telling of the first failure; of this rank, once it has named it."""
    root_rank: int | None = None


def read(line: bytes, facts: Facts) -> list[Finding]:
    """Takes what this line says into `facts`; returns what it says is wrong."""
    found: list[Finding] = []
    if b"Gloo" in line or b"gloo/" in line:
        found += _gloo(line, facts)
    if b"atchdog" in line or b"NCCL work" in line or b"Heartbeat monitor" in line or b"a dump signal" in line:
        found += _watchdog(line, facts)
    if b"exitcode" in line or b"ChildFailedError" in line or facts.in_root or _ROOT in line:
        found += _child(line, facts)
    if b"endezvous" in line or b" joined" in line:
        found += _rendezvous(line, facts)
    if (
        b"socket" in line
        or b"errno" in line
        or b"Store" in line
        or b"store->" in line
        or b"failed on" in line
        or b"was likely" in line
    ):
        found += _socket(line, facts)
    if b"monitoredBarrier" in line and _GLOO_WAITED.search(line):
        found.append(Finding("watchdog_timeout", "gloo_timeout"))
    return found


def _gloo(line: bytes, facts: Facts) -> list[Finding]:
    facts.gloo = facts.gloo or b"ProcessGroupGloo" in line or b"gloo/" in line
    if _GLOO_FAILED.search(line):
        return [Finding("gloo_connect_failed", "gloo")]
    if _GLOO_WAITED.search(line):
        return [Finding("watchdog_timeout", "gloo_timeout")]
    if b"losed by peer" in line or b"reset by peer" in line:
        return [Finding("socket_closed_by_peer", "closed")]
    return []


def _watchdog(line: bytes, facts: Facts) -> list[Finding]:
    caught = _WATCHDOG.search(line)
    if caught:
        rank, sequence, collective, timeout = caught.groups()
        key = (int(sequence) if sequence else -1, collective.decode(errors="replace"))
        if key in facts.timeouts or len(facts.timeouts) < MANY:
            ranks = facts.timeouts.setdefault(key, set())
            if len(ranks) < MANY:
                ranks.add(int(rank))
        facts.timeout_ms = max(facts.timeout_ms, int(timeout))
        return [Finding("watchdog_timeout", "watchdog")]
    at_work = _AT_WORK.search(line)
    if at_work or any(text in line for text in _STUCK) or b"collective operation timeout" in line:
        return [Finding("watchdog_timeout", "watchdog" if at_work or b"timeout" in line else "watchdog_stuck")]
    return []


def _child(line: bytes, facts: Facts) -> list[Finding]:
    found = []
    if _ROOT in line:
        facts.in_root, facts.root_rank = True, None
        return [Finding("child_failed", "child")]
    left = _EXIT.search(line)
    if left:
        code = left[1]
        if len(facts.children) < MANY:
            facts.children.setdefault(int(left[2]), int(code))
        found.append(Finding("child_failed", "child"))
        if code in _SIGNALS:
            found.append(_SIGNALS[code])
    elif b"ChildFailedError" in line or b"failed (exitcode:" in line:
        found.append(Finding("child_failed", "child"))
    rank, code_line = _RANK.search(line), _CODE.search(line)
    if rank and facts.in_root:
        facts.root_rank = int(rank[1])
    if code_line:
        if facts.in_root and facts.root_rank is not None:
            facts.root, facts.in_root = (facts.root_rank, int(code_line[1])), False
        if code_line[1] in _SIGNALS:
            found.append(_SIGNALS[code_line[1]])
    return found


def _rendezvous(line: bytes, facts: Facts) -> list[Finding]:
    joined = _JOINED.search(line)
    if joined:
        facts.joined = (int(joined[1]), int(joined[2]))
        return [Finding("rendezvous_failed", "joined")]
    if _RENDEZVOUS.search(line) and b"due to an error of type" not in line:
        return [Finding("rendezvous_failed", "rendezvous_closed" if b"Closed" in line else "rendezvous")]
    return []


def _socket(line: bytes, facts: Facts) -> list[Finding]:
    bound = _BIND.search(line)
    if bound and facts.port is None and (b"in use" in line or b"errno: 98" in line):
        facts.port = int(bound[1])
    if b"client socket" in line and (b"failed to connect" in line or b"timed out" in line):
        endpoint = _ENDPOINT.search(line)
        if endpoint and facts.endpoint is None:
            facts.endpoint = f"{endpoint[1].decode(errors='replace')}:{int(endpoint[2])}"
        kind = errno_kind(line)
        return [Finding(kind, f"store_{kind}")]
    if b"store->get(" in line or b"DistStoreError" in line:
        if b"Timeout" in line or b"timeout" in line:
            return [Finding("socket_timeout", "store_socket_timeout")]
        if b"reset by peer" in line or b"losed" in line or b"roken pipe" in line:
            return [Finding("socket_closed_by_peer", "store_closed")]
    if any(text in line for text in _LOST_STORE):
        return [Finding("socket_closed_by_peer", "store_closed")]
    return []
