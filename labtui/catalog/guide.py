"""guide.md: the steps of an experiment's guide, with the live blocks that a reader acts on, as frozen data.

Markdown stays Markdown: only `## ` headings and the live blocks are taken out. Reading executes nothing, and this
module knows neither runs nor how a guide is shown; what a block's numbers mean is for others to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labtui.catalog.manifest import DEVICES, Experiment, Value, checked_values
from labtui.catalog.markdown import cut
from labtui.catalog.reading import (
    MOST_TABLES,
    NAME,
    NAME_RULE,
    CatalogError,
    Table,
    is_int,
    is_line,
    parse_toml,
    read_text,
    shown_path,
)

FILE = "guide.md"

FACTS = ("link.ceiling", "link.measured", "gpu.peak_tflops", "gpu.memory", "world_size", "host.cores")
"""What a bound may be a multiple of; besides these, `prediction:NAME` of the same run."""
PREDICTION = "prediction:"


@dataclass(frozen=True)
class Text:
    """Markdown, as written."""

    markdown: str


@dataclass(frozen=True)
class Run:
    """Offers a run; `id` names this block's newest run for the blocks below it."""

    id: str
    line: int
    """Where the block begins in guide.md, counted from 1."""
    variant: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    processes: int | None = None
    device: str | None = None
    link: str | None = None


@dataclass(frozen=True)
class Predict:
    """Asks for the reader's guess at one result of the run `of`, before it is shown."""

    of: str
    result: str
    ask: str
    line: int
    where: Mapping[str, Value] = field(default_factory=dict)
    """Labels that the result must carry."""
    unit: str = ""


@dataclass(frozen=True)
class Bound:
    """`times` of a fact, or the plain number `times` where `of` is None."""

    times: float
    of: str | None = None


@dataclass(frozen=True)
class Expect:
    """The range in which one result of the run `of` should lie, and what to say about it."""

    of: str
    result: str
    line: int
    where: Mapping[str, Value] = field(default_factory=dict)
    at_least: Bound | None = None
    at_most: Bound | None = None
    good: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Compare:
    """Puts runs side by side, by their blocks' ids."""

    runs: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Quiz:
    """A question with either a number (within `tolerance`) or choices (`correct` are their indices) as its answer."""

    question: str
    line: int
    number: float | None = None
    tolerance: float = 0.0
    choices: tuple[str, ...] = ()
    correct: tuple[int, ...] = ()
    why: str = ""


Part = Text | Run | Predict | Expect | Compare | Quiz


@dataclass(frozen=True)
class Step:
    """What stands under one `## ` heading, in order."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Guide:
    """A whole guide; `title_text` is the Markdown above the first step."""

    title_text: str
    steps: tuple[Step, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All run blocks, in order."""
        return tuple(part for step in self.steps for part in step.parts if isinstance(part, Run))


def read_guide(folder: Path, experiment: Experiment | None = None) -> Guide:
    """The guide in `folder`; with an experiment, run blocks are checked against its variants and parameters too.

    Raises CatalogError: file, line of the block, key, what was found and what is allowed.
    """
    return parse_guide(read_text(folder, FILE), shown_path(folder / FILE), experiment)


def parse_guide(text: str, file: str = FILE, experiment: Experiment | None = None) -> Guide:
    """A guide's text as a Guide; `file` is what errors call it. Raises CatalogError."""
    # What stands above the first heading comes first, under no title.
    sections: list[tuple[str, list[Part]]] = [("", [])]
    known: list[str] = []
    blocks = 0
    for piece in cut(text, file, tuple(BLOCKS)):
        if piece.kind == "heading":
            sections.append((piece.content, []))
        elif piece.kind == "text":
            sections[-1][1].append(Text(piece.content))
        elif len(sections) == 1:
            raise CatalogError(f"{file}, line {piece.line}: {piece.kind} stands above all steps, a ## heading expected")
        else:
            place = f"{file}, line {piece.line}, {piece.kind}"
            blocks += 1
            if blocks > MOST_TABLES:
                raise CatalogError(
                    f"{place}: it is the block after {MOST_TABLES:,} others, a guide for people expected"
                )
            keys, read = BLOCKS[piece.kind]
            table = Table(place, "", parse_toml(place, piece.content, piece.line + 1), keys)
            block = read(table, piece.line, known, experiment)
            if isinstance(block, Run):
                known.append(block.id)
            sections[-1][1].append(block)
    above = "\n\n".join(part.markdown for part in sections[0][1] if isinstance(part, Text))
    return Guide(above, tuple(Step(title, tuple(parts)) for title, parts in sections[1:]))


