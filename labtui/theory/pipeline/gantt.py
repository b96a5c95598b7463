"""A simulated schedule as text: a row for each device, a sign for each stretch of time. Knows no terminal, no colour.

The form is that of the lesson: a digit for a forward, a letter for each unit of its backward, a dot where the device
idles. What a row consists of is also told as pieces (a text and the operation that it stands for), from which a
terminal colours and a cursor looks up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

from labtui.theory.pipeline.order import Order
from labtui.theory.pipeline.peaks import flat
from labtui.theory.pipeline.timeline import Op, Timeline

IDLE, ELSEWHERE = ".", " "
"""Nothing to do; busy with another stage of the device, which has a row of its own."""
DIGITS, LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
PLAIN_WEIGHT = "+"

MOST_COLUMNS = 20_000
"""The longest row without a width: beyond that nobody reads it, and a thousand devices would fill the memory."""
FINEST = 10
"""Columns for one unit of time that are tried before times are rounded."""
WIDEST = 20
"""Columns for the shortest operation; where all are longer, a column is more than one unit of time."""

Piece = tuple[str, Optional[Op]]  # noqa: UP045 - Python 3.9
"""Signs that stand side by side, and what they stand for; None where the device idles or is busy elsewhere."""


# Scale --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """How times become columns."""

    per_unit: float
    """Columns for one unit of time."""
    exact: bool = True
    """Whether every start and end falls between two columns."""

    def column(self, time: float) -> int:
        """The column that begins at `time`, or the nearest."""
        return int(time * self.per_unit + 0.5)

    @property
    def words(self) -> str:
        """`1 column = 1 unit`."""
        if self.per_unit >= 1:
            left, right = _count(self.per_unit, "column"), "1 unit"
        else:
            left, right = "1 column", f"{_count(1 / self.per_unit, 'unit')}"
        return f"{left} = {right}" + ("" if self.exact else ", times rounded to columns")


def _count(number: float, what: str) -> str:
    return f"{number:.4g} {what}{'' if f'{number:.4g}' == '1' else 's'}"


def fit(timelines: Sequence[Timeline], width: int | None = None) -> Scale:
    """The scale on which all the timelines fit into `width` columns (None: as many as they take), so that they compare.

    One column for a unit of time where all times are whole, two where they are halves, up to ten; several units for one
    column where the times have a common measure; else rounded, which the scale says.
    """
    total = max((each.total for each in timelines), default=0.0)
    if total <= 0:
        return Scale(1.0)
    most = min(width or MOST_COLUMNS, MOST_COLUMNS)
    times = {time for each in timelines for row in (*each.starts, *each.ends) for time in row}
    shortest = min(
        (end - start for each in timelines for starts, ends in zip(each.starts, each.ends)  # noqa: B905 - Python 3.9
         for start, end in zip(starts, ends) if end > start), default=total,  # noqa: B905
    )  # fmt: skip
    for per_unit in range(1, FINEST + 1):
        if not all(abs(time * per_unit - round(time * per_unit)) < 1e-6 for time in times):
            continue
        if total * per_unit <= most + 0.5 and shortest * per_unit <= WIDEST:
            return Scale(float(per_unit))
        measure = math.gcd(*(round(time * per_unit) for time in times))
        if total * per_unit / measure <= most + 0.5:
            return Scale(per_unit / measure)
        break
    natural = 2.0 if 1 <= 2 * shortest <= WIDEST else 2 / shortest
    if natural * total <= most:
        return Scale(natural, exact=False)
    # Whole columns for a unit where they fit: then equal operations stay equally long.
    return Scale(float(most // total) if total <= most else most / total, exact=False)


# Signs --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Signs:
    """Which character stands for an operation.

    A forward is a digit in base 36 (A is 10), a backward or an input gradient a small letter. A weight gradient is the
    capital letter, or a plus where capitals are digits already. Micro-batches from 36 (26 for letters) on begin again.
    """

    kinds: frozenset[str]
    microbatches: int

    def of(self, kind: str, microbatch: int) -> str:
        """The sign of an action of kind F, B, I or W."""
        if kind == "F":
            return DIGITS[microbatch % 36]
        letter = LETTERS[microbatch % 26]
        if kind != "W":
            return letter
        return letter.upper() if self._capital_weights else PLAIN_WEIGHT

    @property
    def _capital_weights(self) -> bool:
        return self.microbatches <= 10

    def legend(self) -> list[tuple[str, str]]:
        """Signs and what they mean, in the order in which a reader meets them."""
        digits = _span(DIGITS, self.microbatches, 10)
        letters = _span(LETTERS, self.microbatches, 26)
        told = []
        if "F" in self.kinds:
            told.append((digits, "forward" + (" (A is micro-batch 10)" if self.microbatches > 10 else "")))
        whole, split = "B" in self.kinds, "I" in self.kinds
        if whole or split:
            meaning = "backward" if whole else "input gradient"
            told.append((letters, meaning + (" or its input gradient" if whole and split else "")))
        if "W" in self.kinds:
            told.append((letters.upper() if self._capital_weights else PLAIN_WEIGHT, "weight gradient"))
        told.append((IDLE, "idle"))
        return told

    @property
    def repeats(self) -> str:
        """A sentence on signs that stand for several micro-batches; "" where none does."""
        if self.microbatches <= 26:
            return ""
        return "Letters begin again at micro-batch 26" + (", digits at 36." if self.microbatches > 36 else ".")


def _span(signs: str, microbatches: int, first: int) -> str:
    """`0-7`, `0-9A-N`."""
    last = signs[min(microbatches, len(signs)) - 1]
    if microbatches <= first or first >= len(signs):
        return signs[0] if microbatches == 1 else f"{signs[0]}-{last}"
    return f"{signs[0]}-{signs[first - 1]}{signs[first]}" + ("" if microbatches == first + 1 else f"-{last}")


def signs(order: Order) -> Signs:
    """The signs for an order."""
    return Signs(frozenset(action.kind for steps in order.devices for action in flat(steps)), order.microbatches)


# Rows ---------------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One line of the Gantt: what a device does, or what it does in one of its stages."""

    device: int
    stage: int | None
    """None: all stages of the device."""
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The row's signs, a character for each column."""
        return "".join(text for text, _ in self.pieces)


