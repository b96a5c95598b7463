"""Reading what grows: nothing is read twice, nothing is lost but a torn last line, and bad lines are counted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.runs import tail
from labtui.runs.folder import RunFolder, publish, stage
from labtui.runs.tail import EventTail, LineTail, LogIndex, parse_event, read_events

LETTERS = 'a\u00e9\u6f22\U0001f642\\"\t\x1b'
"""Characters of one to four bytes, and some that JSON escapes."""
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"t": st.floats(0, 2e9), "kind": st.sampled_from(["metric", "note", "result"])},
        optional={"text": st.text(LETTERS, max_size=8), "value": st.none() | st.floats(allow_nan=False)},
    ),
    max_size=12,
)


def encode(event: Any) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tail")


def fresh(folder: Path) -> RunFolder:
    return publish(stage(folder, "x", 0.0))


# Lines


def test_a_missing_file_is_empty_until_it_appears(tmp_path: Path) -> None:
    lines = LineTail(tmp_path / "later" / "file")
    assert lines.poll() == []
    (tmp_path / "later").mkdir()
    append(tmp_path / "later" / "file", b"one\ntw")
    assert lines.poll() == [b"one"]
    assert lines.poll() == []
    append(tmp_path / "later" / "file", b"o\n\n")
    assert lines.poll() == [b"two", b""]


@given(data=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=20), draw=st.data())
def test_any_split_of_the_stream_gives_the_same_lines(scratch: Path, data: list[bytes], draw: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in data)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    limit = draw.draw(st.integers(1, 50))
    path = scratch / "lines"
    path.write_bytes(b"")
    lines, read = LineTail(path), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        append(path, stream[start:end])
        read += lines.poll(limit)
        while lines.behind:
            read += lines.poll(limit)
    assert read == data


def test_a_poll_reads_no_more_than_its_bite(tmp_path: Path) -> None:
    path = tmp_path / "file"
    append(path, b"0123456789\n" * 100)
    lines = LineTail(path)
    assert len(lines.poll(110)) == 10
    assert lines.behind
    assert len(lines.poll()) == 90
    assert not lines.behind


def test_truncation_and_replacement_start_anew(tmp_path: Path) -> None:
    path = tmp_path / "file"
    append(path, b"first\nsecond\ntorn")
    lines = LineTail(path)
    assert lines.poll() == [b"first", b"second"]
    path.write_bytes(b"new\n")
    assert lines.poll() == [b"new"]
    (tmp_path / "other").write_bytes(b"replaced by a longer one\n")
    (tmp_path / "other").rename(path)
    assert lines.poll() == [b"replaced by a longer one"]


@given(cuts=st.lists(st.integers(0, 60), max_size=5))
def test_a_line_without_end_is_cut_and_bounded(scratch: Path, cuts: list[int]) -> None:
    stream = b"a\n" + b"x" * 50 + b"\nb\n"
    path = scratch / "long"
    path.write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "LONGEST_LINE", 10)
        lines, read = LineTail(path), []
        places = sorted({min(cut, len(stream)) for cut in cuts})
        for start, end in zip([0, *places], [*places, len(stream)], strict=True):
            append(path, stream[start:end])
            read += lines.poll()
            assert len(lines._pending) <= 10
    assert read == [b"a", b"x" * 10, b"b"]


def test_a_tail_may_start_near_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    append(path, b"".join(b"line %d\n" % n for n in range(1000)))
    lines = LineTail(path, from_end=30)
    assert lines.poll() == [b"line 997", b"line 998", b"line 999"]
    append(path, b"line 1000\n")
    assert lines.poll() == [b"line 1000"]


def test_what_is_no_regular_file_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert LineTail(tmp_path / "pipe").poll() == []
    assert LineTail(tmp_path).poll() == []


# Events


@given(events=EVENTS, draw=st.data())
def test_a_cut_at_any_byte_loses_only_the_torn_line(scratch: Path, events: list[Any], draw: st.DataObject) -> None:
    folder = fresh(scratch)
    stream = b"".join(encode(event) for event in events)
    cut = draw.draw(st.integers(0, len(stream)))
    folder.rank_events(3).write_bytes(stream[:cut])
    whole = stream[:cut].count(b"\n")
    read, bad = read_events(folder)
    assert read == [{**event, "rank": 3} for event in events[:whole]]
    assert bad == 0


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[1]", b"3", b"null", b'{"t": 1}', b'{"kind": 7}', b"\x00" * 40, b"\xff\xfe{}", b"[" * 100_000,
        b'{"kind": "note", "n": ' + b"9" * 5000 + b"}",
    ],
)  # fmt: skip
def test_a_bad_line_is_counted_and_hides_no_other(tmp_path: Path, line: bytes) -> None:
    folder = fresh(tmp_path)
    folder.rank_events(0).write_bytes(b'{"kind": "note", "text": "a"}\n' + line + b'\n{"kind": "note", "text": "b"}\n')
    events = EventTail(folder)
    assert [event["text"] for event in events.poll()] == ["a", "b"]
    assert events.bad_lines == 1
    assert events.counts == {0: 2}


@given(st.binary())
def test_no_line_raises(line: bytes) -> None:
    event = parse_event(line, 0)
    assert event is None or isinstance(event["kind"], str)


def test_new_ranks_are_picked_up(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    events = EventTail(folder)
    assert events.poll() == []
    append(folder.rank_events(0), b'{"kind": "note", "rank": 0}\n')
    assert [event["rank"] for event in events.poll()] == [0]
    append(folder.rank_events(11), b'{"kind": "note"}\n')
    append(folder.rank_events(0), b'{"kind": "note", "rank": 0}\n')
    append(folder.events / "rank1.jsonl.swp", b'{"kind": "note"}\n')
    assert [event["rank"] for event in events.poll()] == [0, 11]
    assert events.counts == {0: 2, 11: 1}


def test_events_may_be_missing_altogether(tmp_path: Path) -> None:
    assert read_events(RunFolder(tmp_path / "gone")) == ([], 0)


def test_reading_by_kind(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    append(folder.rank_events(0), b'{"kind": "note"}\nnonsense\n{"kind": "check"}\n{"kind": "note"}\n')
    events, bad = read_events(folder, {"check"})
    assert [event["kind"] for event in events] == ["check"]
    assert bad == 1


def test_an_unreadable_file_is_named_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fresh(tmp_path)
    append(folder.rank_events(0), b'{"kind": "note"}\n')
    append(folder.rank_events(1), b'{"kind": "note"}\n')
    real = os.open

    def refuse(path: Path, *rest: int) -> int:
        if Path(path).name == "rank0.jsonl":
            raise PermissionError(13, "Permission denied")
        return real(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    events = EventTail(folder)
    assert [event["rank"] for event in events.poll()] == [1]
    assert events.errors == {"rank0.jsonl": "Permission denied"}


# Logs


def shown(log: LogIndex) -> list[str]:
    return log.read(0, len(log))


@given(lines=st.lists(st.text(LETTERS, max_size=9)), draw=st.data())
def test_a_log_shows_all_lines_however_it_grew(scratch: Path, lines: list[str], draw: st.DataObject) -> None:
    stream = "\n".join(lines).encode()
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    path = scratch / "log"
    path.write_bytes(b"")
    log = LogIndex(path)
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        append(path, stream[start:end])
        log.poll()
    expected = lines[:-1] if lines and not lines[-1] else lines
    assert shown(log) == expected
    assert log.read(1, 2) == expected[1:3]


def test_a_progress_bar_shows_its_last_state(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"start\r\n 10 %\r 20 %")
    log = LogIndex(path)
    assert log.poll()
    assert shown(log) == ["start", " 20 %"]
    append(path, b"".join(b"\r %2d %%" % (n % 100) for n in range(5000)))
    assert log.poll()
    assert not log.poll()
    assert shown(log) == ["start", " 99 %"]


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"x" * 100_000 + b"\nshort\n")
    log = LogIndex(path)
    log.poll()
    long, short = shown(log)
    assert long == "x" * tail.LONGEST_SHOWN + "..."
    assert short == "short"


def test_a_log_that_is_truncated_or_removed_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogIndex(path)
    assert not log.poll()
    append(path, b"one\ntwo\n")
    assert log.poll()
    path.write_bytes(b"new")
    assert log.poll()
    assert shown(log) == ["new"]
    path.unlink()
    assert log.poll()
    assert shown(log) == []


def test_a_huge_log_is_indexed_near_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "LOG_REACH", 100)
    monkeypatch.setattr(tail, "LOG_LINES", 20)
    path = tmp_path / "log"
    append(path, b"".join(b"line %03d\n" % n for n in range(500)))
    log = LogIndex(path)
    log.poll()
    assert shown(log)[0] == "line 489"
    assert shown(log)[-1] == "line 499"
    assert log.skipped == 489 * 9
    append(path, b"".join(b"line %03d\n" % n for n in range(500, 515)))
    log.poll()
    assert len(log) < 20
    assert shown(log)[-1] == "line 514"


def test_indexing_stops_when_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "BITE", 64)
    path = tmp_path / "log"
    append(path, b"123456789\n" * 1000)
    log = LogIndex(path)
    log.poll(seconds=0)
    assert log.behind
    assert 0 < len(log) < 1000
    while log.behind:
        log.poll()
    assert len(log) == 1000
