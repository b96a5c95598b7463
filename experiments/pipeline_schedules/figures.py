"""What is told of a simulated schedule: its picture, its figures, and the papers' formulas beside them."""

import os
import time
from dataclasses import replace

from labtui.bench import report
from labtui.theory.pipeline import formulas, gantt
from labtui.theory.pipeline.critical import critical_path
from labtui.theory.pipeline.simulate import simulate

UNIT_S = 1e-3  # the timeline draws one unit as 1 ms
COLUMNS = 100  # of a picture: the lesson's fit, with transfers of half a unit too
MOST_SPANS = 4000  # more than these nobody looks at


def tell(name, timeline, settings):
    path = critical_path(timeline)
    print(f"\n{name}: total {timeline.total:g}, bubble {timeline.bubble:.1%}, {path.hops} hops on the critical path")
    print("\n".join(picture(timeline)), flush=True)
    for what, value, unit in (
        ("total", timeline.total, "units"),
        ("longest_span", max(timeline.spans), "units"),
        ("bubble", timeline.bubble, ""),
        ("bubble_over_ideal", timeline.bubble_over_ideal, ""),
        ("bubble_of_span", timeline.bubble_of_span, ""),
        ("hops", path.hops, ""),
        ("peak_memory", max(timeline.peak_memory), "micro-batches"),
    ):
        report.result(what, value, unit, schedule=name)
    for device, held in enumerate(timeline.peak_memory):
        report.result("held", held, "micro-batches", schedule=name, device=device)
    beside_formula(name, timeline, settings)
    if timeline.costs.comm:
        beside_hops(name, timeline)


def picture(timeline):
    """The Gantt chart: a line per device, then what the signs mean."""
    lines = [f"GPU{device:<2} |{row}|" for device, row in enumerate(gantt.rows(timeline, COLUMNS))]
    legend = [f"{signs} {meaning}" for signs, meaning in gantt.signs(timeline.order).legend()]
    return [*lines, f"{'   '.join(legend)}   ({gantt.fit([timeline], COLUMNS).words})"]


def beside_formula(name, timeline, settings):
    """What the schedule's paper says of its time and memory. Checked where the formula can be expected to hold."""
    said = formulas.compare(name, timeline, timeline.order.routes[0].count(0))
    if said is None:
        return  # nobody printed one
    reasons = list(said.why)
    if settings.overlap and name.startswith("dualpipe"):
        reasons.append("pairs take less than F + B, for which the order was made")
    why = "; ".join(reasons) or f"idle {said.formula.bubble} ({said.formula.source})"
    report.prediction(f"time by the formula ({name})", said.expected, said.simulated, "units", why)
    expected, simulated = said.expected_peak, said.simulated_peak
    memory = f"{said.formula.memory} ({said.formula.source})"
    report.prediction(f"activations by the formula ({name})", expected, simulated, "micro-batches", memory)
    if not reasons or settings.trust_formula:
        # To nine digits: a third of a unit, added up often, is no exact number.
        report.check(f"time by the formula ({name})", round(said.simulated, 9), equal=round(said.expected, 9))


def beside_hops(name, timeline):
    """The longest chain of work without transfers, and a transfer wherever it changes devices. It can't be shorter."""
    instant = simulate(timeline.order, replace(timeline.costs, comm=0.0))
    least = instant.total + critical_path(instant).hops * timeline.costs.comm
    report.prediction(f"time by the hops ({name})", least, timeline.total, "units", "total at comm 0 + hops x comm")


def draw(timelines):
    """The schedules on labtui's timeline, one after the other, a lane for each device."""
    if "LABTUI_RUN_DIR" not in os.environ:
        return  # started by hand: a line for each operation would say less than the pictures
    if sum(len(ends) for each in timelines.values() for ends in each.ends) > MOST_SPANS:
        report.note(f"more than {MOST_SPANS} operations: they are left out of the timeline")
        return
    begin = time.time()
    report.note("on the timeline a unit is 1 ms, and the schedules follow each other")
    for name, timeline in timelines.items():
        for device in range(len(timeline.order.devices)):
            for op in timeline.ops(device):
                what = f"{name}: {op.kind}{op.microbatch} of stage {op.stage}"
                report.add_span(f"GPU{device}", what, begin + UNIT_S * op.start, begin + UNIT_S * op.end)
        begin += UNIT_S * (timeline.total + 5)
