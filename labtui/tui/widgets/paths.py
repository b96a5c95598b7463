"""The paths pane: a matrix of ranks with the transport that NCCL chose, the link's ceiling, or what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len

from labtui.runs.watch import Snapshot
from labtui.tui import actions, words
from labtui.tui.gpu_words import rate
from labtui.tui.lines import Line, Piece, crop, fit, wrap
from labtui.tui.paths import Pair, Paths, gloo_words, is_on_gpus, paths, short
from labtui.tui.widgets.pane import Pane

MOST_IN_MATRIX = 16
TRANSPORT, CEILING, MEASURED = "transport", "ceiling", "measured"
_TITLES = {TRANSPORT: "Paths", CEILING: "Paths: ceiling, GB/s", MEASURED: "Paths: measured, GB/s"}
SELF, NO_LINK = "·", "-"


class PathsPane(Pane):
    """One matrix at a time; turned like a chart."""

    places = (actions.PANE, actions.LIST)

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.snapshot: Snapshot | None = None
        self._view = TRANSPORT
        self._drawn: tuple[Snapshot, Paths] | None = None

    @property
    def title(self) -> str:  # type: ignore[override]
        return _TITLES[self.view]

    @property
    def paths(self) -> Paths | None:
        """The paths of the present snapshot, drawn anew only if it says something else of them."""
        snapshot, drawn = self.snapshot, self._drawn
        if snapshot is None:
            return None
        if drawn is not None and _same(drawn[0], snapshot):
            return drawn[1]
        self._drawn = snapshot, paths(snapshot)
        return self._drawn[1]

    @property
    def views(self) -> tuple[str, ...]:
        """What there is to turn to."""
        found = self.paths
        if found is None or self.snapshot is None or not is_on_gpus(self.snapshot):
            return (TRANSPORT,)
        return (TRANSPORT, *([CEILING] if found.ceilings else []), *([MEASURED] if found.measured else []))

    @property
    def view(self) -> str:
        return self._view if self._view in self.views else TRANSPORT

    def facts(self) -> Sequence[Piece]:
        views = self.views
        return [(f"{views.index(self.view) + 1} of {len(views)}", "dim")] if len(views) > 1 else ()

    def clear(self) -> None:
        """Forgets which matrix was chosen, for another run."""
        self.snapshot, self._drawn, self._view = None, None, TRANSPORT
        self.redraw()

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        views = self.views
        self._view = views[(views.index(self.view) + by) % len(views)]
        self.redraw()

    def body(self, width: int) -> Sequence[Line]:
        snapshot, found = self.snapshot, self.paths
        if snapshot is None or found is None:
            return []
        if not is_on_gpus(snapshot):
            return gloo_lines(snapshot, found, width)
        return path_lines(found, self.view, width, live=snapshot.live)


def _same(before: Snapshot, now: Snapshot) -> bool:
    return (
        before.nccl is now.nccl
        and before.machine is now.machine
        and before.request is now.request
        and len(before.results) == len(now.results)
    )


def gloo_lines(snapshot: Snapshot, found: Paths, width: int) -> list[Line]:
    """On the CPU there is nothing to choose; what a log says is told all the same."""
    lines: list[Line] = [((text, ""),) for text in wrap(f"{gloo_words(snapshot)}: no paths to choose", width)]
    # A snapshot of a run on the CPU has no NCCL, but gloo and torchrun have their failures.
    if found.diagnosis:
        lines += [(), *_said(found, width)]
    return lines


def path_lines(found: Paths, view: str, width: int, *, live: bool) -> list[Line]:
    """The matrix (or a summary, where there are too many ranks), what NCCL said of itself, and the diagnosis."""
    if not found.transports and not found.measured:
        return _nothing(found, width, live)
    drawn = _matrix(found, view, width) if found.ranks <= MOST_IN_MATRIX else None
    lines = drawn if drawn is not None else _summary(found, width)
    for sentence, role in ((_figures(found), "strong"), (" · ".join(found.facts), "dim")):
        lines += [((text, role),) for text in wrap(sentence, width)] if sentence else []
    return [*lines, *_said(found, width), *(_legend(found, view, width) if drawn is not None else [])]


def _nothing(found: Paths, width: int, live: bool) -> list[Line]:
    if found.diagnosis:
        return _said(found, width)
    missing = (
        "NCCL has not told its paths yet"
        if live
        else f"{words.UNKNOWN}: this run has no NCCL log (NCCL_DEBUG=INFO makes NCCL tell its paths)"
    )
    return [((text, "dim"),) for text in wrap(missing, width)]


def _said(found: Paths, width: int) -> list[Line]:
    role = "warn" if found.warnings else ""
    return [((text, role),) for text in wrap(found.diagnosis, width)] if found.diagnosis else []


# The matrix -----------------------------------------------------------------------------------------------------------


def _matrix(found: Paths, view: str, width: int) -> list[Line] | None:
    """From the rank at the left to the one above; None where there is no room for it."""
    ranks = range(found.ranks)
    cell = _CELLS[view]
    cells = {(one, other): cell(found, (one, other)) for one in ranks for other in ranks}
    head = max(4, len(str(found.ranks - 1)))
    column = max(cell_len(text) for text, _ in cells.values()) + 1
    column = max(column, min(9, (width - head) // max(found.ranks, 1)), len(str(found.ranks - 1)) + 1)
    column = min(column, 9)
    if head + column * found.ranks > width:
        return None
    lines: list[Line] = [
        ((fit("to", head, right=True), "dim"), ("".join(f"{rank:>{column}}" for rank in ranks), "dim"))
    ]
    for one in ranks:
        row: list[Piece] = [(f"{one:>{head}}", "dim")]
        for other in ranks:
            text, role = cells[one, other]
            row.append((fit(text, column, right=True), role))
        lines.append(tuple(row))
    return lines


def _transport_cell(found: Paths, pair: Pair) -> Piece:
    if pair[0] == pair[1]:
        return SELF, "dim"
    transports = list(dict.fromkeys(short(transport) for transport in found.transports.get(pair, ())))
    if not transports:
        return NO_LINK, "dim"
    return transports[0] + "+" * (len(transports) > 1), _TRANSPORT_ROLES.get(transports[0], "")


_TRANSPORT_ROLES = {"P2P": "good", "NVLS": "good", "NET": "accent"}


def _ceiling_cell(found: Paths, pair: Pair) -> Piece:
    if pair[0] == pair[1]:
        return SELF, "dim"
    ceiling = found.ceilings.get(pair)
    if ceiling is None or ceiling.gb_per_s is None:
        return words.UNKNOWN, "dim"
    return rate(ceiling.gb_per_s), ""


def _measured_cell(found: Paths, pair: Pair) -> Piece:
    if pair[0] == pair[1]:
        return SELF, "dim"
    value = found.measured.get(pair)
    return (NO_LINK, "dim") if value is None else (rate(value), "")


_CELLS: dict[str, Callable[[Paths, Pair], Piece]] = {
    TRANSPORT: _transport_cell,
    CEILING: _ceiling_cell,
    MEASURED: _measured_cell,
}


def _legend(found: Paths, view: str, width: int) -> list[Line]:
    """What the signs of the matrix mean, as far as it has them."""
    pairs = [(one, other) for one in range(found.ranks) for other in range(found.ranks) if one != other]
    told = []
    if view == TRANSPORT and any(pair not in found.transports for pair in pairs):
        told.append(f"{NO_LINK} no link was made")
    if view == TRANSPORT and any(len({short(t) for t in found.transports.get(pair, ())}) > 1 for pair in pairs):
        told.append("+ others on some channels")
    if view == MEASURED and any(pair not in found.measured for pair in pairs):
        told.append(f"{NO_LINK} not measured")
    if view == CEILING:
        told += sorted({f"{c.kind}: {c.what}" for c in found.ceilings.values() if c.what})[:4]
        if any(pair not in found.ceilings for pair in pairs):
            told.append(f"{words.UNKNOWN}: machine.json knows no link of the pair")
    return [((text, "dim"),) for text in wrap("   ".join(told), width)] if told else []


# In a line ----------------------------------------------------------------------------------------------------------


def _figures(found: Paths) -> str:
    """`measured 10.9 to 11.2 of 15.8 GB/s (PCIe 4.0 x8)`: what was measured, beside what the links can carry."""
    known = [ceiling for ceiling in found.ceilings.values() if ceiling.gb_per_s is not None]
    most = _range(ceiling.gb_per_s for ceiling in known if ceiling.gb_per_s is not None)
    whats = {ceiling.what for ceiling in known if ceiling.what}
    what = f" ({whats.pop()})" if len(whats) == 1 else ""
    if not found.measured:
        return f"ceiling {most} GB/s{what}" if known else ""
    return f"measured {_range(found.measured.values())}" + (f" of {most}" if known else "") + f" GB/s{what}"


def _range(values: Iterable[float]) -> str:
    """`10.9 to 11.2`; empty where there are none."""
    found = sorted(values)
    low, high = (rate(found[0]), rate(found[-1])) if found else ("", "")
    return low if low == high else f"{low} to {high}"


def _summary(found: Paths, width: int) -> list[Line]:
    """By transport: how many ordered pairs of ranks take it, and what was measured there."""
    groups: dict[str, list[Pair]] = {}
    for pair, transports in found.transports.items():
        groups.setdefault(" + ".join(dict.fromkeys(short(t) for t in transports)), []).append(pair)
    lines: list[Line] = [_summary_row(f"{found.ranks} ranks", "pairs", "measured GB/s", "dim", width)]
    for name, pairs in sorted(groups.items(), key=lambda group: -len(group[1])):
        measured = [found.measured[pair] for pair in pairs if pair in found.measured]
        lines.append(_summary_row(name, str(len(pairs)), _range(measured) if measured else words.UNKNOWN, "", width))
    return lines


def _summary_row(name: str, pairs: str, measured: str, role: str, width: int) -> Line:
    return crop(
        (
            (fit(name, 14), role or _TRANSPORT_ROLES.get(name, "")),
            (f"{pairs:>8}", role or "strong"),
            ("   ", ""),
            (measured, role),
        ),
        width,
    )
