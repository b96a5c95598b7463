"""The formulas against the thing itself, counted step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory.collectives import (
    COLLECTIVES,
    Link,
    all_reduce_bytes,
    all_reduce_messages,
    bandwidths,
    bus_factor,
    chunk_bounds,
    cost,
    fill_buckets,
    message_cost,
    naive_cost,
    naive_elements,
    ring_elements,
    ring_steps,
)
from labtui.theory.published.collectives import A100, RTX_4090, SICK


def ring(ranks: int, chunk: int) -> tuple[list[set[int]], int, int]:
    """A ring all-reduce of `ranks` chunks per rank: whose values reached rank 0's chunks, messages and bytes sent."""
    have = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
    messages = sent = 0
    for step in range(2 * (ranks - 1)):
        moving = []
        for rank in range(ranks):
            index = (rank - step) % ranks
            moving.append(((rank + 1) % ranks, index, have[rank][index]))
        for to, index, values in moving:
            # First half: the receiver adds; second half: it takes the finished sum.
            have[to][index] = have[to][index] | values if step < ranks - 1 else values
        messages += 1
        sent += chunk
    return have[0], messages, sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_a_ring_sends_what_the_formula_says(ranks):
    sums, messages, sent = ring(ranks, chunk=10)
    assert all(values == set(range(ranks)) for values in sums)
    assert messages == all_reduce_messages(ranks)
    assert sent == all_reduce_bytes(10 * ranks, ranks)


def test_published_example():
    """1.5e9 parameters in bfloat16 on 4 cards: 3/2 of the 3 GB."""
    assert all_reduce_bytes(2 * 1.5e9, 4) == 4.5e9


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 100))
def test_buckets_keep_the_order_and_close_when_full(sizes, capacity):
    buckets = fill_buckets(sizes, capacity)
    assert [index for bucket in buckets for index in bucket] == list(range(len(sizes)))
    filled = [[sizes[index] for index in bucket] for bucket in buckets]
    assert all(sum(bucket) >= capacity for bucket in filled[:-1])
    assert all(sum(bucket[:-1]) < capacity for bucket in filled)


@pytest.mark.parametrize(
    "wrong", [lambda: all_reduce_bytes(1, 0), lambda: all_reduce_bytes(-1, 2), lambda: all_reduce_messages(0),
              lambda: fill_buckets([1], 0)],
)  # fmt: skip
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="at least"):
        wrong()


# ---- Bus bandwidth.


def test_bus_bandwidth_follows_from_time_in_all_published_rows():
    assert len(A100.rows) == 20
    for size, time_us, busbw in A100.rows:
        _, ours = bandwidths(A100.collective, size, time_us * 1e-6, A100.ranks)
        # The times are printed with four digits, so the bandwidths follow to as many.
        assert ours == pytest.approx(busbw, rel=6e-4, abs=0.0051)


@pytest.mark.parametrize("curve", [SICK, RTX_4090], ids=lambda curve: curve.name)
def test_bus_bandwidth_of_other_published_curves(curve):
    for size, time_us, busbw in curve.rows:
        assert bandwidths(curve.collective, size, time_us * 1e-6, curve.ranks)[1] == pytest.approx(busbw, rel=2e-3)


def test_factors_are_those_of_nccl_tests():
    """doc/PERFORMANCE.md; the values are those that it leads to for 2, 4 and 8 ranks."""
    assert [bus_factor("all_reduce", ranks) for ranks in (2, 4, 8, 32)] == [1, 1.5, 1.75, 1.9375]
    for name in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        assert [bus_factor(name, ranks) for ranks in (2, 4, 8)] == [0.5, 0.75, 0.875]
    for name in ("broadcast", "reduce", "send_recv"):
        assert bus_factor(name, 8) == 1
    with pytest.raises(ValueError, match="is none of"):
        bus_factor("allreduce", 2)
    with pytest.raises(ValueError, match="at least some time"):
        bandwidths("all_reduce", 1, 0.0, 2)


# ---- The ring, simulated with real values.


def simulate(ranks: int, count: int) -> tuple[list[list[int]], list[int]]:
    """What all ranks hold after the steps of `ring_steps`, begun with powers of a base, and what each one sent."""
    base = ranks + 1  # so that a sum tells how often each rank's value is in it
    have = [[base**rank] * count for rank in range(ranks)]
    bounds = chunk_bounds(count, ranks)
    steps = [ring_steps(rank, ranks) for rank in range(ranks)]
    sent = [0] * ranks
    for number in range(2 * (ranks - 1)):
        moving = []
        for rank in range(ranks):
            start, end = bounds[steps[rank][number].send]
            moving.append(have[rank][start:end])
            sent[rank] += end - start
        for rank in range(ranks):
            step = steps[rank][number]
            assert step.receive == steps[(rank - 1) % ranks][number].send
            start, end = bounds[step.receive]
            arriving = moving[(rank - 1) % ranks]
            own = have[rank][start:end] if step.add else [0] * (end - start)
            have[rank][start:end] = [a + b for a, b in zip(own, arriving, strict=True)]
    return have, sent


