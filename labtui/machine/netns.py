"""Network namespaces of this process: entered by system call, held by file descriptors, gone with their last process.

No namespace gets a name under /run/netns: one lives as long as a process is in it or a descriptor holds it, so nothing
can be left behind, however a run ends. Knows nothing of links and rates (see `link`). Only a process with a single
thread may call this.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from dataclasses import dataclass
from pathlib import Path

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21

_SELF = Path("/proc/self")
_SYSCTLS = (
    ("user/max_user_namespaces", "0"),
    ("user/max_net_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
)
"""Settings by which systems keep users from namespaces, under /proc/sys, and the value that does so."""

_libc = ctypes.CDLL(None, use_errno=True)


LIMIT_REACHED = "the limit of namespaces is reached"
"""In the words of an error."""


class NamespaceError(Exception):
    """The system refuses a namespace. The message says what it answered, and which setting makes it do so."""


@dataclass(frozen=True)
class Namespace:
    """A network namespace, kept alive by a file descriptor of this process."""

    descriptor: int

    @property
    def path(self) -> str:
        """Where others find it while this process lives, also after an exec."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def enter(self) -> None:
        """Moves this process into it. Raises NamespaceError."""
        _check(_libc.setns(self.descriptor, _CLONE_NEWNET), "setns")

    def survive_exec(self) -> None:
        """Lets the descriptor stay open in the program that this process becomes."""
        os.set_inheritable(self.descriptor, True)


def create() -> Namespace:
    """Makes a namespace with nothing but a loopback that is down, and moves this process into it.

    Where the process may not, it first moves into a user namespace of its own, in which it keeps its user and group and
    gains what networks need (see `_become_own_master`). Raises NamespaceError.
    """
    if _libc.unshare(_CLONE_NEWNET) != 0:
        refused = ctypes.get_errno()
        if refused != errno.EPERM:  # a user namespace would not help
            raise _refusal("unshare", refused)
        _become_own_master()
        _check(_libc.unshare(_CLONE_NEWNET), "unshare")
    return Namespace(os.open(_SELF / "ns/net", os.O_RDONLY))


def _become_own_master() -> None:
    """A user namespace in which this process is who it was, and may configure networks and enter namespaces.

    These two capabilities are made ambient: they reach programs that it executes (ip and tc, then torchrun and its
    ranks, which have to enter their namespaces themselves). They count in this user namespace only, so they give no
    power over anything that was there before.
    """
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(_CLONE_NEWUSER), "unshare")
    try:
        (_SELF / "uid_map").write_text(f"{user} {user} 1")
        (_SELF / "setgroups").write_text("deny")  # without it the kernel lets nobody but root map groups
        (_SELF / "gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise _refusal("uid_map", error.errno or 0) from None
    # No more than the two: programs with less could not look into /proc/PID/fd of this process.
    wanted = 1 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN
    header, only = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), struct.pack("6I", wanted, wanted, wanted, 0, 0, 0)
    _check(_libc.capset(header, only), "capset")
    for capability in (CAP_NET_ADMIN, CAP_SYS_ADMIN):
        _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0), "prctl")


def _check(result: int, call: str) -> None:
    if result != 0:
        raise _refusal(call, ctypes.get_errno())


def _refusal(call: str, number: int) -> NamespaceError:
    # "No space left on device" is how the kernel puts this one.
    reason = LIMIT_REACHED if number == errno.ENOSPC else os.strerror(number)
    return NamespaceError(f"{call}: {reason}{forbidding_settings()}")


def forbidding_settings() -> str:
    """The settings of this system that may be to blame for a refusal, as the end of a sentence; mostly empty."""
    found = []
    for name, forbids in _SYSCTLS:
        try:
            value = (Path("/proc/sys") / name).read_text().strip()
        except OSError:
            continue  # this kernel has no such setting
        if value == forbids:
            found.append(f"sysctl {name.replace('/', '.')} is {value}")
    return f" ({', '.join(found)})" if found else ""
