"""The orders of the schedules with whole backwards, and what the registry refuses.

The orders of interleaved 1F1B and looped BFS are PyTorch's own, read from torch 2.13's
torch.distributed.pipelining._schedule_visualizer.get_schedule_ops.
"""

from __future__ import annotations

import gc

import pytest

from labtui.theory.pipeline.order import Order, OrderError
from labtui.theory.pipeline.schedules import LARGEST, SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate

INTERLEAVED_2_4_2 = [
    "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
    "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3",
]
INTERLEAVED_4_10_2 = [
    "0F0 0F1 0F2 0F3 0F4 4F0 4F1 4F2 4F3 4F4 0F5 0F6 4B0 0F7 4B1 0F8 4B2 0F9 4B3 4F5 4B4 4F6 0B0 4F7 0B1 4F8 0B2 4F9 "
    "0B3 0B4 4B5 4B6 4B7 4B8 4B9 0B5 0B6 0B7 0B8 0B9",
    "1F0 1F1 1F2 1F3 1F4 5F0 5F1 5F2 5F3 5F4 5B0 1F5 5B1 1F6 5B2 1F7 5B3 1F8 5B4 1F9 1B0 5F5 1B1 5F6 1B2 5F7 1B3 5F8 "
    "1B4 5F9 5B5 5B6 5B7 5B8 5B9 1B5 1B6 1B7 1B8 1B9",
]
INTERLEAVED_4_12_3 = [
    "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 8F0 8F1 8F2 8F3 0F4 0F5 0F6 8B0 0F7 8B1 4F4 8B2 4F5 8B3 4F6 4B0 4F7 4B1 8F4 4B2 "
    "8F5 4B3 8F6 0B0 8F7 0B1 0F8 0B2 0F9 0B3 0F10 8B4 0F11 8B5 4F8 8B6 4F9 8B7 4F10 4B4 4F11 4B5 8F8 4B6 8F9 4B7 8F10 "
    "0B4 8F11 0B5 0B6 0B7 8B8 8B9 8B10 8B11 4B8 4B9 4B10 4B11 0B8 0B9 0B10 0B11",
]
LOOPED_2_4_2 = [
    "0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3 2B3 2B2 2B1 2B0 0B3 0B2 0B1 0B0",
    "1F0 1F1 1F2 1F3 3F0 3F1 3F2 3F3 3B3 3B2 3B1 3B0 1B3 1B2 1B1 1B0",
]


def written(order: Order) -> list[str]:
    """As PyTorch writes it: stage, kind, micro-batch."""
    return [" ".join(f"{stage}{kind}{number}" for kind, number, stage in steps) for steps in order.devices]


@pytest.mark.parametrize(
    ("name", "p", "m", "v", "rows"),
    [
        ("interleaved-1f1b", 2, 4, 2, INTERLEAVED_2_4_2),
        ("interleaved-1f1b", 4, 10, 2, INTERLEAVED_4_10_2),
        ("interleaved-1f1b", 4, 12, 3, INTERLEAVED_4_12_3),
        ("looped-bfs", 2, 4, 2, LOOPED_2_4_2),
    ],
)
def test_the_order_is_pytorchs(name, p, m, v, rows):
    assert written(build(name, p, m, v))[: len(rows)] == rows


def test_1f1b_warms_up_with_as_many_forwards_as_devices_follow():
    assert written(build("1f1b", 3, 4)) == [
        "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3",
        "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3",
        "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3",
    ]
    assert written(build("1f1b", 3, 1)) == ["0F0 0B0", "1F0 1B0", "2F0 2B0"]


@pytest.mark.parametrize(
    ("name", "p", "m", "v", "total", "peaks"),
    [
        ("gpipe", 4, 8, None, 33, (8, 8, 8, 8)),
        ("1f1b", 4, 8, None, 33, (4, 3, 2, 1)),
        ("naive", 4, 8, None, 96, (1, 1, 1, 1)),
        ("interleaved-1f1b", 4, 8, 2, 57, (11, 9, 7, 5)),
        ("interleaved-1f1b", 2, 4, 2, 27, (5, 3)),
        ("interleaved-1f1b", 4, 10, 2, 69, (12, 10, 8, 6)),
        ("interleaved-1f1b", 4, 12, 3, 117, (15, 13, 11, 9)),
        ("interleaved-bfs", 4, 8, 2, 57, (15, 13, 11, 9)),
        ("looped-bfs", 4, 8, 2, 57, (16, 16, 16, 16)),
        ("looped-bfs", 2, 4, 2, 27, (8, 8)),
    ],
)
def test_totals_and_peaks(name, p, m, v, total, peaks):
    timeline = simulate(build(name, p, m, v))
    assert timeline.total == total
    assert timeline.peak_in_flight == peaks


def test_breadth_first_gives_a_chunk_all_micro_batches_before_the_next():
    first = written(build("interleaved-bfs", 2, 3, 2))[0].split()
    assert first[:5] == ["0F0", "0F1", "0F2", "2F0", "2F1"]
    # With m = p both interleavings have one group, so they are the same.
    assert build("interleaved-bfs", 4, 4, 2).devices == build("interleaved-1f1b", 4, 4, 2).devices


@pytest.mark.parametrize("name", SCHEDULES)
def test_one_device_never_waits(name):
    try:
        timeline = simulate(build(name, 1, 6))
    except OrderError as error:
        assert "even number of devices" in str(error)
        return
    assert timeline.idle == (0,)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (("1f1b", 0, 8), "p=0"),
        (("1f1b", 4, 0), "m=0"),
        (("1f1b", 4, -3), "m=-3"),
        (("2f2b", 4, 8), "no schedule '2f2b'"),
        (("gpipe", 4, 8, 2), "interleaved-1f1b"),
        (("dualpipev", 4, 8, 3), "2 stages"),
        (("interleaved-1f1b", 4, 8, 0), "v=0"),
        (("gpipe", 1000, 10_000), f"20,000,000 operations, more than {LARGEST:,}"),
        (("zb-h1", 10**9, 1), "GB"),
    ],
)
def test_sizes_that_cannot_be(ask, says):
    with pytest.raises(OrderError) as caught:
        build(*ask)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_memory_limit_below_what_a_fixed_order_holds_is_refused():
    with pytest.raises(OrderError, match="4 micro-batches on device 0"):
        build("1f1b", 4, 8, memory_limit=3)
    assert build("1f1b", 4, 8, memory_limit=4) == build("1f1b", 4, 8)
    # p + (p - 1) / v: eleven halves.
    with pytest.raises(OrderError, match=r"5\.5 micro-batches"):
        build("interleaved-1f1b", 4, 8, memory_limit=5.4)
    for limit in (0, -1, float("nan")):
        with pytest.raises(OrderError, match="above 0"):
            build("1f1b", 4, 8, memory_limit=limit)


def test_the_garbage_collector_is_on_again_after_an_order_and_after_a_refusal():
    assert gc.isenabled()
    build("1f1b", 2, 2)
    with pytest.raises(OrderError):
        build("dualpipe", 3, 8)
    assert gc.isenabled()
