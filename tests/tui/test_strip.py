"""The machine strip as a pure function of what was measured."""

from __future__ import annotations

from typing import Any

import pytest
from small_lab import HOSTILE, MACHINE, NOW, lost, reading, sample
from test_widgets import check_harmless, text

from labtui.machine.reading import SHARED
from labtui.runs.gauges import GaugeReader
from labtui.tui.lines import Line, cells
from labtui.tui.messages import Machine
from labtui.tui.widgets.strip import MachineStrip, spark, strip


def machine(*samples: dict[str, Any], taken: float | None = None, **fields: Any) -> Machine:
    reader = GaugeReader()
    for one in samples:
        reader.take(one, "here")
    return Machine(taken if taken is not None else (reader.gauges.t or NOW), reader.gauges, **fields)


def gpus(*entries: dict[str, Any], **fields: Any) -> Machine:
    return machine(sample(NOW, entries), **fields)


def lines(seen: Machine | None, width: int = 118, height: int = 12, joint_at: int | None = None) -> list[str]:
    return text(strip(seen, width, height, joint_at)).split("\n")


def test_a_gpu_has_a_line_with_all_that_it_does() -> None:
    head, columns, first, second = lines(gpus(reading(0, throttle=("sw_power_cap",)), reading(1, util=3)))
    assert head.startswith("─ this machine ──") and "34 % · 120 GB free · load 4.1 ─" in head
    assert columns.split() == [
        "GPU", "util", "mem", "GiB", "power", "W", "°C", "SM", "MHz", "PCIe", "rx/tx", "GB/s", "held", "back", "by",
    ]  # fmt: skip
    assert first.split()[-8:] == ["97", "%", "11.2/16.0", "214/320", "61", "2505", "9.8/9.7", "power", "cap"][-8:]
    assert second.split()[-1] == "9.8/9.7", "nothing holds it back"


def test_a_lost_gpu_says_since_when_and_hides_no_other() -> None:
    seen = machine(*(sample(NOW + n, [reading(0), reading(1) if n < 2 else lost(1)]) for n in range(5)))
    *_, first, second = lines(seen)
    assert "97 %" in first
    assert "n/a  GPU is lost since" in second and ":" in second


def test_unknown_is_not_zero() -> None:
    row = lines(gpus(reading(0, util=None, power_limit_w=None, temp_c=None, throttle=None, pcie_rx=None)))[-1]
    assert row.split() == ["0", "n/a", "11.2/16.0", "214", "n/a", "2505", "n/a/9.7", "n/a"]


def test_memory_that_is_shared_with_the_host_says_so() -> None:
    assert "shared with the host" in lines(gpus(reading(0, mem_how=SHARED)))[-1]


def test_nvlink_has_a_column_where_there_is_one() -> None:
    with_links = lines(gpus(reading(0, nvlink_rx=210.4, nvlink_tx=99.9)), 140)
    assert "NVLink rx/tx" in with_links[1] and "210/99.9" in with_links[2]
    assert "NVLink" not in lines(gpus(reading(0)), 140)[1]


def test_without_a_gpu_there_is_one_quiet_line_with_the_reason() -> None:
    seen = machine(sample(NOW), document={"gpus": [], "gpus_why": "no NVIDIA driver is installed"})
    (line,) = lines(seen)
    assert line.startswith(" no GPU: no NVIDIA driver is installed") and "120 GB free" in line
    assert lines(seen, 40) == [" no GPU: no NVIDIA driver is installed  "], "the reason before the host's figures"
    assert lines(None, 60)[0].strip() == "this machine is being looked at"
    assert "sampler was silent" in lines(machine(sample(NOW), trouble="the sampler was silent for 10 s"))[0]


def test_gpus_that_were_not_read_yet_are_not_denied() -> None:
    assert lines(machine(document=dict(MACHINE)))[0].strip() == "this machine is being looked at"
    assert lines(machine(trouble="the sampler has ended"))[0].split()[:2] == ["n/a", "the"]


