"""The machine pane of a run: a GPU, or the ranks' processes, over the time of the run; the run's own metrics below.

Everything in it has one axis of time, so that one sees what came with what: a step that took longer, and the clocks
that were held back just then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labtui import charts
from labtui.charts import number
from labtui.machine import throttle
from labtui.runs.clean import clean_line
from labtui.runs.envelope import Course
from labtui.runs.gauges import Gauges, GpuGauges, HostGauges
from labtui.runs.records import Document
from labtui.runs.watch import Curve, Snapshot
from labtui.tui import actions, gpu_words, words
from labtui.tui.lanes import Columns, TimeAxis, time_axis, value_at
from labtui.tui.lines import Line, Piece, fit
from labtui.tui.paths import gloo_words, gpus_of_ranks, is_on_gpus
from labtui.tui.recording import GONE_S, VALUE, Gauge, Recording, drawn
from labtui.tui.widgets.pane import Pane

METRICS = 2
"""So many of the run's metrics are shown below what was measured."""
_BUSY_GB_S = 1e-3
"""An interface that never carried more than this is left out."""


class MachinePane(Pane):
    """One GPU, or all ranks, at a time."""

    places = (actions.TIME, actions.PANE, actions.LIST)

    def __init__(self, *, id: str | None = None, joint: str = "─") -> None:
        super().__init__(id=id, joint=joint)
        self.snapshot: Snapshot | None = None
        self._chosen: str | None = None
        self._memory: dict[str, Columns] = {}
        self.at: float | None = None
        """The moment that is looked at; None for the end: now, while the run is alive."""
        self._width = 80

    def clear(self) -> None:
        """Forgets what was chosen, for another run."""
        self.snapshot, self._chosen, self.at = None, None, None
        self._memory.clear()
        self.redraw()

    @property
    def tabs(self) -> list[str]:
        """`RANKS`, and each GPU as `host index`; what the run computes on comes first."""
        snapshot = self.snapshot
        if snapshot is None or not is_on_gpus(snapshot) or not snapshot.gauges.gpus:
            return [RANKS]
        return [*(_name(gpu) for gpu in snapshot.gauges.gpus), RANKS]

    @property
    def tab(self) -> str:
        tabs = self.tabs
        return self._chosen if self._chosen in tabs else tabs[0]

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        tabs = self.tabs
        self._chosen, self._top = tabs[(tabs.index(self.tab) + by) % len(tabs)], 0
        self._memory.clear()
        self.redraw()

    # The moment that is looked at

    def step_in_time(self, by: int) -> None:
        """So many columns later; beyond the last one it is the end again."""
        recording = self._recording(self._width)
        axis = recording.axis if recording is not None else None
        room = recording.room(self._width) if recording is not None else 0
        if axis is None or not room:
            return
        last = min(axis.column(axis.now, room), room - 1)
        column = (last if self.at is None else axis.column(self.at, room)) + by
        self.at = None if column >= last else axis.start + (max(column, 0) + 0.5) * (axis.end - axis.start) / room
        self.redraw()

    def leap_in_time(self, by: int) -> None:
        self.step_in_time(10 * by)

    def take_back(self) -> bool:
        """esc: back to the end."""
        was, self.at = self.at, None
        self.redraw()
        return was is not None

    def copied(self) -> tuple[str, str]:
        """The numbers at the moment that is looked at."""
        recording = self._recording(self._width)
        if recording is None:
            return "", ""
        told = [
            f"{gauge.name or '..'}{' ' + gauge.whose.strip() if gauge.whose else ''} {gauge.value}"
            for gauge in (*recording.gauges, *recording.metrics)
        ]
        when = self._when(recording.axis)
        said = f"{self.title.strip()}{f' at {when}' if when else ''}: {', '.join(told)}"
        return clean_line(said), "these numbers"

    def _when(self, axis: TimeAxis | None) -> str:
        """`0:41`, counted from the start of the run; empty at the end."""
        return "" if self.at is None or axis is None else words.axis_time(self.at - axis.start)

    @property
    def title(self) -> str:  # type: ignore[override]
        gpu = self._gpu
        return gpu_title(self.snapshot, gpu) if gpu is not None and self.snapshot is not None else "Ranks"

    @property
    def _gpu(self) -> GpuGauges | None:
        gauges = self.snapshot.gauges if self.snapshot is not None else Gauges()
        return next((gpu for gpu in gauges.gpus if _name(gpu) == self.tab), None)

    def facts(self) -> Sequence[Piece]:
        snapshot = self.snapshot
        if snapshot is None:
            return ()
        facts: list[Piece] = []
        if self.at is not None:
            facts += [(f"at {self._when(_axis(snapshot))}", "live"), (" · ", "dim"), ("esc: the end", "warn")]
            return facts
        if snapshot.gauges.t is not None and snapshot.live and snapshot.taken - snapshot.gauges.t > 2 * GONE_S:
            facts.append((f"{words.clock(snapshot.taken - snapshot.gauges.t)} old", "warn"))
        tabs = self.tabs
        if len(tabs) > 1:
            facts += [(" · ", "dim")] if facts else []
            facts.append((f"{tabs.index(self.tab) + 1} of {len(tabs)}", "dim"))
        return facts

    def shown_lines(self, width: int, height: int) -> Sequence[Line]:
        self._width = width
        recording = self._recording(width)
        if recording is None:
            return []
        lines, self._top = drawn(recording, width, height, self._top, self._memory)
        return lines

    def _recording(self, width: int) -> Recording | None:
        if self.snapshot is None:
            return None
        gpu = self._gpu
        if gpu is not None:
            return gpu_recording(self.snapshot, gpu, self.at)
        return ranks_recording(self.snapshot, width, self.at)

    def body(self, width: int) -> Sequence[Line]:
        return self.shown_lines(width, 1 << 10)


