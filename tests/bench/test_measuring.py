"""Spreads, spans and bytes: what is measured is what was there."""

from __future__ import annotations

import socket
import statistics

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from labtui.bench import timeline, timing, wire
from labtui.bench.timeline import Span


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50))
def test_a_spread_lies_within_what_was_measured(values):
    spread = timing.spread(values)
    assert min(values) <= spread.p10 <= spread.median <= spread.p90 <= max(values)
    assert spread.median == statistics.median(values)
    assert spread.count == len(values)


def test_no_measurement_has_no_spread():
    with pytest.raises(ValueError, match="at least one"):
        timing.spread([])


seconds = st.integers(0, 20)
spans = st.lists(
    st.builds(
        lambda lane, start, length: Span(lane, "", start, start + length),
        st.sampled_from([timeline.COMPUTE, timeline.COMMUNICATION]), seconds, seconds,
    ),
    max_size=8,
)  # fmt: skip


@given(spans)
def test_hidden_share_counts_each_second_once(found):
    def busy(lane: str, second: int) -> bool:
        return any(span.lane == lane and span.start <= second < span.end for span in found)

    communicating = [second for second in range(40) if busy(timeline.COMMUNICATION, second)]
    both = [second for second in communicating if busy(timeline.COMPUTE, second)]
    expected = len(both) / len(communicating) if communicating else None
    share = timeline.hidden_share(found)
    assert share == (None if expected is None else pytest.approx(expected))


@pytest.fixture
def connection(monkeypatch):
    """Two ends of a TCP connection within this process, and what all its sockets had sent before."""
    monkeypatch.delenv("MASTER_PORT", raising=False)
    before = wire.tcp_bytes_sent()
    if before is None:
        pytest.skip("this kernel counts no bytes per socket")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            yield one, other, before


def test_bytes_sent_are_those_of_this_processs_sockets(connection, monkeypatch):
    one, other, before = connection
    one.sendall(b"x" * 12_345)
    assert len(other.recv(12_345, socket.MSG_WAITALL)) == 12_345
    assert wire.tcp_bytes_sent() - before == 12_345
    # What goes to torchrun's store is no data of the training.
    monkeypatch.setenv("MASTER_PORT", str(other.getsockname()[1]))
    assert wire.tcp_bytes_sent() == before


def test_bytes_count_as_sent_while_the_reader_is_slow(connection):
    one, _, before = connection
    one.setblocking(False)
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += one.send(b"x" * 65_536)
    assert wire.tcp_bytes_sent() - before == sent
