"""A property of every widget of the Run screen: whatever stands in a run's folder, nothing but text leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from small_lab import MACHINE, NCCL, NOW, event, reading, sample
from test_machine import curve
from test_widgets import snapshot

from labtui.charts import Series
from labtui.runs.folder import RunFolder
from labtui.runs.gauges import GaugeReader
from labtui.runs.plots import Plot
from labtui.runs.records import RunProcess, Status
from labtui.runs.watch import Snapshot
from labtui.tui.lines import Line, cells
from labtui.tui.log_search import pattern
from labtui.tui.messages import LogWindow
from labtui.tui.widgets.chart import ChartPane
from labtui.tui.widgets.findings import Findings
from labtui.tui.widgets.frame import NoticeLine, TitleLine
from labtui.tui.widgets.headline import Headline
from labtui.tui.widgets.log import LogPane
from labtui.tui.widgets.machine import MachinePane
from labtui.tui.widgets.paths import PathsPane
from labtui.tui.widgets.processes import ProcessesPane
from labtui.tui.widgets.timeline import TimelinePane

ANYTHING = st.text(
    st.one_of(
        st.sampled_from("\x1b[]0;31mH\x07\x9b\x9d\r\n\t\x00\x08\u202e\u2028\ud800"),
        st.characters(),
        st.sampled_from("ab "),
    ),
    max_size=24,
)


def evil(text: str) -> Snapshot:
    """A run in which that text stands wherever somebody may write one."""
    reader = GaugeReader()
    reader.take(sample(NOW, [reading(0, why={"util": text}, util=None, throttle=(text,))]), text)
    ranks = (RunProcess("rank", 1, 1, 0, 0, text, text, text), RunProcess(text, 2, 2))
    return snapshot(
        folder=RunFolder(Path("/runs") / (text.replace("/", "").replace("\0", "") or "x")),
        status=Status("failed", NOW, started=NOW, ended=NOW + 9, reason=text, processes=ranks),
        errors=(text,), versions={"torch": text},
        checks=(event("check", name=text, value=text, unit=text, passed=False),),
        results=(event("result", name=text, value=1.5, unit=text, labels={text: text}),),
        notes=(event("note", text=text),),
        spans=(event("span", lane=text, name=text, start=NOW, end=NOW + 1),),
        curves=(curve(text, text),), gauges=reader.gauges,
        machine={**MACHINE, "gpus": [{"index": 0, "name": text}], "gpus_why": text},
        nccl={**NCCL, "nccl_version": text, "diagnosis": text, "links": [[0, 1, text, [0]]]},
    )  # fmt: skip


def widgets(text: str, run: Snapshot) -> list[Any]:
    of_the_run: list[Any] = [Findings(), MachinePane(), PathsPane(), ProcessesPane(), TimelinePane(), Headline()]
    for one in of_the_run:
        one.snapshot = run
    of_the_run[-1].experiment = text
    log, chart, notice, title = LogPane(), ChartPane(), NoticeLine(), TitleLine("run")
    log.logs, log.name_shown = [("0", 1), (text, 1)], "0"
    log.window = LogWindow("0", 0, (text,) * 4, 4, sources=("0", "0 stderr") * 2, trouble="")
    log.wanted = pattern(text) if text else None
    chart._plots = (
        Plot(text, (Series(text, ((0.0, 1.0), (1.0, 2.0))), Series(text, ((0.0, 1.0),))), unit=text, x_label="x"),
    )
    notice.sentence, title.machine = text, text
    broken = LogPane()
    broken.logs, broken.name_shown, broken.window = log.logs, text, LogWindow(text, trouble=text)
    return [*of_the_run, log, broken, chart, notice, title]


def is_text(line: str) -> bool:
    """Whether a terminal would only write it."""
    return all(ord(c) >= 32 and not 127 <= ord(c) < 160 and not 0xD800 <= ord(c) < 0xE000 for c in line)


@given(ANYTHING, st.sampled_from([(30, 4), (46, 9), (90, 16)]))
@settings(max_examples=60, deadline=None)
def test_nothing_but_text_leaves_a_widget(text: str, size: tuple[int, int]) -> None:
    width, height = size
    for widget in widgets(text, evil(text)):
        lines: list[Line] = [tuple(line) for line in widget.build(width, height)]
        for line in lines:
            assert cells(line) <= width, widget
            assert is_text("".join(piece for piece, _ in line)), widget
        if hasattr(widget, "copied"):
            copied, what = widget.copied()
            assert all(is_text(line) for line in copied.replace("\t", " ").split("\n")) and is_text(what), widget
