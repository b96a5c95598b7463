"""What somebody asks of an experiment, as plain values: its parameters, its device, its number of processes.

Pure functions over a manifest; how many GPUs there are is an argument. Errors are CatalogErrors, one sentence each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from labtui.catalog.manifest import DEVICES, Experiment, Parameter, Value
from labtui.catalog.reading import CatalogError, shown

BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""Suffixes of sizes in bytes; an "iB" may follow (MB would be 1e6 to some, so it isn't taken)."""

TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")


def resolve(experiment: Experiment, variant: str, device: str, settings: Mapping[str, str]) -> dict[str, Value]:
    """Every parameter's value, in the manifest's order: the default, then the variant's, then the user's.

    `settings` are texts as typed (`--set name=text`), `device` is "cpu" or "cuda". Raises CatalogError for an unknown
    variant or name, a text that doesn't fit the type, and a value out of range.
    """
    values = {parameter.name: parameter.default_on(device) for parameter in experiment.parameters}
    values.update(experiment.variant(variant).parameters)
    for name, text in settings.items():
        values[name] = parse(experiment.parameter(name), text)
    return values


def parse(parameter: Parameter, text: str) -> Value:
    """What somebody typed, as a value of the parameter. Raises CatalogError with type, range and unit."""
    value = parameter.checked(_typed(parameter, text))
    if value is None:
        sizes = ", or a size such as 64M" if parameter.type == "int" and parameter.unit == "B" else ""
        raise CatalogError(f"{parameter.name} is {shown(text)}, {parameter.allowed()}{sizes} expected")
    return value


def _typed(parameter: Parameter, text: str) -> Value | None:
    """The text by the parameter's type, its range unchecked; None where it isn't of that type."""
    if parameter.type == "str":
        return text
    text = text.strip()
    if parameter.type == "int":
        return _whole(text, suffixes=parameter.unit == "B")
    if parameter.type == "float":
        return _number(text)
    if parameter.type == "bool":
        return True if text.lower() in TRUE else False if text.lower() in FALSE else None
    for choice in parameter.choices:
        if text == str(choice) or (not isinstance(choice, str) and _number(text) == choice):
            return choice
    return None


def _whole(text: str, suffixes: bool) -> int | None:
    match = re.fullmatch(r"([+-]?[0-9_]{1,30})(?:([KMGT])(?:iB)?|B)?", text, re.IGNORECASE)
    if match is None or (not suffixes and not match[0][-1].isdigit()):
        return None
    try:
        return int(match[1]) * BINARY[(match[2] or "").upper()]
    except ValueError:  # an underscore where Python has none
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def choose_device(experiment: Experiment, variant: str, asked: str | None, gpus: int) -> str:
    """ "cuda" or "cpu": what was asked for, else cuda where there are GPUs and it is allowed.

    Raises CatalogError where experiment or variant doesn't run on it, or there is no GPU.
    """
    allowed = experiment.variant(variant).devices
    who = experiment.name if allowed == experiment.devices else f"variant {variant} of {experiment.name}"
    if asked is not None:
        if asked not in DEVICES:
            raise CatalogError(f"device is {shown(asked)}, {' or '.join(DEVICES)} expected")
        if asked not in allowed:
            raise CatalogError(f"{who} runs on {' or '.join(allowed)} only, not on {asked}")
        if asked == "cuda" and gpus < 1:
            raise CatalogError(f"{experiment.name} can't run on cuda: no GPU was found")
        return asked
    if "cuda" in allowed and gpus > 0:
        return "cuda"
    if "cpu" not in allowed:
        raise CatalogError(f"{who} runs on cuda only, and no GPU was found")
    return "cpu"


def processes(experiment: Experiment, variant: str, device: str, gpus: int, asked: int | None) -> int:
    """How many processes a run takes: as asked, else the variant's number, else the manifest's default.

    Raises CatalogError below the experiment's minimum, beyond its maximum, and on cuda beyond the number of GPUs,
    since NCCL refuses two ranks on one GPU.
    """
    rule = experiment.processes
    number, wish = asked, experiment.variant(variant).processes
    if number is None:
        number = wish
    if number is None and device == "cpu":
        number = rule.cpu_default
    if number is None:
        number = min(gpus, rule.maximum) if rule.default is None else rule.default
    if not rule.minimum <= number <= rule.maximum:
        exactly = f"exactly {rule.minimum} process{'' if rule.minimum == 1 else 'es'}"
        allowed = exactly if rule.minimum == rule.maximum else f"{rule.minimum} to {rule.maximum} processes"
        per_gpu = device == "cuda" and asked is None and wish is None and rule.default is None
        hint = " (one for each GPU)" if per_gpu else ""
        raise CatalogError(f"{experiment.name} takes {allowed}, not {number}{hint}")
    if device == "cuda" and number > gpus:
        raise CatalogError(
            f"{number} processes of {experiment.name} on cuda need a GPU each, but {gpus} "
            f"{'was' if gpus == 1 else 'were'} found: ask for fewer processes, or for another device"
        )
    return number
