"""What the Simulate screen simulates: a schedule, its sizes and costs, and how keys and text change them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from labtui.theory.pipeline import costs as parsing
from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.schedules import SCHEDULES
from labtui.theory.pipeline.schedules.maker import Maker
from labtui.theory.pipeline.words import number

STEP = 0.5
"""By how much a key changes a cost: the lesson's transfer takes half a unit."""
_SIZES = ("p", "m", "v")
_COSTS = ("F", "B", "I", "W", "FB")
_STAGE = re.compile(r"stage([0-9]{1,7})")


class SettingsError(ValueError):
    """What was typed or asked for can't be. The message is one sentence."""


@dataclass(frozen=True)
class Settings:
    """Costs are those of one (virtual) stage, or with `per_device` of all stages of a device together."""

    schedule: str = "1f1b"
    against: str = ""
    """The schedule below it; "" for none."""
    devices: int = 4
    microbatches: int = 8
    virtual: int = 2
    """Stages per device, of the schedules that leave it open."""
    forward: float = 1.0
    input: float = 1.0
    weight: float = 1.0
    backward: float | None = None
    """Of a whole backward, where it isn't I + W."""
    pair: float | None = None
    """Of a forward and a backward that overlap, where it isn't F + B."""
    comm: float = 0.0
    slow: tuple[tuple[int, float], ...] = ()
    """(stage, factor)."""
    limit: float | None = None
    """Activations on a device, in its whole shares of a micro-batch."""
    per_device: bool = False
    link_busy: bool = False

    @property
    def maker(self) -> Maker:
        """What is known of the schedule."""
        return SCHEDULES[self.schedule]

    @property
    def whole_backward(self) -> float:
        """B."""
        return self.input + self.weight if self.backward is None else self.backward

    @property
    def overlapped(self) -> float:
        """FB."""
        return self.forward + self.whole_backward if self.pair is None else self.pair

    def virtual_of(self, name: str) -> int:
        """Stages per device of a schedule."""
        maker = SCHEDULES[name]
        return self.virtual if maker.chooses_virtual else maker.virtual

    def operations(self, name: str) -> int:
        """How many the schedule has."""
        return self.devices * self.microbatches * self.virtual_of(name) * SCHEDULES[name].pieces

    def costs(self, virtual: int, stages: int) -> Costs:
        """The costs of one of `stages` stages, `virtual` of them on a device. ValueError of one sentence."""
        share = 1 / virtual if self.per_device else 1.0
        factors: tuple[float, ...] = ()
        if any(stage < stages for stage, _ in self.slow):
            slow = dict(self.slow)
            factors = tuple(slow.get(stage, 1.0) for stage in range(stages))
        return Costs(
            forward=self.forward * share, input=self.input * share, weight=self.weight * share,
            backward=self.whole_backward * share, pair=self.overlapped * share, comm=self.comm, stages=factors,
        )  # fmt: skip

    def text(self) -> str:
        """All but the schedules, as it can be typed."""
        told = {"p": str(self.devices), "m": str(self.microbatches), "v": str(self.virtual), "F": number(self.forward)}
        told["B"] = number(self.whole_backward)
        if self.backward is not None or self.input != self.weight:
            if self.backward is None:
                del told["B"]
            told |= {"I": number(self.input), "W": number(self.weight)}
        if self.pair is not None:
            told["FB"] = number(self.pair)
        told["comm"] = number(self.comm)
        told |= {f"stage{stage}": number(factor) for stage, factor in self.slow}
        if self.limit is not None:
            told["limit"] = number(self.limit)
        return " ".join(f"{name}={value}" for name, value in told.items())


