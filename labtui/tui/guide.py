"""A guide as Markdown to be read: live blocks become a short quotation that says what can be done. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from labtui.catalog.guide import Bound, Compare, Expect, Guide, Part, Predict, Quiz, Run, Text
from labtui.runs.clean import clean_line


def guide_markdown(read: Guide, experiment: str) -> str:
    """The whole guide of that experiment."""
    blocks = [read.title_text.strip()]
    for step in read.steps:
        blocks.append(f"## {step.title}")
        blocks += [_part(part, experiment) for part in step.parts]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _part(part: Part, experiment: str) -> str:
    match part:
        case Text():
            return part.markdown.strip()
        case Run():
            return _quoted("Run", _command(part, experiment))
        case Predict():
            return _quoted("Guess first", part.ask + (f" ({part.unit})" if part.unit else ""))
        case Expect():
            return _quoted("Expected", _expectation(part))
        case Compare():
            return _quoted("Compare", f"the runs {', '.join(part.runs)} (`labtui compare`)")
        case Quiz():
            choices = "".join(f"\n> {number}. {choice}" for number, choice in enumerate(part.choices, 1))
            return _quoted("Question", part.question) + (f"\n>{choices}" if choices else "")


def _quoted(what: str, text: str) -> str:
    return f"> **{what}**  {text}"


def _command(part: Run, experiment: str) -> str:
    command = f"labtui run {experiment}"
    if part.variant:
        command += f" --variant {part.variant}"
    for name, value in part.parameters.items():
        command += f" --set {name}={str(value).lower() if isinstance(value, bool) else value}"
    if part.processes:
        command += f" --nproc {part.processes}"
    if part.device:
        command += f" --device {part.device}"
    if part.link:
        command += f" --link {part.link}"
    return f"`{command}`"


def _expectation(part: Expect) -> str:
    bounds = [
        f"{word} {_bound(bound)}" for word, bound in (("at least", part.at_least), ("at most", part.at_most)) if bound
    ]
    return f"{part.result}{_where(part.where)} {' and '.join(bounds)}"


def _bound(bound: Bound) -> str:
    return f"{bound.times:g} x {bound.of}" if bound.of else f"{bound.times:g}"


def _where(where: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{key} {value}' for key, value in where.items())})" if where else ""


def literal(text: str) -> str:
    """Any text as Markdown that shows just it."""
    return re.sub(r"([^\w\s])", r"\\\1", clean_line(text), flags=re.ASCII)
