"""What `labtui simulate` tells people of schedules: the Gantt in colours, the figures, the table of a comparison.

Turns timelines into lines; knows neither the arguments nor how the timelines came about.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from labtui.cli import output
from labtui.runs.clean import clean_line
from labtui.theory.pipeline import gantt, words
from labtui.theory.pipeline.critical import critical_path, first_waits
from labtui.theory.pipeline.words import both_ends, compared, has_several, number, percent

if TYPE_CHECKING:
    from labtui.theory.pipeline.timeline import Op, Timeline

WIDTH = 79
"""Cells of a line that is no Gantt: what a narrow terminal shows."""

_HUES_256 = (111, 179, 108, 175, 80, 173)
_HUES_8 = (4, 3, 2, 5, 6, 1)
"""The TUI's series colours, and the nearest of a terminal that has but eight."""
_RESET, _DIM = "\x1b[0m", "\x1b[2m"


def costs_words(timeline: Timeline) -> str:
    """`F 1  B 2  comm 0`, with what else there is."""
    costs, kinds = timeline.costs, gantt.signs(timeline.order).kinds
    told = [f"F {number(costs.forward)}"]
    if "B" in kinds:
        told.append(f"B {number(costs.backward)}")
    if "I" in kinds:
        told += [f"I {number(costs.input)}", f"W {number(costs.weight)}"]
    if any(len(step) == 2 for steps in timeline.order.devices for step in steps):
        told.append(f"F&B {number(costs.pair)}")
    told.append(f"comm {number(costs.comm)}" + (", links busy" if timeline.link_busy else ""))
    for what, factors in (("stage", costs.stages), ("micro-batch", costs.batches)):
        uneven = [f"{place} x{number(factor)}" for place, factor in enumerate(factors) if factor != 1]
        if uneven:
            told.append(f"{what} {', '.join(uneven[:4])}{', ...' if len(uneven) > 4 else ''}")
    return "  ".join(told)


def title(name: str, timeline: Timeline, scale: gantt.Scale | None = None) -> list[str]:
    """What stands above a chart: sizes and costs, and the scale where it is the chart's own."""
    order = timeline.order
    parts = [f"{clean_line(name)}  p {len(order.devices)}  m {order.microbatches}"]
    if order.stages != len(order.devices):
        parts.append(f"{order.stages} stages")
    parts.append(costs_words(timeline))
    if scale is not None:
        parts.append(f"({scale.words})")
    return _filled(parts, "   ")


# The Gantt ----------------------------------------------------------------------------------------------------------


def frame(timelines: Sequence[Timeline], *, by_stage: bool = False) -> int:
    """Cells that a line of a chart needs besides its signs: the label and the bars."""
    stage = 0 if by_stage and any(has_several(each.order) for each in timelines) else None
    return max(len(_label(each, 0, stage)) for each in timelines) + len(" ||")


def _label(timeline: Timeline, device: int, stage: int | None) -> str:
    last = len(timeline.order.devices) - 1
    name = f"GPU{device:<{len(str(last))}}"
    return name if stage is None else f"{name} s{stage:<{len(str(timeline.order.stages - 1))}}"


def chart(timeline: Timeline, scale: gantt.Scale, *, by_stage: bool = False, colour: bool = False) -> list[str]:
    """The ruler and a line for each device, or for each of its stages."""
    rows = gantt.drawn(timeline, scale, by_stage=by_stage)
    labels, before = [], None
    for row in rows:
        label = _label(timeline, row.device, row.stage)
        if row.device == before:
            place = label.index(" s")
            label = " " * place + label[place:]
        labels.append(label)
        before = row.device
    width = max(map(len, labels))
    paint = _painter(timeline) if colour else None
    lines = [(" " * (width + 2) + gantt.ruler(scale, scale.column(timeline.total))).rstrip()]
    for label, row in zip(labels, rows, strict=True):
        signs = row.text if paint is None else "".join(paint(text, op) for text, op in row.pieces)
        lines.append(f"{label:<{width}} |{signs}|")
    return lines


def legend(timelines: Sequence[Timeline], scale: gantt.Scale | None, *, by_stage: bool = False) -> list[str]:
    """What the signs of these charts mean, and how much time a column is, unless each chart says so itself."""
    kinds = frozenset(kind for each in timelines for kind in gantt.signs(each.order).kinds)
    shown = gantt.Signs(kinds, max(each.order.microbatches for each in timelines))
    told = [f"{sign} {meaning}" for sign, meaning in shown.legend()]
    if scale is not None:
        told.append(f"({scale.words})")
    sentences = [shown.repeats] if shown.repeats else []
    several = [each for each in timelines if has_several(each.order)]
    if several and by_stage:
        sentences.append("A device has a row for each of its stages (s0 is the first); blank: it works in another one.")
    elif several:
        sentences.append("A device's row shows all its stages; --rows stage draws each apart.")
    if any(len(each.order.routes) > 1 for each in several):
        sentences.append(both_ends(next(each.order for each in several if len(each.order.routes) > 1)))
    return [*_filled(told, "   "), *wrapped(" ".join(sentences))]


