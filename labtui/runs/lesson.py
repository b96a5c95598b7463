"""What a guide's live blocks say about real runs: the number asked for, the range expected, and a verdict. Pure.

Numbers come from a run's results and records; what isn't known there is said, with the reason, and never assumed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labtui.catalog.guide import PREDICTION, Bound, Expect, Quiz
from labtui.charts import number
from labtui.runs.compare import Compared
from labtui.runs.json_text import objects
from labtui.theory import hardware

GOOD, LOW, HIGH, UNKNOWN = "good", "low", "high", "unknown"


@dataclass(frozen=True)
class Known:
    """A number, and where it is from or what it is."""

    value: float
    unit: str = ""
    words: str = ""
    spread: tuple[float, float] | None = None
    """The 10th and 90th percentile, where the run reported them."""


@dataclass(frozen=True)
class Missing:
    """Why there is no number, in a few words."""

    why: str


# One number of a run ------------------------------------------------------------------------------------------------


def result(run: Compared, name: str, where: Mapping[str, Any]) -> Known | Missing:
    """The result of that name which carries the labels `where`.

    Of one that was reported twice the newest counts; of a median among quantiles, the median; of several that fit, the
    one with these labels and no other. Missing where none fits, where several do, or where it is no finite number.
    """
    fitting: dict[str, dict[str, Any]] = {}
    for one in run.status.results:
        told = one.get("labels")
        labels: dict[str, Any] = told if isinstance(told, dict) else {}
        if one.get("name") == name and all(key in labels and labels[key] == value for key, value in where.items()):
            fitting[json.dumps(labels, sort_keys=True)] = {**one, "labels": labels}
    spread = None
    exact = json.dumps(dict(where), sort_keys=True)
    if exact in fitting:
        fitting = {exact: fitting[exact]}
    if len(fitting) > 1:
        quantiles = {str(one["labels"].get("stat")): one for one in fitting.values()}
        others = {json.dumps({**one["labels"], "stat": ""}, sort_keys=True) for one in fitting.values()}
        if "median" not in quantiles or len(others) > 1:
            return Missing(f"{len(fitting)} results {name} fit: the guide must say which (where)")
        low, high = (number(quantiles.get(stat, {}).get("value")) for stat in ("p10", "p90"))
        spread = (low, high) if low is not None and high is not None else None
        fitting = {"median": quantiles["median"]}
    for one in fitting.values():
        value = number(one.get("value"))
        unit = str(one.get("unit") or "")
        if value is None:
            return Missing(f"{name} is no number: {one.get('why') or 'the run could not say'}")
        return Known(value, unit, name, spread)
    return Missing(f"the run reported no {name}{_words(where)}")


def _words(where: Mapping[str, Any]) -> str:
    return f" with {', '.join(f'{key} {value}' for key, value in where.items())}" if where else ""


# Facts --------------------------------------------------------------------------------------------------------------


def fact(name: str, run: Compared) -> Known | Missing:
    """A fact of the closed list (`catalog.guide.FACTS`), as this run's folder tells it."""
    if name.startswith(PREDICTION):
        return _prediction(name.removeprefix(PREDICTION), run)
    machine = run.machine or {}
    if name == "world_size":
        return _known(run.request.nproc, "", "ranks", "the run doesn't say how many ranks it had")
    if name == "host.cores":
        return _known(machine.get("cores"), "", "cores of the host", "the run doesn't say on how many cores it ran")
    if name == "link.measured":
        profile = run.request.profile or {}
        return _known(profile.get("beta"), "GB/s", "measured by link_vs_compute on this machine",
                      "link_vs_compute has not measured this machine's link yet")  # fmt: skip
    if name == "link.ceiling":
        return _ceiling(run, machine)
    gpus = objects(machine.get("gpus"))
    if not gpus:
        return Missing("this run was on no GPU")
    if name == "gpu.memory":
        smallest = min((value for gpu in gpus if (value := number(gpu.get("memory"))) is not None), default=None)
        return _known(smallest, "B", "memory of its smallest GPU", "the driver doesn't tell how much memory they have")
    models = {str(gpu.get("name")): hardware.gpu_model(str(gpu.get("name"))) for gpu in gpus}
    slowest = min((model for model in models.values() if model), key=lambda model: model.bf16_tflops, default=None)
    if slowest is None or None in models.values():
        unknown = next(name for name, model in models.items() if model is None) if models else "the GPU"
        return Missing(f"no published peak is known for {unknown}")
    return Known(slowest.bf16_tflops, "TFLOP/s", f"dense bf16 of {slowest.name} ({slowest.status})")


