"""Who waits for whom, from texts as faulthandler, py-spy and torch's recorder write them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labtui.runs.hang import Collective, Frame, RankView, explain, parse_flight_record, parse_stack

FAULTHANDLER = """\
Thread 0x00007f31 (most recent call first):
  <no Python frame>

Current thread 0x00007f3183bdab80 (most recent call first):
  File "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2800 in all_reduce
  File "/home/ann/train.py", line 12 in step
  File "/home/ann/train.py", line 40 in <module>
"""
SERVER = """\
Current thread 0x00007f3162ffd6c0 (most recent call first):
  <no Python frame>

Thread 0x00007f3183bdab80 (most recent call first):
  File "/home/ann/train.py", line 13 in <module>
"""
PY_SPY = """\
Process 123: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 123 (active): "MainThread"
    load (data.py:7)
    <module> (train.py:3)
Thread 124 (idle): "pin"
    wait (threading.py:320)
"""


def view(rank: int, *, waits: bool | None = None, **kw: object) -> RankView:
    place = Frame("/home/ann/train.py", 10 + rank, "step")
    collective = Frame("/x/torch/distributed/c10d.py", 1, "all_reduce")
    stack = {True: (collective, place), False: (place,), None: ()}[waits]
    return RankView(rank, stack, **kw)  # type: ignore[arg-type]


def test_the_main_threads_frames_are_found_in_each_kind_of_text() -> None:
    assert str(parse_stack(FAULTHANDLER)[1]) == "train.py:12 in step"
    assert [str(frame) for frame in parse_stack(SERVER)] == ["train.py:13 in <module>"]
    assert str(parse_stack(PY_SPY)[0]) == "data.py:7 in load"
    assert parse_stack("nothing of that kind") == ()


def test_the_newest_of_several_dumps_counts() -> None:
    second = FAULTHANDLER.replace("line 12", "line 99")
    assert str(parse_stack(FAULTHANDLER + "\n" + second)[1]) == "train.py:99 in step"


def test_the_place_is_in_the_users_own_code() -> None:
    assert str(RankView(0, parse_stack(FAULTHANDLER)).place) == "train.py:12 in step"


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str) -> None:
    parse_stack(text)


def entry(sequence: int, name: str, retired: bool) -> dict[str, object]:
    return {"collective_seq_id": sequence, "profiling_name": f"gloo:{name}", "retired": retired,
            "process_group": ["0", "default_pg"], "is_p2p": False}  # fmt: skip


def test_the_oldest_collective_not_ended_holds_the_rank() -> None:
    entries = [entry(1, "broadcast", True), entry(2, "all_reduce", False), entry(3, "all_reduce", False)]
    assert parse_flight_record({"entries": entries}) == Collective("0", 2, "all_reduce", False)
    assert parse_flight_record({"entries": entries[:1]}) == Collective("0", 1, "broadcast", True)
    assert parse_flight_record({"entries": []}) is None


def test_the_rank_that_did_not_come_is_named() -> None:
    views = [view(0, waits=True), view(1, waits=False), view(2, waits=True)]
    assert explain(views) == "ranks 0 and 2 wait in train.py:10 in step and train.py:12 in step for rank 1: " \
                             "it is at train.py:11 in step"  # fmt: skip


def test_the_record_tells_where_python_shows_no_torch_frame() -> None:
    """work.wait() is C++: the innermost Python frame is the user's own line."""
    waiting = view(0, waits=False, collective=Collective("0", 4, "all_reduce", False), recorded=True)
    missing = view(1, waits=False, collective=Collective("0", 3, "all_reduce", True), recorded=True)
    assert explain([waiting, missing]) == (
        "rank 0 waits in all_reduce #4 (train.py:10 in step) for rank 1: it is at train.py:11 in step"
    )


def test_an_ended_rank_is_waited_for() -> None:
    assert explain([view(0, waits=True), view(1, ended=True)]).endswith("for rank 1: it has ended")


def test_a_stopped_rank_is_what_the_others_wait_for() -> None:
    stopped = view(1, stopped=True)
    assert explain([view(0, waits=True), stopped]).endswith("for rank 1: it is stopped (SIGSTOP)")
    assert explain([view(0, waits=False), stopped]) == "rank 1 is stopped (SIGSTOP)"


def test_different_collectives_are_called_what_they_are() -> None:
    views = [
        view(0, waits=True, collective=Collective("0", 7, "all_reduce", False), recorded=True),
        view(1, waits=True, collective=Collective("0", 7, "broadcast", False), recorded=True),
    ]
    assert "in different collectives: rank 0 in all_reduce #7; rank 1 in broadcast #7" in explain(views)


def test_a_rank_one_collective_behind_is_named() -> None:
    views = [
        view(0, waits=True, collective=Collective("0", 8, "all_reduce", False), recorded=True),
        view(1, waits=True, collective=Collective("0", 7, "all_reduce", False), recorded=True),
    ]
    assert explain(views) == "rank 1 still waits in all_reduce #7 while rank 0 is already in all_reduce #8"


def test_a_run_that_moves_does_not_hang() -> None:
    """Its ranks were asked one after the other: one seems to wait in what the other has left behind."""
    was, now = Collective("0", 990, "barrier", False), Collective("0", 995, "all_reduce", False)
    views = [
        view(0, waits=True, collective=now, before=was, recorded=True),
        view(1, waits=True, collective=was, before=was, recorded=True),
    ]
    assert explain(views) == "rank 0 moves on, from barrier #990 to all_reduce #995 while they were looked at"


def test_when_all_wait_the_transport_is_to_blame() -> None:
    same = Collective("0", 7, "all_reduce", False)
    views = [RankView(rank, (Frame("/a/train.py", 3, "step"),), same, True) for rank in range(2)]
    assert explain(views).startswith("all ranks wait in all_reduce #7 (train.py:3 in step): no rank is missing")


def test_unknown_stays_unknown() -> None:
    assert explain([]) == "no rank was found"
    assert explain([view(0, why="no means")]) == "the stack of rank 0 can't be read: no means"
    assert "probably for rank 1, whose stack can't be read" in explain([view(0, waits=True), view(1)])
    assert explain([view(0, waits=False)]) == "no rank waits for another: rank 0 is at train.py:10 in step"
