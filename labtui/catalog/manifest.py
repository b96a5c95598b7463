"""experiment.toml: what an experiment is, as frozen data.

Reading executes nothing: the script is only looked for. This module does not know where experiments are found (see
`sources`), nor what somebody asks of one (see `parameters`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labtui.catalog.reading import (
    NAME,
    NAME_RULE,
    CatalogError,
    Table,
    bounds,
    choice_of,
    inside,
    is_int,
    is_line,
    is_number,
    parse_toml,
    read_text,
    shown,
    shown_path,
)

__all__ = [
    "DEVICES", "FILE", "FORMAT", "LAUNCHES", "SCALES", "TOPICS", "TYPES",
    "CatalogError", "Chart", "Experiment", "Limits", "Parameter", "Processes", "Value", "Variant",
    "parse_experiment", "read_experiment",
]  # fmt: skip

FILE = "experiment.toml"
FORMAT = 1
"""The newest format that this labtui reads."""

TOPICS = ("data", "communication", "sharding", "tensor", "pipeline", "context", "expert", "planning")
"""In the order in which they are listed."""
LAUNCHES = ("torchrun", "python")
DEVICES = ("cuda", "cpu")
TYPES = ("int", "float", "bool", "str", "choice")
SCALES = ("linear", "log2", "log10")

Value = int | float | bool | str


@dataclass(frozen=True)
class Processes:
    """How many ranks an experiment takes."""

    default: int | None = None
    """None means one per GPU ("gpus" in the file)."""
    cpu_default: int = 2
    minimum: int = 1
    maximum: int = 64


@dataclass(frozen=True)
class Limits:
    """Bounds of a run, in seconds: of the whole, and of the time without an event or output."""

    timeout_s: float = 600.0
    stall_s: float = 120.0


@dataclass(frozen=True)
class Parameter:
    """One setting of an experiment's script."""

    name: str
    type: str
    default: Value
    cpu_default: Value | None = None
    """The default on cpu; None where it is the same."""
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[Value, ...] = ()
    unit: str = ""
    help: str = ""

    def default_on(self, device: str) -> Value:
        """The default on "cpu" or "cuda"."""
        return self.default if self.cpu_default is None or device != "cpu" else self.cpu_default

    def allowed(self) -> str:
        """What values it takes, for a sentence: `a whole number from 1 to 64 MB`."""
        if self.type == "choice":
            return " or ".join(shown(choice) for choice in self.choices)
        kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "one line of text"}
        return bounds(kinds[self.type], self.minimum, self.maximum) + (f" {self.unit}" if self.unit else "")

    def checked(self, value: object) -> Value | None:
        """The value as the script gets it (whole numbers of a float parameter become floats); None if not allowed."""
        if self.type == "choice":
            same = (choice for choice in self.choices if type(choice) is type(value) and choice == value)
            return next(same, None)
        if self.type == "bool":
            return value if isinstance(value, bool) else None
        if self.type == "str":
            return value if isinstance(value, str) and value.isprintable() else None
        fits = is_int(value) if self.type == "int" else is_number(value)
        if not fits or not isinstance(value, int | float):
            return None
        if (self.minimum is not None and value < self.minimum) or (self.maximum is not None and value > self.maximum):
            return None
        return float(value) if self.type == "float" else value


@dataclass(frozen=True)
class Variant:
    """An experiment with some things set otherwise. The variant "" is the experiment as it is."""

    name: str
    title: str
    devices: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Value] = field(default_factory=dict)
    expect_failure: tuple[str, ...] = ()
    """Names of the checks that this variant is made to fail."""
    link: str | None = None
    """A shaped link's rate as written, such as "1gbit"."""
    processes: int | None = None


@dataclass(frozen=True)
class Chart:
    """What to draw of a run's results (`x` is one of their labels) or metrics (`x` is "step")."""

    title: str
    x: str
    y: str
    series: str | None = None
    """The label that tells curves apart."""
    x_scale: str = "linear"
    y_scale: str = "linear"