def _ceiling(run: Compared, machine: Mapping[str, Any]) -> Known | Missing:
    """GB/s in one direction: of the shaped link, else of the slowest link between two of the run's GPUs."""
    link = run.request.link
    if link is not None and number(link.get("rate_bits")) is not None:
        rate = link["rate_bits"] / 8e9
        if link.get("model") == "bus":
            return Known(rate / (run.request.nproc or 1), "GB/s", "each rank's part of the shaped bus")
        return Known(rate, "GB/s", "the shaped link's rate")
    topology = machine.get("topology")
    told = topology.get("ceilings") if isinstance(topology, dict) else None
    pairs = objects(told)
    rates = [(rate, str(one.get("what") or "")) for one in pairs if (rate := number(one.get("gb_per_s"))) is not None]
    if not rates:
        on_cpu = run.request.device == "cpu"
        return Missing(
            "CPU processes talk through memory, which has no ceiling of a link: --link shapes one"
            if on_cpu
            else "what the links between these GPUs can carry isn't known"
        )
    slowest = min(rates)
    return Known(
        slowest[0], "GB/s", f"the slowest link's ceiling ({slowest[1]})" if slowest[1] else "the link's ceiling"
    )


def _prediction(name: str, run: Compared) -> Known | Missing:
    for one in reversed(run.status.predictions):
        if one.get("name") == name:
            value = number(one.get("predicted"))
            if value is not None:
                return Known(value, str(one.get("unit") or ""), str(one.get("why") or "predicted by theory"))
    return Missing(f"the run predicted no {name}")


def _known(value: Any, unit: str, words: str, why: str) -> Known | Missing:
    real = number(value)
    return Missing(why) if real is None else Known(real, unit, words)


# Verdicts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """Whether a number lies where it should."""

    word: str
    """good, low, high or unknown."""
    measured: Known | Missing
    low: Known | Missing | None
    """The least that is expected; None where the guide sets no such bound."""
    high: Known | Missing | None
    sentence: str
    """What the guide says to that; empty where it says nothing."""


def verdict(block: Expect, run: Compared) -> Verdict:
    """What the run's number is beside the range that the guide expects."""
    measured = result(run, block.result, block.where)
    low, high = _bound(block.at_least, run), _bound(block.at_most, run)
    word, sentence = GOOD, block.good
    if isinstance(measured, Missing):
        word, sentence = UNKNOWN, ""
    elif isinstance(low, Known) and measured.value < low.value:
        word, sentence = LOW, block.low
    elif isinstance(high, Known) and measured.value > high.value:
        word, sentence = HIGH, block.high
    elif isinstance(low, Missing) or isinstance(high, Missing):
        word, sentence = UNKNOWN, ""
    return Verdict(word, measured, low, high, sentence)


def _bound(bound: Bound | None, run: Compared) -> Known | Missing | None:
    if bound is None:
        return None
    if bound.of is None:
        return Known(bound.times)
    found = fact(bound.of, run)
    if isinstance(found, Missing):
        return found
    return Known(bound.times * found.value, found.unit, f"{bound.times:g} x {bound.of} ({found.words})")


# Guesses and answers ------------------------------------------------------------------------------------------------


def parse_number(text: str) -> float | None:
    """A number as people type it: `12`, `1,5`, `1.5e9`, `3/11`, `27 %`, `64 MiB`, `2k`; None for anything else."""
    words = text.strip().replace("_", "").replace("\u00a0", " ").lower()
    for suffix, factor in _SUFFIXES:
        if words.endswith(suffix):
            body = _plain(words.removesuffix(suffix).strip())
            return None if body is None else body * factor
    return _plain(words)


_SUFFIXES = tuple(
    [("%", 0.01)]
    + [(f"{letter}ib", 1024.0 ** (place + 1)) for place, letter in enumerate("kmgt")]
    + [(f"{letter}b", 1000.0 ** (place + 1)) for place, letter in enumerate("kmgt")]
    + [(letter, 1000.0 ** (place + 1)) for place, letter in enumerate("kmgt")]
    + [("b", 1.0)]
)


def _plain(text: str) -> float | None:
    over, slash, under = text.partition("/")
    if slash:
        a, b = _plain(over.strip()), _plain(under.strip())
        return a / b if a is not None and b else None
    if text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        return number(float(text)) if text.isascii() else None
    except ValueError:
        return None


def is_right(quiz: Quiz, answer: float | Iterable[int]) -> bool:
    """Whether an answer is right: a number within the tolerance, or exactly the right choices (counted from 0)."""
    if quiz.number is not None:
        return isinstance(answer, int | float) and abs(answer - quiz.number) <= quiz.tolerance * (1 + 1e-9)
    return not isinstance(answer, int | float) and set(answer) == set(quiz.correct)


def guess_words(guess: float, measured: float) -> str:
    """How far a guess was from what was measured, in words: "within 10 %", "4.2 times too high"."""
    if guess == measured:
        return "exactly"
    if measured == 0 or guess == 0 or (guess > 0) != (measured > 0):
        return "too high" if guess > measured else "too low"
    ratio = guess / measured
    factor = max(ratio, 1 / ratio)
    if factor <= 1.1:
        return "within 10 %"
    side = "high" if guess > measured else "low"
    return f"{(factor - 1) * 100:.0f} % too {side}" if factor < 2 else f"{factor:.3g} times too {side}"
