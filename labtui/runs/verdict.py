"""How a run ended, in a state and one sentence. Pure: what was seen in (see `evidence`), the verdict out.

torchrun's own exit code is always 1, and where a rank left early with 0 it blames another one (whose connection that
closed). So the order in which ranks departed, their error files and their tracebacks are read beside its report.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.runs.process import signal_name
from labtui.runs.records import FAILED, SUCCEEDED, Document

_FAILURE = re.compile(r"^  rank      : (?P<rank>\d+) .*?^  exitcode  : (?P<code>-?\d+) ", re.MULTILINE | re.DOTALL)
_TRACEBACK_END = re.compile(r"^(?P<error>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)?(?:: .*)?)$")
_TRACEBACK_FILE = re.compile(r'^\s+File "(?P<path>[^"]+)", line (?P<line>\d+)')

_CONSEQUENCE = re.compile(
    r"(?i)connection (closed|reset) by peer|connection refused|broken pipe|recvvalue failed|remote process exited"
    r"|socket closed|timed out waiting|connect timeout|store is no longer"
)
"""Errors of a rank whose peer went first: never the cause where another rank shows one of its own."""

_PORT = re.compile(r"(?i)EADDRINUSE|address already in use|cannot assign requested address")
_LISTEN = re.compile(r"(?i)server socket has failed to (?:listen|bind).*(?:EADDRINUSE|address already in use)")
"""What torch's store says. torchrun looks for a free port and lets it go; rank 0 takes it a second later."""
_PORT_NUMBER = re.compile(r"port[=: ]+(?:number )?(\d{2,5})|:(\d{4,5})\b")
_FULL = re.compile(r"(?i)no space left on device|disk quota exceeded|ENOSPC")
_OWN_WORDS = "labtui: "
_REFUSED = "SystemExit: "
"""How a script says that it can't do what it was asked for."""
_NO_TORCH = re.compile(r"No module named '?(torch\b[\w.]*)'?")


@dataclass(frozen=True)
class RankEnd:
    """What is known of one rank's end."""

    rank: int
    departed: float | None = None
    """When it was seen to be gone (any one clock); None while it lives or if it was never seen."""
    exit_code: int | None = None
    """From torchrun's report, negative for a signal; None where torchrun lists it not (it may have left with 0)."""
    error: str = ""
    """Its error in one line with its place, of its error file or of the traceback in its stderr; empty without one."""
    status: int | None = None
    """Its wait status as the kernel told it; None where torchrun had taken it before it could be read."""


@dataclass(frozen=True)
class Seen:
    """All that the verdict rests on."""

    exit_code: int | None
    """Of the launched command; None if a signal ended it."""
    signal: int | None = None
    launch: str = "torchrun"
    output: str = ""
    """The end of what the launched command itself printed."""
    ranks: Sequence[RankEnd] = ()
    disk_full: bool = False
    checks: Sequence[Document] = ()
    stopped_at: str = ""
    """Where an experiment that reported no check left with 0 before its own end, "rank 0 at 3 of 12"."""
    expect_failure: Sequence[str] = ()


def torchrun_failures(output: str) -> dict[int, int]:
    """rank -> exit code of the ranks that torchrun's report lists."""
    return {int(match["rank"]): int(match["code"]) for match in _FAILURE.finditer(output)}


def last_traceback(stderr: str) -> str:
    """The last Python traceback's error with its place, "ValueError: no (train.py:12)"; empty without one."""
    at = stderr.rfind("Traceback (most recent call last)")
    if at < 0:
        return ""
    place, error = "", ""
    for line in stderr[at:].splitlines()[1:]:
        if match := _TRACEBACK_FILE.match(line):
            if "/torch/" not in match["path"] and "/labtui/bench/" not in match["path"]:
                place = f" ({match['path'].rpartition('/')[2]}:{match['line']})"
        elif _TRACEBACK_END.match(line):
            error = line
            break
    return f"{short(error)}{place}" if error else ""


def mark_expected(checks: Sequence[Document], expect_failure: Sequence[str]) -> tuple[Document, ...]:
    """The checks; those that this variant is made to fail and that failed get "expected": false."""
    return tuple(
        {**check, "expected": False} if check.get("passed") is False and check.get("name") in expect_failure else check
        for check in checks
    )


def judge(seen: Seen) -> tuple[str, str]:
    """State and reason of a run that ended by itself."""
    if seen.exit_code == 0:
        return _judge_checks(seen)
    reason = _failure(seen)
    if seen.disk_full and "disk is full" not in reason:
        reason = f"the disk is full: {reason}"  # the error itself may have found no room any more
    return FAILED, reason


def _judge_checks(seen: Seen) -> tuple[str, str]:
    failed = [check for check in seen.checks if check.get("passed") is not True]
    failed_names = {str(check.get("name")) for check in failed}
    surprising = [check for check in failed if check.get("name") not in seen.expect_failure]
    if surprising:
        more = f" (and {len(surprising) - 1} more)" if len(surprising) > 1 else ""
        return FAILED, f"check failed: {describe_check(surprising[0])}{more}"
    for name in seen.expect_failure:
        if name not in failed_names:
            known = any(check.get("name") == name for check in seen.checks)
            return FAILED, f"check {name!r} was made to fail and {'passed' if known else 'was not reported'}"
    if not seen.checks and seen.stopped_at:
        return FAILED, f"ended with exit code 0 before it was done: {seen.stopped_at}, no checks reported"
    if not seen.checks:
        return SUCCEEDED, "ended with exit code 0" + (", no checks reported" if seen.launch != "command" else "")
    passed = len(seen.checks) - len(failed)
    if failed:
        return SUCCEEDED, f"{passed} of {len(seen.checks)} checks passed, {len(failed)} failed as intended"
    return SUCCEEDED, f"all {passed} checks passed" if passed > 1 else "its check passed"


