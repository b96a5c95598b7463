"""The GPUs one by one: driver, health, modes, clocks, and who else is on them. Pure, but for a look into /proc."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from labtui.machine import gpu_processes, host, throttle
from labtui.machine.doctor.finding import Finding, counted, dotted, gpus, listed, size
from labtui.machine.doctor.seen import Seen
from labtui.machine.gpu_processes import Other
from labtui.machine.host import ROOT, read_text

_SLOWING = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"})
"""Brakes that something is wrong behind; the others are settings, or what a GPU at work meets."""
_MOST_PROCESSES = 4


def driver(seen: Seen) -> Finding | None:
    """None where there is neither a GPU nor a driver."""
    if seen.gpus:
        runs = f", runs CUDA up to {dotted(seen.cuda)}" if seen.cuda else ""
        return Finding("driver", "ok", f"{seen.driver or 'of an unknown version'}{runs}")
    if not seen.count and not seen.chips and not seen.late:
        return None
    there = counted(seen.count or seen.chips, "NVIDIA GPU")
    loaded = f", driver {seen.driver}" if seen.driver else ""
    if seen.late:
        return Finding(
            "driver",
            "warn",
            f"{there if seen.count or seen.chips else 'a library'}{loaded}, and NVML did not open in time",
            "without persistence mode the driver wakes each GPU first; a driver that hangs looks the same, and then "
            "runs hang, too",
            "nvidia-smi, and dmesg | grep -i -e xid -e nvrm",
        )
    # GPUs that the kernel's driver lists are what labtui takes runs on GPUs to; others it leaves alone.
    package = "nvidia-ml-py" in (seen.why or "")
    return Finding(
        "driver",
        "fail" if seen.listed and not package else "warn",
        f"{there}{loaded}: {seen.why}",
        "labtui can't read these GPUs" + ("" if package else ", and torch can't use them"),
        "pip install nvidia-ml-py"
        if package
        else "after an update of the driver: reboot, or unload it (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia) "
        "and modprobe nvidia; in a container: docker run --gpus all",
    )


def devices(seen: Seen, environ: Mapping[str, str], root: Path = ROOT) -> Finding:
    """What runs can use."""
    present = seen.count
    usable = len(seen.used) if seen.gpus else host.gpu_count(environ, root)
    if not present:
        found = "no NVIDIA GPU that can be used" if seen.chips or seen.late else "no NVIDIA GPU"
        return Finding("devices", "note", found, "everything runs on CPU processes")
    if usable < present:
        return Finding(
            "devices",
            "note" if usable else "warn",
            f"{usable} of {counted(present, 'GPU')}, CUDA_VISIBLE_DEVICES={environ.get('CUDA_VISIBLE_DEVICES', '')}",
            "runs use what CUDA_VISIBLE_DEVICES lets them see",
            "" if usable else "unset CUDA_VISIBLE_DEVICES",
        )
    names = seen.names()
    nameless = present - sum(map(len, names.values()))
    found = listed(
        [*(f"{len(indices)} x {name}" for name, indices in names.items())]
        + ([f"{counted(nameless, 'GPU')}{' without a name' if names else ''}"] if nameless else [])
    )
    if len(names) < 2:
        return Finding("devices", "ok", found)
    order = environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return Finding(
        "devices",
        "note" if order == "PCI_BUS_ID" else "warn",
        found,
        "all wait for the slowest in a collective; and CUDA numbers GPUs of several kinds by speed, NVML by PCI bus"
        + ("" if order == "PCI_BUS_ID" else f", with CUDA_DEVICE_ORDER={order} in runs, too"),
        "CUDA_DEVICE_ORDER=PCI_BUS_ID, as labtui sets it for runs where nobody else does",
    )


def health(seen: Seen) -> list[Finding]:
    """GPUs that don't answer, and memory that lost bits."""
    if not seen.gpus:
        return []
    findings = []
    silent = seen.silent()
    if silent:
        slow = all("answered" in reason for reason in silent.values())
        needed = any(index in seen.used for index in silent)
        findings.append(
            Finding(
                "GPU health",
                "fail" if needed and not slow else "warn",
                _grouped(silent),
                "a rank on it fails or hangs, and all others then wait for it"
                if needed
                else "CUDA_VISIBLE_DEVICES leaves it out; a sick GPU may slow down the driver all the same",
                "dmesg | grep -i xid tells why; leave it out by CUDA_VISIBLE_DEVICES, try nvidia-smi --gpu-reset -i "
                "INDEX as root, or reboot",
            )
        )
    else:
        findings.append(Finding("GPU health", "ok", f"{counted(len(seen.gpus), 'GPU')}, and each answers"))
    lost = {
        reading.index: counted(reading.ecc_uncorrected, "error") for reading in seen.readings if reading.ecc_uncorrected
    }
    if lost:
        findings.append(
            Finding(
                "GPU memory",
                "warn",
                f"{_grouped(lost)} that ECC could not correct, since the driver was loaded",
                "the process that meets such an error is ended, and with it the run",
                "nvidia-smi -q -d ECC,ROW_REMAPPER; a reset of the GPU takes bad rows out of use",
            )
        )
    return findings