RANKS = "ranks"


def _name(gpu: GpuGauges) -> str:
    return f"{gpu.host} {gpu.index}"


def _axis(snapshot: Snapshot) -> TimeAxis | None:
    """The time of the run; None where nobody knows when it began."""
    status = snapshot.status
    start = status.started or status.created if status is not None else None
    if start is None:
        return None
    if snapshot.live:
        return time_axis(start, snapshot.taken, live=True)
    ended = status.ended if status is not None else None
    return time_axis(start, ended or snapshot.gauges.t or start, live=False)


# A GPU ----------------------------------------------------------------------------------------------------------------


def gpu_title(snapshot: Snapshot, gpu: GpuGauges) -> str:
    """`GPU 0 · RTX 4080 · rank 0`."""
    parts = [f"GPU {gpu.index}"]
    parts += gpu_words.of_host(snapshot.machine, [gpu.index]).values()
    ranks = [rank for rank, index in gpus_of_ranks(snapshot.machine).items() if index == gpu.index]
    if ranks:
        parts.append(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))}")
    if len({other.host for other in snapshot.gauges.gpus}) > 1:
        parts.append(gpu.host)
    shown = " · ".join(parts)
    return fit(shown, min(len(shown), 44))


def gpu_recording(snapshot: Snapshot, gpu: GpuGauges, at: float | None = None) -> Recording:
    """One GPU: what was measured, when it was held back, and the run's metrics; values are those `at` a moment."""
    held = gpu.held
    reasons = dict.fromkeys(reason for stretch in held for reason in throttle.held_back(stretch.reasons or ()))
    told = any(stretch.reasons is not None for stretch in held)
    return Recording(
        axis=_axis(snapshot),
        gauges=_gpu_gauges(gpu, at),
        metrics=_metrics(snapshot.curves, at),
        held=held,
        reasons=tuple(reasons) or (("",) if told else ()),
        remarks=gpu_words.remarks(gpu),
        marks_at=_CLOCKS_AT,
        at=at,
    )


_CLOCKS_AT = 2
"""Utilization and clocks, and then at once why those are held back."""


