"""The form in which a run is set: its rows, what is wrong with what was typed, and the wish that comes of it. Pure.

The rows come from the manifest. What nobody typed shows the default on the chosen device, or the variant's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from labtui.catalog import parameters
from labtui.catalog.manifest import Experiment, Parameter
from labtui.catalog.reading import CatalogError
from labtui.runs.records import Request
from labtui.tui.wish import Wish, text_of

DEVICE, PROCESSES, LINK, TIMEOUT, SHARE = "--device", "--nproc", "--link", "--timeout", "--share"
"""Rows beside the parameters, named as `labtui run` has them: no parameter's name begins so."""
NO_LINK = "none"
YES, NO = "true", "false"


@dataclass(frozen=True)
class Row:
    """One line of the form."""

    key: str
    text: str
    """What is typed, or the default."""
    default: str
    unit: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    """What can be chosen from; empty where it is typed."""
    error: str = ""
    """Why what was typed can't be, in one sentence."""

    @property
    def changed(self) -> bool:
        return self.text != self.default


@dataclass(frozen=True)
class Form:
    """What a form holds."""

    experiment: Experiment
    variant: str = ""
    gpus: int = 0
    typed: Mapping[str, str] = field(default_factory=dict)
    """Row's key -> what was typed there, as far as it isn't the default."""
    block: str = ""
    """The guide's run block that the run is for, if any."""

    def with_text(self, key: str, text: str) -> Form:
        """The same with something typed into a row; the default again where the text is the default's."""
        rest = {name: value for name, value in self.typed.items() if name != key}
        empty = replace(self, typed=rest)
        default = next((row.default for row in rows(empty) if row.key == key), "")
        return empty if text == default else replace(self, typed={**rest, key: text})


def form_of(wish: Wish, gpus: int) -> Form:
    """A form that is filled as wished."""
    form = Form(wish.experiment, wish.variant, gpus, block=wish.block)
    given = {
        DEVICE: wish.device,
        PROCESSES: wish.processes,
        LINK: wish.link,
        TIMEOUT: None if wish.timeout_s is None else f"{wish.timeout_s:g}",
        SHARE: YES if wish.share else None,
    }
    texts = {**{key: str(value) for key, value in given.items() if value is not None}, **wish.settings}
    for key, text in texts.items():
        form = form.with_text(key, text)
    return form


def as_last_time(form: Form, last: Request) -> Form:
    """The form filled as that run was: its variant, its parameters as far as there are such ones, and how it ran."""
    names = {parameter.name for parameter in form.experiment.parameters}
    variants = {"", *(variant.name for variant in form.experiment.variants)}
    variant = last.variant if last.variant in variants else form.variant
    wish = Wish(
        form.experiment, variant,
        {name: text_of(value) for name, value in last.parameters.items() if name in names},
        last.device, last.nproc, _link_text(last), share=last.share, block=form.block,
    )  # fmt: skip
    return form_of(wish, form.gpus)


def _link_text(last: Request) -> str | None:
    from labtui.machine.link import rate_text

    rate = (last.link or {}).get("rate_bits")
    return rate_text(rate) if isinstance(rate, int | float) else NO_LINK if last.launch == "torchrun" else None


# Rows ---------------------------------------------------------------------------------------------------------------


def rows(form: Form) -> tuple[Row, ...]:
    """All rows: the manifest's parameters, then how to run."""
    device, device_row = _device(form)
    variant = form.experiment.variant(form.variant)
    made = [_parameter(form, parameter, device, variant.parameters) for parameter in form.experiment.parameters]
    made.append(device_row)
    if form.experiment.launch == "torchrun":
        made += [_processes(form, device), _link(form, device, variant.link)]
    return (*made, _timeout(form), _share(form))