def modes(seen: Seen) -> list[Finding]:
    """Compute mode, MIG and persistence, where they are not what a run expects."""
    findings = []
    prohibited = [gpu.index for gpu in seen.gpus if gpu.compute_mode == "prohibited"]
    exclusive = [gpu.index for gpu in seen.gpus if (gpu.compute_mode or "").startswith("exclusive")]
    if prohibited:
        used = any(index in seen.used for index in prohibited)
        findings.append(
            Finding(
                "compute mode",
                "fail" if used else "note",
                f"{gpus(prohibited)}: prohibited",
                "CUDA refuses to start there",
                "nvidia-smi -c DEFAULT -i INDEX, as root",
            )
        )
    elif exclusive:
        findings.append(
            Finding(
                "compute mode",
                "note",
                f"{gpus(exclusive)}: one process at a time",
                "a second process there fails: two ranks on a GPU, or a run beside somebody else's",
            )
        )
    findings += _mig(seen)
    asleep = [gpu.index for gpu in seen.gpus if gpu.persistence is False]
    if asleep:
        findings.append(
            Finding(
                "persistence",
                "note",
                f"off for {gpus(asleep)}",
                "the driver lets go of a GPU that nobody uses: each start then takes longer, and settings of clocks "
                "and power are lost",
                "nvidia-smi -pm 1, as root, or the service nvidia-persistenced",
            )
        )
    elif any(gpu.persistence for gpu in seen.gpus):
        findings.append(Finding("persistence", "ok", "on"))
    return findings


def _mig(seen: Seen) -> list[Finding]:
    split = [gpu for gpu in seen.gpus if gpu.mig]
    if not split:
        return []
    empty = [gpu.index for gpu in split if not gpu.mig_devices]
    if any(index in seen.used for index in empty):
        return [
            Finding(
                "MIG",
                "fail",
                f"{gpus(empty)}: MIG is on, and there is no MIG device",
                "CUDA finds nothing there, so that ranks and GPUs don't match",
                "nvidia-smi mig -cgi PROFILE -C, or switch it off: nvidia-smi -mig 0, both as root",
            )
        ]
    parts = listed(f"GPU {gpu.index} into {len(gpu.mig_devices)}" for gpu in split)
    return [
        Finding(
            "MIG",
            "warn",
            f"split: {parts}",
            "a process sees one part only, and parts have neither peer access nor NVLink (NVIDIA's MIG user guide): "
            "NCCL goes through host memory, or not at all",
            "for runs over several ranks take whole GPUs: nvidia-smi -mig 0, as root",
        )
    ]


