"""Simulated schedules in words: the settings with their keys, what devices do at a moment, the figures. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labtui.theory.pipeline import words
from labtui.theory.pipeline.critical import Wait
from labtui.theory.pipeline.timeline import Op
from labtui.theory.pipeline.words import number, percent
from labtui.tui.lines import RULE, Line, Piece, cells, crop, fit, spread, wrap
from labtui.tui.schedule_settings import Settings
from labtui.tui.schedule_study import OPTIMAL, Doing, Picture, Study

KINDS = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


# Settings -----------------------------------------------------------------------------------------------------------


def settings_line(settings: Settings, picture: Picture | None, width: int) -> Line:
    """Sizes and costs; the letter that is coloured is the key that changes it. What finds no room is left out."""
    parts = _parts(settings, picture)
    pieces: list[Piece] = [(" ", "")]
    for place, part in enumerate(parts):
        gap: list[Piece] = [("   " if width >= 60 else "  ", "")] if place else []
        more = place < len(parts) - 1
        if cells(pieces) + cells(gap) + cells(part) + (2 if more else 0) > width:
            pieces.append((" …", "dim"))
            break
        pieces += [*gap, *part]
    return crop(pieces, width)


def _parts(settings: Settings, picture: Picture | None) -> list[list[Piece]]:
    shown = picture.shown if picture is not None else ()
    split = {"F", "I", "W"} if settings.maker.pieces > 2 else {"F", "B"}
    kinds = {kind for each in shown for kind in each.signs.kinds} or split
    names = [settings.schedule, *filter(None, [settings.against])]
    parts: list[list[Piece]] = [_part("p", settings.devices), _part("m", settings.microbatches)]
    virtual = settings.virtual_of(settings.schedule)
    if settings.maker.chooses_virtual:
        parts.append(_part("v", virtual))
    elif any(settings.virtual_of(name) > 1 for name in names):
        parts.append([(f"v {virtual}", "dim")])
    parts.append(_part("F", settings.forward))
    if "B" in kinds:
        parts.append(_part("B", settings.whole_backward))
    if "I" in kinds:
        parts += [_part("I", settings.input), _part("W", settings.weight)]
    if any(each.has_pairs for each in shown):
        parts.append([(f"F&B {number(settings.overlapped)}", "")])
    parts.append([("c", "accent"), ("omm ", "dim"), (number(settings.comm), "strong")])
    if settings.limit is not None:
        parts.append([("l", "accent"), ("imit ", "dim"), (number(settings.limit), "strong")])
    if settings.link_busy:
        parts.append([("links b", "dim"), ("u", "accent"), ("sy", "dim")])
    if settings.per_device and any(settings.virtual_of(name) > 1 for name in names):
        parts.append([("costs per ", "dim"), ("d", "accent"), ("evice", "dim")])
    parts += [[(f"stage {stage} x{number(factor)}", "")] for stage, factor in settings.slow]
    return parts


def _part(letter: str, value: float) -> list[Piece]:
    return [(letter, "accent"), (f" {number(value)}", "strong")]


# A moment -----------------------------------------------------------------------------------------------------------


def operation(op: Op) -> str:
    """`B5 of stage 2, micro-batch 5, 10 to 12`."""
    return f"{op.kind}{op.microbatch} of stage {op.stage}, micro-batch {op.microbatch}, {_times(op)}"


def in_full(study: Study, device: int, t: float, room: int) -> str:
    """A sentence on what the device does at time `t`, or on what it waits for and why: as much as finds room."""
    doing = study.doing(device, t)
    if len(doing.ops) == 2:
        one, other = doing.ops
        parts = [
            f"{operation(one)}, and at the same time ",
            f"{other.kind}{other.microbatch} of stage {other.stage}, micro-batch {other.microbatch}",
        ]
    elif doing.ops:
        parts = [operation(doing.ops[0]), f" ({KINDS[doing.ops[0].kind]})"]
    elif doing.wait is None:
        parts = [_done(study, device)]
    else:
        parts = _waiting(study, device, t, doing.wait)
    name = f"GPU{device}: "
    while len(parts) > 1 and len(name) + sum(map(len, parts)) > room:
        parts.pop()
    return name + "".join(parts)


def _waiting(study: Study, device: int, t: float, wait: Wait) -> list[str]:
    op, need = wait.op, wait.need
    sender = "its own" if wait.source == device else f"GPU{wait.source}'s"
    times = f"waits from {number(wait.start)} to {number(wait.end)}"
    parts = [f"{times} for {sender} {need.kind}{need.microbatch} of stage {need.stage}"]
    if wait.sent < wait.end:
        parts.append(f" (sent at {number(wait.sent)})")
    parts.append(f" to begin {op.kind}{op.microbatch} of stage {op.stage}")
    other = study.put_off(device, t) if op.kind != "F" else None
    if other is not None:
        parts.append(f"; F{other.microbatch} of stage {other.stage} could begin, but comes later in the order")
    return parts


def _done(study: Study, device: int) -> str:
    ends = study.timeline.ends[device]
    return f"done since {number(ends[-1])}" if ends else "has nothing to do"


def short(doing: Doing, width: int, done: str = "done") -> str:
    """What a device does in at most about `width` cells."""
    if doing.ops:
        name = "&".join(f"{op.kind}{op.microbatch}" for op in doing.ops)
        return _longest([f"{name}  {_times(doing.ops[0])}", name], width)
    if doing.wait is None:
        return _longest([done, "done"], width)
    wait = doing.wait
    what, until = f"waits for {wait.need.kind}{wait.need.microbatch}", f"until {number(wait.end)}"
    return _longest([f"{what} from GPU{wait.source} {until}", f"{what} {until}", what], width)


def _longest(ways: Sequence[str], width: int) -> str:
    return next((way for way in ways if len(way) <= width), ways[-1])


def _times(op: Op) -> str:
    return f"{number(op.start)} to {number(op.end)}"


def moment(picture: Picture, t: float, device: int, width: int, height: int) -> list[Line]:
    """What every device does at time `t`: a header and a line each, those around the chosen one where room is short."""
    studies = picture.shown
    if not studies or height < 2:
        return []
    devices = max(each.devices for each in studies)
    label = len(f"GPU{devices - 1}") + 3
    column = max((width - label) // len(studies), 8)
    held = 7 if column >= 22 else 0
    header: list[Piece] = [(f"  {'at':{label - 2}}", "dim")]
    for study in studies:
        head = f"t = {number(t)}" if len(studies) == 1 else study.name
        header += [(fit(head, column - held - 1), "dim"), (f"{'holds' if held else '':>{held}} ", "dim")]
    rows = height - 1
    first = max(0, min(device - rows // 2, devices - rows))
    lines = [crop(header, width)]
    for number_ in range(first, min(first + rows, devices)):
        chosen = number_ == device
        pieces: list[Piece] = [
            ("› " if chosen else "  ", "accent"), (f"GPU{number_}".ljust(label - 2), "strong" if chosen else "dim"),
        ]  # fmt: skip
        for study in studies:
            if number_ >= study.devices:
                continue
            doing = study.doing(number_, t)
            role = "" if doing.ops else "warn" if doing.wait is not None else "dim"
            text = short(doing, column - held - 1, _done(study, number_))
            pieces += [(fit(text, column - held - 1), role), (f"{doing.held if held else '':>{held}} ", "dim")]
        lines.append(crop(pieces, width))
    return lines


# Figures ------------------------------------------------------------------------------------------------------------

_LABEL = 11


def figures(picture: Picture, width: int) -> list[Line]:
    """Total, bubble, peaks, critical path, formula: of one schedule, or of two side by side."""
    studies = picture.shown
    if not studies:
        return []
    lines = _of_one(studies[0], width) if len(studies) == 1 else _of_several(studies, width)
    for study in studies:
        if study.note:
            lines += _paragraph("found", study.note, width)
        if study.name != OPTIMAL:
            lines += _formula(study, width, named=len(studies) > 1)
    if len({round(each.timeline.ideal, 6) for each in studies}) > 1:
        lines += _paragraph(
            "note", "not the same work: costs are those of one stage; d makes them those of a device", width, "warn"
        )
    return lines


def _of_one(study: Study, width: int) -> list[Line]:
    timeline = study.timeline
    rows = [
        ("total", f"{number(timeline.total)}, ideal {number(timeline.ideal)}"),
        ("bubble", f"{percent(timeline.bubble)} of the total"),
        ("", f"{percent(timeline.bubble_over_ideal)} over the ideal"),
    ]
    if _by_span(study):
        rows.append(("", f"{percent(timeline.bubble_of_span)} of the longest span"))
    path = f"{words.counted(len(study.path.steps), 'operation')}, {words.counted(study.path.hops, 'hop')}"
    rows += [
        ("path", path),
        ("in flight", _by_device(list(map(str, timeline.peak_in_flight)), width - _LABEL)),
        ("memory", _by_device([f"{peak:.4g}" for peak in timeline.peak_memory], width - _LABEL)),
    ]
    return [line for label, text in rows for line in _paragraph(label, text, width)]


def _of_several(studies: Sequence[Study], width: int) -> list[Line]:
    label = 18
    column = max((width - label) // len(studies), 7)

    def line(name: str, texts: Sequence[str], role: str = "") -> Line:
        return crop([(name.ljust(label), "dim"), *((fit(text, column - 1) + " ", role) for text in texts)], width)

    timelines = [each.timeline for each in studies]
    lines = [
        line("", [each.name for each in studies], "title"),
        line("bubble of total", [percent(each.bubble) for each in timelines]),
        line("bubble over ideal", [percent(each.bubble_over_ideal) for each in timelines]),
    ]
    if any(_by_span(each) for each in studies):
        lines.append(line("bubble of span", [percent(each.bubble_of_span) for each in timelines]))
    # The headings have the totals already.
    return [
        *lines,
        line("in flight", [_by_device(list(map(str, each.peak_in_flight)), column - 1) for each in timelines]),
        line("memory", [_by_device([f"{peak:.4g}" for peak in each.peak_memory], column - 1) for each in timelines]),
        line("hops on the path", [str(each.path.hops) for each in studies]),
        line("total", [number(each.total) for each in timelines]),
        line("ideal", [number(each.ideal) for each in timelines]),
    ]


def _by_span(study: Study) -> bool:
    """Whether its formula counts by the longest span."""
    return study.said is not None and study.said.formula.by_span


def _by_device(values: Sequence[str], width: int) -> str:
    """All of few; of many the first and the last."""
    if len(set(values)) == 1:
        return f"{values[0]} on each" if len(values) > 1 else values[0]
    return _longest([" ".join(values), f"{values[0]} ... {values[-1]}", f"max {max(values, key=float)}"], width)


def _formula(study: Study, width: int, *, named: bool) -> list[Line]:
    label = "formula"
    if study.said is None:
        return _paragraph(label, f"nobody printed one{f' of {study.name}' if named else ''}", width, "dim")
    lines: list[Line] = []
    for place, text in enumerate(words.formula(study.said)):
        said = f"{study.name}: {text}" if named and not place else text
        role = "dim" if text.startswith("(") else "warn" if study.said.why and not place else ""
        lines += _paragraph(label if not place else "", said, width, role)
    return lines


def _paragraph(label: str, text: str, width: int, role: str = "") -> list[Line]:
    return [
        crop([((label if not place else "").ljust(_LABEL), "dim"), (line, role)], width)
        for place, line in enumerate(wrap(text, width - _LABEL))
    ]


def beside(left: Sequence[Line], right: Sequence[Line], split: int, width: int, height: int) -> list[Line]:
    """Two columns with a thin line between them."""
    lines = []
    for place in range(min(height, max(len(left), len(right)))):
        one = left[place] if place < len(left) else ()
        other = right[place] if place < len(right) else ()
        lines.append(crop([*crop(one, split), ("│ ", "rule"), *crop(other, width - split - 2)], width))
    return lines


def rule(width: int, joint: int | None = None, note: str = "") -> Line:
    """A thin line across, with a joint where another one begins below, and a note at its right end."""
    left: list[Piece] = [] if joint is None else [(RULE * joint + "┬", "rule")]
    right: list[Piece] = [(f" {note} ", "dim"), (RULE, "rule")] if note else []
    return spread(left, right, width, fill=RULE, role="rule")
