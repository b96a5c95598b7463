"""Reads what `nvidia-smi topo -m` and `topo -p2p` print, as people save and paste it, from any version.

Tolerant: colours, prompts, prefixes of launchers, tables that were cut, wrapped or pasted without their legend, NICs by
number or by name, affinity columns or none. Pure: a text in, a Topology out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from labtui.machine import topology_cells
from labtui.machine.topology import P2P, Topology
from labtui.machine.topology_cells import GPU, Cells

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)|\x9b[0-?]*[ -/]*[@-~]?"
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_LONGEST_LINE = 8192
"""A table of 16 GPUs and 100 NICs needs a thousand characters."""
_NIC_LEGEND = re.compile(r"(?:^|[^\w])(NIC[0-9]{1,4})\s*:\s*(\S+)\s*$")
_ASKED = re.compile(r"topo\s+(?:-p2p|--p2pstatus)[\s=]+([a-z]+)")
_MAY = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics", "p": "pcie"}
_PREFIXES = (
    ("mpirun", r"\[\d+,\d+\]<std(?:out|err)>:?"),
    ("torchrun-rank", r"\[(?:rank|default)?\d+\]:"),
    ("ray", r"\([^()]*pid=\d+[^()]*\)"),
    ("timestamp", r"\[?(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d).*"),
    ("lineno", r"\d+[:.)]?"),
    ("pdsh", r"[\w.-]+:"),
)


@dataclass
class _Table:
    """A table: its columns, and the rows found so far."""

    columns: list[str]
    affinities: dict[str, int] = field(default_factory=dict)
    """Which affinity columns there are, and where in the line each begins."""
    may: str | None = None
    """What `topo -p2p` was asked about, where the command stands above it."""
    headless: bool = False
    """It begins with a row: its columns are found out at the end."""
    rows: dict[str, Cells] = field(default_factory=dict)
    told: dict[str, dict[str, str]] = field(default_factory=dict)
    """Device -> affinity column -> cell."""
    prefixes: list[str] = field(default_factory=list)

    @property
    def of_p2p(self) -> bool:
        known = [cell for cells in self.rows.values() for cell in cells if cell not in (None, "X")]
        return bool(known) and all(cell in P2P for cell in known)

    def take(self, device: str, line: str, start: int) -> None:
        """Takes a row's cells."""
        self.rows[device], end = topology_cells.cells(line, start, None if self.headless else len(self.columns))
        columns = dict.fromkeys(("cpu", "numa", "gpu_numa"), 0) if self.headless else self.affinities
        self.told[device] = topology_cells.affinities(line[end:], end, columns)

    def take_rest(self, device: str, line: str) -> bool:
        """Whether the line is the rest of this row, which a narrow window wrapped; if so, takes it."""
        missing = len(self.columns) - len(self.rows[device])
        start = topology_cells.goes_on(line)
        if self.headless:
            return False
        if missing > 0 and start is not None:
            rest, end = topology_cells.cells(line, start, missing)
            self.rows[device] += rest
        elif missing == 0 and not self.told[device] and topology_cells.begins_with_affinity(line):
            end = 0
        else:
            return False
        if not self.told[device]:
            self.told[device] = topology_cells.affinities(line[end:], 0, dict.fromkeys(self.affinities, 0))
        return True

    def take_rest_of_header(self, line: str) -> bool:
        """Whether the line is the rest of the header; if so, takes it."""
        if self.affinities or not line.strip():
            return False
        affinities = topology_cells.affinity_columns(line)
        names = topology_cells.devices(line[: min(affinities.values(), default=len(line))])
        if not (names or affinities) or any(name in self.columns for name in names):
            return False
        self.columns += names
        self.affinities = dict.fromkeys(affinities, 0)
        return True

    def find_columns(self) -> None:
        """Without a header: each row has its X under itself. "" for a column that no row tells."""
        self.columns = [""] * max(map(len, self.rows.values()), default=0)
        for device, cells in self.rows.items():
            if "X" in cells:
                self.columns[cells.index("X")] = device
        # GPUs come first and are counted from 0.
        last = max((place for place, name in enumerate(self.columns) if name == f"GPU{place}"), default=-1)
        for place in range(last):
            self.columns[place] = self.columns[place] or f"GPU{place}"

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Device, device, cell."""
        for device, cells in self.rows.items():
            for column, cell in zip(self.columns, cells, strict=False):
                if column and cell is not None and cell != "X" and column != device:
                    yield device, column, cell

    def incomplete(self) -> bool:
        """Whether rows, or cells of rows, are missing."""
        return self.headless or any(len(self.rows.get(column, ())) < len(self.columns) for column in self.columns)


def read(text: str) -> Topology | None:
    """The topology that the text shows; None where it shows none.

    Where it shows several (two machines, say), the first one counts. A last line without its end gives nothing: what
    it holds may be cut anywhere.
    """
    lines = _LINE_END.split(text)
    torn = bool(lines.pop().strip())
    tables, legend = _scan(lines)
    tables = [table for table in tables if table.rows or table.affinities]
    shown = next((table for table in tables if not table.of_p2p), None)
    p2p = [table for table in tables if table.of_p2p]
    if not tables:
        return None
    table = shown or p2p[0]
    devices = [name for name in dict.fromkeys((*table.columns, *table.rows)) if name]
    gpus = tuple(int(name[3:]) for name in devices if GPU.fullmatch(name))
    nics = tuple(name for name in devices if not GPU.fullmatch(name))
    return Topology(
        gpus=gpus,
        links=_links(shown, devices) if shown else {},
        nics=nics,
        nic_devices={nic: legend[nic] for nic in nics if nic in legend} or None,
        cpu_affinity=_column(table, gpus, "cpu"),
        numa_affinity=_column(table, gpus, "numa"),
        p2p=_statuses(p2p),
        prefix=_prefix("\x1b" in text, table.prefixes),
        truncated=torn or table.incomplete(),
    )


def _scan(lines: list[str]) -> tuple[list[_Table], dict[str, str]]:
    """The tables in these lines, and the legend of the NICs."""
    tables: list[_Table] = []
    legend: dict[str, str] = {}
    may: str | None = None
    open_row: str | None = None
    """The row that may go on in this line."""
    open_header = False
    for raw in lines:
        line = _ESCAPE.sub("", raw) if len(raw) <= _LONGEST_LINE else ""
        table = tables[-1] if tables else None
        found = topology_cells.row(line, table.columns if table else (), table.headless if table else False)
        if found is not None:
            prefix, device, start = found
            if table is None:
                tables.append(table := _Table([], headless=True))
            open_row, open_header = None, False
            if device not in table.rows:
                table.take(device, line, start)
                table.prefixes.append(prefix)
                open_row = device
            continue
        if table is not None and open_row is not None and table.take_rest(open_row, line):
            continue
        open_row = None
        header = topology_cells.header(line)
        if header is not None:
            if table is not None and not table.rows:
                tables.pop()
            tables.append(_Table(*header, may))
            may, open_header = None, True
        elif not (open_header and tables[-1].take_rest_of_header(line)):
            open_header = False
            named, asked = _NIC_LEGEND.search(line), _ASKED.search(line)
            if named is not None:
                legend.setdefault(named[1], named[2])
            if asked is not None:
                may = _MAY.get(asked[1][0])
    for table in tables:
        if table.headless:
            table.find_columns()
    return tables, legend


def _links(table: _Table, devices: list[str]) -> dict[tuple[str, str], str]:
    order = {name: place for place, name in enumerate(devices)}
    links: dict[tuple[str, str], str] = {}
    for device, column, cell in table.cells():
        pair = (device, column) if order[device] <= order[column] else (column, device)
        links.setdefault(pair, cell)
    return links


def _statuses(tables: list[_Table]) -> dict[str, dict[tuple[int, int], str]]:
    p2p: dict[str, dict[tuple[int, int], str]] = {}
    for table in tables:
        told = {
            (int(device[3:]), int(column[3:])): cell
            for device, column, cell in table.cells()
            if GPU.fullmatch(device) and GPU.fullmatch(column)
        }
        p2p.setdefault(table.may or "any", told)
    return p2p


def _column(table: _Table, gpus: tuple[int, ...], name: str) -> tuple[str | None, ...] | None:
    values = tuple(table.told.get(f"GPU{gpu}", {}).get(name) for gpu in gpus)
    return values if any(value is not None for value in values) else None


def _prefix(coloured: bool, prefixes: list[str]) -> str:
    if coloured:
        return "ansi"
    prefix = next((prefix for prefix in prefixes if prefix), "")
    return next((kind for kind, pattern in _PREFIXES if re.fullmatch(pattern, prefix)), "plain")