def clocks(seen: Seen) -> Finding | None:
    """Whether something holds the clocks back at this moment; None where no GPU tells."""
    told = {reading.index: reading.throttle for reading in seen.readings if reading.throttle is not None}
    if not told:
        return None
    held = {index: throttle.held_back(reasons) for index, reasons in told.items()}
    if not any(held.values()):
        return Finding("clocks", "ok", "nothing holds them back now")
    words = {
        index: ", and ".join(
            f"{throttle.WORDS.get(reason, 'for a reason without a name')} ({reason})" for reason in reasons
        )
        for index, reasons in held.items()
        if reasons
    }
    bad = any(_SLOWING & set(reasons) for reasons in held.values())
    return Finding(
        "clocks",
        "warn" if bad else "note",
        _grouped(words),
        "a GPU that is held back slows down all others, which wait for it in each collective",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER tells more: look at fans, airflow and power supply"
        if bad
        else "nvidia-smi -q -d PERFORMANCE,CLOCK tells more; nvidia-smi -rgc and -rac take back settings, as root",
    )


def processes(seen: Seen, root: Path = ROOT) -> Finding | None:
    """Who else is on the GPUs that runs would use; None where no GPU tells."""
    readings = [reading for reading in seen.readings if reading.index in seen.used and reading.processes is not None]
    if not readings:
        return None
    owners = gpu_processes.sort_out(readings, {}, root)
    if not owners.others and not owners.outside:
        return Finding("GPU processes", "ok", "nobody else is on the GPUs")
    runs = {other.pid: run for other in owners.others if (run := _run_of(other.pid, root))}
    pids = sorted({other.pid for other in owners.others})
    told = [_process([other for other in owners.others if other.pid == pid], runs.get(pid)) for pid in pids]
    told += [f"{gpu_processes.outside_words(count)} on GPU {gpu}" for gpu, count in sorted(owners.outside.items())]
    if not owners.outside and len(runs) == len(pids):
        return Finding(
            "GPU processes",
            "note",
            listed(told, _MOST_PROCESSES),
            "these are runs of labtui: a further run waits for their GPUs, unless it is given --share",
        )
    return Finding(
        "GPU processes",
        "warn",
        listed(told, _MOST_PROCESSES),
        "labtui starts no run on GPUs that somebody else holds, unless told to by --share; both are then slower, and "
        "memory may not suffice",
        "take other GPUs by CUDA_VISIBLE_DEVICES, or ask who they belong to",
    )


def _process(same: list[Other], run: str | None) -> str:
    """One process, on all GPUs that it holds."""
    sizes = [other.memory for other in same if other.memory is not None]
    memory = f", {size(sum(sizes))}" if len(sizes) == len(same) else ""
    whose = f"run {run}" if run else f"user {_user(same[0].uid)}"
    return f"{same[0].pid} {same[0].name} ({whose}{memory}) on {gpus(other.gpu for other in same)}"


def _run_of(pid: int, root: Path) -> str | None:
    """The run of labtui that a process belongs to, where we may look at its environment."""
    for entry in (read_text(root / f"proc/{pid}/environ") or "").split("\0"):
        name, _, value = entry.partition("=")
        if name == "LABTUI_RUN_ID" and value:
            return value
    return None


def _user(uid: int | None) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name if uid is not None else "?"
    except KeyError:
        return str(uid)


def device_files(seen: Seen, environ: Mapping[str, str], root: Path = ROOT) -> Finding | None:
    """Whether CUDA finds the file through which it manages memory; None where all is well, or there is no GPU."""
    if not seen.gpus or not (root / "dev/nvidiactl").exists() or (root / "dev/nvidia-uvm").exists():
        return None
    helper = shutil.which("nvidia-modprobe", path=environ.get("PATH", os.defpath))
    if helper is not None:
        return None  # CUDA calls it, and it makes the file
    return Finding(
        "/dev/nvidia-uvm",
        "fail",
        "missing, and so is nvidia-modprobe, which would make it",
        "nvidia-smi works without; CUDA does not, and torch then finds no GPU",
        "nvidia-modprobe -u -c=0, as root on the host; in a container: docker run --gpus all",
    )


def _grouped(told: Mapping[int, str]) -> str:
    """`GPU 0 to 3: one thing; GPU 5: another`."""
    groups: dict[str, list[int]] = {}
    for index, words in told.items():
        groups.setdefault(words, []).append(index)
    return "; ".join(f"{gpus(indices)}: {words}" for words, indices in groups.items())
