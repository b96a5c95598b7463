"""A run's spans and telemetry as a trace for ui.perfetto.dev: what computed while what travelled, on which GPUs.

Times are seconds after the run's first event, which all ranks share (they write times since the epoch).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labtui.charts import number
from labtui.export import perfetto
from labtui.export.events import EventReader, telemetry
from labtui.export.perfetto import Counter, Slice, Track
from labtui.runs.clean import clean_line
from labtui.runs.folder import RunFolder

_GPU = {
    "util": "utilization, %", "mem_used": "memory, B", "power_w": "power, W", "sm_mhz": "SM clock, MHz",
    "pcie_rx": "PCIe in, GB/s", "pcie_tx": "PCIe out, GB/s", "nvlink_rx": "NVLink in, GB/s",
    "nvlink_tx": "NVLink out, GB/s",
}  # fmt: skip
_RANK = {"cpu": "CPU, %", "rss": "memory, B", "gpu_mem": "GPU memory, B"}
_HOST = {"cpu": "CPU, %", "mem_available": "memory available, B", "shm_used": "/dev/shm used, B"}

MOST_LINES = 1024
"""Lanes, and curves, that are told apart; a viewer shows far fewer."""
_REST = "further ones"

Points = dict[tuple[str, str], list[tuple[float, float | None]]]


def text(folder: RunFolder) -> str:
    """The trace of a run: a process per rank with a track per lane, its metrics as counters; GPUs and hosts below.

    Without spans it holds counters only.
    """
    spans: dict[tuple[int, str], list[tuple[str, float, float]]] = {}
    points: Points = {}
    for event in EventReader(folder):
        if event["kind"] == "span":
            start, end = number(event.get("start")), number(event.get("end"))
            if start is not None and end is not None and end >= start:
                lane = (event["rank"], clean_line(str(event.get("lane"))))
                key = lane if lane in spans or len(spans) < MOST_LINES else (event["rank"], _REST)
                spans.setdefault(key, []).append((clean_line(str(event.get("name"))), start, end))
        elif event["kind"] == "metric":
            name = " ".join(map(str, (event.get("name"), *_labels(event).values())))
            _add(points, f"rank {event['rank']}", name, event.get("t"), event.get("value"))
    for host, sample in telemetry(folder):
        _add_sample(points, clean_line(host), sample)
    begins = min(
        [start for its in spans.values() for _, start, _ in its] + [t for its in points.values() for t, _ in its],
        default=0.0,
    )
    tracks = [
        Track(f"rank {rank}", lane, tuple(Slice(name, start - begins, end - begins) for name, start, end in its))
        for (rank, lane), its in sorted(spans.items())
    ]
    counters = [
        Counter(process, name, tuple((t - begins, value) for t, value in its))
        for (process, name), its in sorted(points.items())
    ]
    return perfetto.text(tracks, counters)


def _add_sample(points: Points, host: str, sample: Mapping[str, Any]) -> None:
    t = sample.get("t")
    for entries, fields, key, word in (("gpus", _GPU, "index", "GPU"), ("ranks", _RANK, "rank", "rank")):
        listed = sample.get(entries)
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict):
                whose = f"{word} {entry.get(key)}" + (f" of {host}" if word == "GPU" else "")
                for field, name in fields.items():
                    _add(points, whose, name, t, entry.get(field))
    whole = sample.get("host")
    if isinstance(whole, dict):
        for field, name in _HOST.items():
            _add(points, f"host {host}", name, t, whole.get(field))


def _add(points: Points, process: str, name: str, t: Any, value: Any) -> None:
    at, measured = number(t), number(value)
    if at is not None and measured is not None:
        key = (process, clean_line(name))
        if key in points or len(points) < MOST_LINES:
            points.setdefault(key, []).append((at, measured))


def _labels(event: Mapping[str, Any]) -> Mapping[str, Any]:
    labels = event.get("labels")
    return labels if isinstance(labels, dict) else {}
