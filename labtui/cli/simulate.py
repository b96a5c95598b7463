"""`labtui simulate`: pipeline schedules made, run on paper, drawn and compared."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cli import output, schedule_optimal, schedule_request
from labtui.cli.schedule_request import DEVICES, MICROBATCHES, Simulated, SimulateError

if TYPE_CHECKING:
    from labtui.theory.pipeline.timeline import Timeline

WITHOUT_TERMINAL = 100
"""Columns of a Gantt where stdout is no terminal: the lesson's own schedules fit, with transfers of half a unit too."""
EPILOG = """\
Schedules: {names}; `all` compares those that these sizes allow.
Costs are those of one (virtual) stage. B is I + W, I and W are half of B, FB is F + B unless given.
"""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("schedules", nargs="*", metavar="SCHEDULE", help="one to draw, several to compare; see below")
    sizes = parser.add_argument_group("sizes and costs")
    sizes.add_argument("-p", type=int, metavar="P", help=f"devices (default {DEVICES}, as in the lesson)")
    sizes.add_argument("-m", type=int, metavar="M", help=f"micro-batches (default {MICROBATCHES})")
    sizes.add_argument("-v", type=int, metavar="V", help="stages per device, for schedules that leave it open")
    sizes.add_argument(
        "--cost", default="", metavar="COSTS", help="as in F=1,B=2 or F=1,I=1,W=1 or FB=3 (default F=1,B=2)"
    )
    sizes.add_argument("--cost-of", choices=("stage", "device"), default="stage",
                       help="what costs so much: one stage, or all stages of a device together")  # fmt: skip
    sizes.add_argument(
        "--comm", type=float, default=0.0, metavar="C", help="time of a transfer between devices (default 0)"
    )
    sizes.add_argument("--link-busy", action="store_true", help="a link carries one transfer at a time")
    sizes.add_argument(
        "--stage-cost", default="", metavar="S=X", help="factors of stages from 0, as in 3=1.5 or 0=2,3=1.5"
    )
    sizes.add_argument("--microbatch-cost", default="", metavar="I=X", help="factors of micro-batches, in the same way")
    sizes.add_argument("--memory-limit", type=float, metavar="X",
                       help="activations on a device, in its whole shares of a micro-batch")  # fmt: skip
    sizes.add_argument("--activations", default="", metavar="SIZES",
                       help="what one takes until I or B, and until W, as in B=1,W=0.5 (default 1 and 1)")  # fmt: skip
    searched = parser.add_argument_group("optimal")
    searched.add_argument("--time-limit", type=float, metavar="S", help="seconds that the solver may take (default 10)")
    searched.add_argument("--placement", metavar="KINDS",
                          help="where stages may live: any of straight,v,both-ways,looped (default: all)")  # fmt: skip
    files = parser.add_argument_group("files")
    files.add_argument("--from", dest="source", metavar="FILE",
                       help="your own schedule(p, m) in a .py, or an order that PyTorch wrote as .csv")  # fmt: skip
    files.add_argument("--to-csv", metavar="FILE", help="write the order as PyTorch reads it; - is stdout")
    files.add_argument("--csv-form", choices=("compute_only", "compute_comms"), default="compute_only")
    files.add_argument("--perfetto", metavar="FILE", help="write a trace for ui.perfetto.dev; - is stdout")
    shown = parser.add_argument_group("what is shown")
    shown.add_argument("--sweep", metavar="X=A..B", help="the bubble over p, m, v, comm or memory-limit, as in m=4..64")
    shown.add_argument("--table2", action="store_true", help="DeepSeek-V3's table 2 for these p and costs")
    shown.add_argument("--overlap", action="store_true", help="DualPipe's four slots: what travels while what computes")
    shown.add_argument("--rows", choices=("stage", "device"), default="stage", help="what a row of the Gantt is")
    shown.add_argument("--no-gantt", action="store_true", help="figures only")
    shown.add_argument(
        "--width", type=int, metavar="N", help="columns of the Gantt (default: the terminal's; 0: no limit)"
    )
    shown.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="auto minds NO_COLOR")
    shown.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = EPILOG.format(names=" ".join(schedule_request.names()))


def main(arguments: argparse.Namespace) -> int:
    if arguments.overlap or arguments.table2:
        from labtui.cli import schedule_tables

        return schedule_tables.overlap(arguments) if arguments.overlap else schedule_tables.table2(arguments)
    _refuse_search_options(arguments)
    if arguments.sweep is not None:
        return _sweep(arguments)
    simulated = schedule_request.requested(arguments)
    _write_files(arguments, simulated)
    if "-" in (arguments.to_csv, arguments.perfetto):
        return 0  # stdout is that file
    if arguments.json:
        from labtui.cli.schedule_document import document

        documents = [
            document(each.name, each.timeline) | (schedule_optimal.document(each.optimum) if each.optimum else {})
            for each in simulated
        ]
        output.print_json(documents[0] if len(documents) == 1 and len(arguments.schedules) < 2 else documents)
    else:
        print("\n".join(_lines(arguments, simulated)))
    return 0


def _refuse_search_options(arguments: argparse.Namespace) -> None:
    if schedule_request.OPTIMAL not in arguments.schedules:
        for option, given in (("--time-limit", arguments.time_limit), ("--placement", arguments.placement)):
            if given is not None:
                raise SimulateError(f"{option} is for the search of `optimal`, which isn't among the schedules")


# Other tables -------------------------------------------------------------------------------------------------------


