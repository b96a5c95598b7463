"""An experiment's parameters, as its script gets them.

labtui gives every one as an argument, `name=JSON`. Started by hand (`torchrun main.py steps=50`), the others have the
defaults of experiment.toml beside the script. Knows no variants: labtui has resolved them. Needs no torch.
"""

from __future__ import annotations

import json
import math
import operator
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from labtui.bench import device

_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


def read(script: str, arguments: Sequence[str] | None = None) -> Any:
    """The parameters as attributes: `read(__file__).steps`. `arguments` are sys.argv[1:] unless given.

    Ends the process with exit code 2 and one sentence on unknown names, values of the wrong type or out of range.
    """
    given = sys.argv[1:] if arguments is None else arguments
    declared = _declared(Path(script).resolve().with_name("experiment.toml"))
    if declared is None:
        if not given:
            device.refuse(f"Python {sys.version.split()[0]} can't read experiment.toml: 3.11 or newer is needed")
        return SimpleNamespace(**{name: json.loads(text) for name, _, text in (one.partition("=") for one in given)})
    settings = _given(given, declared)
    key = "cpu_default" if device.kind() == "cpu" else "default"
    values = {}
    for name, table in declared.items():
        values[name] = _checked(name, settings.get(name, table.get(key, table.get("default"))), table)
    return SimpleNamespace(**values)


def _declared(manifest: Path) -> dict[str, dict[str, Any]] | None:
    """The manifest's parameters; None where this Python has no reader for it."""
    try:
        import tomllib
    except ImportError:
        return None  # an older Python given by --python: labtui has checked and passed every parameter
    try:
        tables = tomllib.loads(manifest.read_text(encoding="utf-8")).get("parameters", {})
    except OSError as error:
        device.refuse(f"{manifest} can't be read: {error.strerror}")
    except ValueError as error:
        device.refuse(f"{manifest} is no TOML: {error}")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        device.refuse(f"{manifest}: parameters is no table of tables")
    return tables


def _given(arguments: Sequence[str], declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals:
            device.refuse(f"{argument!r} is no parameter: name=value expected")
        if name not in declared:
            device.refuse(f"there is no parameter {name!r}: {', '.join(declared) or 'none'} can be set")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text  # typed by hand, without the quotes
        if declared[name].get("type") == "str" and not isinstance(values[name], str):
            values[name] = text
    return values


def _checked(name: str, value: Any, table: Mapping[str, Any]) -> Any:
    kind = table.get("type")
    if kind == "choice":
        choices = table.get("choices", [])
        if not any(type(choice) is type(value) and choice == value for choice in choices):
            device.refuse(f"{name} is {value!r}, {' or '.join(map(repr, choices))} expected")
        return value
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind not in _KINDS or type(value).__name__ != kind or (isinstance(value, float) and not math.isfinite(value)):
        device.refuse(f"{name} is {value!r}, {_KINDS.get(str(kind), 'a known type')} expected")
    for bound, beyond in (("minimum", operator.lt), ("maximum", operator.gt)):
        if bound in table and beyond(value, table[bound]):
            device.refuse(f"{name} is {value!r}, its {bound} is {table[bound]!r}")
    return value
