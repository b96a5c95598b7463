"""The GPU reader, against a fake NVML library: values and reasons, faults, rates, memory, MIG, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_nvml import fixture
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine import gpu_device, throttle
from labtui.machine.gpu import Unavailable, open_library
from labtui.machine.gpu_device import Device
from labtui.machine.gpus import Gpus
from labtui.machine.reading import BY_TURNS, MEASURED, SECOND_NEEDED, SHARED, V1, V2, Gpu, Reading, counter_rate

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml

MIB = 1 << 20
KIB_S = 1 << 20
"""A gibibyte per second, as the fake library takes it."""


class Machine:
    """GPUs read at a made-up time: one tick is one second."""

    def __init__(self, fake: fixture.FakeNvml, root: Path) -> None:
        self.fake = fake
        self.root = root
        self.now = 0.0
        self.gpus: Gpus | None = None

    def play(self, *script: str, wait_s: float = 20.0) -> Gpus:
        self.fake.script(*script)
        self.gpus = Gpus.open({}, wait_s=wait_s, clock=lambda: self.now, root=self.root)
        return self.gpus

    def tick(self, number: int) -> None:
        self.fake.tick(number)
        self.now = float(number)

    def read(self, tick: int | None = None, deadline_s: float = 20.0) -> tuple[Reading, ...]:
        if tick is not None:
            self.tick(tick)
        assert self.gpus is not None
        return self.gpus.read(deadline_s)


@pytest.fixture
def machine(fake_nvml: fixture.FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    (tmp_path / "root/proc").mkdir(parents=True)
    playing = Machine(fake_nvml, tmp_path / "root")
    # The pause between two readings of PCIe's counters is no time here.
    monkeypatch.setattr("labtui.machine.gpu_traffic.WINDOW_S", 0.0)
    yield playing
    if playing.gpus is not None:
        playing.gpus.close()


# Values and reasons -------------------------------------------------------------------------------------------------


def test_what_the_script_plays_is_what_is_read(machine: Machine) -> None:
    machine.play(
        "gpus 2",
        "gpu 1 util 0,93",
        "gpu 1 mem_util 41",
        "gpu 1 mem_total_mib 81559",
        "gpu 1 mem_used_mib 1000,2000",
        "gpu 1 mem_reserved_mib 551",
        "gpu 1 power_w 412.5",
        "gpu 1 power_limit_w 700",
        "gpu 1 temp 61",
        "gpu 1 clock_sm 1755",
        "gpu 1 clock_mem 2619",
        "gpu 1 throttle 0x44",
        "gpu 1 pcie_gen 4",
        "gpu 1 pcie_width 8",
        "gpu 1 ecc_corrected 7",
        "gpu 1 ecc_uncorrected 2",
        "gpu 1 compute_mode 3",
        "gpu 1 proc 419 C 1500",
        "gpu 1 proc 420 M -1",
    )
    _, reading = machine.read(1)
    assert (reading.index, reading.uuid) == (1, "GPU-fa4e0000-0000-4000-8000-000000000001")
    assert (reading.util, reading.mem_util) == (93, 41)
    assert (reading.mem_used, reading.mem_total, reading.mem_reserved) == (2000 * MIB, 81559 * MIB, 551 * MIB)
    assert reading.mem_how == V2
    assert (reading.power_w, reading.power_limit_w, reading.temp_c) == (412.5, 700.0, 61)
    assert (reading.sm_mhz, reading.mem_mhz) == (1755, 2619)
    assert (reading.pcie_gen, reading.pcie_width) == (4, 8)
    assert reading.throttle == ("sw_power_cap", "hw_thermal_slowdown")
    assert (reading.ecc_corrected, reading.ecc_uncorrected) == (7, 2)
    assert (reading.mig, reading.compute_mode) == (False, "exclusive_process")
    assert [(each.pid, each.memory, each.kind) for each in reading.processes or ()] == [
        (419, 1500 * MIB, "compute"),
        (420, None, "mps"),
    ]


def test_the_telemetry_document_has_the_fields_of_the_format(machine: Machine) -> None:
    machine.play("gpus 1", "topology pcie", "gpu 0 proc 419 C 1500", "gpu 0 throttle 4")
    (reading,) = machine.read(0)
    document = reading.document()
    assert {"index", "util", "mem_util", "mem_used", "mem_total", "power_w", "temp_c", "sm_mhz", "mem_mhz"} <= set(
        document
    )
    assert document["throttle"] == ["sw_power_cap"]
    assert document["processes"] == [[419, 1500 * MIB]]
    assert document["nvlink_rx"] is None
    assert document["why"]["nvlink_rx"] == "not supported by this GPU"


FUNCTIONS = [
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetWait_v2",
]


def assert_all_told(gpu: Gpu) -> None:
    """Every fact is a value, or None with a reason."""
    document = gpu.document()
    document["pcie"] = None if None in document["pcie"].values() else document["pcie"]
    assert [name for name, value in document.items() if value is None and name not in gpu.why] == [], gpu


def assert_honest(reading: Reading) -> None:
    """Every field is a value, or None with a reason."""
    without_reason = [name for name in MEASURED if getattr(reading, name) is None and name not in reading.why]
    assert without_reason in ([], ["xid_last"]), reading
    with_both = [name for name in MEASURED if getattr(reading, name) is not None and name in reading.why]
    assert with_both == []


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "UNKNOWN", "FUNCTION_NOT_FOUND", "GPU_IS_LOST"])
def test_a_query_that_fails_costs_its_own_fields_and_says_why(machine: Machine, code: str) -> None:
    machine.play("gpus 1")
    device = Device(open_library(machine.root), 0, lambda: machine.now)
    machine.now = 1000.0
    assert_honest(device.read())
    for function in FUNCTIONS:
        machine.fake.script("gpus 1", f"error {function} * {code}")
        for fresh in (False, True):
            device = Device(open_library(machine.root), 0, lambda: machine.now) if fresh else device
            machine.now += 10.0
            reading = device.read()
            assert_honest(reading)
            assert_all_told(device.gpu)
            if code != "GPU_IS_LOST":
                assert reading.sm_mhz is not None or reading.temp_c is not None, "other fields are there all the same"
        machine.fake.script("gpus 1")


def test_reasons_are_sentences_for_people(machine: Machine) -> None:
    machine.play(
        "gpus 1",
        "driver 535.183.01",
        "error nvmlDeviceGetPowerUsage * NO_PERMISSION",
        "error nvmlDeviceGetClockInfo * FUNCTION_NOT_FOUND",
        "error nvmlDeviceGetUtilizationRates * UNKNOWN",
    )
    (reading,) = machine.read()
    assert reading.why["power_w"] == "not permitted to this user"
    assert reading.why["sm_mhz"] == "not known to driver 535.183.01"
    assert reading.why["util"] == "the driver met an error that it has no name for"


def test_a_value_that_cannot_be_is_none(machine: Machine) -> None:
    machine.play("gpus 1", "gpu 0 util 4294967295")
    (reading,) = machine.read()
    assert reading.util is None
    assert reading.why["util"] == "the driver said 4294967295 percent"


def test_old_names_of_queries_are_taken_where_the_new_ones_are_missing(machine: Machine) -> None:
    machine.play(
        "gpus 1",
        "gpu 0 temp 55",
        "gpu 0 throttle 8",
        "gpu 0 proc 7 C 10",
        "error nvmlDeviceGetTemperatureV * FUNCTION_NOT_FOUND",
        "error nvmlDeviceGetCurrentClocksEventReasons * FUNCTION_NOT_FOUND",
        "error nvmlDeviceGetComputeRunningProcesses_v3 * FUNCTION_NOT_FOUND",
    )
    (reading,) = machine.read()
    assert (reading.temp_c, reading.throttle) == (55, ("hw_slowdown",))
    assert [each.pid for each in reading.processes or ()] == [7]


def test_an_older_query_counts_where_the_newer_one_is_refused(machine: Machine) -> None:
    machine.play(
        "gpus 2",
        "gpu * temp 55",
        "error nvmlDeviceGetTemperatureV * ARGUMENT_VERSION_MISMATCH",
        "error nvmlDeviceGetTemperature 1 FUNCTION_NOT_FOUND",
        "error nvmlDeviceGetTemperatureV 1 NOT_SUPPORTED",
    )
    taken, refused = machine.read()
    assert taken.temp_c == 55
    assert refused.temp_c is None


def test_a_name_that_is_no_text(machine: Machine) -> None:
    machine.fake.script("gpus 1", "gpu 0 name NVIDIA \udcff\udcfe")
    gpus = Gpus.open({}, wait_s=20.0, root=machine.root)
    (gpu,) = gpus.gpus()
    gpus.close()
    assert (gpu.name, gpu.why["name"]) == (None, "the driver's answer is no text")
    assert gpu.uuid is not None


def test_throttle_reasons_have_names() -> None:
    assert throttle.names(0) == ()
    assert throttle.names(0x1 | 0x80 | 0x800) == ("gpu_idle", "hw_power_brake_slowdown", "reason_0x800")
    assert throttle.held_back(("gpu_idle", "sw_power_cap")) == ("sw_power_cap",)
    assert set(throttle.WORDS) == set(throttle.REASONS.values())


@given(st.integers(0, (1 << 64) - 1))
def test_every_mask_has_a_name_per_bit(mask: int) -> None:
    assert len(throttle.names(mask)) == mask.bit_count()


# Sick GPUs ----------------------------------------------------------------------------------------------------------


def test_a_lost_gpu_hides_no_other_and_may_come_back(machine: Machine) -> None:
    machine.play("gpus 3", "gpu * util 50", "lost 1 5 9")
    assert [reading.util for reading in machine.read(4)] == [50, 50, 50]
    healthy, lost, other = machine.read(5)
    assert (healthy.util, other.util) == (50, 50)
    assert set(lost.why.values()) == {"GPU is lost"}
    assert set(lost.why) == set(MEASURED)
    assert lost.uuid == "GPU-fa4e0000-0000-4000-8000-000000000001", "what was known of it stays"
    assert machine.read(10)[1].util == 50


def test_a_gpu_that_is_lost_from_the_start(machine: Machine) -> None:
    gpus = machine.play("gpus 2", "lost 0 0 3")
    first, second = machine.read(0)
    assert first.why["util"] == "GPU is lost" and second.util == 0
    assert gpus.gpus()[0].why["name"] == "GPU is lost"
    assert gpus.describe()["topology"]["why"] == "the driver told nothing about the paths from GPU0"
    assert machine.read(4)[0].util == 0
    assert gpus.gpus()[0].name == "NVIDIA Fake GPU"


def test_a_gpu_that_hangs_delays_no_other(machine: Machine) -> None:
    machine.play("gpus 4", "gpu * util 50", "hang nvmlDeviceGetPowerUsage 2 5 9")
    assert all(reading.util == 50 for reading in machine.read(4))
    readings = machine.read(5, deadline_s=0.3)
    assert [reading.util for reading in readings] == [50, 50, None, 50]
    assert "has not answered about this GPU" in readings[2].why["util"]
    machine.tick(6)
    begun = time.monotonic()
    readings = machine.read(deadline_s=30.0)
    assert time.monotonic() - begun < 10, "it is not waited for again"
    assert [reading.util for reading in readings] == [50, 50, None, 50]
    assert readings[2].why["util"] == "the driver has not answered about this GPU for 1.0 s"


def test_a_reading_that_came_late_is_given_a_tick_later(machine: Machine) -> None:
    gpus = machine.play("gpus 2", "gpu * temp 10,20,30,40,50", "hang nvmlDeviceGetPowerUsage 0 1 1")
    machine.read(0)
    assert machine.read(1, deadline_s=0.02)[0].temp_c is None
    machine.tick(2)
    (slow, _) = gpus._workers
    assert slow.wait(20), "time went on, and it answers"
    late, healthy = machine.read(3)
    assert (late.temp_c, healthy.temp_c) in [(30, 40), (40, 40)]
    assert slow.wait(20)
    assert machine.read(4)[0].temp_c in (40, 50)


def test_a_driver_that_takes_long_to_start_is_not_waited_for(machine: Machine) -> None:
    gpus = machine.play("gpus 2", "hang nvmlInit * 0 0", wait_s=0.0)
    assert machine.read() == ()
    assert gpus.why == "the driver has not answered yet"
    assert gpus.gpus() == ()
    machine.tick(1)
    assert gpus.wait(20)
    assert (len(machine.read()), gpus.why) == (2, None)


def test_a_gpu_that_hangs_from_the_start(machine: Machine) -> None:
    gpus = machine.play("gpus 2", "hang nvmlDeviceGetUUID 1 0 3", wait_s=0.2)
    assert gpus.why is None
    assert [reading.util for reading in machine.read(1, deadline_s=0.2)] == [0, None]
    healthy, silent = gpus.describe(wait_s=5.0)["gpus"]
    assert healthy["uuid"] and healthy["why"] == {}
    assert silent["why"]["uuid"] == "the driver has not answered about this GPU yet"
    machine.tick(4)
    assert gpus.wait(20)
    assert machine.read(5)[1].index == 1


def test_closing_does_not_wait_for_what_hangs(machine: Machine) -> None:
    gpus = machine.play("gpus 2", "hang nvmlDeviceGetPowerUsage 1 1 1")
    machine.read(1, deadline_s=0.01)
    gpus.close()
    machine.tick(2)


def test_threads_end(machine: Machine) -> None:
    gpus = machine.play("gpus 3")
    machine.read()
    assert {"gpu0", "gpu1", "gpu2"} <= {thread.name for thread in threading.enumerate()}
    gpus.close()
    assert not {"gpu0", "gpu1", "gpu2"} & {thread.name for thread in threading.enumerate()}


# No GPU -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("init_error 12", "driver 570.86.10 is loaded, but its NVML library (libnvidia-ml.so.1) is not installed here"),
        ("init_error DRIVER_NOT_LOADED", "the NVIDIA driver is installed, but its kernel module is not loaded"),
        ("init_error NO_PERMISSION", "this user may not talk to the NVIDIA driver (/dev/nvidiactl)"),
        ("init_error UNKNOWN", "NVML can't be initialized: unknown Error"),
        ("init_error LIB_RM_VERSION_MISMATCH", "driver 570.86.10 loaded, library 575.51.03: reload the driver"),
        ("error nvmlDeviceGetCount_v2 * UNKNOWN", "NVML can't count the GPUs: unknown Error"),
        ("gpus 0", "the NVIDIA driver finds no GPU"),
    ],
)
def test_no_gpu_is_one_sentence(machine: Machine, script: str, sentence: str) -> None:
    version = machine.root / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (dvs-builder)\n"
        "GCC version:  gcc version 12.3.0\n"
    )
    gpus = machine.play("nvml 12.575.51.03", script)
    assert gpus.why == sentence
    assert machine.read() == ()
    described = gpus.describe()
    assert (described["gpus"], described["topology"], described["gpus_why"]) == ([], None, sentence)


def test_no_driver_at_all(machine: Machine) -> None:
    machine.fake.script("init_error 12")
    with pytest.raises(Unavailable, match=r"^no NVIDIA driver is installed \(libnvidia-ml.so.1 is missing\)$"):
        open_library(machine.root)


def test_the_package_is_loaded_when_a_library_is_opened_and_not_before() -> None:
    code = "import sys, labtui.machine.gpus, labtui.machine.gpu_processes; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_process_of_its_own_finds_the_library_by_its_path(fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.play("8xh100")
    code = "import os; from labtui.machine.gpus import Gpus; print(len(Gpus.open(os.environ, wait_s=20).read(20)))"
    environment = {**os.environ, **fake_nvml.environ}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("8\n", "")


# Rates --------------------------------------------------------------------------------------------------------------


def test_nvlink_traffic_is_the_difference_of_counters(machine: Machine) -> None:
    machine.play(
        "gpus 1", f"gpu 0 nvlink_tx_kib_s {40 * KIB_S}", f"gpu 0 nvlink_rx_kib_s {20 * KIB_S}", "gpu 0 nvlink_links 18"
    )
    (first,) = machine.read(1)
    assert first.nvlink_rx is None and first.why["nvlink_rx"] == SECOND_NEEDED
    (second,) = machine.read(3)
    assert second.nvlink_tx == pytest.approx(40 * 1.073741824, rel=1e-6)
    assert second.nvlink_rx == pytest.approx(20 * 1.073741824, rel=1e-6)


def test_nvlink_5_counts_in_bytes(machine: Machine) -> None:
    machine.play("gpus 1", "gpu 0 nvlink_version 7", f"gpu 0 nvlink_tx_kib_s {100 * KIB_S}")
    machine.read(1)
    (reading,) = machine.read(2)
    assert reading.nvlink_tx == pytest.approx(100 * 1.073741824, rel=1e-6)
    assert machine.gpus is not None and machine.gpus.gpus()[0].nvlinks is not None
    assert machine.gpus.gpus()[0].nvlinks.generation == 5


def test_nvlinks_that_are_down_are_not_counted(machine: Machine) -> None:
    gpus = machine.play("gpus 2", "topology pairs", "gpu * nvlink_links 4", "gpu * nvlink_down_mask 0xf")
    (reading, _) = machine.read(1)
    assert reading.why["nvlink_rx"] == "no NVLink is up"
    links = gpus.gpus()[0].nvlinks
    assert links is not None and (links.active, links.down) == ((), 4)


def test_a_counter_that_steps_back_gives_no_rate(machine: Machine) -> None:
    machine.play("gpus 1", f"gpu 0 nvlink_tx_kib_s {KIB_S}")
    machine.read(10)
    machine.read(12)
    machine.fake.tick(5)
    (reading,) = machine.read(20)
    assert reading.nvlink_tx is not None
    machine.fake.script("gpus 1", "field 138 * UNKNOWN")
    (reading,) = machine.read(21)
    assert reading.why["nvlink_tx"] == "the driver doesn't tell what all its NVLinks carried"
    assert reading.nvlink_rx is not None


def test_wide_pcie_counters_are_read_from_tick_to_tick(machine: Machine) -> None:
    machine.play(
        "gpus 1",
        "gpu 0 pcie_counter_bits 64",
        f"gpu 0 pcie_tx_kib_s {8 * KIB_S}",
        f"gpu 0 pcie_rx_kib_s {16 * KIB_S}",
    )
    machine.read(1)
    (reading,) = machine.read(2)
    assert reading.pcie_rx == pytest.approx(16 * 1.073741824, rel=1e-6)
    assert reading.pcie_tx == pytest.approx(8 * 1.073741824, rel=1e-6)


def test_narrow_pcie_counters_are_read_twice_in_short_succession(machine: Machine) -> None:
    machine.fake.script("gpus 1", "tick_ms 50", f"gpu 0 pcie_tx_kib_s {25 * KIB_S}", f"gpu 0 pcie_rx_kib_s {KIB_S}")
    device = Device(open_library(machine.root), 0, lambda: machine.now)
    machine.fake.tick(1)
    assert device.read().why["pcie_rx"] == SECOND_NEEDED

    def pause(seconds: float) -> None:
        assert seconds * 63e9 < 1 << 32
        machine.fake.tick(2)
        machine.now += 0.05

    device.measure(pause, turn=False)
    reading = device.read()
    assert reading.pcie_tx == pytest.approx(25 * 1.073741824, rel=1e-3)
    assert reading.pcie_rx == pytest.approx(1.073741824, rel=1e-3)
    machine.now += 1.0
    assert device.read().pcie_rx is None, "each measurement is told once"


def test_without_counters_the_driver_measures_one_gpu_per_tick(machine: Machine) -> None:
    gpus = machine.play(
        "gpus 2", "field 197 * NOT_SUPPORTED", "field 198 * NOT_SUPPORTED", "gpu * pcie_rx_kib_s 1000000"
    )
    seen: list[list[float | None]] = []
    for tick in range(1, 6):
        seen.append([reading.pcie_rx for reading in machine.read(tick)])
        for worker in gpus._workers:
            assert worker.wait(20)
    first, *others = seen
    assert first == [None, None]
    for readings in others:
        assert sum(value is not None for value in readings) <= 1
    assert {value for readings in others for value in readings} == {None, 1.024}
    assert machine.read(7)[0].why.get("pcie_rx", BY_TURNS) == BY_TURNS


def test_a_gpu_whose_pcie_traffic_nobody_tells(machine: Machine) -> None:
    gpus = machine.play(
        "gpus 1",
        "field 197 * NOT_SUPPORTED",
        "field 198 * NOT_SUPPORTED",
        "error nvmlDeviceGetPcieThroughput * NOT_SUPPORTED",
    )
    for tick in range(1, 4):
        (reading,) = machine.read(tick)
    assert reading.why["pcie_rx"] == "not supported by this GPU"
    assert not gpus._workers[0].device.needs_turn


@given(
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 63_000_000_000),
    st.floats(0.001, 10),
    st.booleans(),
)
def test_a_counter_rate_is_right_or_unknown(before: int, rate: int, seconds: float, wide: bool) -> None:
    moved = int(rate * seconds)
    now = before + moved if wide else (before + moved) % (1 << 32)
    told = counter_rate(before + (1 << 40) if wide else before, now + (1 << 40) if wide else now, seconds, 63e9)
    assert told is None or told == pytest.approx(moved / seconds / 1e9)
    if wide or 63e9 * seconds < 1 << 32:
        assert told is not None


def test_no_time_is_no_rate() -> None:
    assert counter_rate(0, 10, 0.0, 1e9) is None
    assert counter_rate(1 << 40, 5, 1.0, 1e9) is None, "a wide counter went down"


# Memory -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH", "NOT_SUPPORTED"])
def test_older_drivers_count_their_reserve_as_used(machine: Machine, code: str) -> None:
    machine.play(
        "gpus 1",
        "gpu 0 mem_used_mib 1000",
        "gpu 0 mem_reserved_mib 500",
        f"error nvmlDeviceGetMemoryInfo_v2 * {code}",
    )
    (reading,) = machine.read()
    assert (reading.mem_used, reading.mem_reserved, reading.mem_how) == (1500 * MIB, None, V1)
    assert reading.why["mem_reserved"] == "the driver counts it as used"


def test_an_error_is_not_taken_for_an_older_driver(machine: Machine) -> None:
    machine.play("gpus 1", "error nvmlDeviceGetMemoryInfo_v2 * UNKNOWN")
    (reading,) = machine.read()
    assert reading.mem_used is None
    assert reading.why["mem_used"] == "the driver met an error that it has no name for"


@pytest.mark.parametrize(
    "script",
    [
        ("gpu 0 mem_total_mib 0",),
        ("error nvmlDeviceGetMemoryInfo_v2 * NOT_SUPPORTED", "error nvmlDeviceGetMemoryInfo * NOT_SUPPORTED"),
    ],
)
def test_unified_memory_is_the_hosts_and_says_so(machine: Machine, script: tuple[str, ...]) -> None:
    (machine.root / "proc/meminfo").write_text("MemTotal: 125000000 kB\nMemFree: 1 kB\nMemAvailable: 25000000 kB\n")
    gpus = machine.play("gpus 1", "gpu 0 name NVIDIA GB10", *script)
    (reading,) = machine.read()
    assert reading.mem_how == SHARED == "shared with the host"
    assert (reading.mem_used, reading.mem_total) == (100_000_000 * 1024, 125_000_000 * 1024)
    assert gpus.gpus()[0].memory_how == SHARED
    assert reading.util == 0, "it is a GPU like any other"


def test_unified_memory_without_a_host_to_ask(machine: Machine) -> None:
    machine.play("gpus 1", "gpu 0 mem_total_mib 0")
    (reading,) = machine.read()
    assert reading.mem_used is None and reading.why["mem_used"] == "not supported by this GPU"


# The rest -----------------------------------------------------------------------------------------------------------


def test_critical_errors_are_counted_from_when_the_reader_was_opened(machine: Machine) -> None:
    machine.tick(5)
    machine.play("gpus 2", "gpu 1 xid 31 4", "gpu 1 xid 79 6", "gpu 1 xid 48 7")
    assert [reading.xid_count for reading in machine.read(5)] == [0, 0]
    assert [(reading.xid_count, reading.xid_last) for reading in machine.read(6)] == [(0, None), (1, 79)]
    assert [(reading.xid_count, reading.xid_last) for reading in machine.read(8)] == [(0, None), (2, 48)]


def test_errors_that_the_driver_does_not_tell(machine: Machine) -> None:
    machine.play("gpus 1", "gpu 0 xid_events 0")
    (reading,) = machine.read()
    assert reading.xid_count is None and reading.why["xid_count"] == "not supported by this GPU"


def test_a_gpu_that_mig_has_split(machine: Machine) -> None:
    gpus = machine.play(
        "gpus 1",
        "gpu 0 mig 1",
        "gpu 0 mig_device 3 0 MIG-5b6ae3e1-0000-4000-8000-000000000001",
        "gpu 0 mig_device 4 1 MIG-5b6ae3e1-0000-4000-8000-000000000002",
        "error nvmlDeviceGetUtilizationRates * NOT_SUPPORTED",
    )
    (reading,) = machine.read()
    assert reading.mig is True
    assert reading.why["util"] == "not told of a GPU that MIG has split"
    (document,) = gpus.describe()["gpus"]
    assert [(mig["gpu_instance"], mig["compute_instance"]) for mig in document["mig_devices"]] == [(3, 0), (4, 1)]


def test_what_hardly_changes_is_asked_rarely(machine: Machine) -> None:
    machine.play("gpus 1", "gpu 0 power_limit_w 300,310,320,330,340,350,360,370,380,390")
    limits = [machine.read(tick)[0].power_limit_w for tick in range(10)]
    assert limits == [300.0] * 5 + [350.0] * 5
    assert gpu_device.SLOW_S == 5.0


def test_describes_the_machine(machine: Machine) -> None:
    for index, (cpus, node) in enumerate([("0-31,64-95", "0"), ("32-63", "-1")]):
        device = machine.root / f"sys/bus/pci/devices/0000:{0x1B + 8 * index:02x}:00.0"
        device.mkdir(parents=True)
        (device / "local_cpulist").write_text(f"{cpus}\n")
        (device / "numa_node").write_text(f"{node}\n")
    machine.fake.script()
    gpus = machine.play("gpus 2", "driver 575.51", "topology pairs", "gpu * nvlink_links 4", "gpu * nvlink_version 4")
    described = gpus.describe()
    assert described["driver"] == "575.51"
    assert described["visible"] == [gpu["uuid"] for gpu in described["gpus"]]
    first = described["gpus"][0]
    assert first["bus_id"] == "00000000:1B:00.0"
    assert first["pcie"] == {"generation": 5, "width": 16}
    assert first["nvlink"] == {"links": 4, "down": 0, "generation": 3, "gb_per_s": 26.562}
    assert (first["persistence"], first["compute_capability"], first["power_limit_w"]) == (True, "9.0", 700.0)
    assert described["topology"]["pairs"] == [[0, 1, "NV4"]]
    assert described["topology"]["cpu_affinity"] == ["0-31,64-95", "32-63"]
    assert described["topology"]["numa_affinity"] == ["0", None]


def test_the_environment_of_the_run_says_which_gpus_it_sees(fake_nvml: fixture.FakeNvml, tmp_path: Path) -> None:
    fake_nvml.script("gpus 4")
    gpus = Gpus.open({"CUDA_VISIBLE_DEVICES": "2,0"}, wait_s=20, root=tmp_path)
    assert [uuid[-1] for uuid in gpus.describe()["visible"]] == ["2", "0"]
    gpus.close()


def test_readings_while_the_script_changes_under_them(machine: Machine) -> None:
    gpus = machine.play("gpus 8")
    scripts: list[Callable[[], None]] = [
        lambda: machine.fake.script("gpus 8", "lost 3 0"),
        lambda: machine.fake.script("gpus 8", "error * * UNKNOWN"),
        lambda: machine.fake.script("gpus 4"),
        lambda: machine.fake.play("4xa100_faults"),
        lambda: machine.fake.play("8xh100"),
    ]
    for tick in range(1, 26):
        scripts[tick % len(scripts)]()
        for reading in machine.read(tick):
            assert_honest(reading)
    assert len(gpus.gpus()) == 8