def describe_check(check: Document) -> str:
    """A check in a few words: name, rank, value and bound."""
    words = f"{check.get('name')!r}"
    if check.get("rank") is not None:
        words += f" on rank {check['rank']}"
    value = check.get("value", check.get("why"))
    if value is not None or "why" in check:
        words += f": {check.get('why') if value is None else value}"
        for bound, symbol in (("at_most", "at most"), ("at_least", "at least"), ("equal", "expected")):
            if check.get(bound) is not None:
                words += f", {symbol} {check[bound]}"
    return words


def _failure(seen: Seen) -> str:
    """Why it failed: the first cause that can be named."""
    if seen.output.startswith(_OWN_WORDS):  # what labtui puts before the command has failed (see machine.link)
        return seen.output.splitlines()[0].removeprefix(_OWN_WORDS)
    everything = seen.output + "\n" + "\n".join(rank.error for rank in seen.ranks)
    failures = [rank for rank in seen.ranks if rank.exit_code is not None]
    root = _root(failures)

    leaver = _early_leaver(seen.ranks, root)
    if leaver is not None and root is not None:
        return (
            f"rank {leaver.rank} left early with exit code 0; rank {root.rank}, which needed it, "
            f"then failed: {root.error or _code(root.exit_code)}"
        )
    if _FULL.search(everything):
        return "the disk is full: " + _line_with(_FULL, everything)
    if root is not None and _LISTEN.search(root.error):
        port = _port_in(root.error)
        named = f"port {port}" if port else "its port"
        return f"{named} was taken by somebody else before rank {root.rank} could listen on it: run it again"
    if root is None and _PORT.search(everything):
        port = _port_in(_line_with(_PORT, everything))
        return f"port {port} is in use" if port else "no free port: " + _line_with(_PORT, everything)
    if root is not None:
        return f"rank {root.rank} {_cause(root)}"
    if missing := _NO_TORCH.search(everything):
        return f"the interpreter has no {missing[1]}: install torch there, or name another one with --python"
    if seen.signal is not None:
        return f"{seen.launch} was killed by {signal_name(seen.signal)}" + _hint(seen.signal)
    error = last_traceback(seen.output)
    code = f"ended with exit code {seen.exit_code}"
    return f"{error}: {code}" if error else code


def _port_in(text: str) -> str | None:
    """The number of the port that an error speaks of."""
    found = _PORT_NUMBER.search(text)
    return next((group for group in found.groups() if group), None) if found else None


def _root(failures: Sequence[RankEnd]) -> RankEnd | None:
    """The rank that failed first and of itself."""

    def order(rank: RankEnd) -> tuple[bool, bool, float, int]:
        consequence = bool(_CONSEQUENCE.search(rank.error))
        # torchrun ends the others with SIGTERM once one has failed.
        terminated = rank.exit_code == -15
        return consequence, terminated, rank.departed if rank.departed is not None else float("inf"), rank.rank

    return min(failures, key=order, default=None)


def _early_leaver(ranks: Sequence[RankEnd], root: RankEnd | None) -> RankEnd | None:
    """A rank that torchrun does not list and that left with 0, while the error of the one it blames is a lost peer.

    Where its exit status was not seen, one that was gone before: torchrun ends the others only after the failure.
    """
    if root is None or not _CONSEQUENCE.search(root.error):
        return None

    def left_early(rank: RankEnd) -> bool:
        if rank.exit_code is not None or rank.departed is None or rank.error:
            return False
        if rank.status is not None:
            return rank.status == 0
        return root.departed is not None and rank.departed < root.departed

    left = [rank for rank in ranks if left_early(rank)]
    return min(left, key=lambda rank: rank.departed or 0.0, default=None)


def _cause(rank: RankEnd) -> str:
    code = rank.exit_code
    if code is not None and code < 0:
        return f"was killed by {signal_name(-code)}{_hint(-code)}" + (
            f"; before that: {rank.error}" if rank.error else ""
        )
    if rank.error.startswith(_REFUSED):
        return f"refused: {rank.error.removeprefix(_REFUSED)}"
    if rank.error:
        return f"raised {rank.error}"
    return _code(code)


def _code(code: int | None) -> str:
    return f"ended with exit code {code}" if code is not None else "ended"


def _hint(signal: int) -> str:
    return {9: ", often out of memory", 11: ", a crash in native code", 6: ", an abort in native code"}.get(signal, "")


def short(text: str, limit: int = 200) -> str:
    """The text, cut to so many characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _line_with(pattern: re.Pattern[str], text: str) -> str:
    """The line in which the pattern stands."""
    for line in text.splitlines():
        if pattern.search(line):
            return short(line.strip())
    return ""
