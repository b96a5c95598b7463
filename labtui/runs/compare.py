"""Runs laid side by side: what differed in what was asked for, and their results with the ratio to the baseline. Pure.

A result is the same one in several runs where name and labels agree; labels that a run's own settings explain (a label
that has one value in each run, but not the same) are what is compared, and do not keep results apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labtui.runs.records import Document, Request, Status

Key = tuple[str, str]
"""A result's name and its labels, as JSON."""


@dataclass(frozen=True)
class Compared:
    """A run as it is laid beside others."""

    request: Request
    status: Status


@dataclass(frozen=True)
class Row:
    """One result in all runs, in their order; None where a run has none."""

    name: str
    unit: str
    labels: Document
    values: tuple[float | None, ...]

    @property
    def relative(self) -> tuple[float | None, ...]:
        """Each value over the first run's; None where either is missing, or the first is 0."""
        first = self.values[0]
        return tuple(value / first if first and value is not None else None for value in self.values)


def asked(run: Compared) -> dict[str, Any]:
    """What was asked for, flat: the keys by which runs can differ."""
    request = run.request
    link = request.link or {}
    flat: dict[str, Any] = {
        "experiment": request.experiment,
        "variant": request.variant,
        "processes": request.nproc,
        "device": request.device,
        "link": f"{link['rate_bits'] / 1e9:g} Gbit/s {link.get('model', '')}".strip() if "rate_bits" in link else None,
        "host": request.host,
        "labtui": request.labtui,
        "state": run.status.state,
    }
    flat |= {f"parameters.{name}": value for name, value in request.parameters.items()}
    flat |= {f"environment.{name}": value for name, value in request.environment.items()}
    return flat


def differs(runs: Sequence[Compared]) -> dict[str, list[Any]]:
    """The keys in which not all runs agree, with each run's value; None where a run has no such key."""
    everything = [asked(run) for run in runs]
    names = list(dict.fromkeys(name for one in everything for name in one))
    rows = {name: [one.get(name) for one in everything] for name in names}
    return {name: values for name, values in rows.items() if any(value != values[0] for value in values)}


def results(runs: Sequence[Compared]) -> list[Row]:
    """All results, those of the first run first. Of a result that a run reported twice, the newest counts."""
    own = [_own_labels(run) for run in runs]
    varying = {name for name in own[0] if all(name in one for one in own) and len({one[name] for one in own}) > 1}
    tables = [_table(run, varying) for run in runs]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    return [
        Row(
            name=key[0],
            unit=next(str(table[key].get("unit") or "") for table in tables if key in table),
            labels=json.loads(key[1]),
            values=tuple(_number(table[key].get("value")) if key in table else None for table in tables),
        )
        for key in keys
    ]


def _own_labels(run: Compared) -> dict[str, str]:
    """Labels that have one and the same value on all results of a run, as JSON."""
    seen: dict[str, set[str]] = {}
    for result in run.status.results:
        for name, value in _labels(result).items():
            seen.setdefault(name, set()).add(json.dumps(value))
    return {name: next(iter(values)) for name, values in seen.items() if len(values) == 1}


def _table(run: Compared, varying: set[str]) -> dict[Key, Document]:
    table: dict[Key, Document] = {}
    for result in run.status.results:
        labels = {name: value for name, value in _labels(result).items() if name not in varying}
        table[str(result.get("name")), json.dumps(labels, sort_keys=True)] = result
    return table


def _labels(result: Document) -> Mapping[str, Any]:
    labels = result.get("labels")
    return labels if isinstance(labels, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def document(ids: Sequence[str], runs: Sequence[Compared]) -> Document:
    """As `labtui compare --json` prints it; the first run is the baseline."""
    return {
        "baseline": ids[0],
        "runs": list(ids),
        "differs": differs(runs),
        "results": [
            {
                "name": row.name,
                "unit": row.unit,
                "labels": row.labels,
                "values": list(row.values),
                "relative": list(row.relative),
            }
            for row in results(runs)
        ],
    }
