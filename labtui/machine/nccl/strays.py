"""Lines that are no plain information line of NCCL's: warnings, several messages glued into one line, what programs
print outside NCCL (PyTorch, MPI, nccl-tests), and an unterminated last line. Each is taken into the facts.
"""

from __future__ import annotations

import re

from labtui.machine.nccl import grammar, graphs, messages, problems, torch_side
from labtui.machine.nccl.facts import Facts, Origin, room
from labtui.machine.nccl.heads import Heads
from labtui.machine.nccl.problems import CONSEQUENCE, Finding

MOST_FINDINGS = 1 << 12
MOST_RANKS = 1 << 16

_WARN = b"NCCL WARN "
_TOPOLOGY = re.compile(rb"\s*(?:GPU0\s+(?:GPU1|X)\b|GPU0\s+CPU Affinity)")
_SPOKEN = (b"ProcessGroup", b"torch.distributed", b"torchrun", b"c10d", b"Gloo", b"gloo/", b"TCPStore")
_DIGITS = b"0123456789"


class Strays:
    """Takes such lines one by one."""

    def __init__(self, facts: Facts, heads: Heads) -> None:
        self.expecting: str | None = None
        """The source whose next line tells an error again (after PyTorch's `Last error:`)."""
        self._facts = facts
        self._heads = heads
        self._findings: dict[bytes, Finding] = {}

    def take(self, line: bytes, source: str) -> None:
        """A line without an information mark, or one that has another mark too."""
        facts = self._facts
        if not line:
            return
        again, self.expecting = self.expecting == source, None
        if b"NCCL" in line:
            head, mark, message = line.partition(_WARN)
            if mark and b"NCCL " not in head and b"NCCL " not in message and b" via " not in line:
                facts.nccl_lines += 1
                self._warning(head, message, line)
                return
            if grammar.MARK.search(line):
                facts.nccl_lines += 1
                self.glued(line)
                return
        if b" via " in line:
            graphs.connections(facts, facts.origin("", -1, -1), line)
        if (b"INFO " in line or b"WARN " in line) and self._of_2_2(line):
            return
        self._named(line)
        if not facts.torch.spoke and any(word in line for word in _SPOKEN):
            facts.torch.spoke = True
        if again or b"Last error:" in line:
            told = line.rpartition(b"Last error:")[2].strip() if b"Last error:" in line else _bare(line)
            if told:
                self._retold(told)
            elif b"Last error:" in line:
                self.expecting = source
        for found in torch_side.read(line, facts.torch):
            facts.note(found, line)
        plainly = problems.in_plain_line(line)
        if plainly is not None:
            facts.note(plainly, line)
        if b"GPU0" in line and _TOPOLOGY.match(line):
            facts.topology = True

    def glued(self, line: bytes) -> None:
        """A line with several messages in it, or with pieces of them."""
        begins = []
        before = 0
        for mark in grammar.MARK.finditer(line):
            # No head reaches back over another mark.
            reach = max(before, mark.start() - grammar.HEAD_REACH)
            before = mark.end()
            head = grammar.HEAD.search(line[reach : mark.start()])
            begins.append((reach + head.start() if head else mark.start(), mark))
        if begins[0][0] > 0 and b" via " in line[: begins[0][0]]:
            graphs.connections(self._facts, self._facts.origin("", -1, -1), line[: begins[0][0]])
        ends = [begin[0] for begin in begins[1:]] + [len(line)]
        for (start, mark), end in zip(begins, ends, strict=True):
            self._message(mark[1], line[start : mark.start()], line[mark.end() : end].rstrip(), line)

    def last(self, line: bytes) -> None:
        """An unterminated line: what is wrong can be told from it, nothing else can."""
        facts = self._facts
        marks = list(grammar.MARK.finditer(line))
        if marks:
            facts.nccl_lines += 1
            if marks[-1][1] == b"WARN":
                origin, file = self._heads.warned(line[: marks[-1].start()])
                found = problems.in_warning(line[marks[-1].end() :], file)
                if found != problems.UNKNOWN_WARNING:
                    facts.note(found, line, origin.host)
            return
        for told in torch_side.read(line, facts.torch):
            facts.note(told, line)
        plainly = problems.in_plain_line(line)
        if plainly is not None:
            facts.note(plainly, line)

    def _message(self, level: bytes, head: bytes, message: bytes, line: bytes) -> None:
        """One message of a line."""
        facts = self._facts
        if b"[repeated" in message:
            facts.folded = True
        if level in (b"WARN", b"ATTN"):
            origin = self._warning(head, message, line)
            if b" via " in message:
                graphs.connections(facts, origin, message)
        elif level == b"INFO":
            facts.informed = True
            messages.take(facts, self._heads.begin(head), message)

    def _warning(self, head: bytes, message: bytes, line: bytes) -> Origin:
        facts = self._facts
        origin, file = self._heads.warned(head)
        facts.rccl = facts.rccl or b"rccl" in file or b"hipify" in file or b"RCCL" in message
        # Warnings come in swarms that differ in numbers only.
        key = (file + message).translate(None, _DIGITS) if b"ailure" not in message else b""
        found = self._findings.get(key) if key else None
        if found is None:
            found = problems.in_warning(message, file)
            if key and len(self._findings) < MOST_FINDINGS:
                self._findings[key] = found
        if facts.version is None and b"ersion" in message:
            messages.version(facts, message)
        facts.note(found, line, origin.host)
        return origin

    def _of_2_2(self, line: bytes) -> bool:
        """NCCL 2.2 leaves its name out: its lines are known by their whole head."""
        mark = grammar.MARK_2_2.search(line)
        if mark is None:
            return False
        head = line[: mark.start()]
        match = grammar.HEAD.search(head[-grammar.HEAD_REACH :])
        if match is None or match[1] is None:
            return False
        self._facts.nccl_lines += 1
        self._message(mark[1], head, line[mark.end() :].rstrip(), line)
        return True

    def _named(self, line: bytes) -> None:
        """Versions and ranks that are named outside NCCL's own messages."""
        facts = self._facts
        if b" version" in line:
            messages.version(facts, line)
            if facts.version is not None and (b"+cuda" in line or b"+hip" in line or b"RCCL version" in line):
                facts.nccl_lines += 1
        if facts.version_by_code is None and (b"nccl-" in line or b"nccl==" in line):
            code, vllm = grammar.VERSION_CODE.search(line), grammar.VERSION_OF_VLLM.search(line)
            if code:
                facts.version_by_code = grammar.version_of_code(int(code[1]))
            elif vllm:
                facts.version_by_code = vllm[1].decode()
        device = grammar.DEVICE_OF_TESTS.search(line) if b" Pid " in line else None
        if device and len(facts.placed) < MOST_RANKS:
            facts.nccl_lines += 1
            rank, host = int(device[1]), device[3].decode(errors="replace")
            facts.placed[rank] = host
            gpu = device[4].strip().decode(errors="replace")
            if room(facts.gpus, gpu):
                facts.gpus[gpu] += 1
            if rank == 0 and len(facts.first_ranks) < MOST_RANKS:
                facts.first_ranks.add((host, int(device[2])))
        failure = grammar.FAILURE.search(line) if b"ailure " in line and b"Test " not in line else None
        if failure:
            found = problems.in_warning(failure[0], b"")
            facts.note(Finding(found.kind, f"{found.cause}, retold"), line)
        if b"nhandled cuda error" in line:
            facts.note(Finding("cuda_error", "unhandled, retold"), line)

    def _retold(self, text: bytes) -> None:
        found = problems.in_warning(text, b"")
        if found not in (CONSEQUENCE, problems.UNKNOWN_WARNING):
            self._facts.note(Finding(found.kind, f"{found.cause}, retold"), text)


def spoken(text: bytes) -> bool:
    """Whether it is a line of NCCL's or PyTorch's."""
    return b"NCCL" in text or b"RCCL" in text or any(word in text for word in _SPOKEN)


def _bare(line: bytes) -> bytes:
    """A line without PyTorch's [rank0]: before it."""
    return re.sub(rb"^\s*(?:\([^()]*\)\s*)?(?:\[[a-z]*\d+\]:)?\s*", b"", line)
