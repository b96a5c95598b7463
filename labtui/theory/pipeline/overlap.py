"""DualPipe's overlapped pair: what computes while what travels, in the four slots of one layer. Data, and its check.

A forward of one micro-batch (here B) and a backward of another (here A) go through a layer of a mixture of experts
side by side. Each has two pieces that compute, attention and the experts' MLP, and two all-to-alls between them:
dispatch takes tokens to their experts, combine brings them back. In each slot one computes while the other travels.
Source: DeepSeek-V3 (arXiv 2412.19437) section 3.2.1 and figure 4; weight gradients and the pipeline's own transfers,
which fill the rest of the figure, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

COMPUTES, TRAVELS = ("attention", "MLP"), ("dispatch", "combine")
PATHS: dict[str, tuple[str, ...]] = {
    "forward": ("attention", "dispatch", "MLP", "combine"),
    "backward": ("combine", "MLP", "dispatch", "attention"),
}
"""The order of the pieces of a layer; after the last comes the first of the next layer (backwards, of the previous)."""
MICROBATCH = {"forward": "B", "backward": "A"}


class Piece(NamedTuple):
    """A part of a layer's forward or backward."""

    name: str
    way: str
    """forward or backward."""

    def __str__(self) -> str:
        return f"{self.name} {self.way} {MICROBATCH.get(self.way, '?')}"


class Slot(NamedTuple):
    """What happens at the same time; the next slot begins when both have ended."""

    computes: Piece
    travels: Piece


Table = Sequence[Slot]

TABLE: tuple[Slot, ...] = (
    Slot(Piece("MLP", "backward"), Piece("dispatch", "forward")),
    Slot(Piece("MLP", "forward"), Piece("dispatch", "backward")),
    Slot(Piece("attention", "backward"), Piece("combine", "forward")),
    Slot(Piece("attention", "forward"), Piece("combine", "backward")),
)
"""One layer; the next one's slots follow."""


class OverlapError(ValueError):
    """A table in which something is used before it is there. The message is one sentence."""


def check(table: Table = TABLE) -> None:
    """Whether the slots, repeated for layer after layer, keep the order of both passes. Raises OverlapError if not.

    Every piece has one slot; what computes and what travels in a slot belong to different micro-batches; and each piece
    ends, with its slot, before the next one of its pass begins, so that a layer takes one round of the table.
    """
    at: dict[Piece, int] = {}
    for number, slot in enumerate(table, 1):
        for piece, does, possible in ((slot.computes, "computes", COMPUTES), (slot.travels, "travels", TRAVELS)):
            if piece.name not in possible or piece.way not in PATHS:
                raise OverlapError(f"slot {number}: {piece} is nothing that {does}")
            if piece in at:
                raise OverlapError(f"slot {number}: {piece} is in slot {at[piece]} already")
            at[piece] = number
        if slot.computes.way == slot.travels.way:
            raise OverlapError(f"slot {number}: {slot.computes} and {slot.travels} are of one micro-batch, one waits")
    for way, names in PATHS.items():
        path = [Piece(name, way) for name in names]
        for piece in path:
            if piece not in at:
                raise OverlapError(f"there is no slot for {piece}")
        steps = [(at[after] - at[before]) % len(table) for before, after in zip(path, path[1:] + path[:1])]  # noqa: B905
        if sum(steps) != len(table):
            found = sorted(path, key=lambda piece: (at[piece] - at[path[0]]) % len(table))
            raise OverlapError(
                f"the {way} goes {', '.join(piece.name for piece in found)}, but each needs the one before it in "
                f"{', '.join(names)}"
            )


def hops(table: Table = TABLE) -> dict[str, tuple[int, ...]]:
    """For each pass, the slots (from 1) of its pieces in their order: attention 4, dispatch 1, MLP 2, combine 3."""
    at = {piece: number for number, slot in enumerate(table, 1) for piece in slot}
    return {way: tuple(at[Piece(name, way)] for name in names) for way, names in PATHS.items()}


def lines(table: Table = TABLE) -> list[str]:
    """The table as text: the slots side by side, and the way of each pass through them. ASCII, at most 80 columns for
    four slots. Raises OverlapError as `check` does: a table that can't be is not drawn."""
    check(table)
    width = max(len(_short(piece)) for slot in table for piece in slot) + 2
    rows = [[f"slot {number}" for number in range(1, len(table) + 1)]]
    rows += [[_short(slot.computes) for slot in table], [_short(slot.travels) for slot in table]]
    drawn = []
    for head, row in zip(("", "computes", "travels"), rows):  # noqa: B905 - Python 3.9
        drawn.append(f"{head:<9}|" + "|".join(f" {cell:<{width - 1}}" for cell in row) + "|")
    drawn.append("")
    for way, slots in hops(table).items():
        steps, before = [], 0
        for name, slot in zip(PATHS[way], slots):  # noqa: B905 - Python 3.9
            steps.append(f"{name} {slot}{'*' if slot < before else ''}")
            before = slot
        drawn.append(f"{f'{way} of {MICROBATCH[way]}:':<15}" + " > ".join(steps))
    return [*drawn, "(a piece and its slot; * from there on in the round of the next layer)"]


def _short(piece: Piece) -> str:
    return f"{piece.name.replace('attention', 'attn')} {piece.way[0]}wd {MICROBATCH[piece.way]}"
