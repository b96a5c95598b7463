"""Published figures of pipeline schedules, each against our simulation of its order. Facts only, each with its source.

A formula's value counts as printed: it is put in here by hand, and the simulation knows none. Zero Bubble's tables
have a module of their own, `zero_bubble`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate
from labtui.theory.pipeline.timeline import Timeline
from labtui.theory.published import Value

LESSON = "the lesson on distributed training"
DUALPIPE = "deepseek-ai/DualPipe at 3da1bbea, images/dualpipe.png"
DUALPIPEV = "deepseek-ai/DualPipe at 3da1bbea, images/dualpipev.png"
TABLE_2 = "DeepSeek-V3 (arXiv 2412.19437) table 2"
README_V = "deepseek-ai/DualPipe at 3da1bbea, README"
NARAYANAN = "Narayanan et al. 2021 (arXiv 2104.04473) section 2.2"
SAIL = "sail-sg/zero-bubble-pipeline-parallelism README at 39f2c186"
SPACE = "Hugging Face space sail/pipeline-parallelism-with-controllable-memory, description1.md"


def values() -> tuple[Value, ...]:
    """Totals, bubbles and peaks of GPipe, 1F1B, interleaved 1F1B, the V schedules, DualPipe and DualPipeV."""
    return tuple(_lesson() + _formulas() + _table_2() + _pictures() + _controllable())


def _run(name: str, p: int, m: int, v: int | None, comm: float) -> Timeline:
    """The schedule with F=1, B=2 (I=W=1, FB=3)."""
    costs = Costs(1.0, backward=2.0, comm=comm)
    return simulate(build(name, p, m, v, costs), costs)


def _total(run: Timeline) -> float:
    return run.total


def _percent(run: Timeline) -> float:
    return 100 * run.bubble


def _over_ideal(run: Timeline) -> float:
    return run.bubble_over_ideal


def _most_idle(run: Timeline) -> float:
    return max(run.idle)


def _least_idle(run: Timeline) -> float:
    return min(run.idle)


def _most_held(run: Timeline) -> float:
    return max(run.peak_in_flight)


def _least_held(run: Timeline) -> float:
    return min(run.peak_in_flight)


def _most_microbatches(run: Timeline) -> float:
    """Held pieces in whole micro-batches: a device of a V has two stages of each."""
    return max(run.peak_memory)


def _of(
    figure: Callable[[Timeline], float], name: str, p: int, m: int, v: int | None = None, comm: float = 0.0
) -> float:
    return figure(_run(name, p, m, v, comm))


def _value(
    what: str, source: str, printed: float, unit: str, ours: Callable[[], float], tolerance: float = 0.0
) -> Value:
    why = "printed to one decimal" if tolerance else ""
    return Value("pipeline", what, source, printed, unit, tolerance, ours, why)


def _lesson() -> list[Value]:
    found = []
    for name, most, least in (("gpipe", 8, 8), ("1f1b", 4, 1)):
        case = f"{name}, p=4, m=8"
        found += [
            _value(f"{case}: total", LESSON, 33, "", partial(_of, _total, name, 4, 8)),
            _value(f"{case}: bubble of the total", LESSON, 27.3, "%", partial(_of, _percent, name, 4, 8), 0.05),
            _value(f"{case}: micro-batches held, most", LESSON, most, "", partial(_of, _most_held, name, 4, 8)),
            _value(f"{case}: micro-batches held, least", LESSON, least, "", partial(_of, _least_held, name, 4, 8)),
        ]
    delayed = partial(_of, _total, "1f1b", 4, 8, None, 0.5)
    quiz = partial(_of, _percent, "1f1b", 8, 24)
    return [
        *found,
        _value("1f1b, p=4, m=8, comm 0.5: total", LESSON, 41, "", delayed),
        _value("1f1b, p=8, m=24: bubble of the total", LESSON, 100 * 7 / 31, "%", quiz),
    ]


def _formulas() -> list[Value]:
    found = []
    for name, p, m in (("gpipe", 4, 8), ("1f1b", 8, 32), ("1f1b", 16, 48)):
        case = f"{name}, p={p}, m={m}"
        found += [
            _value(f"{case}: (p-1)/m over ideal", NARAYANAN, (p - 1) / m, "", partial(_of, _over_ideal, name, p, m)),
            _value(
                f"{case}: (p-1)/(m+p-1) of the total", SAIL, 100 * (p - 1) / (m + p - 1), "%",
                partial(_of, _percent, name, p, m),
            ),
        ]  # fmt: skip
    for p, m, v in ((2, 4, 2), (4, 8, 2), (4, 12, 3), (8, 32, 4)):
        what = f"interleaved-1f1b, p={p}, m={m}, v={v}: (p-1)/(v m) over ideal"
        ours = partial(_of, _over_ideal, "interleaved-1f1b", p, m, v)
        found.append(_value(what, NARAYANAN, (p - 1) / (v * m), "", ours))
    return found


def _table_2() -> list[Value]:
    """(PP-1)(F+B), (PP-1)(F+B-2W), (PP/2-1)(F&B+B-3W) with F=1, B=2, W=1, F&B=3."""
    found = []
    for stages in (4, 8, 16):
        m = 2 * stages
        both_ways = (stages / 2 - 1) * (3 + 2 - 3)
        for name, devices, source, bubble, held in (
            ("1f1b", stages, TABLE_2, (stages - 1) * 3, stages),
            ("zb-h1", stages, TABLE_2, stages - 1, stages),
            ("dualpipe", stages, TABLE_2, both_ways, stages + 1),
            ("dualpipev", stages // 2, README_V, both_ways, stages + 1),
        ):
            case = f"{name}, PP={stages}, m={m}"
            found += [
                _value(f"{case}: bubble of a device", source, bubble, "", partial(_of, _most_idle, name, devices, m)),
                _value(f"{case}: activations", source, held, "", partial(_of, _most_held, name, devices, m)),
            ]
    return found


def _pictures() -> list[Value]:
    found = []
    for name, devices, m, source in (("dualpipe", 8, 20, DUALPIPE), ("dualpipev", 4, 10, DUALPIPEV)):
        for what, printed, figure in (
            ("length of a row", 66, _total),
            ("idle cells of a row, most", 6, _most_idle),
            ("idle cells of a row, least", 6, _least_idle),
        ):
            case = f"{name}, {devices} devices, m={m}: {what}"
            found.append(_value(case, source, printed, "", partial(_of, figure, name, devices, m)))
    return found


def _controllable() -> list[Value]:
    """Peaks in micro-batches where F = B = W."""
    found = []
    for p in (4, 6, 8):
        for name, held in (("zb-v", p), ("v-half", (p + 2) // 2), ("v-min", (p + 4) // 3)):
            ours = partial(_of, _most_microbatches, name, p, 3 * p)
            found.append(_value(f"{name}, p={p}, m={3 * p}: micro-batches held", SPACE, held, "", ours))
    return found