@given(ranks=st.integers(1, 6), count=st.integers(0, 40))
def test_the_ring_sums_everything_once_and_sends_exactly_what_is_predicted(ranks, count):
    have, sent = simulate(ranks, count)
    once = sum((ranks + 1) ** rank for rank in range(ranks))
    assert have == [[once] * count] * ranks
    assert sent == [ring_elements(count, rank, ranks) for rank in range(ranks)]
    if count % ranks == 0:
        assert set(sent) == {all_reduce_bytes(count, ranks)}
    # All but two chunks, the next rank's and the one's after it, twice.
    lengths = [end - start for start, end in chunk_bounds(count, ranks)]
    if ranks > 1:
        assert sent[0] == 2 * count - lengths[1] - lengths[2 % ranks]
    assert sum(sent) == cost("all_reduce", count, ranks).total


@given(ranks=st.integers(1, 9), count=st.integers(0, 100))
def test_chunks_follow_each_other_and_differ_by_one_at_most(ranks, count):
    bounds = chunk_bounds(count, ranks)
    assert [start for start, _ in bounds] == [0, *(end for _, end in bounds[:-1])]
    assert bounds[-1][1] == count
    lengths = [end - start for start, end in bounds]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] - lengths[-1] <= 1


# ---- Time.


def test_the_lessons_seconds():
    """Four GPUs that send 10 GB/s each: 3 GB of gradients take 0.45 s, 1.2 GB take 0.18 s."""
    link = Link(latency_s=0, bytes_per_s=10e9)
    assert cost("all_reduce", 3e9, 4).seconds(link) == pytest.approx(0.45)
    assert cost("all_reduce", 1.2e9, 4).seconds(link) == pytest.approx(0.18)


def test_on_a_bus_all_ranks_bytes_count():
    """Issue 4 asks for 2(N-1)/N S/rate where each rank has the rate, and 2(N-1) S/rate where all share it."""
    own, shared = Link(0, 125e6), Link(0, 125e6, bus=True)
    assert cost("all_reduce", 16e6, 4).seconds(own) == pytest.approx(1.5 * 16e6 / 125e6)
    assert cost("all_reduce", 16e6, 4).seconds(shared) == pytest.approx(6 * 16e6 / 125e6)
    # To a bus the naive way costs no more; to links of one's own, N times as much.
    assert naive_cost(16e6, 4).seconds(shared) == cost("all_reduce", 16e6, 4).seconds(shared)
    assert naive_cost(16e6, 4).seconds(own) == pytest.approx(4 * cost("all_reduce", 16e6, 4).seconds(own))


@given(ranks=st.integers(1, 64), size=st.integers(0, 10**9), backend=st.sampled_from(["nccl", "gloo"]))
def test_costs_agree_with_bus_factors(ranks, size, backend):
    """nccl-tests' factor is what makes a perfect algorithm's bus bandwidth the link's."""
    for name in COLLECTIVES:
        found = cost(name, size, ranks, backend)
        if ranks == 1:
            assert (found.messages, found.busiest, found.total) == (0, 0, 0)
            continue
        assert found.messages >= 1
        assert found.busiest <= found.total
        perfect = backend == "nccl" or name not in ("reduce_scatter", "broadcast")
        if perfect:
            assert found.busiest == pytest.approx(bus_factor(name, ranks) * size)
        elif size:
            assert found.busiest >= bus_factor(name, ranks) * size
    assert sum(naive_elements(size, rank, ranks) for rank in range(ranks)) == naive_cost(size, ranks).total


def test_latency_counts_messages_that_follow_each_other():
    link = Link(latency_s=1e-3, bytes_per_s=1e9)
    assert cost("all_reduce", 0, 4).seconds(link) == pytest.approx(6e-3)
    assert cost("broadcast", 0, 4, "gloo").seconds(link) == pytest.approx(2e-3)
    assert message_cost(1e6).seconds(link) == pytest.approx(2e-3)


@pytest.mark.parametrize(
    "wrong",
    [lambda: cost("all_reduce", -1, 2), lambda: cost("all_reduce", 1, 0), lambda: chunk_bounds(-1, 2),
     lambda: chunk_bounds(1, 0), lambda: ring_steps(2, 2), lambda: ring_elements(1, 3, 2),
     lambda: naive_cost(1, 0)],
)  # fmt: skip
def test_impossible_costs_are_refused(wrong):
    with pytest.raises(ValueError, match="at least"):
        wrong()


def test_an_unknown_collective_has_no_cost():
    with pytest.raises(ValueError, match="is none of"):
        cost("gather", 1, 2)
