"""What stands before a message, and whose line that makes it. Remembers what it has seen: a log has few beginnings."""

from __future__ import annotations

import re

from labtui.machine.nccl import grammar, graphs
from labtui.machine.nccl.facts import Facts, Origin

MOST = 1 << 14
"""Beginnings that are remembered."""


class Heads:
    """The beginnings of lines."""

    def __init__(self, facts: Facts) -> None:
        self.known: dict[bytes, Origin] = {}
        """For whoever wants to look without a call; `begin` fills it."""
        self._facts = facts
        self._warned: dict[bytes, tuple[Origin, bytes]] = {}

    def begin(self, head: bytes) -> Origin:
        """The origin of an information line that begins like this.

        Its end is remembered too, since beginnings may hold the time. A connection in it is a piece of another line
        that was glued before this one: it counts.
        """
        if b" via " in head:
            origin = self.named(grammar.HEAD.search(head[-grammar.HEAD_REACH :]))
            graphs.connections(self._facts, origin, head)
            return origin
        end = head[head.rfind(b" ", 0, -6) + 1 :]
        origin = self.known.get(end) or self.named(grammar.HEAD.search(head[-grammar.HEAD_REACH :]))
        if len(self.known) >= MOST:
            self.known.clear()
        self.known[head] = self.known[end] = origin
        return origin

    def warned(self, head: bytes) -> tuple[Origin, bytes]:
        """The origin of a warning that begins like this, and the source file that it names ("" if none)."""
        end = head
        place = len(head) - 1
        for _ in range(3):
            place = head.rfind(b" ", 0, max(place, 0))
        end = head[place + 1 :]
        found = self._warned.get(end)
        if found is not None:
            return found
        reach = max(0, len(head) - grammar.HEAD_REACH)
        match = grammar.HEAD.search(head[reach:])
        file = match[5] if match else None
        if file is None:
            alone = grammar.FILE.search(head[reach:])
            file = alone[1] if alone else b""
        found = self.named(match), file
        if match is not None and reach + match.start() >= place + 1:
            if len(self._warned) >= MOST:
                self._warned.clear()
            self._warned[end] = found
        return found

    def named(self, head: re.Match[bytes] | None) -> Origin:
        """The origin that a head names; the nameless one if there is no head."""
        if head is None:
            return self._facts.origin("", -1, -1)
        host, pid, _, device, _ = head.groups()
        name = host.decode(errors="replace") if host else ""
        return self._facts.origin(name, int(pid) if pid else -1, int(device))