@dataclass(frozen=True)
class Experiment:
    """What can be run."""

    name: str
    folder: Path
    main: Path
    """The script, in `folder`."""
    title: str
    question: str
    topic: str
    order: int
    launch: str
    """"torchrun", or "python": one process, no torch needed."""
    devices: tuple[str, ...]
    minutes: float
    """What a default run takes."""
    processes: Processes = Processes()
    limits: Limits = Limits()
    parameters: tuple[Parameter, ...] = ()
    variants: tuple[Variant, ...] = ()
    """Those that the manifest names, in its order; without the default one."""
    charts: tuple[Chart, ...] = ()

    def variant(self, name: str) -> Variant:
        """The variant of that name; "" is the default one. Raises CatalogError."""
        if name == "":
            return Variant("", "default", self.devices)
        for variant in self.variants:
            if variant.name == name:
                return variant
        names = [variant.name for variant in self.variants]
        raise CatalogError(f"{self.name} has no variant {shown(name)} {choice_of(name, names)}")

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name. Raises CatalogError."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = [parameter.name for parameter in self.parameters]
        raise CatalogError(f"{self.name} has no parameter {shown(name)} {choice_of(name, names)}")


def read_experiment(folder: Path) -> Experiment:
    """The experiment in `folder`, whose name is the folder's. Raises CatalogError: file, key, found, allowed."""
    if not NAME.fullmatch(folder.name):
        raise CatalogError(f"{shown_path(folder)}: the folder's name is no experiment's, {NAME_RULE} expected")
    document = parse_toml(shown_path(folder / FILE), read_text(folder, FILE))
    if os.path.lexists(folder / "guide.md"):
        inside(folder, "guide.md")
    return parse_experiment(document, folder)


def parse_experiment(document: Mapping[str, Any], folder: Path) -> Experiment:
    """A manifest's TOML as an Experiment; looks for the script in `folder`. Raises CatalogError."""
    place = shown_path(folder / FILE)
    # Before anything else: a newer format may have keys that would otherwise be called unknown.
    number = document.get("format", 0)
    if not is_int(number) or number < 1:
        found = shown(number) if "format" in document else "missing"
        raise CatalogError(f"{place}: format is {found}, a whole number from 1 to {FORMAT} expected")
    if number > FORMAT:
        raise CatalogError(f"{place}: format is {number}, up to {FORMAT} is read: update labtui")
    top = Table(place, "", document, (
        "format", "title", "question", "topic", "order", "launch", "devices", "minutes", "main",
        "processes", "limits", "parameters", "variants", "charts",
    ))  # fmt: skip
    launch = top.word("launch", LAUNCHES, "torchrun")
    devices = top.words("devices", DEVICES)
    processes = _processes(top, launch)
    parameters = tuple(_parameter(name, table) for name, table in top.named_tables("parameters", PARAMETER_KEYS))
    limits = top.table("limits", ("timeout_s", "stall_s"))
    return Experiment(
        name=folder.name,
        folder=folder,
        main=_main(top, folder),
        title=top.line("title"),
        question=top.line("question"),
        topic=top.word("topic", TOPICS),
        order=top.whole("order", 100),
        launch=launch,
        devices=devices,
        minutes=top.positive("minutes"),
        processes=processes,
        limits=Limits(limits.positive("timeout_s", 600.0), limits.positive("stall_s", 120.0)),
        parameters=parameters,
        variants=tuple(
            _variant(name, table, devices, processes, {parameter.name: parameter for parameter in parameters})
            for name, table in top.named_tables("variants", VARIANT_KEYS)
        ),
        charts=tuple(_chart(table) for table in top.listed_tables("charts", CHART_KEYS)),
    )


def _main(top: Table, folder: Path) -> Path:
    main = top.line("main", "main.py")
    try:
        return inside(folder, main)
    except CatalogError as error:
        raise CatalogError(f"{top.place}: main is {shown(main)}, but {error}") from None


