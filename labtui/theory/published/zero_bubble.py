"""Zero Bubble's tables (Qi et al. 2023, arXiv 2401.10241), each rate against our simulation. Facts only.

The bubble rate there is the idle share of the longest span of a stage, from its first action to the end of its last
(section 4.3), not of the makespan. Times are milliseconds per stage; a transfer delays whoever needs it and occupies
nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.schedules.zb_search import search
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.published import Value

PAPER = "Qi et al., Zero Bubble, arXiv 2401.10241"


@dataclass(frozen=True)
class Model:
    """A row of table 3; sequences are 1024 long. `layers` leaves out the two that embedding and head count for."""

    layers: int
    heads: int
    hidden: int
    devices: int

    @property
    def until_w(self) -> float:
        """M_W / M_B: what stays of a micro-batch's activations from I to W, 32 sbh of (34 + 5as/h) sbh (table 1)."""
        return 32 * self.hidden / (34 * self.hidden + 5 * self.heads * 1024)


@dataclass(frozen=True)
class Case:
    """A column of tables 5 and 9: times of one stage and the bubble rates printed for them."""

    model: str
    microbatches: int
    forward: float
    input: float
    weight: float
    comm: float
    rates: dict[str, float]

    @property
    def costs(self) -> Costs:
        """TF, TB, TW and Tcomm."""
        return Costs(self.forward, self.input, self.weight, comm=self.comm)

    @property
    def devices(self) -> int:
        """p of the model."""
        return MODELS[self.model].devices

    @property
    def ideal(self) -> float:
        """m (TF + TB + TW)."""
        return self.microbatches * self.costs.whole


MODELS = {
    "1.5B": Model(22, 24, 2304, 8),
    "6.2B": Model(30, 32, 4096, 8),
    "14.6B": Model(46, 40, 5120, 16),
    "28.3B": Model(62, 48, 6144, 32),
}

_NAMES = ("1f1b", "1f1b-i", "zb-h1", "zb-h2", "zb-1p", "zb-2p")
# Model, m, TF, TB, TW, Tcomm (table 9), then the rates of _NAMES (table 5).
_ROWS: tuple[tuple[str, int, tuple[float, float, float, float], tuple[float, ...]], ...] = (
    ("1.5B", 24, (18.522, 18.086, 9.337, 0.601), (0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433)),
    ("1.5B", 32, (18.513, 18.086, 9.331, 0.626), (0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039)),
    ("1.5B", 64, (18.546, 18.097, 9.321, 0.762), (0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026)),
    ("6.2B", 24, (29.718, 29.444, 19.927, 0.527), (0.2347, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029)),
    ("6.2B", 64, (29.935, 29.621, 19.388, 0.535), (0.1091, 0.0320, 0.0554, 0.0294, 0.0554, 0.0010)),
    ("14.6B", 48, (11.347, 11.248, 8.132, 0.377), (0.2552, 0.1104, 0.1397, 0.0672, 0.1397, 0.0066)),
    ("14.6B", 64, (11.307, 11.254, 8.101, 0.379), (0.2082, 0.0852, 0.1088, 0.0516, 0.1088, 0.0054)),
    ("14.6B", 128, (11.325, 11.308, 8.109, 0.378), (0.1251, 0.0445, 0.0576, 0.0266, 0.0576, 0.0028)),
)
CASES = tuple(
    Case(model, m, *times, dict(zip(_NAMES, rates)))  # noqa: B905 - Python 3.9
    for model, m, times, rates in _ROWS
)
TOLERANCE = 6e-5
"""Half of the last printed digit, and what the times' own rounding adds."""


def rate(case: Case, name: str) -> float:
    """Our bubble rate of the schedule; ZB-1p and ZB-2p are searched for with the model's own sizes of activations."""
    if name == "1f1b-i":
        longest = interleaved_span(case)
        return (longest - case.ideal) / longest
    if name in ("zb-1p", "zb-2p"):
        limit = case.devices * int(name[3])
        order = search(
            name, case.devices, case.microbatches, case.costs, limit, MODELS[case.model].until_w
        ).order  # fmt: skip
    else:
        order = build(name, case.devices, case.microbatches, costs=case.costs)
    return simulate(order, case.costs).bubble_of_span


def interleaved_span(case: Case) -> float:
    """The longest span of interleaved 1F1B by the closed form that all 12 printed rates follow.

    m T + (p-1) T / v + (2pv - p - 2) Tcomm with T = TF + TB + TW and v = (layers + 2) / p chunks of one layer. Our
    interleaved-1f1b, each action as soon as it can, takes p Tcomm more.
    """
    p, model = case.devices, MODELS[case.model]
    v = (model.layers + 2) / p
    return case.ideal + (p - 1) * case.costs.whole / v + (2 * p * v - p - 2) * case.comm


def values() -> tuple[Value, ...]:
    """Bubble rates of table 5, and the lengths that figure 3 shows."""
    found = []
    for case in CASES:
        for name, printed in case.rates.items():
            tolerance, why = TOLERANCE, "printed to four digits, from times of five"
            if name == "zb-2p":
                tolerance, why = printed, "both are found by a search: ours may be shorter, down to no bubble at all"
            found.append(
                Value(
                    "pipeline", f"{name}, {case.model}, p={case.devices}, m={case.microbatches}: bubble of the span",
                    f"{PAPER}, table 5 (times: table 9)", printed, "", tolerance, partial(rate, case, name), why,
                )
            )  # fmt: skip
    return tuple(found + _figure_3())


def _figure_3() -> list[Value]:
    found = []
    for name, spans in (("zb-h1", (27, 26, 25, 24)), ("zb-h2", (24, 24, 24, 24))):
        for device, span in enumerate(spans):
            what = f"{name}, p=4, m=8, F=I=W=1: span of device {device}"
            found.append(Value("pipeline", what, f"{PAPER}, figure 3", span, "", 0.0, _span_of(name, device)))
    return found


def _span_of(name: str, device: int) -> Callable[[], float]:
    costs = Costs(1, 1, 1)
    return lambda: simulate(build(name, 4, 8, costs=costs), costs).spans[device]
