"""A stream of bytes, in whatever bites it comes, cut into whole lines and freed of a terminal's escapes.

Only whole lines count: what stands behind the last newline stays pending. Knows nothing of what the lines say.
"""

from __future__ import annotations

import re

LONGEST = 1 << 20
"""Bytes of a line. A longer one is no line of a log: it is passed over and counted."""

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")


class Lines:
    """Of one file or pipe: bites in, blocks of whole lines out. Holds at most LONGEST bytes."""

    def __init__(self) -> None:
        self.overlong = 0
        """Lines that were passed over because of their length."""
        self._pending = bytearray()
        self._skipping = False

    def take(self, bite: bytes) -> bytes:
        """The whole lines that this bite completes, each with its newline; empty if there is none yet."""
        if self._skipping:
            newline = bite.find(b"\n")
            if newline < 0:
                return b""
            bite, self._skipping = bite[newline + 1 :], False
        end = bite.rfind(b"\n") + 1
        block = b""
        if end:
            block = bytes(self._pending) + bite[:end]
            self._pending.clear()
        self._pending += bite[end:]
        if len(self._pending) > LONGEST:
            self._pending.clear()
            self._skipping = True
            self.overlong += 1
        return self._short(block) if len(block) > LONGEST else block

    @property
    def rest(self) -> bytes:
        """What stands behind the last newline so far."""
        return bytes(self._pending)

    def _short(self, block: bytes) -> bytes:
        lines = block.split(b"\n")
        if max(map(len, lines)) <= LONGEST:
            return block
        kept = [line for line in lines if len(line) <= LONGEST]
        self.overlong += len(lines) - len(kept)
        return b"\n".join(kept)


def plain(block: bytes) -> bytes:
    """The block without escape sequences; a lone carriage return ends a line, as progress bars mean it."""
    if b"\x1b" in block:
        block = _ESCAPE.sub(b"", block)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block
