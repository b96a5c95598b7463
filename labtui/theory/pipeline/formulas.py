"""What the papers say of each schedule in one line: its bubble and its memory, to be put beside the simulation.

Costs are per virtual stage, as everywhere here, so that a whole stage of a device with v of them costs v times as much.
B is the whole backward in DeepSeek's formulas, and the gradient of the input alone (here I) in Zero Bubble's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.timeline import Timeline

NARAYANAN = "Narayanan et al. 2021 (arXiv 2104.04473) section 2.2"
ZERO_BUBBLE = "Qi et al. 2023 (arXiv 2401.10241) table 2 and section 2.3"
CONTROLLABLE = "sail-sg/zero-bubble-pipeline-parallelism README and the demo's description"
DEEPSEEK = "DeepSeek-V3 (arXiv 2412.19437) table 2, DualPipe README"
"""The README's 2x weights of DualPipeV are of a device of a pipeline of 2p; on p devices each has its share once."""
PLAYBOOK = "Ultra-Scale Playbook, pipeline chapter"


@dataclass(frozen=True)
class Formula:
    """A schedule's published bubble and memory: functions of p devices, m micro-batches, v stages per device, costs."""

    bubble: str
    """How it is written."""
    time: Callable[[int, int, int, Costs], float]
    """Idle time of a device, in the unit of the costs."""
    memory: str
    peak: Callable[[int, int, int], float]
    """Activations of the device that holds most, in units of one device's whole share of a micro-batch."""
    source: str
    by_span: bool = False
    """Whether idle time counts only from a device's first action to its last, as in Zero Bubble."""
    estimate: bool = False
    """Whether its source gives it as "about"."""
    one_cost: bool = False
    """Whether it is stated for F = I = W only."""
    weights: int = 1
    """How many copies of its share of the weights a device has."""
    enough: Callable[[int], int] = lambda p: 1
    """From how many micro-batches on it holds, on p devices."""


def _one_f_one_b(p: int, m: int, v: int, c: Costs) -> float:
    return (p - 1) * (c.forward + c.backward)