def _gpu_gauges(gpu: GpuGauges, at: float | None) -> list[Gauge]:
    """What the GPU ever told, the most telling first."""
    now = _then(gpu.latest, gpu.courses, at)
    memory, power = number(now.get("mem_total")), number(now.get("power_limit_w"))
    gauges = (
        _gauge(gpu, "util %", "util", words.percent(now.get("util")), 100.0),
        _clocks(gpu, now),
        _gauge(gpu, "power W", "power_w", gpu_words.pair(now, "power_w", "power_limit_w", gpu_words.plain), power),
        _gauge(gpu, "temp °C", "temp_c", gpu_words.plain(now.get("temp_c")), 100.0, bottom=20.0),
        _gauge(gpu, "memory GiB", "mem_used", gpu_words.pair(now, "mem_used", "mem_total", gpu_words.gib), memory),
        *(
            _gauge(gpu, f"{link} {way}", f"{link.lower()}_{way}", gpu_words.rate(now.get(f"{link.lower()}_{way}")))
            for link in ("PCIe", "NVLink")
            for way in ("rx", "tx")
        ),
    )
    return [gauge for gauge in gauges if gauge is not None]


def _gauge(
    gpu: GpuGauges, name: str, field: str, value: str, top: float | None = None, *, bottom: float = 0.0
) -> Gauge | None:
    """A lane up to `top`, or to a round number above all that was measured; None where nothing ever was."""
    course = gpu.courses.get(field)
    if course is None:
        return None
    role = "bad" if gpu.silence else "strong"
    return Gauge(name, value, course, bottom, top or _round_out(_highest(course)), value_role=role, key=field)


def _then(latest: Document, courses: Mapping[str, Course], at: float | None) -> Document:
    """The sample with the values that held at a moment, where they were kept."""
    return latest if at is None else {**latest, **{name: value_at(course, at) for name, course in courses.items()}}


def _clocks(gpu: GpuGauges, now: Document) -> Gauge | None:
    """What counts is how far clocks come down under load: those of an idle GPU lie at the bottom."""
    highest = _highest(gpu.courses.get("sm_mhz"))
    return _gauge(gpu, "SM MHz", "sm_mhz", gpu_words.plain(now.get("sm_mhz")), highest, bottom=0.75 * highest)


def _highest(course: Course | None) -> float:
    return course.bounds.high if course is not None and course.bounds is not None else 0.0


def _round_out(highest: float) -> float:
    """A round number at or above, so that a growing value seldom changes the lane's scale."""
    scale = charts.fit([0.0, highest], round_out=True) if highest > 0 else None
    return scale.high if scale is not None else 1.0


def _metrics(curves: Sequence[Curve], at: float | None) -> list[Gauge]:
    """The run's first metrics over time, of the lowest rank that reports each."""
    chosen: dict[str, Curve] = {}
    for curve in curves:
        if curve.timed is not None and (curve.name not in chosen or curve.rank < chosen[curve.name].rank):
            chosen[curve.name] = curve
    found = []
    for name, curve in list(chosen.items())[:METRICS]:
        bounds = curve.timed.bounds if curve.timed is not None else None
        scale = charts.fit([bounds.low, bounds.high], round_out=True) if bounds is not None else None
        latest = curve.latest if at is None else value_at(curve.timed, at)
        value = words.UNKNOWN if latest is None else charts.label(float(f"{latest:.4g}"))
        unit = f" {curve.unit}" if curve.unit and len(value) + 1 + len(curve.unit) <= VALUE else ""
        low, high = (scale.low, scale.high) if scale is not None else (0.0, 1.0)
        # Of several curves of one name the first is shown, and it is said which.
        several = sum(other.name == name and other.rank == curve.rank for other in curves) > 1
        shown = " ".join([*map(str, curve.labels.values()), name]) if several else name
        found.append(Gauge(shown, value + unit, curve.timed, low, high, role="metric", key=f"metric {name}"))
    return found


# The ranks ------------------------------------------------------------------------------------------------------------


