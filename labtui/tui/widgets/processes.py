"""The processes of a run: each rank's pid, CPU and memory, as its telemetry last said."""

from __future__ import annotations

from collections.abc import Sequence

from labtui.charts import number
from labtui.runs.watch import Snapshot
from labtui.tui import words
from labtui.tui.lines import Line, Piece, fit
from labtui.tui.widgets.chart import blocks
from labtui.tui.widgets.pane import Pane

BAR = 10
GONE_S = 2.5


class Processes(Pane):
    """A row for each rank, and the host below."""

    title = "Processes"

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.snapshot: Snapshot | None = None

    def facts(self) -> Sequence[Piece]:
        snapshot = self.snapshot
        if snapshot is None or snapshot.telemetry is None:
            return ()
        age = snapshot.taken - float(snapshot.telemetry["t"])
        if not snapshot.live:
            return [("as last seen", "dim")]
        return [(f"{words.clock(age)} old", "warn")] if age > 5 else ()

    def body(self, width: int) -> Sequence[Line]:
        return processes(self.snapshot, width) if self.snapshot else []


def processes(snapshot: Snapshot, width: int) -> list[Line]:
    """The table as lines of at most `width` cells."""
    status, samples = snapshot.status, snapshot.rank_samples
    pids = {process.rank: process.pid for process in status.ranks if process.rank is not None} if status else {}
    ranks = sorted({*samples, *pids})
    if not ranks:
        return [(("no rank has been seen yet" if snapshot.live else "no rank was seen", "dim"),)]
    latest = number((snapshot.telemetry or {}).get("t")) or 0.0
    lines: list[Line] = [_columns("rank", "pid", "CPU %", "", "RSS", width, "dim")]
    for rank in ranks:
        sample = samples.get(rank, {})
        # A rank that is missing from the latest samples has ended, or can't be looked at any more.
        gone = bool(sample) and snapshot.live and latest - float(sample["t"]) > GONE_S
        cpu = number(sample.get("cpu"))
        bar = "gone" if gone else blocks(round(min(max(cpu, 0.0), 100.0) / 100 * BAR * 8)) if cpu is not None else ""
        pid = sample.get("pid", pids.get(rank, words.UNKNOWN))
        role = "dim" if gone else ""
        lines.append(_columns(str(rank), str(pid), words.percent(cpu), bar, words.size(sample.get("rss")), width, role))
    return [*lines, *_host((snapshot.telemetry or {}).get("host"), width)]


def _columns(rank: str, pid: str, cpu: str, bar: str, rss: str, width: int, role: str = "") -> Line:
    line: list[Piece] = [
        (fit(rank, 4, right=True), role or "strong"),
        (fit(pid, 9, right=True), "dim"),
        (fit(cpu, 7, right=True), role),
    ]
    if width >= 32 + BAR:
        # The bar is full at one whole core; a rank that uses more shows it in the number.
        line += [(" ", ""), (fit(bar, BAR), role or "accent")]
    return (*line, (fit(rss, 10, right=True), role))


def _host(host: object, width: int) -> list[Line]:
    if not isinstance(host, dict):
        return []
    parts = []
    if number(host.get("cpu")) is not None:
        parts.append(f"CPU {words.percent(host['cpu'])} %")
    load = number(host.get("load1"))
    if load is not None:
        parts.append(f"load {load:.1f}")
    if number(host.get("mem_available")) is not None:
        parts.append(f"{words.size(host['mem_available'])} free")
    return [((fit("host  " + ", ".join(parts), width), "dim"),)] if parts else []
