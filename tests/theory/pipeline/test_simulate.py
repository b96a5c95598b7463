"""The simulator against the lesson's figures, Zero Bubble's definition and small cases worked out by hand."""

from __future__ import annotations

import pytest

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Action, Order, Pair
from labtui.theory.pipeline.peaks import peak_memory
from labtui.theory.pipeline.schedules import build
from labtui.theory.pipeline.simulate import simulate


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_the_lessons_figures(name):
    """p=4, m=8, F=1, B=2: 33 units, of which 9 idle, by both conventions of a bubble."""
    timeline = simulate(build(name, 4, 8))
    assert timeline.total == 33
    assert timeline.ideal == 24
    assert timeline.idle == (9, 9, 9, 9)
    assert timeline.bubble == pytest.approx(3 / 11)  # 27.3 %
    assert timeline.bubble_over_ideal == pytest.approx(3 / 8)
    assert timeline.spans == (33, 30, 27, 24) if name == "gpipe" else (33, 31, 29, 27)


@pytest.mark.parametrize(("p", "m", "bubble"), [(8, 24, 7 / 31), (4, 8, 3 / 11), (1, 5, 0), (16, 1, 15 / 16)])
def test_bubble_of_the_total(p, m, bubble):
    assert simulate(build("1f1b", p, m)).bubble == pytest.approx(bubble)


@pytest.mark.parametrize(("comm", "gpipe", "one_f_one_b"), [(0, 33, 33), (0.5, 36, 41), (1, 39, 49), (2, 45, 65)])
def test_a_transfer_delays_the_consumer_and_occupies_no_device(comm, gpipe, one_f_one_b):
    """41 is the lesson's own figure."""
    costs = Costs(comm=comm)
    assert simulate(build("gpipe", 4, 8), costs).total == gpipe
    assert simulate(build("1f1b", 4, 8), costs).total == one_f_one_b


def test_zero_bubbles_rate_counts_the_longest_span():
    """Qi et al., table 5, first row: 1.5B, p=8, m=24, times of table 9 in ms."""
    costs = Costs(18.522, 18.086, 9.337, comm=0.601)
    assert simulate(build("1f1b", 8, 24), costs).bubble_of_span == pytest.approx(0.2431, abs=6e-5)


def line(*rows: tuple, m: int, name: str = "mine", routes: tuple = ()) -> Order:
    return Order(name, m, routes or (tuple(range(len(rows))),), rows)


def f(microbatch: int, stage: int) -> Action:
    return Action("F", microbatch, stage)


def b(microbatch: int, stage: int) -> Action:
    return Action("B", microbatch, stage)


def test_a_busy_link_carries_one_transfer_at_a_time():
    """Two forwards of 1 over a link of 3: the second activation leaves at 4 rather than at 2."""
    order = line((f(0, 0), f(1, 0), b(0, 0), b(1, 0)), (f(0, 1), f(1, 1), b(0, 1), b(1, 1)), m=2)
    free = simulate(order, Costs(comm=3))
    busy = simulate(order, Costs(comm=3), link_busy=True)
    assert list(free.starts[1]) == [4, 5, 6, 8]
    assert list(busy.starts[1]) == [4, 7, 8, 10]
    # Each direction is a link of its own: the gradients of 10 and 12 don't meet, 3 apart would.
    assert list(busy.starts[0]) == [0, 1, 13, 16]
    assert busy.total == 18


def test_the_two_results_of_a_pair_on_one_link_go_one_after_the_other():
    """Two devices, four stages in a ring: device 0 sends F0 of stage 2 and the gradient of stage 2 both to device 1."""
    ring = ((0, 1, 0, 1),)
    rows = (
        (f(0, 0), f(1, 0), f(0, 2), Pair(f(1, 2), b(0, 2)), b(0, 0), b(1, 2), b(1, 0)),
        (f(0, 1), f(1, 1), f(0, 3), b(0, 3), f(1, 3), b(1, 3), b(0, 1), b(1, 1)),
    )
    busy = simulate(Order("mine", 2, ring, rows), Costs(comm=1), link_busy=True)
    pair_ends = busy.ends[0][3]
    assert busy.starts[1][4] == pair_ends + 1
    arrives = max(busy.ends[1][5], pair_ends + 2)
    assert busy.starts[1][6] == arrives