def _run(table: Table, line: int, known: list[str], experiment: Experiment | None) -> Run:
    name = table.line("id")
    if not NAME.fullmatch(name):
        raise table.wrong("id", NAME_RULE)
    if name in known:
        raise table.wrong("id", "an id that no block above has")
    variant = table.raw("variant") if "variant" in table else ""
    if not isinstance(variant, str) or not (variant == "" or is_line(variant)):
        raise table.wrong("variant", "a variant's name")
    devices: tuple[str, ...] = DEVICES
    least: int = 1
    most: int | None = None
    if experiment is not None:
        names = [one.name for one in experiment.variants]
        if variant != "" and variant not in names:
            raise table.wrong("variant", f'"" or a variant of {experiment.name} ({", ".join(names) or "it has none"})')
        devices = experiment.variant(variant).devices
        least, most = experiment.processes.minimum, experiment.processes.maximum
    return Run(
        id=name,
        line=line,
        variant=variant,
        parameters=_settings(table, experiment),
        processes=table.whole("processes", None, least, most) if "processes" in table else None,
        device=table.word("device", devices) if "device" in table else None,
        link=table.line("link") if "link" in table else None,
    )


def _settings(table: Table, experiment: Experiment | None) -> dict[str, Value]:
    """The parameters of a run block, as the experiment declares them where it is known."""
    if experiment is None:
        return table.values("parameters")
    parameters = {parameter.name: parameter for parameter in experiment.parameters}
    return checked_values(table.table("parameters", tuple(parameters)), parameters)


def _earlier(known: list[str]) -> str:
    return f"the id of a run block above ({', '.join(known) or 'there is none'})"


def _of(table: Table, known: list[str]) -> str:
    if table.raw("of") not in known:
        raise table.wrong("of", _earlier(known))
    return table.line("of")


def _predict(table: Table, line: int, known: list[str], experiment: Experiment | None) -> Predict:
    return Predict(
        of=_of(table, known),
        result=table.line("result"),
        ask=table.text("ask"),
        line=line,
        where=table.values("where"),
        unit=table.line("unit", ""),
    )


def _expect(table: Table, line: int, known: list[str], experiment: Experiment | None) -> Expect:
    at_least, at_most = _bound(table, "at_least"), _bound(table, "at_most")
    if at_least is None and at_most is None:
        raise table.wrong("at_least", "at_least or at_most")
    for key, word, bound in (("at_least", "low", at_least), ("at_most", "high", at_most)):
        if word in table and bound is None:
            raise table.wrong(key, f"a bound for {word}")
    if at_least and at_most and at_least.of == at_most.of and at_least.times > at_most.times:
        raise table.wrong("at_most", f"at_least ({at_least.times}) or more", f"is {at_most.times}")
    return Expect(
        of=_of(table, known),
        result=table.line("result"),
        line=line,
        where=table.values("where"),
        at_least=at_least,
        at_most=at_most,
        good=table.text("good", ""),
        low=table.text("low", ""),
        high=table.text("high", ""),
    )


def _bound(table: Table, key: str) -> Bound | None:
    if key not in table:
        return None
    if not isinstance(table.raw(key), dict):
        return Bound(table.number(key, allowed="a number or { times, of }"))
    inner = table.table(key, ("times", "of"))
    times, fact = inner.positive("times"), inner.raw("of")
    named = isinstance(fact, str) and fact.startswith(PREDICTION) and is_line(fact.removeprefix(PREDICTION))
    if not named and fact not in FACTS:
        raise inner.wrong("of", f"{', '.join(FACTS)} or {PREDICTION}NAME")
    return Bound(times, str(fact))


def _compare(table: Table, line: int, known: list[str], experiment: Experiment | None) -> Compare:
    allowed = f"a list of 2 to 8 different ids, each {_earlier(known)},"
    return Compare(table.several("runs", allowed, lambda item: item in known, 2, 8), line)


def _quiz(table: Table, line: int, known: list[str], experiment: Experiment | None) -> Quiz:
    question, why = table.text("question"), table.text("why", "")
    if "number" in table:
        for key in ("choices", "correct"):
            if key in table:
                raise table.wrong(key, "either number or choices", "stands beside number")
        return Quiz(question, line, table.number("number"), table.number("tolerance", None, 0), why=why)
    if "tolerance" in table:
        raise table.wrong("number", "a number beside tolerance")
    if "choices" not in table:
        raise table.wrong("number", "number or choices")
    choices = table.several("choices", "a list of 2 to 9 different texts", is_line, 2, 9)
    indices = f"a list of different whole numbers from 0 to {len(choices) - 1}"
    correct = table.several("correct", indices, lambda item: is_int(item) and item in range(len(choices)))
    return Quiz(question, line, choices=choices, correct=correct, why=why)


BLOCKS: Mapping[str, tuple[tuple[str, ...], Callable[[Table, int, list[str], Experiment | None], Part]]] = {
    "run": (("id", "variant", "parameters", "processes", "device", "link"), _run),
    "predict": (("of", "result", "where", "ask", "unit"), _predict),
    "expect": (("of", "result", "where", "at_least", "at_most", "good", "low", "high"), _expect),
    "compare": (("runs",), _compare),
    "quiz": (("question", "number", "tolerance", "choices", "correct", "why"), _quiz),
}
"""The live blocks: info string -> keys, reader."""