def step(settings: Settings, what: str, by: int) -> Settings:
    """One step more or less of `p`, `m`, `v`, `F`, `B`, `I`, `W` or `comm`; at the lower end they stay.

    SettingsError for a v that the schedule doesn't take.
    """
    if what in _SIZES:
        if what == "v" and not settings.maker.chooses_virtual:
            stages = "1 stage" if settings.maker.virtual == 1 else f"{settings.maker.virtual} stages"
            raise SettingsError(f"{settings.schedule} has {stages} per device: v is for interleaved schedules")
        return _sized(settings, {what: max(1, _size_of(settings, what) + by)})
    if what == "F":
        return replace(settings, forward=_stepped(settings.forward, by))
    if what == "comm":
        return replace(settings, comm=_stepped(settings.comm, by))
    if what == "B":
        before = settings.whole_backward
        after = _stepped(before, by)
        share = settings.input / (settings.input + settings.weight) if settings.input + settings.weight else 0.5
        return replace(settings, input=after * share, weight=after * (1 - share), backward=None)
    if what == "I":
        return replace(settings, input=_stepped(settings.input, by), backward=None)
    return replace(settings, weight=_stepped(settings.weight, by), backward=None)


def _size_of(settings: Settings, name: str) -> int:
    return {"p": settings.devices, "m": settings.microbatches, "v": settings.virtual}[name]


def _sized(now: Settings, sizes: dict[str, int]) -> Settings:
    return replace(
        now, devices=sizes.get("p", now.devices), microbatches=sizes.get("m", now.microbatches),
        virtual=sizes.get("v", now.virtual),
    )  # fmt: skip


def _stepped(value: float, by: int) -> float:
    return max(0.0, round(value + by * STEP, 9))


def parse(text: str, now: Settings) -> Settings:
    """`now` with what the text gives: `m=64 F=1 I=1 W=0.5 comm=0.5 limit=6 stage3=1.5`. SettingsError, one sentence.

    Sizes and costs that the text leaves out stay as they were; of a limit, an FB and slow stages it has to give all.
    """
    given: dict[str, str] = {}
    for part in text.replace(",", " ").split():
        name, equals, value = part.partition("=")
        if not equals or not (name in (*_SIZES, *_COSTS, "comm", "limit") or _STAGE.fullmatch(name)):
            raise SettingsError(f"{part!r} isn't understood: write a name and a value, as in m=16")
        if name in given:
            raise SettingsError(f"{name} is given twice")
        given[name] = value
    sizes = {name: _size(name, given[name]) for name in _SIZES if name in given}
    slow = tuple(
        (int(match[1]), _number(name, value)) for name, value in given.items() if (match := _STAGE.fullmatch(name))
    )
    changed = replace(_sized(now, sizes), limit=limit(given.get("limit", "")), slow=tuple(sorted(slow)))
    if "comm" in given:
        changed = replace(changed, comm=_number("comm", given["comm"]))
    return _with_costs(changed, {name: given[name] for name in _COSTS if name in given})


def limit(text: str) -> float | None:
    """A memory limit; None for `none` or nothing at all. SettingsError."""
    if text.strip() in ("", "none"):
        return None
    found = _number("limit", text)
    if not found:
        raise SettingsError(f"a memory limit is above 0 micro-batches, not {text.strip()}")
    return found


def _with_costs(now: Settings, given: dict[str, str]) -> Settings:
    for name, value in given.items():
        _number(name, value)
    if not {"B", "I", "W"} & given.keys():
        given = {**given, "I": str(now.input), "W": str(now.weight)}
        if now.backward is not None:
            given["B"] = str(now.backward)
    given.setdefault("F", str(now.forward))
    try:
        costs = parsing.parse(",".join(f"{name}={value}" for name, value in given.items()), now.comm)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    whole = costs.backward == costs.input + costs.weight
    return replace(
        now, forward=costs.forward, input=costs.input, weight=costs.weight,
        backward=None if whole else costs.backward, pair=costs.pair if "FB" in given else None,
    )  # fmt: skip


def _size(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise SettingsError(f"{name} is a whole number, not {text!r}") from None
    if not 1 <= value <= 10**7:
        raise SettingsError(f"{name} is at least 1, not {value}" if value < 1 else f"{name}={value} is too large")
    return value


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SettingsError(f"{text!r} isn't a number for {name}") from None
    if not 0 <= value < float("inf"):
        raise SettingsError(f"{name} is a finite number of at least 0, not {text}")
    return value