def test_a_pair_is_one_block_whose_results_are_there_at_its_end():
    rows = ((f(0, 0), f(1, 0), b(0, 0), b(1, 0)), (f(0, 1), Pair(f(1, 1), b(0, 1)), b(1, 1)))
    timeline = simulate(line(*rows, m=2), Costs(pair=2.5))
    pair = [op for op in timeline.ops(1) if op.pair is not None]
    assert [(op.kind, op.start, op.end) for op in pair] == [("F", 2, 4.5), ("B", 2, 4.5)]
    assert pair[0].pair == pair[1].pair
    # The gradient could be there at 4 if it were not a block.
    assert list(timeline.starts[0]) == [0, 1, 4.5, 6.5]
    assert timeline.busy == (6, 1 + 2.5 + 2)


def test_pairs_of_different_blocks_have_different_numbers():
    timeline = simulate(build("dualpipe", 4, 8))
    numbers = [op.pair for device in range(4) for op in timeline.ops(device) if op.pair is not None]
    assert {numbers.count(number) for number in numbers} == {2}
    assert sorted(set(numbers)) == list(range(len(numbers) // 2))


def test_a_slow_stage_and_uneven_micro_batches():
    """Stage 1 takes twice as long: the first device waits for it; three units of work become 3 x (1 + 2)."""
    slow = simulate(build("gpipe", 2, 3), Costs(stages=(1, 2)))
    assert slow.total == 1 + 3 * 2 + 3 * 4 + 2
    assert slow.busy == (9, 18)
    long = simulate(build("naive", 1, 3), Costs(batches=(1, 1, 5)))
    assert long.total == 3 * (1 + 1 + 5)


def test_factors_must_fit_the_order():
    with pytest.raises(ValueError, match="there are 4 stages, but costs have factors for 2"):
        simulate(build("1f1b", 4, 8), Costs(stages=(1, 2)))
    with pytest.raises(ValueError, match="there are 8 micro-batches, but costs have factors for 3"):
        simulate(build("1f1b", 4, 8), Costs(batches=(1, 2, 3)))
    with pytest.raises(ValueError, match="at least 0"):
        simulate(build("1f1b", 4, 8), until_b=-1)


def test_the_last_stage_of_one_device_needs_its_own_forward_only():
    timeline = simulate(build("1f1b", 1, 2), Costs(comm=7))
    assert [(op.kind, op.start) for op in timeline.ops(0)] == [("F", 0), ("B", 1), ("F", 3), ("B", 4)]


def test_neighbouring_stages_on_one_device_need_no_transfer():
    """A V of two devices: the turn at device 1 is free, the way there and back isn't."""
    rows = ((f(0, 0), f(0, 3), b(0, 3), b(0, 0)), (f(0, 1), f(0, 2), b(0, 2), b(0, 1)))
    timeline = simulate(line(*rows, m=1, routes=((0, 1, 1, 0),)), Costs(comm=10))
    assert list(timeline.starts[1]) == [11, 12, 36, 38]
    assert list(timeline.starts[0]) == [0, 23, 24, 50]


def test_memory_by_device_in_zero_bubbles_terms():
    """M_B until the gradient of the input, M_W until that of the weights; section 2.3's formula by worker."""
    order = build("zb-h1", 4, 12)
    assert peak_memory(order) == (4, 4, 4, 4)
    assert peak_memory(order, 1, 0) == (4, 3, 2, 1)
    assert peak_memory(order, 34, 32) == tuple((4 - i) * 34 + i * 32 for i in range(4))
    assert simulate(order, until_b=34, until_w=32).peak_memory == peak_memory(order, 34, 32)


def test_memory_counts_a_share_of_a_device():
    """A chunk is a half; in DualPipe a micro-batch passes one of a device's two stages, which is its whole share."""
    assert simulate(build("interleaved-1f1b", 4, 8)).peak_memory == (5.5, 4.5, 3.5, 2.5)
    assert simulate(build("dualpipe", 8, 20)).peak_memory == (9,) * 8
    assert simulate(build("dualpipev", 4, 10)).peak_memory == (4.5,) * 4
    assert simulate(build("interleaved-1f1b", 3, 9, 3)).peak_memory[0] == pytest.approx(3 + 2 / 3, abs=0)


def test_work_without_cost_takes_no_time():
    timeline = simulate(build("1f1b", 2, 2), Costs(0, backward=0))
    assert (timeline.total, timeline.bubble, timeline.bubble_over_ideal, timeline.bubble_of_span) == (0, 0, 0, 0)
    sent = simulate(build("1f1b", 2, 2), Costs(0, backward=0, comm=1))
    assert (sent.bubble, sent.bubble_over_ideal) == (1, 0)