def _processes(top: Table, launch: str) -> Processes:
    table = top.table("processes", ("default", "cpu_default", "minimum", "maximum"))
    if launch == "python":
        # One process, whatever is written: then only 1 may be written.
        for key in ("default", "cpu_default", "minimum", "maximum"):
            table.whole(key, 1, 1, 1)
        return Processes(1, 1, 1, 1)
    minimum = table.whole("minimum", 1, 1)
    maximum = table.whole("maximum", max(64, minimum), minimum)
    if table.raw("default") == "gpus" or "default" not in table:
        default = None
    elif isinstance(table.raw("default"), str):
        raise table.wrong("default", bounds('"gpus" or a whole number', minimum, maximum))
    else:
        default = table.whole("default", None, minimum, maximum)
    usual = default if default is not None else max(minimum, min(2, maximum))
    return Processes(default, table.whole("cpu_default", usual, minimum, maximum), minimum, maximum)


PARAMETER_KEYS = ("type", "default", "cpu_default", "minimum", "maximum", "choices", "unit", "help")


def _parameter(name: str, table: Table) -> Parameter:
    kind = table.word("type", TYPES)
    for key, kinds in (("minimum", ("int", "float")), ("maximum", ("int", "float")), ("choices", ("choice",))):
        if key in table and kind not in kinds:
            raise table.wrong("type", " or ".join(f'"{k}"' for k in kinds), f'is "{kind}" beside {key}')
    bound: Callable[..., int | float] = table.whole if kind == "int" else table.number
    minimum = bound("minimum") if "minimum" in table else None
    maximum = bound("maximum", None, minimum) if "maximum" in table else None
    parameter = Parameter(
        name, kind, "", None, minimum, maximum,
        choices=_choices(table) if kind == "choice" else (),
        unit=table.line("unit", ""),
        help=table.line("help", ""),
    )  # fmt: skip
    default = _default(table, "default", parameter)
    cpu_default = _default(table, "cpu_default", parameter) if "cpu_default" in table else None
    return replace(parameter, default=default, cpu_default=cpu_default)


def _default(table: Table, key: str, parameter: Parameter) -> Value:
    value = parameter.checked(table.raw(key))
    if value is None:
        raise table.wrong(key, parameter.allowed())
    return value


def _choices(table: Table) -> tuple[Value, ...]:
    """All texts or all numbers, so that what somebody types names exactly one of them."""
    choices = table.raw("choices")
    texts = isinstance(choices, list) and choices and isinstance(choices[0], str)
    return table.several("choices", "a list of different texts, or of numbers,", is_line if texts else is_number)


VARIANT_KEYS = ("title", "devices", "environment", "parameters", "expect_failure", "link", "processes")


def _variant(
    name: str, table: Table, devices: tuple[str, ...], processes: Processes, parameters: Mapping[str, Parameter]
) -> Variant:
    if name == "all":
        raise CatalogError(
            f"{table.place}: {table.path} is taken (--variants all means every one), another name expected"
        )
    least, most = processes.minimum, processes.maximum
    environment = table.table("environment", None)
    for key, text in environment.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise environment.wrong(key, "letters, digits and _", "is no name of an environment variable")
        if not isinstance(text, str) or not text.isprintable():
            raise environment.wrong(key, "text in quotes")
    return Variant(
        name=name,
        title=table.line("title", name),
        devices=table.words("devices", devices, devices),
        environment=dict(environment.items()),
        parameters=checked_values(table.table("parameters", tuple(parameters)), parameters),
        expect_failure=table.several("expect_failure", "a list of different names of checks", is_line, 0, default=()),
        link=table.line("link") if "link" in table else None,
        processes=table.whole("processes", None, least, most) if "processes" in table else None,
    )


def checked_values(table: Table, parameters: Mapping[str, Parameter]) -> dict[str, Value]:
    """The values of a table whose keys are names of parameters, each as its parameter takes it."""
    values: dict[str, Value] = {}
    for name, raw in table.items():
        value = parameters[name].checked(raw)
        if value is None:
            raise table.wrong(name, parameters[name].allowed())
        values[name] = value
    return values


CHART_KEYS = ("title", "x", "y", "series", "x_scale", "y_scale")


def _chart(table: Table) -> Chart:
    return Chart(
        title=table.line("title"),
        x=table.line("x"),
        y=table.line("y"),
        series=table.line("series") if "series" in table else None,
        x_scale=table.word("x_scale", SCALES, "linear"),
        y_scale=table.word("y_scale", SCALES, "linear"),
    )
