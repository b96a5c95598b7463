"""Runs laid side by side: what differed, their results with difference and spread, checks and predictions. Pure.

A result is the same one in several runs where name and labels agree; labels that a run's own settings explain (a label
that has one value in each run, but not the same) are what is compared, and do not keep results apart. Quantiles of a
measurement (labels stat=p10 and p90 beside stat=median) are the spread of its median rather than results of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labtui.charts import number
from labtui.runs.records import Document, Request, Status

Key = tuple[str, str]
"""A result's name and its labels, as JSON."""
Spread = tuple[float, float]
"""The 10th and 90th percentile of a measurement."""
_MIDDLE, _LOW, _HIGH = "median", "p10", "p90"


@dataclass(frozen=True)
class Compared:
    """A run as it is laid beside others."""

    request: Request
    status: Status
    machine: Document | None = None
    """machine.json, if it has one."""
    nccl: Document | None = None
    """nccl.json, likewise."""


@dataclass(frozen=True)
class Row:
    """One number in all runs, in their order; None where a run has none."""

    name: str
    unit: str
    labels: Document
    values: tuple[float | None, ...]
    spreads: tuple[Spread | None, ...] = ()
    """How each value scattered within its run, where the run said so; () where none did."""
    baseline: int = 0
    """The place of the run that the others are compared with."""

    @property
    def relative(self) -> tuple[float | None, ...]:
        """Each value over the baseline's; None where either is missing, or the baseline's is 0."""
        first = self.values[self.baseline]
        return tuple(value / first if first and value is not None else None for value in self.values)

    @property
    def difference(self) -> tuple[float | None, ...]:
        """Each value minus the baseline's, in the row's unit; None where either is missing."""
        first = self.values[self.baseline]
        return tuple(None if first is None or value is None else value - first for value in self.values)

    def apart(self, place: int) -> bool | None:
        """Whether that run's spread and the baseline's don't even touch; None where one of them has none."""
        if not self.spreads or (one := self.spreads[place]) is None or (other := self.spreads[self.baseline]) is None:
            return None
        return one[0] > other[1] or other[0] > one[1]


def asked(run: Compared) -> dict[str, Any]:
    """What was asked for and what it ran on, flat: the keys by which runs can differ."""
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
    return flat | _machine(run.machine or {}) | _paths(run.nccl or {})


def _machine(machine: Document) -> dict[str, Any]:
    flat = {f"machine.{name}": machine[name] for name in ("cpu", "cores", "driver") if machine.get(name) is not None}
    gpus = machine.get("gpus")
    names = [str(gpu.get("name")) for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    if names:
        flat["machine.gpus"] = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    versions = machine.get("versions")
    if isinstance(versions, dict):
        flat |= {f"versions.{name}": version for name, version in versions.items()}
    return flat


def _paths(nccl: Document) -> dict[str, Any]:
    """What NCCL used between each two ranks."""
    pairs = nccl.get("pairs")
    found: dict[str, Any] = {}
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, list) and len(pair) >= 3:
            key = f"path {pair[0]}-{pair[1]}"
            found[key] = f"{found[key]} and {pair[2]}" if key in found else str(pair[2])
    return found


def differs(runs: Sequence[Compared]) -> dict[str, list[Any]]:
    """The keys in which not all runs agree, with each run's value; None where a run has no such key.

    Machine, versions and paths of a run that has not told them are unknown, which is no difference.
    """
    everything = [asked(run) for run in runs]
    names = list(dict.fromkeys(name for one in everything for name in one))
    rows = {name: [one.get(name) for one in everything] for name in names}
    unknown = [place for place, run in enumerate(runs) if run.machine is None]
    silent = [place for place, run in enumerate(runs) if run.nccl is None]
    found = {}
    for name, values in rows.items():
        left_out = unknown if name.startswith(("machine.", "versions.")) else silent if name.startswith("path ") else []
        known = [value for place, value in enumerate(values) if place not in left_out]
        if any(value != known[0] for value in known):
            found[name] = values
    return found


