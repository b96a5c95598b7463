"""Measured curves of collectives that others have published, for holding theory and our own readers against them.

Facts only: sizes in bytes, times in microseconds, bandwidths in GB/s with GB = 1e9. Each curve names its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from labtui.theory.collectives import all_reduce_bytes, bandwidths
from labtui.theory.published import Value


@dataclass(frozen=True)
class Curve:
    """Times of one collective over sizes."""

    name: str
    source: str
    collective: str
    ranks: int
    rows: tuple[tuple[int, float, float], ...]
    """(size in bytes, time in us, bus bandwidth in GB/s), as printed there."""


A100 = Curve(
    "8 x A100 with NVLink, nccl-tests",
    "stas00/ml-engineering, network/README.md, at 744d01e1",
    "all_reduce",
    8,
    (
        (32768, 43.83, 1.31),
        (65536, 46.8, 2.45),
        (131072, 51.76, 4.43),
        (262144, 61.38, 7.47),
        (524288, 80.4, 11.41),
        (1048576, 101.9, 18.0),
        (2097152, 101.4, 36.18),
        (4194304, 101.5, 72.33),
        (8388608, 133.5, 109.93),
        (16777216, 276.6, 106.16),
        (33554432, 424.0, 138.49),
        (67108864, 684.6, 171.54),
        (134217728, 1327.6, 176.92),
        (268435456, 2420.6, 194.07),
        (536870912, 4218.4, 222.72),
        (1073741824, 8203.9, 229.04),
        (2147483648, 16240, 231.41),
        (4294967296, 32136, 233.88),
        (8589934592, 64074, 234.61),
        (17179869184, 127997, 234.89),
    ),
)

SICK = Curve(
    "24 ranks, a network that collapses above 32 MiB",
    "NVIDIA/nccl issue 1453 (24 ranks follow from the factor between its two bandwidths)",
    "all_reduce",
    24,
    (
        (4194304, 622.6, 12.91),
        (8388608, 992.6, 16.2),
        (16777216, 1334.9, 24.09),
        (33554432, 2180.1, 29.5),
        (67108864, 24410, 5.27),
        (134217728, 49264, 5.22),
        (268435456, 125807, 4.09),
        (536870912, 193909, 5.31),
    ),
)

RTX_4090 = Curve(
    "4 x RTX 4090, a slow path",
    "tinygrad/open-gpu-kernel-modules, pull request 22 (4 ranks follow from the factor between its two bandwidths)",
    "all_reduce",
    4,
    (
        (32768, 18.78, 2.62),
        (65536, 25.8, 3.81),
        (131072, 42.44, 4.63),
        (262144, 66.25, 5.94),
        (524288, 94.11, 8.36),
        (1048576, 152.7, 10.3),
        (2097152, 271.8, 11.58),
        (4194304, 510.6, 12.32),
        (8388608, 1000.9, 12.57),
        (16777216, 1993.2, 12.63),
        (33554432, 3966.7, 12.69),
        (67108864, 7888.2, 12.76),
    ),
)

CURVES = (A100, SICK, RTX_4090)


# ---- As values to compare.


def _bus(curve: Curve, size: int, us: float) -> float:
    return bandwidths(curve.collective, size, us / 1e6, curve.ranks)[1]


def _wire(bus: float, ranks: int, nodes: int) -> float:
    """GB/s that each GPU of a hierarchical all-reduce really sends between nodes."""
    return bus * (nodes - 1) / (ranks - 1)


def _ring_seconds(gigabytes: float, ranks: int, gb_per_s: float) -> float:
    return all_reduce_bytes(gigabytes, ranks) / gb_per_s


def _share(gb_per_s: float, ceiling: float) -> float:
    return 100 * gb_per_s / ceiling


def values() -> list[Value]:
    """Bus bandwidths from printed times, and the arithmetic of published texts."""
    rounded = "half a unit of the last printed digit, and what the time's rounding allows"
    found = []
    for curve in CURVES:
        for size, us, bus in curve.rows:
            digits = len(f"{us!r}".partition(".")[2]) if isinstance(us, float) else 0
            tolerance = 0.0051 + bus * 0.5 * 10**-digits / us
            what = f"{curve.ranks} ranks, {size:,} B, {us:.7g} us"
            ours = partial(_bus, curve, size, us)
            found.append(Value("collectives", what, curve.source, bus, "GB/s", tolerance, ours, rounded))
    lesson = "the lesson on distributed training"
    ml = "stas00/ml-engineering, network/README.md, at 744d01e1"
    for gigabytes, seconds in ((3, 0.45), (1.2, 0.18)):
        what = f"ring of 4, {gigabytes:g} GB over 10 GB/s"
        found.append(Value("collectives", what, lesson, seconds, "s", 0, partial(_ring_seconds, gigabytes, 4, 10)))
    for text, bus, wire in (("16 MiB", 64.43, 6.24), ("1 GiB", 361.99, 35.03), ("16 GiB", 381.80, 36.95)):
        what = f"on each GPU's wire, 4 x 8, {text}"
        found.append(Value("collectives", what, ml, wire, "GB/s", 0.0051, partial(_wire, bus, 32, 4), rounded))
    for what, bus, ceiling, share in (
        ("A100, of NVLink's peak", 234.89, 300, 78),
        ("H200, ring, of NVLink's peak", 367.61, 450, 82),
        ("H200, NVLS, of NVLink's peak", 482.26, 450, 107),
    ):
        why = "half a unit, and rounding"
        found.append(Value("collectives", what, ml, share, "%", 0.5, partial(_share, bus, ceiling), why))
    return found
