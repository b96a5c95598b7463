"""Why a GPU's clocks are what they are: NVML's clock-event reasons (once called throttle reasons) by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable

REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Bit of nvmlDeviceGetCurrentClocksEventReasons -> name. The bits are the same under both of its names."""

WORDS = {
    "gpu_idle": "nothing runs on it",
    "applications_clocks_setting": "somebody set lower application clocks (nvidia-smi -ac, -lgc)",
    "sw_power_cap": "it is at its power limit",
    "hw_slowdown": "the hardware halves its clocks: too hot, or an external power brake",
    "sync_boost": "it waits for the slowest GPU of its sync-boost group",
    "sw_thermal_slowdown": "it is too hot; the driver lowers its clocks",
    "hw_thermal_slowdown": "it is far too hot; the hardware lowers its clocks",
    "hw_power_brake_slowdown": "the power supply asks for less (power brake)",
    "display_clock_setting": "a display sets its clocks",
    "board_limit": "the board's limit on voltage or current",
    "reliability": "the limit on voltage that keeps the chip reliable",
}

HARMLESS = frozenset({"gpu_idle"})
"""No brake on work: clocks are low because there is none."""


def names(mask: int) -> tuple[str, ...]:
    """The reasons in force; a bit that nobody has named yet as `reason_0x800`."""
    found = []
    bit = 1
    while bit <= mask:
        if mask & bit:
            found.append(REASONS.get(bit, f"reason_{bit:#x}"))
        bit <<= 1
    return tuple(found)


def held_back(reasons: Iterable[str]) -> tuple[str, ...]:
    """Those that hold back a GPU that has work."""
    return tuple(reason for reason in reasons if reason not in HARMLESS)
