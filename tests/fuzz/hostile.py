"""What somebody may put into a run's folder: JSON of every shape, text that a terminal would obey, bytes.

Made from a seed rather than by hypothesis, which takes longer for one such folder than all commands take to read it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from labtui.runs.folder import RunFolder
from labtui.runs.records import ENDED, Labels, Request, Status

OBEYED = (
    "\x1b]0;renamed\x07", "\x1b[2J\x1b[H", "\x9b31m", "\x1b]52;c;Y3VybCBldmls\x1b\\", "\x90q\x9c", "[rank0]", "[/bold]",
    "\r\x1b[K", "\x08" * 9, "\u202egpj.exe", "\u2066", "\ud800", "a\nb", "\x00", "\x7f", "| --- |", "```", "<b>",
    "\x1b[31m",
    "\u200e", "\ufeff", "\x0e", "\x1bc", "\x1b[5n", "a\tb", "%s%n", "{0}", "$(id)", "漢字", "é", "\U0001f600", "",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 3, 2**31, 2**63, 10**30, 10**400, 0.0, 0.5, 1e308, -1e308, 1e-320, float("nan"), float("inf"),
    -float("inf"),
)  # fmt: skip
EVENT_KEYS = (
    "rank", "t", "name", "value", "unit", "labels", "step", "passed", "expected", "at_most", "at_least", "equal",
    "predicted", "measured", "why", "done", "total", "text", "lane", "start", "end", "versions", "pid", "socket",
    "stacks",
)  # fmt: skip
KINDS = ("metric", "check", "prediction", "result", "span", "note", "progress", "hello", "odd")
SAMPLE_KEYS = (
    "index", "rank", "pid", "util", "mem_used", "mem_total", "power_w", "throttle", "why", "cpu", "rss", "net", "load1",
    "mem_available", "shm_used",
)  # fmt: skip
MACHINE_KEYS = ("cpu", "cores", "memory", "driver", "versions", "gpus", "ranks", "topology", "host")
NCCL_KEYS = ("kind", "diagnosis", "links", "pairs", "warnings", "nranks", "nccl_version", "bandwidth")
RECORDS = ("run.json", "status.json", "labels.json", "machine.json", "nccl.json", "stacks/summary.json")


class Hostile(random.Random):
    """Draws what nobody should have written."""

    def text(self) -> str:
        pieces = [self.choice(OBEYED) if self.random() < 0.6 else self.letters() for _ in range(self.randrange(4))]
        return "".join(pieces)

    def letters(self) -> str:
        return "".join(
            chr(self.choice((self.randrange(32, 127), self.randrange(0xD800)))) for _ in range(self.randrange(5))
        )

    def leaf(self) -> Any:
        chance = self.random()
        if chance < 0.4:
            return self.choice(NUMBERS) if self.random() < 0.7 else self.uniform(-10, 10)
        return self.text() if chance < 0.8 else self.choice((None, True, False))

    def json(self, depth: int = 3) -> Any:
        chance = self.random() if depth else 1.0
        if chance < 0.2:
            return [self.json(depth - 1) for _ in range(self.randrange(4))]
        if chance < 0.4:
            return {self.text(): self.json(depth - 1) for _ in range(self.randrange(4))}
        return self.leaf()

    def keyed(self, keys: Sequence[str], share: float = 0.4) -> dict[str, Any]:
        return {key: self.json() for key in keys if self.random() < share}

    def several(self, make: Callable[[], Any], most: int = 3) -> list[Any]:
        return [make() for _ in range(self.randrange(most + 1))]

    def event(self) -> dict[str, Any]:
        return {**self.keyed(EVENT_KEYS), "kind": self.choice(KINDS), "t": self.uniform(0, 2e9)}

    def sample(self) -> dict[str, Any]:
        def entry() -> dict[str, Any]:
            return {**self.keyed(SAMPLE_KEYS, 0.6), "index": self.randrange(3), "rank": self.randrange(3)}

        return {"t": self.uniform(0, 2e9), "gpus": self.several(entry), "ranks": self.several(entry), "host": entry()}

    def of_type(self, types: tuple[type, ...]) -> Any:
        return {
            str: self.text, int: lambda: self.randrange(-3, 10), float: lambda: self.uniform(-10, 2e9),
            bool: lambda: self.random() < 0.5, type(None): lambda: None, dict: lambda: {self.text(): self.json()},
            list: lambda: self.several(self.json),
        }[self.choice(types)]()  # fmt: skip

    def record(self, kind: type[Request] | type[Status] | type[Labels], odd: float = 0.0) -> dict[str, Any]:
        """Fields of a record with values of their types, some of them with any value."""
        return {
            name: self.json() if self.random() < odd else self.of_type(types)
            for name, types in kind.TYPES.items()
            if self.random() < 0.6
        }

    def request(self) -> dict[str, Any]:
        """A run.json that can be read."""
        return {
            **self.record(Request), "command": self.several(self.text), "environment": {self.text(): self.text()},
            "parameters": {self.text(): self.json() for _ in range(2)}, "limits": {}, "link": None, "group": None,
            "next": None, "expect_failure": self.several(self.text), "schema": 1, "created": self.uniform(0, 2e9),
        }  # fmt: skip

    def status(self) -> dict[str, Any]:
        """A status.json that can be read, of a run that has ended."""
        lists = {name: self.several(self.event) for name in ("checks", "predictions", "results")}
        return {
            **self.record(Status), "state": self.choice(sorted(ENDED)), "created": 1.0, "agent": None, "events": {},
            **lists, "processes": self.several(self.process),
        }  # fmt: skip

    def process(self) -> dict[str, Any]:
        place = self.choice((None, "ranks/0.log", self.text()))
        return {
            "role": "rank",
            "pid": 2**22 + 1,
            "start": 1,
            "rank": self.randrange(3),
            "stdout": place,
            "stacks": self.text(),
        }

    def stacks(self) -> dict[str, Any]:
        ranks = self.several(lambda: self.keyed(("rank", "line", "collective", "why")))
        return {**self.keyed(("t", "sentence", "ranks")), "ranks": ranks}

    def machine(self) -> dict[str, Any]:
        gpus = self.several(lambda: {**self.keyed(("name", "memory", "pcie", "nvlink")), "index": self.randrange(3)})
        return {**self.keyed(MACHINE_KEYS), "gpus": gpus}

    def log(self) -> bytes:
        return (
            self.text().encode(errors="surrogatepass") + self.randbytes(self.randrange(9)) + self.choice((b"", b"\n"))
        )

    def folder(self) -> dict[str, Any]:
        """A folder that can be read, full of text that should harm nobody."""
        content = {
            "run.json": self.request(), "status.json": self.status(),
            "labels.json": {"tags": self.several(self.text), "note": self.text(), "star": self.random() < 0.5},
            "events": self.several(self.event, 5), "samples": self.several(self.sample), "log": self.log(),
            "machine.json": self.machine(), "nccl.json": self.keyed(NCCL_KEYS), "stacks/summary.json": self.stacks(),
        }  # fmt: skip
        return {key: value for key, value in content.items() if key != "machine.json" or self.random() < 0.8}

    def odd_folder(self) -> dict[str, Any]:
        """A folder of any kind: fields of any type, JSON that is no record, bytes that are no JSON."""
        content = self.folder()
        odd: dict[str, Callable[[], Any]] = {
            "run.json": lambda: self.record(Request, 0.06), "status.json": lambda: self.record(Status, 0.1),
            "labels.json": lambda: self.record(Labels, 0.5), "machine.json": lambda: self.keyed(MACHINE_KEYS),
            "nccl.json": lambda: self.keyed(NCCL_KEYS), "stacks/summary.json": lambda: self.keyed(("t", "sentence",
            "ranks")),
            "events": lambda: self.several(lambda: self.choice((self.event, self.json, self.log))(), 5),
            "samples": lambda: self.several(lambda: self.choice((self.sample, self.json, self.log))(), 5),
        }  # fmt: skip
        for name, make in odd.items():
            if self.random() < 0.35:
                content[name] = make() if self.random() < 0.7 or name in ("events", "samples") else self.json()
        return content


def write(path: Path, content: object) -> None:
    """JSON, or bytes as they are."""
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def write_lines(path: Path, lines: list[Any]) -> None:
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )


_WHOLE: dict[RunFolder, dict[str, Any]] = {}
"""Records of folders as they were before anything was put into them."""


def fill(folder: RunFolder, content: dict[str, Any]) -> None:
    """Puts what was drawn into a run's folder: records over those that it had at first, so that they stay whole."""
    if folder not in _WHOLE:
        _WHOLE[folder] = {path.name: json.loads(path.read_bytes()) for path in folder.path.glob("*.json")}
    for name in RECORDS:
        path, whole = folder.path / name, _WHOLE[folder].get(name, {})
        its = content.get(name, whole)
        if its or whole:
            write(path, {**whole, **its} if isinstance(its, dict) else its)
        else:
            path.unlink(missing_ok=True)
    write_lines(folder.path / "events/rank0.jsonl", content.get("events", []))
    write_lines(folder.path / "telemetry/host.jsonl", content.get("samples", []))
    for name in ("output.log", "ranks/0.log"):
        (folder.path / name).write_bytes(content.get("log", b""))
