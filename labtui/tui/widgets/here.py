"""The panes of the Machine screen: what this machine is, how its GPUs hang together, what the doctor says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labtui.machine import topology_read
from labtui.machine.doctor.finding import Finding
from labtui.machine.topology import Topology
from labtui.runs.clean import clean_line
from labtui.runs.records import Document
from labtui.tui import machine_lines, words
from labtui.tui.lines import UPRIGHT, Line, Piece
from labtui.tui.messages import Machine
from labtui.tui.widgets.pane import Pane


class AboutPane(Pane):
    """What the machine is, and its profile."""

    title = "This machine"

    def __init__(self) -> None:
        super().__init__()
        self.machine: Machine | None = None
        self.profiles: Mapping[str, Document] | None = None

    def facts(self) -> Sequence[Piece]:
        machine = self.machine
        host = clean_line(str(machine.document.get("host") or "")) if machine is not None and machine.document else ""
        told = f"measured by {clean_line(machine.run)}" if machine is not None and machine.run else ""
        return [(" · ".join(filter(None, (host, told))), "dim")] if host or told else ()

    def body(self, width: int) -> Sequence[Line]:
        return machine_lines.about(self.machine, self.profiles, width)


class LinksPane(Pane):
    """A matrix of GPUs at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.topology: Topology | None = None
        self._document: Any = None
        self._why = ""
        self._view = machine_lines.KINDS

    def show(self, machine: Machine) -> None:
        """Takes what a machine.json tells of the links; draws nothing anew where it tells the same."""
        document = machine.document
        if document is None or document == self._document:
            return
        self._document, self.topology = document, topology_read.from_machine(document)
        why = clean_line(str(document.get("gpus_why") or ""))
        self._why = f"no GPU{f': {why}' if why else ''}"
        self.redraw()

    @property
    def view(self) -> str:
        return self._view if self._view in machine_lines.views(self.topology) else machine_lines.KINDS

    @property
    def title(self) -> str:  # type: ignore[override]
        return machine_lines.view_title(self.topology, self.view)

    def facts(self) -> Sequence[Piece]:
        views = machine_lines.views(self.topology)
        return [(f"{views.index(self.view) + 1} of {len(views)}", "dim")] if len(views) > 1 else ()

    def turn(self, by: int) -> None:
        """The next matrix, or the one before."""
        views = machine_lines.views(self.topology)
        self._view, self._top = views[(views.index(self.view) + by) % len(views)], 0
        self.redraw()

    def body(self, width: int) -> Sequence[Line]:
        return machine_lines.links(self.topology, self.view, self._why, width)


class DoctorPane(Pane):
    """The doctor's findings."""

    title = "Doctor"

    def __init__(self, *, joint: str) -> None:
        super().__init__(joint=joint)
        self.findings: tuple[Finding, ...] = ()
        self.taken: float | None = None
        """When the findings were made; None where they are being made."""
        self.meets_at: int | None = None
        """The line in which a rule meets ours from the left."""

    def facts(self) -> Sequence[Piece]:
        if self.taken is None:
            return [("looking", "warn")]
        return [*machine_lines.verdict(self.findings), (f" · {words.time_of_day(self.taken)[:5]}", "dim")]

    def body(self, width: int) -> Sequence[Line]:
        if not self.findings:
            return [(("looking at what would trip up a run", "dim"),)]
        return machine_lines.findings(self.findings, width)

    def build(self, width: int, height: int) -> Sequence[Line]:
        lines = list(super().build(width, height))
        if self.beside and self.meets_at is not None and 0 < self.meets_at < len(lines):
            (margin, role), *rest = lines[self.meets_at]
            lines[self.meets_at] = ((margin.replace(UPRIGHT, "┤", 1), role), *rest)
        return lines