def _sweep(arguments: argparse.Namespace) -> int:
    from labtui.cli import schedule_sweep

    for option, given in (
        ("--from", arguments.source),
        ("--to-csv", arguments.to_csv),
        ("--perfetto", arguments.perfetto),
    ):
        if given is not None:
            raise SimulateError(f"--sweep simulates many schedules, and {option} is about one: take one of them")
    variable, values = schedule_sweep.parse(arguments.sweep)
    names = schedule_request.known_names() if arguments.schedules == ["all"] else arguments.schedules
    if not names:
        raise SimulateError(f"--sweep needs a schedule, one of {', '.join(schedule_request.names())}")
    _refuse_large_sweep(arguments, names, variable, values)
    field = variable.replace("-", "_")

    def at(name: str, value: float) -> Timeline:
        there = argparse.Namespace(**vars(arguments))
        setattr(there, field, value)
        return schedule_request.at(there, name)

    lines = schedule_sweep.run(names, values, at)
    if arguments.json:
        output.print_json(schedule_sweep.document(variable, values, lines))
    else:
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        print("\n".join(schedule_sweep.text(variable, values, lines, ascii="utf" not in encoding.lower())))
    return 0


def _refuse_large_sweep(
    arguments: argparse.Namespace, names: Sequence[str], variable: str, values: Sequence[float]
) -> None:
    """SimulateError where all the points together have more operations than one schedule may."""
    from labtui.theory.pipeline.schedules import LARGEST, SCHEDULES

    total = 0
    for name in names:
        maker = SCHEDULES.get(name)
        if maker is None:
            continue  # said when it is made
        for value in values:
            size = {"p": arguments.p or DEVICES, "m": arguments.m or MICROBATCHES, "v": arguments.v or maker.virtual}
            size[variable] = int(value) if variable in size else 0
            total += max(0, size["p"]) * max(0, size["m"]) * max(0, size["v"]) * maker.pieces
    if total > LARGEST:
        raise SimulateError(
            f"this sweep simulates {total:,} operations, more than {LARGEST:,}: give it a larger step, as in m=4..64:4"
        )


# Output -------------------------------------------------------------------------------------------------------------


def _lines(arguments: argparse.Namespace, simulated: Sequence[Simulated]) -> list[str]:
    """For people: the Gantt of each on one scale, then the figures of one or the table of several."""
    from labtui.cli import schedule_report as report

    timelines = [each.timeline for each in simulated]
    lines: list[str] = []
    if not arguments.no_gantt:
        lines += _charts(arguments, simulated)
    elif len(simulated) == 1:
        lines += report.title(simulated[0].name, timelines[0])
    if len(simulated) == 1:
        lines += report.figures(simulated[0].name, timelines[0])
    else:
        lines += report.comparison(timelines, [each.name for each in simulated])
    for each in simulated:
        if each.optimum is not None:
            lines += ["", *schedule_optimal.lines(each.optimum)]
    if arguments.source is not None:
        lines += ["", *report.wrapped(schedule_request.verdict(simulated[0]))]
    return lines


def _charts(arguments: argparse.Namespace, simulated: Sequence[Simulated]) -> list[str]:
    """The Gantts: on one scale where that shows all exactly, else each on its own, which its title says."""
    from labtui.cli import schedule_report as report
    from labtui.theory.pipeline import gantt

    timelines, by_stage = [each.timeline for each in simulated], arguments.rows == "stage"
    columns = _columns(arguments, report.frame(timelines, by_stage=by_stage))
    common = gantt.fit(timelines, columns)
    colour, alone = _in_colour(arguments.color), len(simulated) > 1 and not common.exact
    lines = []
    for each in simulated:
        scale = gantt.fit([each.timeline], columns) if alone else common
        lines += report.title(each.name, each.timeline, scale if alone else None)
        lines += [*report.chart(each.timeline, scale, by_stage=by_stage, colour=colour), ""]
    return [*lines, *report.legend(timelines, None if alone else common, by_stage=by_stage), ""]


def _columns(arguments: argparse.Namespace, frame: int) -> int | None:
    """Columns for the signs of a row; None without a limit. Raises SimulateError."""
    width: int | None = arguments.width
    if width is None:
        width = output.line_width()
        width = WITHOUT_TERMINAL if width >= output.UNLIMITED else width
    if width == 0:
        return None
    if width < frame + 10:
        raise SimulateError(
            f"--width {width} leaves no room for a Gantt: at least {frame + 10} columns, or 0 for no limit"
        )
    return width - frame


def _in_colour(asked: str) -> bool:
    if asked != "auto":
        return asked == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") not in ("", "dumb")


def _write_files(arguments: argparse.Namespace, simulated: Sequence[Simulated]) -> None:
    """--to-csv and --perfetto. Raises SimulateError, OSError."""
    for option, name in (("--to-csv", arguments.to_csv), ("--perfetto", arguments.perfetto)):
        if name is not None and len(simulated) != 1:
            raise SimulateError(f"{option} writes one schedule, not {len(simulated)}")
    if arguments.to_csv == arguments.perfetto == "-":
        raise SimulateError("stdout holds one file: --to-csv or --perfetto")
    if arguments.to_csv is not None:
        from labtui.theory.pipeline import pytorch_csv

        _write(arguments.to_csv, pytorch_csv.write(simulated[0].timeline.order, arguments.csv_form == "compute_comms"))
    if arguments.perfetto is not None:
        from labtui.export import perfetto

        _write(arguments.perfetto, perfetto.from_timeline(simulated[0].timeline))
        output.say("the trace opens at ui.perfetto.dev; 1 ms in it is one unit of time")


def _write(name: str, text: str) -> None:
    if name == "-":
        print(text, end="")
    else:
        Path(name).write_text(text)
