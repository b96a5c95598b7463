"""The machine strip: a line for each GPU while it works; without a GPU one quiet line about the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from labtui.charts import number
from labtui.runs.clean import clean_line
from labtui.runs.gauges import GpuGauges, Recent
from labtui.tui import gpu_words, words
from labtui.tui.lines import RULE, Line, Piece, cells, crop, fit, spread
from labtui.tui.messages import OLD_S, Machine
from labtui.tui.widgets.drawing import Drawing

SPARK, SPARK_S = 12, 5.0
"""Columns of a sparkline, and the seconds in each of them."""
LOOKING = "this machine is being looked at"
BRIEF_CELLS = 38
"""Width of a GPU's entry where there is no line for each."""


class MachineStrip(Drawing):
    """The GPUs of this machine, or its host."""

    def __init__(self) -> None:
        super().__init__()
        self.machine: Machine | None = None
        self.joint_at: int | None = None
        """The column in which a rule meets the strip from above."""

    def lines_wanted(self, width: int, most: int) -> int:
        """How many lines it takes, of at most `most`."""
        gpus = len(self.machine.gauges.gpus) if self.machine is not None else 0
        if not gpus or most < 2:
            return 1
        if gpus + 2 <= most:
            return gpus + 2
        return min(1 - (-gpus // _abreast(width)), most)

    def build(self, width: int, height: int) -> Sequence[Line]:
        return strip(self.machine, width, height, self.joint_at)


def strip(machine: Machine | None, width: int, height: int, joint_at: int | None = None) -> list[Line]:
    """The strip as at most `height` lines of exactly `width` cells."""
    if machine is None:
        return [crop(((" ", ""), (fit(LOOKING, width - 2), "dim")), width)]
    gpus = machine.gauges.gpus
    if not gpus:
        return [_host_line(machine, width)]
    if height < 2:
        return [crop(((" ", ""), *_all_in_one(gpus)), width)]
    head = _head(machine, width, joint_at)
    if len(gpus) + 2 <= height:
        return [head, *_table(gpus, width)]
    return [head, *_brief(gpus, width, height - 1)]


# The heading ----------------------------------------------------------------------------------------------------------


def _head(machine: Machine, width: int, joint_at: int | None) -> Line:
    """A rule with the host's own figures at its end."""
    title = machine.run or "this machine"
    left: list[Piece] = [(f"{RULE} ", "rule"), (fit(title, min(len(title), max(width // 3, 8))), "strong"), (" ", "")]
    facts = _joined(_host_facts(machine), width - cells(left) - 7)
    right: list[Piece] = [(" ", ""), *facts, (f" {RULE}", "rule")] if facts else []
    fill = RULE * (width - cells(left) - cells(right))
    at = -1 if joint_at is None else joint_at - cells(left)
    if 0 <= at < len(fill):
        fill = f"{fill[:at]}┴{fill[at + 1 :]}"
    return crop((*left, (fill, "rule"), *right), width)


def _host_facts(machine: Machine) -> list[list[Piece]]:
    """What is known of the host, the most important first."""
    facts: list[list[Piece]] = []
    if machine.trouble:
        facts.append([(clean_line(machine.trouble), "warn")])
    elif machine.gauges.t is not None and machine.taken - machine.gauges.t > OLD_S:
        facts.append([(f"{words.clock(machine.taken - machine.gauges.t)} old", "warn")])
    if not machine.gauges.hosts:
        return facts
    host = machine.gauges.hosts[0]
    cpu, free, load = (host.latest.get(name) for name in ("cpu", "mem_available", "load1"))
    if number(cpu) is not None:
        facts.append([("CPU ", "dim"), (spark(host.recent), "area"), (f"{words.percent(cpu):>4} %", "dim")])
    if number(free) is not None:
        facts.append([(f"{words.size(free)} free", "dim")])
    if number(load) is not None:
        facts.append([(f"load {gpu_words.plain(load, 1)}", "dim")])
    return facts


def _joined(facts: Sequence[Sequence[Piece]], room: int) -> list[Piece]:
    """As many of the facts as there is room for."""
    pieces: list[Piece] = []
    for fact in facts:
        longer = [*pieces, *([(" · ", "rule")] if pieces else []), *fact]
        if cells(longer) > room:
            break
        pieces = longer
    return pieces


def _host_line(machine: Machine, width: int) -> Line:
    """No GPU: why, and what the host does."""
    document = machine.document or {}
    why = clean_line(str(document.get("gpus_why") or ""))
    known = machine.document is not None or machine.gauges.t is not None
    # There are GPUs, and no reading of them yet.
    awaited = bool(document.get("gpus")) or (not known and not machine.trouble)
    left = LOOKING if awaited else "no GPU" + (f": {why}" if why else "") if known else "n/a"
    shown = fit(left, min(cell_len(left), width - 2))
    right = _joined(_host_facts(machine), width - cell_len(shown) - 5)
    return spread([(" ", ""), (shown, "dim")], [*right, (" ", "")], width)


# The table ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """A column of the table."""

    title: str
    width: int
    cell: Callable[[Mapping[str, Any]], str]
    order: int
    """The columns with the highest numbers go first where the terminal is narrow."""


_COLUMNS = (
    _Column("mem GiB", 11, lambda gpu: gpu_words.pair(gpu, "mem_used", "mem_total", gpu_words.gib), 1),
    _Column("power W", 9, lambda gpu: gpu_words.pair(gpu, "power_w", "power_limit_w", gpu_words.plain), 2),
    _Column("°C", 4, lambda gpu: gpu_words.plain(gpu.get("temp_c")), 3),
    _Column("SM MHz", 7, lambda gpu: gpu_words.plain(gpu.get("sm_mhz")), 4),
    _Column("PCIe rx/tx GB/s", 15, lambda gpu: gpu_words.pair(gpu, "pcie_rx", "pcie_tx", gpu_words.rate), 6),
    _Column("NVLink rx/tx", 13, lambda gpu: gpu_words.pair(gpu, "nvlink_rx", "nvlink_tx", gpu_words.rate), 5),
)
_FIRST = 7 + SPARK + 6
_HELD = 18


def _table(gpus: Sequence[GpuGauges], width: int) -> list[Line]:
    has_links = any(number(gpu.latest.get("nvlink_rx")) is not None for gpu in gpus)
    shown = [column for column in _COLUMNS if has_links or not column.title.startswith("NVLink")]
    while shown and _FIRST + sum(column.width + 2 for column in shown) + 2 + _HELD > width:
        shown.remove(max(shown, key=lambda column: column.order))
    header = f" GPU  {'util':<{SPARK + 7}}" + "".join(f"  {column.title:>{column.width}}" for column in shown)
    lines = [crop(((fit_end(f"{header}  held back by", width), "dim"),), width)]
    several = len({gpu.host for gpu in gpus}) > 1
    return [*lines, *(_row(gpu, shown, width, several) for gpu in gpus)]


def fit_end(text: str, width: int) -> str:
    """Our own text, cut at its end where it must be; its spaces stay."""
    return text[:width]


def _row(gpu: GpuGauges, shown: Sequence[_Column], width: int, several: bool) -> Line:
    number_: Piece = (fit(str(gpu.index), 4, right=True), "strong")
    if gpu.silence:
        return crop((number_, ("  ", ""), (f"{words.UNKNOWN}  ", "bad"), (gpu_words.silence(gpu), "bad")), width)
    latest = gpu.latest
    pieces: list[Piece] = [
        number_,
        ("  ", ""),
        (spark(gpu.recent), "area"),
        (_percent(latest.get("util")), "strong"),
    ]
    pieces += [(f"  {fit(column.cell(latest), column.width, right=True)}", "") for column in shown]
    held, role = gpu_words.held(latest)
    remarks = ", ".join(filter(None, (gpu_words.shared_memory(latest), clean_line(gpu.host) if several else "")))
    pieces += [("  ", ""), (held, role), ("  " if held and remarks else "", ""), (remarks, "dim")]
    return crop(pieces, width)


def _percent(value: object) -> str:
    """With its sign, in seven cells: what is unknown has none."""
    text = words.percent(value)
    return f"{text:>5}  " if text == words.UNKNOWN else f"{text:>5} %"


def spark(recent: Recent, columns: int = SPARK, seconds: float = SPARK_S) -> str:
    """The last minute of a percentage, blank where it is not known. Its columns move on only every few seconds."""
    if not recent:
        return " " * columns
    newest = recent[-1][0] // seconds
    sums: dict[int, list[float]] = {}
    for t, value in recent:
        if value is not None:
            sums.setdefault(int(newest - t // seconds), []).append(value)
    levels = [sums.get(columns - 1 - place) for place in range(columns)]
    return "".join(
        " " if not found else "▁▂▃▄▅▆▇"[min(max(round(sum(found) / len(found) / 100 * 6), 0), 6)] for found in levels
    )


# Where there is less room -------------------------------------------------------------------------------------------


def _abreast(width: int) -> int:
    return max(width // BRIEF_CELLS, 1)


def _brief(gpus: Sequence[GpuGauges], width: int, height: int) -> list[Line]:
    """Several GPUs on each line."""
    abreast = _abreast(width)
    room = width // abreast
    shown = gpus if len(gpus) <= height * abreast else gpus[: height * abreast - 1]
    entries = [_entry(gpu, room) for gpu in shown]
    if len(shown) < len(gpus):
        entries.append(crop(((f"  and {len(gpus) - len(shown)} more", "dim"),), room))
    rows = -(-len(entries) // abreast)
    # Down the columns, as one reads a list.
    return [crop([piece for entry in entries[row::rows] for piece in entry], width) for row in range(rows)]


def _entry(gpu: GpuGauges, room: int) -> Line:
    latest = gpu.latest
    pieces: list[Piece] = [(f"{gpu.index:>4}", "strong"), (" ", "")]
    if gpu.silence:
        return crop((*pieces, (f"{words.UNKNOWN} {gpu_words.silence(gpu)}", "bad")), room)
    held, role = gpu_words.held(latest)
    pieces += [
        (spark(gpu.recent, 6, 10.0), "area"),
        (_percent(latest.get("util")), "strong"),
        (f"{gpu_words.gib(latest.get('mem_used')):>6} G", ""),
        (f"{gpu_words.plain(latest.get('temp_c')):>4} °C ", ""),
    ]
    return crop((*pieces, (fit(held, max(room - cells(pieces) - 1, 0)), role)), room)


def _all_in_one(gpus: Sequence[GpuGauges]) -> list[Piece]:
    """All GPUs' utilization on one line."""
    pieces: list[Piece] = [("GPU % ", "dim")]
    for gpu in gpus:
        lost = bool(gpu.silence)
        held, role = gpu_words.held(gpu.latest)
        pieces.append((f" {words.percent(gpu.latest.get('util'))}", "bad" if lost else role if held else "strong"))
        if held and not lost and held != words.UNKNOWN:
            pieces.append(("!", role))
    return pieces