def ranks_recording(snapshot: Snapshot, width: int, at: float | None = None) -> Recording:
    """Each rank's CPU and memory, the host's CPU, its interfaces, and the run's metrics."""
    gauges, status = snapshot.gauges, snapshot.status
    pids = {process.rank: process.pid for process in status.ranks if process.rank is not None} if status else {}
    on_gpus = is_on_gpus(snapshot)
    remarks: list[Piece] = [] if on_gpus else [(gloo_words(snapshot), "")]
    by_rank = {rank.rank: rank for rank in gauges.ranks}
    ranks = sorted({*by_rank, *pids})
    if on_gpus and not gauges.gpus and gauges.t is not None:
        why = clean_line(str((snapshot.machine or {}).get("gpus_why") or "its telemetry has none"))
        remarks.append((f"{words.UNKNOWN}: GPUs ({why})", "warn"))
    if not ranks:
        remarks.insert(0, ("no rank has been seen yet" if snapshot.live else "no rank was seen", "dim"))
    found: list[Gauge] = []
    wide = width >= 60
    for title, field, write in (
        ("CPU %", "cpu", words.percent),
        ("RSS", "rss", words.size),
        ("GPU mem", "gpu_mem", lambda value: f"{gpu_words.gib(value)} GiB"),
    ):
        if field == "gpu_mem" and not any(field in rank.courses for rank in by_rank.values()):
            continue
        highest = max((_highest(rank.courses.get(field)) for rank in by_rank.values()), default=0.0)
        top = max(100.0, _round_out(highest)) if field == "cpu" else _round_out(highest)
        for place, number_ in enumerate(ranks):
            rank = by_rank.get(number_)
            whose = f"{number_:>3}"
            if wide and field == "cpu":
                pid = rank.latest.get("pid") if rank is not None else pids.get(number_)
                whose = f"{f'pid {words.UNKNOWN if pid is None else clean_line(str(pid))}':>12.12}{whose}"
            gone = rank is not None and snapshot.live and (gauges.t or 0.0) - rank.t > GONE_S
            gone = gone and at is None
            latest = _then(rank.latest, rank.courses, at) if rank is not None else {}
            value = "gone" if gone else write(latest.get(field))
            course = rank.courses.get(field) if rank is not None else None
            role = "dim" if gone else "strong"
            name = title if place == 0 else ""
            found.append(Gauge(name, value, course, 0.0, top, value_role=role, whose=whose, key=f"{field} {number_}"))
    for host in gauges.hosts:
        found += _host_gauges(host, at, several=len(gauges.hosts) > 1)
    return Recording(
        axis=_axis(snapshot),
        gauges=found,
        metrics=_metrics(snapshot.curves, at),
        remarks=remarks,
        names=24 if wide else 11,
        at=at,
    )


def _host_gauges(host: HostGauges, at: float | None, *, several: bool) -> list[Gauge]:
    latest, courses = _then(host.latest, host.courses, at), host.courses
    found = []
    if "cpu" in courses:
        name = f"CPU % {host.host if several else 'host'}"
        found.append(Gauge(name, words.percent(latest.get("cpu")), courses["cpu"], 0.0, 100.0, key=f"cpu {host.host}"))
    net = latest.get("net")
    for name, course in courses.items():
        way, _, interface = name.partition(" ")
        if way not in ("rx", "tx") or (interface == "lo" and way == "tx"):
            continue  # what is sent over the loopback is what it receives
        highest = _highest(course)
        if highest < _BUSY_GB_S and interface != "lo":
            continue
        rates = net.get(interface) if isinstance(net, dict) else None
        now = rates.get(way) if isinstance(rates, Mapping) else None
        now = now if at is None else latest.get(name)
        shown = "lo GB/s" if interface == "lo" else f"{way} {interface}"
        key = f"{name} {host.host}"
        found.append(Gauge(shown, _traffic(now), course, 0.0, _round_out(highest), key=key))
    return found


def _traffic(value: object) -> str:
    real = number(value)
    return words.UNKNOWN if real is None else f"{real:.3g}" if real >= 0.01 else f"{real:.4f}"
