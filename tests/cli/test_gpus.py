"""`labtui gpus`, with a fake NVML library behind it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
from fake_nvml import fixture

from labtui.cli import gpus, main

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.COMMANDS, "gpus", ("labtui.cli.gpus", "what the GPUs do now"))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch, fake_nvml: fixture.FakeNvml) -> list[float]:
    """The pauses between readings: each is a tick, and the fourth is a ctrl-c."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        fake_nvml.tick(len(pauses))
        if len(pauses) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(gpus, "pause", pause)
    return pauses


def test_a_line_per_gpu(labtui, fake_nvml: fixture.FakeNvml, pauses: list[float]) -> None:
    fake_nvml.script(
        "gpus 2",
        "gpu * name NVIDIA H100 80GB HBM3",
        "gpu * nvlink_rx_kib_s 1000000",
        "gpu 0 util 93",
        "gpu 0 mem_total_mib 81920",
        "gpu 0 mem_used_mib 40960",
        "gpu 0 power_w 412",
        "gpu 0 throttle 0x5",
    )
    done = labtui("gpus")
    assert (done.code, done.err, pauses) == (0, "", [gpus.FIRST_S])
    header, first, second = done.out.splitlines()
    assert header.split()[:4] == ["GPU", "name", "util", "memory"] and "NVLink" in header
    assert "NVIDIA H100 80GB HBM3" in first and "93 %" in first and "40.0/80.0 GiB" in first and "412/700 W" in first
    assert first.endswith("sw_power_cap"), "idle is no brake"
    assert "GB/s" in first, "rates come from two readings"
    assert "0 %" in second


def test_what_no_gpu_has_takes_no_column(labtui, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 1", "topology pcie")
    assert "NVLink" not in labtui("gpus").out


def test_the_sick_are_named_beside_the_healthy(labtui, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script(
        "gpus 3",
        "gpu * util 50",
        "lost 1 0",
        "error nvmlDeviceGetPowerUsage 2 UNKNOWN",
        "gpu 2 ecc_uncorrected 3",
        "gpu 2 xid 79 1",
        "gpu 2 proc 999999999 C 10",
    )
    lines = labtui("gpus").out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["0", "1", "2"]
    assert lines[4:] == [
        "GPU 1: GPU is lost",
        "GPU 2: power_w: the driver met an error that it has no name for",
        "GPU 2: 3 memory errors that ECC could not correct",
        "GPU 2: 1 critical error, the last one XID 79",
        "GPU 2 is held by 1 process outside this namespace",
    ]


def test_one_json_document(labtui, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 2", "driver 575.51", "topology pcie", f"gpu 1 proc {os.getpid()} C 100", "gpu 1 util 7")
    done = labtui("gpus", "--json")
    assert (done.json["driver"], done.json["why"]) == ("575.51", None)
    first, second = done.json["gpus"]
    assert (first["index"], second["index"], second["util"]) == (0, 1, 7)
    assert second["uuid"].startswith("GPU-") and second["bus_id"] == "00000000:23:00.0"
    assert second["pcie"] == {"generation": 5, "width": 16}
    assert first["nvlink_rx"] is None and first["why"]["nvlink_rx"] == "not supported by this GPU"
    assert len(second["others"]) + second["outside"] == 1


def test_again_and_again(labtui, fake_nvml: fixture.FakeNvml, pauses: list[float]) -> None:
    fake_nvml.script("gpus 1", "gpu 0 util 10,20,30,40")
    done = labtui("gpus", "--watch", "--interval", "0.25", "--json")
    assert done.code == main.INTERRUPTED
    documents = [json.loads(line) for line in done.out.splitlines()]
    assert [document["gpus"][0]["util"] for document in documents] == [20, 30, 40]
    assert pauses == [gpus.FIRST_S, 0.25, 0.25, 0.25]


def test_again_and_again_for_people_who_keep_it(labtui, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 1")
    done = labtui("gpus", "--watch")
    assert "\x1b" not in done.out, "no terminal is told to clear itself"
    assert done.out.count("NVIDIA Fake GPU") == 3


def test_no_gpu_is_one_quiet_line(labtui, fake_nvml: fixture.FakeNvml, pauses: list[float]) -> None:
    fake_nvml.script("init_error DRIVER_NOT_LOADED")
    done = labtui("gpus")
    sentence = "the NVIDIA driver is installed, but its kernel module is not loaded"
    assert (done.code, done.out, done.err) == (0, f"no GPU: {sentence}\n", "")
    assert labtui("gpus", "--json").json | {"t": 0} == {"t": 0, "driver": None, "why": sentence, "gpus": []}
    assert pauses == [], "nothing is waited for"


def test_names_are_cleaned_before_they_reach_the_terminal(labtui, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 1", "gpu 0 name NVIDIA \x1b[2J\x1b]0;owned\x07 H100")
    done = labtui("gpus")
    assert "\x1b" not in done.out and "\x07" not in done.out
    assert "\\u001b" in labtui("gpus", "--json").out, "JSON keeps it, escaped"


@pytest.mark.parametrize("interval", ["0", "nan", "soon", "1e9"])
def test_an_interval_that_is_none(labtui: Callable, interval: str) -> None:
    assert "no number of seconds from 0.1 to 3600" in labtui("gpus", "--watch", "--interval", interval).sentence