def _interleaved_peak(p: int, m: int, v: int) -> float:
    """Warm-up and one more: 2p - 1 + (v-1) N chunks, with groups of N = p where p divides m (see `interleaved`)."""
    group = -(-m // max(1, m // p))
    return min((2 * p - 1 + (v - 1) * group) / v, m)


def _h1(p: int, m: int, v: int, c: Costs) -> float:
    return (p - 1) * (c.forward + c.input - c.weight)


def _h2(p: int, m: int, v: int, c: Costs) -> float:
    return max(0.0, (p - 1) * (c.forward + c.input - 2 * c.weight))


def _share_of_1f1b(share: float) -> Callable[[int, int, int, Costs], float]:
    return lambda p, m, v, c: share * (p - 1) * v * c.whole


def _dualpipe(p: int, m: int, v: int, c: Costs) -> float:
    """(PP/2 - 1) (F&B + B - 3W), with PP stages on PP devices."""
    return (p / 2 - 1) * (c.pair + c.backward - 3 * c.weight)


FORMULAS: dict[str, Formula] = {
    "naive": Formula(
        "(p-1) m (F+B)", lambda p, m, v, c: (p - 1) * m * (c.forward + c.backward),
        "1", lambda p, m, v: 1, PLAYBOOK,
    ),
    "gpipe": Formula("(p-1)(F+B)", _one_f_one_b, "m", lambda p, m, v: m, NARAYANAN),
    "1f1b": Formula("(p-1)(F+B)", _one_f_one_b, "p", lambda p, m, v: min(p, m), NARAYANAN),
    "interleaved-1f1b": Formula(
        "(p-1)(F+B)", _one_f_one_b, "p + (p-1)/v", _interleaved_peak, NARAYANAN, enough=lambda p: p,
    ),
    "interleaved-bfs": Formula(
        "(p-1)(F+B)", _one_f_one_b, "m - (m - 2p + 1)/v", lambda p, m, v: min(m - (m - 2 * p + 1) / v, m), NARAYANAN,
        enough=lambda p: p,
    ),
    "looped-bfs": Formula(
        "(p-1)(F+B)", _one_f_one_b, "m", lambda p, m, v: m, NARAYANAN, enough=lambda p: p,
    ),
    "zb-h1": Formula(
        "(p-1)(F+I-W)", _h1, "p", lambda p, m, v: min(p, m), ZERO_BUBBLE, by_span=True, enough=lambda p: p,
    ),
    "zb-h2": Formula(
        "(p-1)(F+I-2W)", _h2, "2p-1", lambda p, m, v: min(2 * p - 1, m), ZERO_BUBBLE, by_span=True,
        enough=lambda p: 2 * p - 1,
    ),
    "zb-1p": Formula(
        "(p-1)(F+I+W)/3", _share_of_1f1b(1 / 3), "at most p", lambda p, m, v: min(p, m), CONTROLLABLE,
        by_span=True, estimate=True, one_cost=True, enough=lambda p: p,
    ),
    "zb-2p": Formula(
        "0", _share_of_1f1b(0.0), "at most 2p", lambda p, m, v: min(2 * p, m), CONTROLLABLE,
        by_span=True, estimate=True, one_cost=True, enough=lambda p: 2 * p - 1,
    ),
    "zb-v": Formula(
        "0", _share_of_1f1b(0.0), "p", lambda p, m, v: min(p, m), CONTROLLABLE,
        by_span=True, estimate=True, one_cost=True, enough=lambda p: 2 * p,
    ),
    "v-half": Formula(
        "about (p-1)(F+I+W)", _share_of_1f1b(1 / 2), "(p+2)//2", lambda p, m, v: min((p + 2) // 2, m), CONTROLLABLE,
        by_span=True, estimate=True, one_cost=True, enough=lambda p: p,
    ),
    "v-min": Formula(
        "about 4/3 (p-1)(F+I+W)", _share_of_1f1b(2 / 3), "(p+4)//3", lambda p, m, v: min((p + 4) // 3, m), CONTROLLABLE,
        by_span=True, estimate=True, one_cost=True, enough=lambda p: p,
    ),
    "dualpipe": Formula(
        "(p/2-1)(FB+B-3W)", _dualpipe, "p+1", lambda p, m, v: p + 1, DEEPSEEK, weights=2,
    ),
    "dualpipev": Formula(
        "(p-1)(FB+B-3W)", lambda p, m, v, c: _dualpipe(2 * p, m, v, c), "p+1/2", lambda p, m, v: p + 0.5, DEEPSEEK,
    ),
}  # fmt: skip
"""By schedule; nobody printed one for `interleaved-zb`. Interleaved memory is what follows from Megatron's warm-up."""


class Comparison(NamedTuple):
    """A formula beside a simulation: the total, or the longest span where the formula counts by span."""

    formula: Formula
    expected: float
    simulated: float
    why: tuple[str, ...]
    """Why they differ; () where they don't."""
    expected_peak: float
    simulated_peak: float


def compare(name: str, timeline: Timeline, virtual: int = 1) -> Comparison | None:
    """What the formula of the schedule `name` says beside the timeline; None where there is no formula.

    `virtual` is v, the stages per device. Peaks are in units of one device's whole share of a micro-batch.
    """
    formula = FORMULAS.get(name)
    if formula is None:
        return None
    devices, m, costs = len(timeline.busy), timeline.order.microbatches, timeline.costs
    expected = timeline.ideal + formula.time(devices, m, virtual, costs)
    simulated = max(timeline.spans) if formula.by_span else timeline.total
    differ = abs(expected - simulated) > 1e-9 * max(simulated, 1e-300)
    why = tuple(_why(formula, timeline, devices, m)) if differ else ()
    return Comparison(formula, expected, simulated, why, formula.peak(devices, m, virtual), max(timeline.peak_memory))


def _why(formula: Formula, timeline: Timeline, devices: int, m: int) -> list[str]:
    costs, why = timeline.costs, []
    if costs.comm:
        why.append(f"transfers take {costs.comm:g} each, and the formula leaves them out")
    if not costs.equal:
        why.append("stages or micro-batches cost different times, and the formula takes them for equal")
    if m < formula.enough(devices):
        why.append(f"it needs at least {formula.enough(devices)} micro-batches to hold, and there are {m}")
    if formula.one_cost and not costs.forward == costs.input == costs.weight:
        why.append("it is stated for F = I = W")
    if formula.estimate:
        why.append("its source gives it as about")
    # The orders of split backwards are drawn for equal pieces: with others a device waits where the drawing has no gap.
    if not why and not costs.forward == costs.input == costs.weight:
        why.append("the order is made for F = I = W, and with these costs devices wait in other places")
    if not why and costs.pair != costs.forward + costs.backward:
        why.append("an overlapped pair takes another time than F + B, so devices with more pairs work less than others")
    if not why and costs.backward != costs.input + costs.weight:
        why.append("a whole backward B costs another time than I + W")
    return why


def interleaved_span(devices: int, microbatches: int, virtual: int, stage: float, comm: float) -> float:
    """The cost of interleaved 1F1B in Zero Bubble's tables: m T + (p-1) T / v + (2pv - p - 2) comm.

    `stage` is T, F + I + W of a whole stage (all v chunks of a device). With table 9's times it gives the column 1F1B-I
    of table 5 to its four digits in all 12 rows (arXiv 2401.10241). A strict run of Megatron's order costs p comm more.
    """
    transfers = 2 * devices * virtual - devices - 2
    return microbatches * stage + (devices - 1) * stage / virtual + transfers * comm


def worker_memory(name: str, worker: int, devices: int, until_b: float = 1.0, until_w: float = 1.0) -> float:
    """Activations that device `worker` (from 0) of ZB-H1 or ZB-H2 holds at most, where m is large enough.

    Zero Bubble section 2.3: (p-i+1) M_B + (i-1) M_W and (2p-2i+1) M_B + (2i-2) M_W, for workers i from 1. KeyError for
    another schedule.
    """
    return {
        "zb-h1": (devices - worker) * until_b + worker * until_w,
        "zb-h2": (2 * (devices - worker) - 1) * until_b + 2 * worker * until_w,
    }[name]
