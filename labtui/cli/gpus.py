"""`labtui gpus`: what each GPU is and does now, once or again and again."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labtui.cli import output
from labtui.runs.clean import clean_line, strict

if TYPE_CHECKING:
    from labtui.machine.gpu_processes import Owners
    from labtui.machine.gpus import Gpus
    from labtui.machine.reading import Gpu, Reading

FIRST_S = 0.5
"""Between the two readings that rates need."""
PATIENCE_S = 2.0
"""A GPU that hangs is waited for once, and shown as one that hangs."""
GIB = 1 << 30

_HOME, _CLEAR_BELOW = "\x1b[H", "\x1b[J"
# Columns that go first where the terminal is narrow.
_DROP = ("clocks", "PCIe rx/tx", "NVLink rx/tx", "temp")


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--watch", action="store_true", help="again and again, until ctrl-c")
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help="seconds between two (default: 1)")
    parser.add_argument("--json", action="store_true", help="one JSON document; with --watch one a line")
    parser.epilog = "Traffic is GB/s (1e9 bytes) in one direction, seen from the GPU: rx comes in, tx goes out."


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds from 0.1 to 3600")
    return seconds


def main(arguments: argparse.Namespace) -> int:
    from labtui.machine.gpus import Gpus

    gpus = Gpus.open(os.environ)
    try:
        if gpus.read(PATIENCE_S):
            pause(FIRST_S)
        while True:
            _show(gpus, arguments)
            if not arguments.watch:
                return 0
            pause(arguments.interval)
    finally:
        gpus.close()


def pause(seconds: float) -> None:
    """Waits until the next reading."""
    time.sleep(seconds)


def _show(gpus: Gpus, arguments: argparse.Namespace) -> None:
    from labtui.machine import gpu_processes

    readings = gpus.read(PATIENCE_S)
    owners = gpu_processes.sort_out(readings, {})
    if arguments.json:
        document = _document(gpus, readings, owners)
        if arguments.watch:
            import json

            print(json.dumps(strict(document)), flush=True)
        else:
            output.print_json(document)
        return
    lines = _lines(gpus, readings, owners)
    if arguments.watch and sys.stdout.isatty():
        print(_HOME + _CLEAR_BELOW, end="")
    elif arguments.watch:
        lines = [output.moment(time.time()), *lines, ""]
    output.print_lines(lines)
    sys.stdout.flush()


# JSON ---------------------------------------------------------------------------------------------------------------


def _document(gpus: Gpus, readings: Sequence[Reading], owners: Owners) -> dict[str, Any]:
    return {
        "t": time.time(),
        "driver": gpus.driver,
        "why": gpus.why,
        "gpus": [
            _gpu_document(gpu, reading, owners) for gpu, reading in zip(gpus.gpus(), readings, strict=True)
        ],
    }  # fmt: skip


def _gpu_document(gpu: Gpu, reading: Reading, owners: Owners) -> dict[str, Any]:
    """What it is, then what it does; where both have a field, what it does now."""
    what, does = gpu.document(), reading.document()
    return {
        **what,
        **does,
        "why": {**what["why"], **does["why"]},
        "others": [
            {"pid": other.pid, "name": other.name, "user": _user(other.uid), "memory": other.memory}
            for other in owners.others
            if other.gpu == gpu.index
        ],
        "outside": owners.outside.get(gpu.index, 0),
    }


def _user(uid: int | None) -> str | None:
    if uid is None:
        return None
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


# For people ---------------------------------------------------------------------------------------------------------


def _lines(gpus: Gpus, readings: Sequence[Reading], owners: Owners) -> list[str]:
    if not readings:
        return [f"no GPU: {gpus.why}"]
    header = ("GPU", "name", "util", "memory", "power", "temp", "clocks", "PCIe rx/tx", "NVLink rx/tx", "held back by")
    rows = [_row(gpu, reading) for gpu, reading in zip(gpus.gpus(), readings, strict=True)]
    shown = [place for place, name in enumerate(header) if name != "NVLink rx/tx" or any(row[place] for row in rows)]
    lines = output.table(
        [header[place] for place in shown],
        [[row[place] or "-" for place in shown] for row in rows],
        output.line_width(),
        _DROP,
    )
    for reading in readings:
        lines += _remarks(reading)
    return lines + _process_lines(readings, owners)


def _row(gpu: Gpu, reading: Reading) -> list[str]:
    """Empty where there is nothing to say."""
    from labtui.machine import throttle

    held = throttle.held_back(reading.throttle or ())
    return [
        str(reading.index),
        clean_line(gpu.name or ""),
        f"{reading.util} %" if reading.util is not None else "",
        _share(_gib(reading.mem_used), _gib(reading.mem_total), "GiB"),
        _share(_whole(reading.power_w), _whole(reading.power_limit_w), "W"),
        f"{reading.temp_c} C" if reading.temp_c is not None else "",
        _share(_whole(reading.sm_mhz), _whole(reading.mem_mhz), "MHz"),
        _share(_rate(reading.pcie_rx), _rate(reading.pcie_tx), "GB/s"),
        _share(_rate(reading.nvlink_rx), _rate(reading.nvlink_tx), "GB/s"),
        ", ".join(held) if held else "nothing" if reading.throttle is not None else "",
    ]


def _share(one: str, other: str, unit: str) -> str:
    return f"{one or '-'}/{other or '-'} {unit}" if one or other else ""


def _gib(size: int | None) -> str:
    return f"{size / GIB:.1f}" if size is not None else ""


def _whole(value: float | None) -> str:
    return f"{value:.0f}" if value is not None else ""


def _rate(value: float | None) -> str:
    return f"{value:.1f}" if value is not None else ""


def _remarks(reading: Reading) -> list[str]:
    """What else a person should know: why values are missing, where that is no property of the GPU; errors."""
    from labtui.machine.reading import BY_TURNS, MEASURED, NOT_SUPPORTED, SECOND_NEEDED, SHARED

    name = f"GPU {reading.index}"
    reasons: dict[str, list[str]] = {}
    for field in MEASURED:
        reason = reading.why.get(field)
        if reason is not None and reason not in (NOT_SUPPORTED, SECOND_NEEDED, BY_TURNS):
            reasons.setdefault(reason, []).append(field)
    lines = [
        f"{name}: {reason}" if len(fields) == len(MEASURED) else f"{name}: {', '.join(fields)}: {reason}"
        for reason, fields in reasons.items()
    ]
    if reading.mem_how == SHARED:
        lines.append(f"{name}: its memory is {SHARED}")
    if reading.ecc_uncorrected:
        lines.append(f"{name}: {output.plural(reading.ecc_uncorrected, 'memory error')} that ECC could not correct")
    if reading.xid_count:
        lines.append(
            f"{name}: {output.plural(reading.xid_count, 'critical error')}, the last one XID {reading.xid_last}"
        )
    return [clean_line(line) for line in lines]


def _process_lines(readings: Sequence[Reading], owners: Owners) -> list[str]:
    from labtui.machine.gpu_processes import outside_words

    lines = []
    for reading in readings:
        told = [
            f"{other.pid} {other.name} ({_user(other.uid) or '?'}) {_gib(other.memory) or '?'} GiB"
            for other in owners.others
            if other.gpu == reading.index
        ]
        outside = owners.outside.get(reading.index)
        if outside:
            told.append(outside_words(outside))
        if told:
            lines.append(clean_line(f"GPU {reading.index} is held by {'; '.join(told)}"))
    return lines