def _filled(parts: Sequence[str], gap: str) -> list[str]:
    """The parts in lines of at most WIDTH cells, none broken that needn't be."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(gap) + len(part) <= WIDTH:
            lines[-1] += gap + part
        else:
            lines.append(part)
    return lines


def wrapped(text: str) -> list[str]:
    """The text in lines of at most WIDTH cells."""
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False) if text else []


def _painter(timeline: Timeline) -> Callable[[str, Op | None], str]:
    """A function (text, operation) -> the text in its colour: a hue for each direction, else for each micro-batch.

    A forward is written in its hue, a backward on it, a weight gradient on grey; letters tell the same without colour.
    """
    many = "256" in os.environ.get("TERM", "") or bool(os.environ.get("COLORTERM"))
    ways = timeline.order.route_of if len(timeline.order.routes) > 1 else ()

    def paint(text: str, op: Op | None) -> str:
        if op is None:
            return f"{_DIM}{text}{_RESET}" if text.strip() else text
        place = (ways[op.microbatch] if ways else op.microbatch) % 6
        ink = f"38;5;{_HUES_256[place]}" if many else f"3{_HUES_8[place]}"
        ground = f"48;5;{_HUES_256[place]};38;5;16" if many else f"4{_HUES_8[place]};30"
        grey = f"48;5;237;38;5;{_HUES_256[place]}" if many else f"3{_HUES_8[place]};4"
        codes = {"F": ink, "W": grey}.get(op.kind, ground)
        return f"\x1b[{codes}m{text}{_RESET}"

    return paint


# Figures ------------------------------------------------------------------------------------------------------------


def figures(name: str, timeline: Timeline) -> list[str]:
    """Total, bubble by both conventions, critical path, formula; then each device's work, peak and first wait."""
    path, said = critical_path(timeline), compared(name, timeline)
    bubble = [f"{percent(timeline.bubble)} of the total, {percent(timeline.bubble_over_ideal)} over the ideal"]
    if said is not None and said.formula.by_span:
        bubble.append(
            f"{percent(timeline.bubble_of_span)} of the longest span, from a device's first action to its last, "
            f"as Zero Bubble counts"
        )
    facts = {
        "total": [f"{number(timeline.total)}   (ideal, if no device ever waited: {number(timeline.ideal)})"],
        "bubble": bubble,
        "critical path": [words.path(path, len(timeline.order.devices))],
        "formula": [] if said is None else words.formula(said),
    }
    lines = []
    for what, told in facts.items():
        found = [line for each in told for line in textwrap.wrap(each, WIDTH - 15, break_on_hyphens=False)]
        lines += [f"{what if place == 0 else '':<15}{line}" for place, line in enumerate(found)]
    rows = [
        (
            f"GPU{device}", number(timeline.busy[device]), number(timeline.idle[device]),
            str(timeline.peak_in_flight[device]), number(timeline.peak_memory[device]),
            words.wait(wait, timeline.ends[device][-1], timeline.total),
        )
        for device, wait in enumerate(first_waits(timeline))
    ]  # fmt: skip
    header = ("device", "busy", "idle", "in flight", "memory", "first waits")
    return [*lines, "", *right_aligned(header, rows, left=(0, 5)), *wrapped(words.HELD)]


def comparison(timelines: Sequence[Timeline], names: Sequence[str]) -> list[str]:
    """A line for each schedule, in the order given; peaks are those of the device that holds most."""
    header = ("schedule", "stages", "total", "bubble", "of ideal", "of span", "held", "memory", "hops")
    rows = [
        (
            output.cut(clean_line(name), 20), str(each.order.stages), number(each.total), percent(each.bubble),
            percent(each.bubble_over_ideal), percent(each.bubble_of_span), str(max(each.peak_in_flight)),
            number(max(each.peak_memory)), str(critical_path(each).hops),
        )
        for name, each in zip(names, timelines, strict=True)
    ]  # fmt: skip
    lines = right_aligned(header, rows)
    notes = (
        "bubble: idle share of the total; of ideal: idle time over work; of span: idle share of the longest span from "
        "a device's first action to its last, as Zero Bubble counts; hops: transfers on the critical path; held: most "
        "activations in flight, in (micro-batch, stage) pieces; memory: the same in units of a device's whole share "
        "of one micro-batch."
    )
    if len({round(each.ideal, 6) for each in timelines}) > 1:
        notes += (
            " Costs are those of one stage, so these schedules do not all do the same work: compare their bubbles, or "
            "their totals with --cost-of device."
        )
    return [*lines, *wrapped(notes)]


def right_aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """A table of numbers: columns but those in `left` end together."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(
            text.ljust(width) if place in left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]
