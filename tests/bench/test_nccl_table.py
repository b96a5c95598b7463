"""The table reads as nccl-tests' own does."""

from __future__ import annotations

import pytest

from labtui.bench.nccl_table import Row, average, table

ROWS = [
    Row(size=1024, count=256, time=12.345, algbw=0.083, busbw=0.124, wrong=0, least=11.0, p95=20.5, slowest_rank=3),
    Row(size=2**30, count=2**28, time=62077.4, algbw=17.297, busbw=25.946, wrong=0, least=62000, p95=62100,
        slowest_rank=0),
]  # fmt: skip


def test_columns_and_foot_are_those_of_nccl_tests():
    lines = table(ROWS, "float32", "sum", -1, "in-place").splitlines()
    head = next(line for line in lines if "size" in line).split()
    assert head == ["#", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "min", "p95",
                    "slowest"]  # fmt: skip
    first, second = (line.split() for line in lines if not line.startswith("#"))
    assert first == ["1024", "256", "float", "sum", "-1", "12.35", "0.08", "0.12", "0", "11.00", "20.50", "3"]
    assert second[5:9] == ["62077", "17.30", "25.95", "0"]
    assert "# Out of bounds values : 0 OK" in lines
    assert "# Avg bus bandwidth    : 13.035" in lines
    assert average(ROWS) == pytest.approx(13.035)
    # Every cell ends where its heading does.
    rows = [line for line in lines if not line.startswith("#")]
    heading = next(line for line in lines if "size" in line)
    for name, index in (("size", 0), ("count", 1), ("type", 2), ("root", 4), ("time", 5), ("busbw", 7), ("#wrong", 8)):
        end = heading.index(name) + len(name)
        assert all(row[:end].split()[-1] == row.split()[index] for row in rows)


def test_wrong_values_are_called_failed():
    wrong = [*ROWS, Row(4, 1, 1.0, 0.0, 0.0, 7, 1.0, 1.0, 0)]
    assert "# Out of bounds values : 7 FAILED" in table(wrong, "bfloat16", "none", 0, "out-of-place")
    assert "bfloat16" in table(wrong, "bfloat16", "none", 0, "out-of-place")
    assert " half " in table(wrong, "float16", "none", 0, "out-of-place")


def test_an_average_needs_rows():
    with pytest.raises(ValueError, match="at least one row"):
        average([])
