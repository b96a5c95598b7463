"""The reader: takes a job's logs in bites of bytes and keeps the facts; a report can be had at any time.

    reader = Reader()
    reader.feed(bite)                     as often as there is more, from any number of sources
    reader.finish()                       once nothing more will come
    reader.report()

Finds messages inside prefixed, interleaved, glued and cut lines. Only whole lines count; an unterminated last line
tells of trouble at most. Memory grows with ranks and channels, not with the log. Opens no files, knows no runs.
"""

from __future__ import annotations

import re

from labtui.machine.nccl import grammar, messages
from labtui.machine.nccl.facts import Facts, Origin
from labtui.machine.nccl.heads import Heads
from labtui.machine.nccl.lines import LONGEST, Lines, plain
from labtui.machine.nccl.messages import Telling
from labtui.machine.nccl.report import Report, draw
from labtui.machine.nccl.strays import Strays, spoken
from labtui.machine.nccl.styles import CLOCK, style

SAMPLE = 400
"""Lines of a log's beginning from which it is told how lines begin."""
MOST_DULL = 1 << 14
"""Messages without a meaning that are remembered."""
MOST_TOLD = 256
"""Messages of an origin of which once is enough."""

_INFO = b"NCCL INFO "
_TELLING = (
    b"NCCL", b"RCCL version", b"] INFO ", b" WARN ", b" via ", b"Last error", b"failure ", b"nccl-", b"nccl==",
    b" Pid ", b"ProcessGroup", b"atchdog", b"onitoredBarrier", b"Gloo", b"gloo/", b"c10d", b"TCPStore",
    b"DistStoreError", b"endezvous", b"ChildFailed", b"exitcode", b"Root Cause", b"local_rank",
    b"torch.distributed", b"SIGKILL", b"SIGSEGV", b"egmentation fault", b"us error", b"exited on signal",
    b"oom-kill", b"ddress already in use", b"EADDRINUSE", b"mismatch between coll", b"CUDA error: ", b"CUDA out of",
    b"GPU0",
)  # fmt: skip
"""Without one of these a line says nothing to us. Each is looked for in a whole block at once, which is quick."""
_TELLING_LINE = re.compile(b"|".join(map(re.escape, _TELLING)))
"""The same for one line, where every other line says something."""


class Reader:
    """Of one job: the log of all ranks, or a log of each."""

    def __init__(self) -> None:
        self.facts = Facts()
        self._sources: dict[str, Lines] = {}
        self._heads = Heads(self.facts)
        self._strays = Strays(self.facts, self._heads)
        self._dull: set[bytes] = set()
        """Messages that say nothing to us, whoever prints them."""
        self._sampled = 0

    def feed(self, bite: bytes, source: str = "") -> None:
        """Takes the next bytes of a source. Sources are told apart by name, so that each may end in mid-line."""
        self.facts.size += len(bite)
        if b"\0" in bite:
            self.facts.zeros = True
        lines = self._sources.get(source)
        if lines is None:
            lines = self._sources[source] = Lines()
        block = lines.take(bite)
        if block:
            self._block(block, source)

    def feed_lines(self, lines: list[bytes], source: str = "") -> None:
        """Takes whole lines without their newlines, as a follower of files hands them out."""
        if lines:
            self.feed(b"\n".join(lines) + b"\n", source)

    def finish(self) -> None:
        """Looks at what stands behind the last newlines: an unterminated line may tell of trouble, never of a link."""
        for lines in self._sources.values():
            rest = plain(lines.rest)
            if rest.strip():
                self.facts.unterminated = True
                self._strays.last(rest[:LONGEST])
        self._sources.clear()

    def report(self) -> Report:
        """What the whole lines so far say."""
        return draw(self.facts)

    # Blocks of lines --------------------------------------------------------------------------------------------

    def _block(self, block: bytes, source: str) -> None:
        facts = self.facts
        if self._sampled < SAMPLE:
            self._sample(block)
        block = plain(block)
        if _INFO not in block:
            facts.lines += block.count(b"\n")
            self._others(block, source)
            return
        heads, dull, usual = self._heads.known, self._dull, grammar.USUAL_CONNECTION.fullmatch
        strays, telling = self._strays, _TELLING_LINE.search
        lines = block.split(b"\n")
        lines.pop()
        facts.lines += len(lines)
        marked = 0
        for line in lines:
            head, mark, message = line.partition(_INFO)
            if not mark:
                if line and (b"NCCL" in line or telling(line) is not None or strays.expecting == source):
                    strays.take(line, source)
                continue
            marked += 1
            origin = heads.get(head)
            if origin is None:
                origin = self._heads.begin(head)
            counts = origin.connections
            if message in counts:
                counts[message] += 1
            elif message in dull or message in origin.told:
                pass
            elif (match := usual(message)) is not None:
                facts.connect(origin, message[: match.end(5)])
            elif b"NCCL INFO" in message or b"NCCL WARN" in message:
                strays.glued(line)
            else:
                self._single(origin, message)
        facts.nccl_lines += marked
        facts.informed = True

    def _single(self, origin: Origin, message: bytes) -> None:
        """A message that isn't a usual connection, alone on its line."""
        if b"[repeated" in message:
            self.facts.folded = True
        telling = messages.take(self.facts, origin, message.rstrip())
        if telling is not Telling.ALWAYS:
            known, most = (self._dull, MOST_DULL) if telling is Telling.NEVER else (origin.told, MOST_TOLD)
            if len(known) >= most:
                known.clear()
            known.add(message)

    def _others(self, block: bytes, source: str) -> None:
        """Lines without an information mark. Those that say something are few, and are looked for all at once."""
        starts = set()
        if self._strays.expecting == source:
            starts.add(0)
        for needle in _TELLING:
            at = block.find(needle)
            while at >= 0:
                starts.add(block.rfind(b"\n", 0, at) + 1)
                at = block.find(b"\n", at)
                if at >= 0:
                    at = block.find(needle, at)
        queue = sorted(starts, reverse=True)
        while queue:
            start = queue.pop()
            end = block.find(b"\n", start)
            line = block[start:end]
            self._strays.take(line, source)
            if self._strays.expecting == source and end + 1 < len(block) and (not queue or queue[-1] != end + 1):
                queue.append(end + 1)

    def _sample(self, block: bytes) -> None:
        """Looks how the first lines begin, before anything is taken away from them."""
        facts = self.facts
        for line in block.split(b"\n", SAMPLE - self._sampled)[:-1]:
            self._sampled += 1
            escaped = b"\x1b" in line
            text = plain(line)
            if CLOCK.fullmatch(text.strip()):
                facts.clock_lines += 1
            elif spoken(text):
                facts.styles[style(text)] += 1
                facts.escaped_lines += escaped
