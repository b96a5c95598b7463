"""The machine pane as a pure function of a snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small_lab import GIB, HOSTILE, MACHINE, NOW, event, lost, reading, sample
from test_widgets import check_harmless, snapshot, text

from labtui.machine.reading import SHARED
from labtui.runs.envelope import Envelope
from labtui.runs.gauges import GaugeReader
from labtui.runs.records import Request, RunProcess, Status
from labtui.runs.watch import Curve, Snapshot
from labtui.tui.lanes import MARK
from labtui.tui.lines import Line, cells
from labtui.tui.recording import drawn
from labtui.tui.widgets.machine import MachinePane, gpu_recording, ranks_recording


def seen(*samples: dict[str, Any], device: str = "cuda", **fields: Any) -> Snapshot:
    """A run that began when the first of these samples was taken and ends with the last one."""
    reader = GaugeReader()
    for one in samples:
        reader.take(one, "here")
    request = Request(
        id="x", experiment="lab_test", command=(), python="", host="here", user="ann", uid=1, created=NOW, nproc=4,
        device=device,
    )  # fmt: skip
    given = {"taken": reader.gauges.t or NOW, "request": request, "machine": MACHINE, "gauges": reader.gauges}
    return snapshot(**{**given, **fields})


def minute(**changed: Any) -> list[dict[str, Any]]:
    """A minute in which the first GPU is held back in the second half, and the third is lost after 40 s."""
    return [
        sample(
            NOW + n,
            [
                reading(0, **{"throttle": ("sw_power_cap",) if n >= 30 else (), **changed}),
                reading(1),
                reading(2) if n < 40 else lost(2),
            ],
        )
        for n in range(61)
    ]  # fmt: skip


def curve(name: str = "loss", unit: str = "nats", points: int = 60, rank: int = 0) -> Curve:
    envelope, timed = Envelope(), Envelope()
    for n in range(points):
        envelope.add(float(n), 2.0 - n / 60)
        timed.add(NOW + n, 2.0 - n / 60)
    return Curve(name, rank, unit, {}, envelope.course, timed=timed.course)


def gpu_lines(run: Snapshot, index: int = 0, width: int = 82, height: int = 18) -> list[str]:
    return text(drawn(gpu_recording(run, run.gauges.gpus[index]), width, height)[0]).split("\n")


def row(lines: list[str], name: str) -> str:
    """The line of that name, without it."""
    return next(line for line in lines if line.startswith(name)).removeprefix(name)


# A GPU


def test_what_a_gpu_did_stands_over_the_time_of_the_run() -> None:
    lines = gpu_lines(seen(*minute(), curves=(curve(),)), height=11)
    assert [line[:10].strip() for line in lines] == [
        "util %", "SM MHz", "power cap", "power W", "temp °C", "memory GiB", "PCIe rx", "PCIe tx", "loss", "",
        "n/a: NVLin",
    ]  # fmt: skip
    assert row(lines, "util %").split()[0] == "97"
    assert row(lines, "power W").split()[0] == "214/320"
    assert row(lines, "memory GiB").split()[0] == "11.2/16.0"
    assert row(lines, "loss").split()[:2] == ["1.017", "nats"]


def test_marks_stand_below_the_metrics_that_suffered() -> None:
    lines = gpu_lines(seen(*minute(), curves=(curve(),)), width=23 + 60, height=12)
    marks, loss = row(lines, "power cap"), row(lines, "loss")
    # A live run of 60 s has an axis of 60 s, a column each.
    assert marks[-60:] == "·" * 30 + MARK * 30
    assert marks.split()[0] == "now"
    assert loss[-60:].strip() and len(loss[-60:].rstrip()) == 60, "the metric has the same axis"
    assert any("└0:00" in line and "┴0:30" in line for line in lines)


def test_a_gpu_that_nothing_held_back_says_so() -> None:
    lines = gpu_lines(seen(*minute()), 1, 83)
    assert row(lines, "held back")[-60:] == "·" * 60
    untold = gpu_lines(seen(*minute(throttle=None)))
    assert not any(line.startswith(("held back", "power cap")) for line in untold)


def test_a_lost_gpu_keeps_its_past_and_says_since_when() -> None:
    lines = gpu_lines(seen(*minute()), 2, 83)
    util = row(lines, "util %")
    assert util.split()[0] == "n/a"
    assert util[-60:].rstrip() == util[-60:][:40], "blank from then on"
    assert lines[-1].startswith("n/a: GPU is lost since ")


def test_what_else_should_be_known_of_a_gpu_is_said() -> None:
    last = reading(0, xid_count=2, xid_last=79, ecc_uncorrected=1, mem_how=SHARED, util=None, why={"util": "no idea"})
    told = " ".join(gpu_lines(seen(sample(NOW, [{**last, "outside": 2}])), height=30))
    for sentence in (
        "2 critical errors, the last one XID 79", "1 memory error that ECC could not correct",
        "memory shared with the host", "2 processes outside this namespace", "n/a: utilization (no idea)",
    ):  # fmt: skip
        assert sentence in told


def test_of_several_curves_of_one_name_it_is_said_which_is_shown() -> None:
    curves = (replace(curve(), labels={"way": "ddp"}), replace(curve(), labels={"way": "hooks"}), curve(rank=1))
    lines = gpu_lines(seen(*minute(), curves=curves))
    assert [line.split()[:2] for line in lines if "loss" in line] == [["ddp", "loss"]]
    assert any(line.startswith("loss") for line in gpu_lines(seen(*minute(), curves=(curve(), curve(rank=1)))))


def test_where_there_is_little_room_what_matters_most_stays() -> None:
    run = seen(*minute(), curves=(curve(), curve("step time", "ms")))
    lines = gpu_lines(run, width=34, height=8)
    assert len(lines) == 8
    assert [line.split()[0] for line in lines[:3]] == ["util", "SM", "power"] and "cap" in lines[2]
    assert lines[-2].startswith("loss") and "└0:00" in lines[-1]
    pane = MachinePane()
    pane.snapshot = run
    first = text(list(pane.shown_lines(34, 8)))
    pane._top = 100
    last = text(list(pane.shown_lines(34, 8)))
    assert "PCIe tx" in last and "PCIe tx" not in first, "the rest can be scrolled to"
    assert last.split("\n")[-1] == first.split("\n")[-1], "the axis stays"
    assert pane._top == 2


def test_where_there_is_much_room_lanes_are_taller() -> None:
    low, high = (gpu_lines(seen(*minute(), curves=(curve(),)), height=height) for height in (10, 30))
    assert len(low) == 10 and 20 < len(high) <= 30
    assert sum("█" in line for line in high) > 5


def test_without_room_for_lanes_numbers_are_left() -> None:
    lines = gpu_lines(seen(*minute()), width=24, height=9)
    assert row(lines, "util %").split() == ["97"]
    assert not any("└" in line for line in lines)


def test_the_title_says_which_gpu_and_whose() -> None:
    pane = MachinePane()
    assert pane.title == "Ranks" and pane.facts() == () and list(pane.shown_lines(60, 9)) == []
    pane.snapshot = seen(*minute())
    titles = []
    for _ in range(4):
        titles.append((pane.title, pane.facts()[-1][0]))
        pane.action_next_tab()
    assert titles == [
        ("GPU 0 · RTX 4080 · rank 3", "1 of 4"), ("GPU 1 · RTX 4080 · rank 2", "2 of 4"),
        ("GPU 2 · RTX 4080 · rank 1", "3 of 4"), ("Ranks", "4 of 4"),
    ]  # fmt: skip
    assert pane.tab == pane.tabs[0]
    pane.action_previous_tab()
    assert pane.title == "Ranks"
    pane.snapshot = replace(seen(*minute()), taken=NOW + 80)
    assert ("00:20 old", "warn") in pane.facts()


def test_a_run_on_the_cpu_shows_no_gpus_even_where_there_are_some() -> None:
    pane = MachinePane()
    pane.snapshot = seen(*minute(), device="cpu")
    assert pane.tabs == ["ranks"]


# The ranks


def ranks_lines(run: Snapshot, width: int = 83, height: int = 20) -> list[str]:
    return text(drawn(ranks_recording(run, width), width, height)[0]).split("\n")


def test_ranks_show_cpu_memory_and_the_interface() -> None:
    ranks = tuple(RunProcess("rank", 400 + n, 1, n) for n in range(3))
    status = Status("running", NOW, started=NOW, processes=ranks)
    lines = ranks_lines(seen(*minute(), device="cpu", status=status, curves=(curve(),)), height=11)
    assert lines[0].split()[:6] == ["CPU", "%", "pid", "400", "0", "50"]
    assert lines[1].split()[:4] == ["pid", "401", "1", "51"]
    assert lines[2].split() == ["pid", "402", "2", "n/a"], "unknown is never 0"
    assert row(lines, "RSS").split()[:3] == ["0", "812", "MB"]
    assert row(lines, "CPU % host").split()[0] == "34"
    assert row(lines, "lo GB/s").split()[0] == "0.8"
    assert lines[-1] == "gloo over lo (loopback)"


def test_a_rank_that_is_missing_from_the_samples_is_gone() -> None:
    samples = [sample(NOW + n, ranks=2 if n < 5 else 1) for n in range(10)]
    lines = ranks_lines(seen(*samples, device="cpu"), 50)
    assert row(lines, "          1").split()[0] == "gone"
    ended = seen(*samples, device="cpu", status=Status("succeeded", NOW, started=NOW, ended=NOW + 10))
    assert row(ranks_lines(ended, 50), "          1").split()[0] == "51", "of an ended run it is the last word"


def test_memory_on_the_gpu_is_shown_where_it_is_known() -> None:
    one = sample(NOW)
    one["ranks"][0]["gpu_mem"] = 11 * GIB
    assert row(ranks_lines(seen(one)), "GPU mem").split()[:3] == ["0", "11.0", "GiB"]
    assert not any(line.startswith("GPU mem") for line in ranks_lines(seen(sample(NOW))))


def test_interfaces_that_carry_nothing_are_left_out() -> None:
    net = {"lo": {"rx": 0.0, "tx": 0.0}, "eth0": {"rx": 1.2, "tx": 0.3}, "veth1": {"rx": 0.00001, "tx": 0.0}}
    lines = ranks_lines(seen(*(sample(NOW + n, net=net) for n in range(3)), device="cpu"))
    assert row(lines, "rx eth0").split()[0] == "1.2" and row(lines, "tx eth0").split()[0] == "0.3"
    assert row(lines, "lo GB/s").split()[0] == "0.0000"
    assert not any("veth1" in line for line in lines)


def test_a_run_on_gpus_that_nobody_could_read_says_why() -> None:
    run = seen(sample(NOW), machine={"gpus": [], "gpus_why": "driver 535 loaded, library 550: reload the driver"})
    assert ranks_lines(run)[-1] == "n/a: GPUs (driver 535 loaded, library 550: reload the driver)"
    assert ranks_lines(seen(sample(NOW), machine=None))[-1] == "n/a: GPUs (its telemetry has none)"


def test_no_ranks_are_said() -> None:
    assert "no rank has been seen yet" in ranks_lines(seen(device="cpu"))
    assert "no rank was seen" in ranks_lines(seen(device="cpu", status=Status("failed", NOW, started=NOW)))
    assert ranks_lines(seen(device="cpu", status=None))[-1] == "gloo over lo (loopback)"


def test_of_many_ranks_only_those_on_show_are_drawn() -> None:
    run = seen(*(sample(NOW + n, ranks=64) for n in range(30)), device="cpu")
    memory: dict[str, Any] = {}
    lines, top = drawn(ranks_recording(run, 60), 60, 12, 40, memory)
    assert len(lines) == 12 and top == 40
    assert len(memory) <= 12


# Anything


def hostile() -> Snapshot:
    odd = {"index": 0, **dict.fromkeys(("util", "mem_used", "power_w", "xid_count", "outside"), HOSTILE)}
    odd |= {"throttle": [HOSTILE, 3], "why": {"util": HOSTILE, "power_w": 7}, "temp_c": 1e300, "sm_mhz": -5}
    one = {
        "t": NOW, "gpus": [odd, {"index": 1, "why": HOSTILE}],
        "ranks": [{"rank": 10**9, "pid": HOSTILE, "cpu": HOSTILE, "rss": -1}, {"rank": -1, "cpu": 1e300}],
        "host": {"cpu": HOSTILE, "net": {HOSTILE: {"rx": 1e12, "tx": 3.0}, "lo": HOSTILE}},
    }  # fmt: skip
    machine = {"gpus": [{"index": 0, "name": HOSTILE}], "ranks": {"0": {"nvml_index": 0}, HOSTILE: HOSTILE}}
    return seen(
        one, {**one, "t": NOW + 1}, machine=machine, curves=(curve(HOSTILE, HOSTILE),),
        notes=(event("note", text=HOSTILE),), status=Status("running", NOW + 50, started=NOW + 50),
    )  # fmt: skip


@pytest.mark.parametrize("width", [1, 8, 24, 44, 82, 160])
@pytest.mark.parametrize("height", [1, 3, 9, 30])
def test_every_line_is_harmless_and_fits(width: int, height: int) -> None:
    for run in (hostile(), seen(*minute(), curves=(curve(),)), seen()):
        recordings = [gpu_recording(run, gpu) for gpu in run.gauges.gpus] + [ranks_recording(run, width)]
        for recording in recordings:
            lines, _ = drawn(recording, width, height, top=2)
            check_harmless(lines, max(width, 36))
        pane = MachinePane()
        pane.snapshot = run
        for _ in pane.tabs:
            built: list[Line] = list(pane.build(width, height))
            assert len(built) == height and all(cells(line) == width for line in built)
            pane.action_next_tab()


# A moment in between


def test_the_slider_shows_the_values_of_a_moment() -> None:
    run = seen(
        *(sample(NOW + n, [reading(0, util=n, throttle=("sw_power_cap",) if n < 20 else ())]) for n in range(61)),
        curves=(curve(),),
    )
    pane = MachinePane()
    pane.snapshot = run
    lines = text(list(pane.shown_lines(83, 12))).split("\n")
    assert row(lines, "util %").split()[0] == "60" and pane.at is None
    pane.step_in_time(-1)
    for _ in range(5):
        pane.leap_in_time(-1)
    lines = text(list(pane.shown_lines(83, 12))).split("\n")
    assert pane.at == pytest.approx(NOW + 8.5, abs=1)
    assert row(lines, "util %").split()[0] == "8"
    assert row(lines, "power cap").split()[0] == "yes"
    assert row(lines, "loss").split()[0] == "1.867", "the metrics too"
    assert ("at 0:08", "live") in pane.facts()
    assert any("↑" in line for line in lines)
    what, _ = pane.copied()
    assert what.startswith("GPU 0 · RTX 4080 · rank 3 at 0:08: util % 8, SM MHz 2505")
    assert pane.take_back() and pane.at is None and not pane.take_back()
    pane.step_in_time(-1)
    pane.step_in_time(1)
    assert pane.at is None, "beyond the last column it is the end again"
    for _ in range(20):
        pane.leap_in_time(-1)
    assert pane.at is not None and pane.at >= NOW


def test_where_nothing_was_measured_a_moment_has_no_values() -> None:
    samples = [sample(NOW + n, [reading(0)]) for n in (*range(10), *range(50, 61))]
    run = seen(*samples)
    assert row(
        text(drawn(gpu_recording(run, run.gauges.gpus[0], NOW + 30), 83, 12)[0]).split("\n"), "util %"
    ).split()[0] == "n/a"  # fmt: skip
    ranks = text(drawn(ranks_recording(run, 83, NOW + 30), 83, 12)[0])
    assert "gone" not in ranks and "n/a" in ranks
