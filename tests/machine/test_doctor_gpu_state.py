"""GPUs one by one: what is said of drivers, sick GPUs, modes, clocks and other people's processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labtui.machine.doctor import gpu_state
from labtui.machine.doctor.finding import Finding
from labtui.machine.doctor.seen import Seen
from labtui.machine.reading import Gpu, MigDevice, Process, Reading, silent


def seen(*readings: Reading, used: Sequence[int] | None = None, **gpu: Any) -> Seen:
    """A machine with a GPU per reading, each of them alike."""
    gpus = tuple(
        Gpu(reading.index, **{"name": "NVIDIA H100", "uuid": f"GPU-{reading.index}", **gpu}) for reading in readings
    )
    indices = range(len(gpus)) if used is None else used
    return Seen(gpus, readings, driver="580.95.05", cuda=(13, 0), used=frozenset(indices), listed=len(gpus))


def told(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


# Driver and devices -------------------------------------------------------------------------------------------------


def test_a_machine_without_a_gpu_has_no_driver() -> None:
    assert gpu_state.driver(Seen(why="no NVIDIA driver is installed (libnvidia-ml.so.1 is missing)")) is None


@pytest.mark.parametrize(
    ("listed", "chips", "why", "level"),
    [
        (2, 2, "driver 550.54.14 loaded, library 570.86.10: reload the driver", "fail"),
        (2, 2, "driver 550.54.14 is loaded, but its NVML library (libnvidia-ml.so.1) is not installed here", "fail"),
        (2, 2, "the Python package nvidia-ml-py is not installed", "warn"),
        (0, 1, "no NVIDIA driver is installed (libnvidia-ml.so.1 is missing)", "warn"),
        (0, 1, "the NVIDIA driver is installed, but its kernel module is not loaded", "warn"),
    ],
)
def test_gpus_that_nvml_does_not_tell_of(listed: int, chips: int, why: str, level: str) -> None:
    finding = told(gpu_state.driver(Seen(listed=listed, chips=chips, why=why)))
    assert finding.level == level and why in finding.found
    assert ("pip install nvidia-ml-py" in finding.advice) == ("package" in why)


def test_a_driver_that_did_not_open_in_time() -> None:
    assert told(gpu_state.driver(Seen(listed=8, late=True, why="the driver has not answered yet"))).level == "warn"
    assert told(gpu_state.driver(Seen(late=True))).found == "a library, and NVML did not open in time"


def test_hidden_gpus_are_named(tmp_path: Path) -> None:
    machine = seen(*map(Reading, range(4)))
    assert gpu_state.devices(machine, {}) == Finding("devices", "ok", "4 x NVIDIA H100")
    some = gpu_state.devices(replace(machine, used=frozenset({2, 3})), {"CUDA_VISIBLE_DEVICES": "2,3"})
    assert (some.level, some.found) == ("note", "2 of 4 GPUs, CUDA_VISIBLE_DEVICES=2,3")
    assert gpu_state.devices(replace(machine, used=frozenset()), {"CUDA_VISIBLE_DEVICES": "-1"}).level == "warn"


def test_without_nvml_the_kernel_counts(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0").mkdir(parents=True)
    machine = Seen(listed=4)
    assert gpu_state.devices(machine, {}, tmp_path).found == "4 GPUs"
    assert gpu_state.devices(machine, {"CUDA_VISIBLE_DEVICES": "1"}, tmp_path).found.startswith("1 of 4 GPUs")


@pytest.mark.parametrize(("environ", "level"), [({}, "note"), ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "warn")])
def test_gpus_of_several_kinds(environ: dict[str, str], level: str) -> None:
    machine = seen(Reading(0), Reading(1), Reading(2))
    machine = replace(machine, gpus=(*machine.gpus[:2], replace(machine.gpus[2], name="Tesla T4")))
    finding = gpu_state.devices(machine, environ)
    assert (finding.level, finding.found) == (level, "2 x NVIDIA H100 and 1 x Tesla T4")


def test_a_gpu_without_a_name_is_no_other_kind() -> None:
    machine = seen(Reading(0), Reading(1))
    machine = replace(machine, gpus=(machine.gpus[0], replace(machine.gpus[1], name=None)))
    assert gpu_state.devices(machine, {}) == Finding("devices", "ok", "1 x NVIDIA H100 and 1 GPU without a name")


# Health and modes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "used", "level"),
    [
        ("GPU is lost", (0, 1), "fail"),
        ("GPU needs a reset", (1,), "fail"),
        ("GPU is lost", (0,), "warn"),
        ("the driver has not answered about this GPU for 2.0 s", (0, 1), "warn"),
    ],
)
def test_a_sick_gpu(reason: str, used: tuple[int, ...], level: str) -> None:
    (finding,) = gpu_state.health(seen(Reading(0, util=3), silent(1, None, reason), used=used))
    assert (finding.level, finding.found) == (level, f"GPU 1: {reason}")
    assert ("all others then wait" in finding.why) == (1 in used)


def test_memory_errors_are_counted() -> None:
    healthy, memory = gpu_state.health(seen(Reading(0, ecc_uncorrected=0), Reading(1, ecc_uncorrected=1)))
    assert healthy.level == "ok"
    assert memory.level == "warn" and memory.found.startswith("GPU 1: 1 error that")
    assert gpu_state.health(Seen()) == []


@pytest.mark.parametrize(
    ("mode", "used", "level"),
    [
        ("default", (0, 1), None),
        ("prohibited", (0, 1), "fail"),
        ("prohibited", (), "note"),
        ("exclusive_process", (0, 1), "note"),
        (None, (0, 1), None),
    ],
)
def test_compute_mode(mode: str | None, used: tuple[int, ...], level: str | None) -> None:
    found = {f.name: f for f in gpu_state.modes(seen(Reading(0), Reading(1), used=used, compute_mode=mode))}
    assert (found["compute mode"].level if "compute mode" in found else None) == level


def test_persistence() -> None:
    def level(persistence: bool | None) -> list[tuple[str, str]]:
        return [(f.level, f.found) for f in gpu_state.modes(seen(Reading(0), Reading(1), persistence=persistence))]

    assert level(True) == [("ok", "on")]
    assert level(False) == [("note", "off for GPU 0 and 1")]
    assert level(None) == [], "no word about it"


def test_mig() -> None:
    parts = (MigDevice("MIG-1", 1, 0), MigDevice("MIG-2", 2, 0))
    (split,) = gpu_state.modes(seen(Reading(0), mig=True, mig_devices=parts))
    assert (split.level, split.found) == ("warn", "split: GPU 0 into 2")
    (empty,) = gpu_state.modes(seen(Reading(0), mig=True))
    assert empty.level == "fail" and "no MIG device" in empty.found
    assert gpu_state.modes(seen(Reading(0), mig=False)) == []


# Clocks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reasons", "level"),
    [
        ((), "ok"),
        (("gpu_idle",), "ok"),
        (("sw_power_cap",), "note"),
        (("applications_clocks_setting",), "note"),
        (("reason_0x800",), "note"),
        (("hw_thermal_slowdown", "hw_slowdown"), "warn"),
        (("sw_power_cap", "hw_power_brake_slowdown"), "warn"),
    ],
)
def test_clocks_that_are_held_back(reasons: tuple[str, ...], level: str) -> None:
    finding = told(gpu_state.clocks(seen(Reading(0, throttle=("gpu_idle",)), Reading(1, throttle=reasons))))
    assert finding.level == level
    assert all(reason in finding.found for reason in reasons if level != "ok")


def test_gpus_that_are_held_back_alike_are_told_together() -> None:
    finding = told(gpu_state.clocks(seen(*(Reading(index, throttle=("sw_power_cap",)) for index in range(8)))))
    assert finding.found == "GPU 0 to 7: it is at its power limit (sw_power_cap)"


def test_clocks_that_nobody_tells_of() -> None:
    assert gpu_state.clocks(seen(Reading(0))) is None


# Processes ----------------------------------------------------------------------------------------------------------


def a_process(root: Path, pid: int, environ: str = "") -> Process:
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\tpython\nTgid:\t{pid}\nUid:\t4242\t4242\t4242\t4242\n")
    (folder / "environ").write_text(environ)
    return Process(pid, 1_000_000_000)


def test_nobody_else_is_there(tmp_path: Path) -> None:
    assert told(gpu_state.processes(seen(Reading(0, processes=())), tmp_path)).level == "ok"
    assert gpu_state.processes(seen(Reading(0)), tmp_path) is None, "the driver doesn't tell"


def test_somebody_elses_process_is_named_once(tmp_path: Path) -> None:
    theirs = a_process(tmp_path, 700)
    finding = told(gpu_state.processes(seen(*(Reading(i, processes=(theirs,)) for i in range(3))), tmp_path))
    assert (finding.level, finding.found) == ("warn", "700 python (user 4242, 3.0 GB) on GPU 0 to 2")
    assert "--share" in finding.why


def test_runs_of_labtui_are_no_strangers(tmp_path: Path) -> None:
    ours = a_process(tmp_path, 700, "HOME=/home/ann\0LABTUI_RUN_ID=20261129-120312-x-7f3a\0")
    finding = told(gpu_state.processes(seen(Reading(0, processes=(ours,))), tmp_path))
    assert finding.level == "note" and "run 20261129-120312-x-7f3a" in finding.found
    both = (ours, a_process(tmp_path, 701))
    assert told(gpu_state.processes(seen(Reading(0, processes=both)), tmp_path)).level == "warn"
    hidden = (ours, Process(5, None))
    finding = told(gpu_state.processes(seen(Reading(0, processes=hidden)), tmp_path))
    assert finding.level == "warn" and "1 process outside this namespace on GPU 0" in finding.found


def test_only_gpus_that_runs_would_use_matter(tmp_path: Path) -> None:
    theirs = a_process(tmp_path, 700)
    machine = seen(Reading(0, processes=(theirs,)), Reading(1, processes=()), used=(1,))
    assert told(gpu_state.processes(machine, tmp_path)).level == "ok"


# Device files -------------------------------------------------------------------------------------------------------


def test_without_nvidia_uvm_cuda_does_not_start(tmp_path: Path) -> None:
    machine, environ = seen(Reading(0)), {"PATH": str(tmp_path / "bin")}
    assert gpu_state.device_files(machine, environ, tmp_path) is None, "a driver without device files (WSL)"
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    assert told(gpu_state.device_files(machine, environ, tmp_path)).level == "fail"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-modprobe").touch(mode=0o755)
    assert gpu_state.device_files(machine, environ, tmp_path) is None, "CUDA has it made"
    (tmp_path / "dev/nvidia-uvm").touch()
    assert gpu_state.device_files(machine, {"PATH": ""}, tmp_path) is None
