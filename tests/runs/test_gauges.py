"""Telemetry over time: whatever the lines hold, what is known is kept, bounded, and gaps stay gaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.runs import gauges
from labtui.runs.folder import RunFolder, publish, stage
from labtui.runs.gauges import GaugeReader, GpuGauges, Stretch

NOW = 1_764_417_800.0
LOST = {"index": 0, "util": None, "power_w": None, "throttle": None, "why": {"util": "GPU is lost"}}


def gpu(util: float | None = 97, **fields: Any) -> dict[str, Any]:
    return {"index": 0, "util": util, "throttle": [], "why": {}, **fields}


def fed(*samples: dict[str, Any], host: str = "here") -> GaugeReader:
    reader = GaugeReader()
    for sample in samples:
        reader.take(sample, host)
    return reader


def one_gpu(*entries: dict[str, Any], spacing: float = 1.0) -> GpuGauges:
    (found,) = fed(*({"t": NOW + spacing * n, "gpus": [entry]} for n, entry in enumerate(entries))).gauges.gpus
    return found


def test_each_gpu_rank_host_and_interface_has_its_course() -> None:
    samples = [
        {
            "t": NOW + n,
            "gpus": [gpu(90 + n, index=index, power_w=200.0) for index in (0, 1)],
            "ranks": [{"rank": 0, "pid": 7, "cpu": 99.0 + n, "rss": 1000}],
            "host": {"cpu": 30.0, "net": {"lo": {"rx": 0.5, "tx": 0.5}, "eth0": {"rx": 0.0, "tx": 0.1}}},
        }
        for n in range(3)
    ]
    found = fed(*samples).gauges
    assert found.t == NOW + 2
    assert [(its.host, its.index) for its in found.gpus] == [("here", 0), ("here", 1)]
    assert found.gpus[1].courses["util"].points == ((NOW, 90.0), (NOW + 1, 91.0), (NOW + 2, 92.0))
    assert found.gpus[0].recent[-1] == (NOW + 2, 92.0)
    assert found.ranks[0].courses["cpu"].points[-1] == (NOW + 2, 101.0)
    assert found.ranks[0].latest["pid"] == 7
    assert {"cpu", "rx lo", "tx lo", "rx eth0", "tx eth0"} <= set(found.hosts[0].courses)
    assert "nvlink_rx" not in found.gpus[0].courses, "what was never measured has no course"


def test_a_gap_is_not_zero_and_a_lost_gpu_says_since_when() -> None:
    found = one_gpu(gpu(97), gpu(96), LOST, LOST)
    assert found.courses["util"].points == ((NOW, 97.0), (NOW + 1, 96.0), (NOW + 2, None), (NOW + 3, None))
    assert found.silent_since == NOW + 2
    assert found.silence == "GPU is lost"
    back = one_gpu(gpu(97), LOST, gpu(95))
    assert back.silent_since is None and back.silence == ""


def test_clocks_held_back_are_kept_as_stretches() -> None:
    cap = ["sw_power_cap"]
    found = one_gpu(gpu(), gpu(throttle=cap), gpu(throttle=cap), gpu(), LOST)
    assert found.held == (
        Stretch(NOW, NOW, ()), Stretch(NOW + 1, NOW + 2, ("sw_power_cap",)), Stretch(NOW + 3, NOW + 3, ()),
        Stretch(NOW + 4, NOW + 4, None),
    )  # fmt: skip


def test_nothing_is_said_of_the_time_in_which_nobody_measured() -> None:
    cap = gpu(throttle=["sw_power_cap"])
    times = [0.0, 1.0, 2.0, 42.0, 43.0]
    (found,) = fed(*({"t": NOW + t, "gpus": [cap]} for t in times)).gauges.gpus
    assert [(its.start - NOW, its.end - NOW) for its in found.held] == [(0.0, 2.0), (42.0, 43.0)]
    assert len(one_gpu(*[cap] * 5, spacing=60.0).held) == 2, "a thinned file is no gap"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("BUCKETS", 8), ("COURSED", 2), ("MOST", 3), ("INTERFACES", 2)):
        monkeypatch.setattr(gauges, name, most)
    net = {f"veth{n}": {"rx": 0.1, "tx": 0.1} for n in range(9)}
    found = fed(
        *(
            {"t": NOW + n, "gpus": [gpu(n, index=index) for index in range(6)], "host": {"net": net}}
            for n in range(100)
        )
    ).gauges  # fmt: skip
    assert [its.index for its in found.gpus] == [0, 1, 2]
    assert len(found.gpus[0].courses["util"]) <= 8
    assert found.gpus[0].courses["util"].points[-1] == (NOW + 99, 99.0) or found.gpus[0].courses["util"].last
    assert found.gpus[2].courses == {}, "only its latest reading is kept"
    assert sum(name.startswith("rx ") for name in found.hosts[0].courses) == 2


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["t", "gpus", "ranks", "host", "index", "rank", "util", "throttle", "net", "why", "x"]
                    ),
                    inner,
                    max_size=5,
                )
            ),
            max_leaves=12,
        ),
        max_size=6,
    )
)
def test_no_line_breaks_it(documents: list[Any]) -> None:
    reader = GaugeReader()
    for n, document in enumerate(documents):
        reader.take(document, "here")
        wrapped = {"t": NOW + n, "gpus": document, "ranks": document, "host": document}
        reader.take_line(json.dumps(wrapped).encode(), "here")
        reader.take_line(json.dumps({**wrapped, "gpus": [document], "ranks": [document]}).encode(), "there")
    found = reader.gauges
    for its in found.gpus:
        assert isinstance(its.silence, str)
    assert found.t is None or found.t >= NOW


# From files


@pytest.fixture
def folder(own_folders: Path) -> RunFolder:
    return publish(stage(own_folders, "ddp_by_hand", NOW))


def write(path: Path, times: range) -> None:
    with path.open("a") as file:
        for n in times:
            file.write(json.dumps({"t": NOW + n, "gpus": [gpu(n % 100)]}) + "\n")


def test_a_file_is_followed_in_bites_and_torn_or_bad_lines_do_no_harm(folder: RunFolder) -> None:
    path = folder.telemetry / "here.jsonl"
    write(path, range(400))
    with path.open("a") as file:
        file.write('nonsense\n[]\n{"t": "x"}\n{"t": 1')
    reader = GaugeReader(folder)
    looks = 0
    while reader.poll(4096) == [] and reader.behind:
        looks += 1
    assert looks > 3
    assert reader.latest is not None and reader.latest["t"] == NOW + 399
    assert len(reader.gauges.gpus[0].courses["util"]) == 400


def test_a_file_that_was_thinned_is_not_counted_twice(folder: RunFolder) -> None:
    path = folder.telemetry / "here.jsonl"
    write(path, range(100))
    reader = GaugeReader(folder)
    reader.poll()
    kept = path.read_bytes().splitlines(keepends=True)
    other = path.with_name(".here.jsonl")
    other.write_bytes(b"".join(kept[::10]))
    other.replace(path)
    write(path, range(100, 103))
    reader.poll()
    assert [x - NOW for x, _ in reader.gauges.gpus[0].courses["util"].points] == list(range(103))


def test_hosts_are_told_apart_and_the_end_of_a_file_may_do(folder: RunFolder) -> None:
    write(folder.telemetry / "a.jsonl", range(500))
    write(folder.telemetry / "b.jsonl", range(3))
    (folder.telemetry / ".b.jsonl").write_text("being thinned")
    reader = GaugeReader(folder, from_end=2000)
    assert reader.poll() == []
    a, b = reader.gauges.gpus
    assert (a.host, b.host) == ("a", "b")
    assert len(a.courses["util"]) < 100 and len(b.courses["util"]) == 3


def test_a_folder_without_telemetry_is_no_error(folder: RunFolder) -> None:
    folder.telemetry.rmdir()
    reader = GaugeReader(folder)
    assert reader.poll() == []
    assert reader.gauges == gauges.Gauges()
