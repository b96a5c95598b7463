"""The table that nccl-tests prints, as text: the same columns, units and footer, for people who know theirs.

Only the half of it (out-of-place or in-place) that was measured. To its right stand what nccl-tests leaves out: the
fastest run, the 95th percentile and which rank was slowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TYPES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16", "float64": "double"}
"""nccl-tests' names of dtypes."""


@dataclass(frozen=True)
class Row:
    """One size. Times are microseconds, bandwidths GB/s."""

    size: int
    count: int
    time: float
    algbw: float
    busbw: float
    wrong: int
    least: float
    p95: float
    slowest_rank: int


def table(rows: Sequence[Row], dtype: str, redop: str, root: int, place: str) -> str:
    """The rows as lines, with head and foot. Raises ValueError without rows."""
    names = f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
    units = f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
    lines = [
        "#",
        f"#{'':>53} {place:^34}",
        f"{names}  {'time':>8}  {'algbw':>7}  {'busbw':>7}  {'#wrong':>6}     {'min':>8}  {'p95':>8}  slowest",
        f"{units}  {'(us)':>8}  {'(GB/s)':>7}  {'(GB/s)':>7}  {'':>6}     {'(us)':>8}  {'(us)':>8}     rank",
    ]
    for row in rows:
        lines.append(
            f"{row.size:>12}  {row.count:>12}  {TYPES[dtype]:>8}  {redop:>6}  {root:>6}"
            f"  {_time(row.time):>8}  {row.algbw:>7.2f}  {row.busbw:>7.2f}  {row.wrong:>6}"
            f"     {_time(row.least):>8}  {_time(row.p95):>8}  {row.slowest_rank:>7}"
        )
    wrong = sum(row.wrong for row in rows)
    lines += [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {average(rows):.6g}",
        "#",
    ]
    return "\n".join(lines)


def average(rows: Sequence[Row]) -> float:
    """nccl-tests' "average bus bandwidth": the mean over all sizes, small ones included. Raises ValueError for none."""
    if not rows:
        raise ValueError("an average needs at least one row")
    return sum(row.busbw for row in rows) / len(rows)


def _time(microseconds: float) -> str:
    """Four significant digits, without an exponent."""
    if microseconds >= 1000:
        return f"{microseconds:.0f}"
    return f"{microseconds:.1f}" if microseconds >= 100 else f"{microseconds:.2f}"