def rows(timeline: Timeline, width: int | None = None, *, by_stage: bool = False) -> list[str]:
    """The Gantt as lines of equal length, a device each, or with `by_stage` a stage of a device each: see `drawn`."""
    return [row.text for row in drawn(timeline, fit([timeline], width), by_stage=by_stage)]


def drawn(timeline: Timeline, scale: Scale, *, by_stage: bool = False) -> list[Row]:
    """The rows with what their signs stand for.

    In the row of a device an overlapped pair is its forward and then its backward, each as much of the block as it
    would have taken of both alone. With `by_stage`, a device that has several stages has a row for each, in which the
    two parts of a pair stand below each other over the whole block; a dot is where the device idles, a blank where
    it works in another of its stages.
    """
    shown, columns, made = signs(timeline.order), scale.column(timeline.total), []
    for device in range(len(timeline.order.devices)):
        blocks = _blocks(timeline, device)
        stages = stages_of(timeline.order, device) if by_stage else []
        if len(stages) < 2:
            made.append(
                Row(
                    device, None, _pieces([_Stretch(*each) for each in _apart(blocks, timeline)], scale, shown, columns)
                )
            )
            continue
        for stage in stages:
            made.append(Row(device, stage, _pieces(_in_stage(blocks, stage, timeline), scale, shown, columns)))
    return made


class _Stretch(NamedTuple):
    start: float
    end: float
    op: Op | None
    """None: busy elsewhere."""


def stages_of(order: Order, device: int) -> list[int]:
    """The stages that a device has, in the order of the model."""
    return sorted({stage for way in order.routes for stage, place in enumerate(way) if place == device})


def _blocks(timeline: Timeline, device: int) -> list[tuple[Op, ...]]:
    """The operations of a device, the two of a pair together."""
    blocks: list[tuple[Op, ...]] = []
    for op in timeline.ops(device):
        if op.pair is not None and blocks and blocks[-1][0].pair == op.pair:
            blocks[-1] = (*blocks[-1], op)
        else:
            blocks.append((op,))
    return blocks


def _apart(blocks: Iterable[tuple[Op, ...]], timeline: Timeline) -> list[_Stretch]:
    """The operations one after the other, those of a pair too."""
    apart = []
    for block in blocks:
        if len(block) == 1:
            apart.append(_Stretch(block[0].start, block[0].end, block[0]))
            continue
        alone = [timeline.costs.of(op.kind, op.microbatch, op.stage) for op in block]
        share = alone[0] / sum(alone) if sum(alone) > 0 else 0.5
        start, end = block[0].start, block[0].end
        middle = start + share * (end - start)
        apart += [_Stretch(start, middle, block[0]), _Stretch(middle, end, block[1])]
    return apart


def _in_stage(blocks: Iterable[tuple[Op, ...]], stage: int, timeline: Timeline) -> list[_Stretch]:
    stretches = []
    for block in blocks:
        here = tuple(op for op in block if op.stage == stage)
        if len(here) == 2:
            stretches += _apart([here], timeline)
        else:
            stretches.append(_Stretch(block[0].start, block[0].end, here[0] if here else None))
    return stretches


def _pieces(stretches: Iterable[_Stretch], scale: Scale, shown: Signs, columns: int) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    done = 0
    for start, end, op in stretches:
        first, behind = scale.column(start), scale.column(end)
        if behind <= max(first, done):
            continue
        if first > done:
            pieces.append((IDLE * (first - done), None))
        sign = ELSEWHERE if op is None else shown.of(op.kind, op.microbatch)
        pieces.append((sign * (behind - max(first, done)), op))
        done = behind
    if done < columns:
        pieces.append((IDLE * (columns - done), None))
    return tuple(pieces)


def ruler(scale: Scale, columns: int) -> str:
    """The times over the rows: each number begins at its column. At most `columns` long."""
    gap = 5 if scale.column(0) + columns / scale.per_unit < 1000 else 8
    step = _round_step(gap / scale.per_unit)
    line = ""
    for tick in range(int(columns / scale.per_unit / step) + 1):
        label, place = f"{tick * step:.6g}", scale.column(tick * step)
        if place >= len(line) + bool(line) and place + len(label) <= columns:
            line += " " * (place - len(line)) + label
    return line


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50, ... (or tenths of them) that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * (1 - 1e-9))