def test_what_is_old_shows_its_age() -> None:
    assert "00:12 old" in lines(gpus(reading(0), taken=NOW + 12))[0]
    assert "old" not in lines(gpus(reading(0), taken=NOW + 2))[0]


def test_a_narrow_strip_leaves_columns_out_but_never_what_holds_a_gpu_back() -> None:
    seen = gpus(reading(0, throttle=("sw_power_cap", "sw_thermal_slowdown")))
    for width in (118, 80, 60):
        assert "power cap, too hot" in lines(seen, width)[-1]
    assert "PCIe" not in lines(seen, 80)[1] and "mem GiB" in lines(seen, 80)[1]


def test_many_gpus_share_lines_where_there_are_few() -> None:
    many = gpus(*(lost(n) if n == 5 else reading(n) for n in range(8)))
    drawn = lines(many, 80, 6)
    assert len(drawn) == 5
    assert all(f" {n} " in "".join(drawn[1:]) for n in range(8))
    assert "GPU is lost" in drawn[2]
    assert "and " in lines(gpus(*(reading(n) for n in range(64))), 80, 6)[-1]
    (one,) = lines(many, 40, 1)
    assert one.split() == ["GPU", "%", *["97"] * 5, "n/a", "97", "97"]


@pytest.mark.parametrize(("count", "most", "wanted"), [(0, 9, 1), (4, 7, 6), (8, 7, 5), (64, 7, 7), (4, 1, 1)])
def test_it_wants_no_more_lines_than_it_fills(count: int, most: int, wanted: int) -> None:
    widget = MachineStrip()
    widget.machine = gpus(*(reading(n) for n in range(count)))
    assert widget.lines_wanted(80, most) == wanted
    assert len(strip(widget.machine, 80, wanted)) == wanted


def test_the_rule_above_meets_the_one_that_comes_down() -> None:
    assert lines(gpus(reading(0)), 118, 12, 40)[0][40] == "┴"
    assert "┴" not in lines(gpus(reading(0)), 118, 12, 3)[0], "not in the title"


def test_a_sparkline_shows_the_last_minute_and_moves_seldom() -> None:
    recent = tuple((1000.0 + n, 100.0 if n >= 30 else None if n < 10 else 0.0) for n in range(60))
    assert spark(recent) == "  ▁▁▁▁▇▇▇▇▇▇"
    assert spark(recent[:58]) == spark(recent[:59]), "only every few seconds"
    assert spark(()) == " " * 12


def hostile() -> Machine:
    bad = {"index": 0, **dict.fromkeys(("util", "mem_used", "power_w", "temp_c", "pcie_rx"), HOSTILE)}
    bad |= {"throttle": [HOSTILE, None], "why": {"util": HOSTILE}}
    return machine(
        {"t": NOW, "gpus": [bad, {"index": 1, "why": {"util": HOSTILE}}, {"index": 2, "throttle": HOSTILE, "why": 3}],
         "host": {"cpu": HOSTILE, "load1": 1.0, "mem_available": HOSTILE}},
        document={"gpus_why": HOSTILE}, run=HOSTILE, trouble=HOSTILE,
    )  # fmt: skip


@pytest.mark.parametrize("width", [8, 20, 40, 80, 160])
@pytest.mark.parametrize("height", [1, 3, 12])
def test_every_line_is_whole_and_harmless(width: int, height: int) -> None:
    many = gpus(*(reading(n) for n in range(9)))
    nothing = machine(document={"gpus_why": HOSTILE}, trouble=HOSTILE)
    for seen in (None, many, hostile(), nothing, gpus(reading(0), document=dict(MACHINE), run="lab_test")):
        drawn: list[Line] = strip(seen, width, height, 5)
        assert 0 < len(drawn) <= max(height, 1)
        assert all(cells(line) == width for line in drawn), drawn
        check_harmless(drawn, width)