def results(runs: Sequence[Compared], baseline: int = 0) -> list[Row]:
    """All results, those of the first run first. Of a result that a run reported twice, the newest counts."""
    own = [_own_labels(run) for run in runs]
    varying = {name for name in own[0] if all(name in one for one in own) and len({one[name] for one in own}) > 1}
    tables = [_table(run, varying) for run in runs]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    rows = [
        Row(
            name=key[0],
            unit=next(str(table[key].get("unit") or "") for table in tables if key in table),
            labels=json.loads(key[1]),
            values=tuple(number(table[key].get("value")) if key in table else None for table in tables),
            baseline=baseline,
        )
        for key in keys
    ]
    return _with_spreads(rows)


def _with_spreads(rows: Sequence[Row]) -> list[Row]:
    """Quantiles become the spread of their median; a quantile without a median stays a row."""
    by_labels = {(row.name, json.dumps(row.labels, sort_keys=True)): row for row in rows}

    def sibling(row: Row, stat: str) -> Row | None:
        return by_labels.get((row.name, json.dumps({**row.labels, "stat": stat}, sort_keys=True)))

    found = []
    for row in rows:
        stat = row.labels.get("stat")
        if stat in (_LOW, _HIGH) and all(sibling(row, other) for other in (_MIDDLE, _LOW, _HIGH)):
            continue
        low, high = sibling(row, _LOW), sibling(row, _HIGH)
        if stat == _MIDDLE and low is not None and high is not None:
            row = replace(row, spreads=tuple(map(_spread, low.values, high.values)))
        found.append(row)
    return found


def _spread(low: float | None, high: float | None) -> Spread | None:
    return None if low is None or high is None else (low, high)


@dataclass(frozen=True)
class CheckRow:
    """One check in all runs."""

    name: str
    verdicts: tuple[str | None, ...]
    """"ok", "failed", "expected" (failed, as the variant is made to); None where a run has no such check. Of several
    ranks, or times, the gravest."""


def checks(runs: Sequence[Compared]) -> list[CheckRow]:
    """All checks by name, those of the first run first."""
    tables: list[dict[str, str]] = []
    for run in runs:
        table: dict[str, str] = {}
        for check in run.status.checks:
            name = str(check.get("name"))
            verdict = (
                "ok" if check.get("passed") is True else "expected" if check.get("expected") is False else "failed"
            )
            table[name] = max(table.get(name, "ok"), verdict, key=("ok", "expected", "failed").index)
        tables.append(table)
    names = dict.fromkeys(name for table in tables for name in table)
    return [CheckRow(name, tuple(table.get(name) for table in tables)) for name in names]


def predictions(runs: Sequence[Compared], baseline: int = 0) -> list[Row]:
    """Measured over predicted in each run, by the prediction's name: how well theory did. The newest counts."""
    tables: list[dict[str, float | None]] = []
    for run in runs:
        table: dict[str, float | None] = {}
        for each in run.status.predictions:
            predicted, measured = number(each.get("predicted")), number(each.get("measured"))
            table[str(each.get("name"))] = measured / predicted if predicted and measured is not None else None
        tables.append(table)
    names = dict.fromkeys(name for table in tables for name in table)
    return [Row(name, "", {}, tuple(table.get(name) for table in tables), baseline=baseline) for name in names]


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


def document(ids: Sequence[str], runs: Sequence[Compared], baseline: int = 0) -> Document:
    """As `labtui compare --json` prints it."""
    return {
        "baseline": ids[baseline],
        "runs": list(ids),
        "differs": differs(runs),
        "results": [
            {
                "name": row.name,
                "unit": row.unit,
                "labels": row.labels,
                "values": list(row.values),
                "relative": list(row.relative),
                "difference": list(row.difference),
                "spreads": [list(spread) if spread else None for spread in row.spreads] or None,
            }
            for row in results(runs, baseline)
        ],
        "checks": [{"name": row.name, "verdicts": list(row.verdicts)} for row in checks(runs)],
        "predictions": [
            {"name": row.name, "measured_over_predicted": list(row.values)} for row in predictions(runs, baseline)
        ],
    }