def _parameter(form: Form, parameter: Parameter, device: str, variant: Mapping[str, object]) -> Row:
    default = text_of(variant.get(parameter.name, parameter.default_on(device)))  # type: ignore[arg-type]
    text, error = form.typed.get(parameter.name, default), ""
    try:
        parameters.parse(parameter, text)
    except CatalogError as problem:
        error = str(problem)
    choices = (
        tuple(text_of(choice) for choice in parameter.choices)
        if parameter.type == "choice"
        else (NO, YES)
        if parameter.type == "bool"
        else ()
    )
    unit = "" if choices or parameter.unit == "" else parameter.unit
    return Row(parameter.name, text, default, unit, parameter.help or parameter.allowed(), choices, error)


def _device(form: Form) -> tuple[str, Row]:
    """The device that would be taken, and its row."""
    allowed = form.experiment.variant(form.variant).devices

    def chosen(asked: str | None) -> tuple[str, str]:
        try:
            return parameters.choose_device(form.experiment, form.variant, asked, form.gpus), ""
        except CatalogError as problem:
            return asked or allowed[0], str(problem)

    default, error = chosen(None)
    asked = form.typed.get(DEVICE)
    device = default
    if asked is not None:
        device, error = chosen(asked)
    help = "where the ranks compute" if len(allowed) > 1 else f"it runs on {allowed[0]} only"
    return device, Row(DEVICE, asked or default, default, "", help, allowed, error)


def _processes(form: Form, device: str) -> Row:
    def number(asked: int | None) -> tuple[str, str]:
        try:
            taken = parameters.processes(form.experiment, form.variant, device, form.gpus, asked)
            return str(taken), ""
        except CatalogError as problem:
            return "" if asked is None else str(asked), str(problem)

    default, error = number(None)
    text = form.typed.get(PROCESSES, default)
    if PROCESSES in form.typed:
        rule = form.experiment.processes
        if text.strip().isascii() and text.strip().isdigit() and len(text) < 10:
            error = number(int(text))[1]
        else:
            found = text.strip() or "empty"
            error = f"processes is {found}, a whole number from {rule.minimum} to {rule.maximum} expected"
    return Row(PROCESSES, text, default, "", "processes (ranks)", (), error)


def _link(form: Form, device: str, of_variant: str | None) -> Row:
    default = of_variant or NO_LINK
    text, error = form.typed.get(LINK, default), ""
    if text != NO_LINK:
        from labtui.machine.link import LinkError, parse_rate

        try:
            parse_rate(text)
            if device != "cpu":
                error = f"a link of {text} can be had on cpu only"
        except LinkError as problem:
            error = str(problem)
    return Row(LINK, text, default, "", "a shaped link between CPU processes, such as 1gbit; or none", (), error)


def _timeout(form: Form) -> Row:
    default = f"{form.experiment.limits.timeout_s:g}"
    text = form.typed.get(TIMEOUT, default)
    error = "" if _seconds(text) else f"timeout is {text or 'empty'}, a number of seconds above 0 expected"
    return Row(TIMEOUT, text, default, "s", "the run is ended after so long", (), error)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None


def _share(form: Form) -> Row:
    help = "start although GPUs hold another run"
    return Row(SHARE, form.typed.get(SHARE, NO), NO, "", help, (NO, YES))


# What comes of it ---------------------------------------------------------------------------------------------------


def wrong(form: Form) -> Row | None:
    """The first row with an error."""
    return next((row for row in rows(form) if row.error), None)


def wish_of(form: Form) -> Wish:
    """What the form asks for; to be asked only of a form in which nothing is wrong."""
    typed, names = form.typed, {parameter.name for parameter in form.experiment.parameters}
    return Wish(
        form.experiment, form.variant,
        {name: text for name, text in typed.items() if name in names},
        typed.get(DEVICE), int(typed[PROCESSES]) if PROCESSES in typed else None, typed.get(LINK),
        _seconds(typed[TIMEOUT]) if TIMEOUT in typed else None, typed.get(SHARE) == YES, form.block,
    )  # fmt: skip
