"""What would take for ever, or too much, is refused or left out; and what is usual is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.conftest import labtui, make_run
from fuzz.hostile import write_lines

from labtui.catalog.guide import parse_guide
from labtui.catalog.reading import CatalogError, parse_toml
from labtui.export import table, trace
from labtui.machine.nccl import Reader
from labtui.runs import closing, query
from labtui.runs.folder import LARGEST_RECORD, read_json, write_json
from labtui.runs.index import open_index
from labtui.runs.json_text import DEEPEST, objects, parse
from labtui.runs.records import RecordError, Request, Status

__all__ = ["labtui", "make_run"]


@pytest.mark.parametrize("opening", ["[", '{"a":', '[[],{"a":[]},', '{"a":[],"b":'])
def test_what_is_nested_too_deeply_is_refused(opening: str) -> None:
    closing_bracket = "]" if opening[0] == "[" else "}"
    inner = DEEPEST - 1 if opening in ("[", '{"a":') else DEEPEST - 3
    for depth, fits in ((1, True), (inner, True), (DEEPEST + 1, False), (500, False), (100_000, False)):
        text = opening * depth + "0" + closing_bracket * depth
        if fits:
            assert parse(text.encode(), 10**6) == json.loads(text)
        else:
            with pytest.raises(ValueError, match="nested too deeply"):
                parse(text.encode(), 10**6)


def test_much_that_is_flat_is_no_matter() -> None:
    assert len(parse(json.dumps([{"a": [n]} for n in range(9000)]).encode())) == 9000
    with pytest.raises(ValueError, match="more than 20,000 lists and objects"):
        parse(json.dumps([{}] * 20_000).encode())


def test_objects_of_what_is_no_list() -> None:
    assert objects([{"a": 1}, 2, None, {}]) == [{"a": 1}, {}]
    assert [objects(value) for value in (None, 3, "ab", {"a": {}})] == [[]] * 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nproc": 10**30}, f"run.json: nproc is {10**30}, which can't be"),
        ({"created": float("inf")}, "run.json: created is inf, which can't be"),
        ({"created": 10**400}, "run.json: created is a number of many digits, which can't be"),
        ({"command": ["a", 1]}, "run.json: command holds int, text expected"),
        ({"environment": {"a": None}}, "run.json: environment holds NoneType, text expected"),
        ({"link": {"rate_bits": 0}}, "run.json: link has no rate_bits above 0"),
        ({"link": {"rate_bits": "x"}}, "run.json: link: rate_bits is str, int or float expected"),
    ],
)
def test_a_request_holds_what_its_readers_rely_on(make_run, change: dict[str, object], sentence: str) -> None:
    document = make_run().request().document()
    with pytest.raises(RecordError) as error:
        Request.read({**document, **change})
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"checks": ["x"]}, "status.json: checks holds str, an object expected"),
        ({"events": {"rank0": "many"}}, "status.json: events holds str, int expected"),
        ({"started": float("nan")}, "status.json: started is nan, which can't be"),
    ],
)
def test_a_status_holds_what_its_readers_rely_on(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(RecordError) as error:
        Status.read({"state": "failed", "created": 1.0, **change})
    assert str(error.value) == sentence


def test_a_last_word_can_be_read_however_much_was_reported(make_run) -> None:
    folder = make_run()
    write_lines(folder.rank_events(0), [{"kind": "result", "name": f"r{n}", "text": "x" * 20_000} for n in range(500)])
    status = closing.gather(folder, folder.status(), ())
    assert 50 < len(status.results) < 200 and status.events["rank0"] == 500
    write_json(folder.status_file, status.document())
    assert folder.status_file.stat().st_size < LARGEST_RECORD
    assert folder.status() == status
    assert isinstance(read_json(folder.status_file), dict)


def test_a_query_of_thousands_of_words_leaves_the_index_alone(make_run, own_folders: Path) -> None:
    folder = make_run()
    index = open_index(own_folders)
    for text in (" ".join(f"w{n}" for n in range(5000)), "-a=1 " * 5000, " ".join(f"-w{n}" for n in range(5000))):
        found = index.newest(query=query.parse(text))
        assert [row.id for row in found] == ([] if text.startswith("w") else [folder.id])
        assert index.trouble == ""
    index.close()


def test_a_log_of_thousands_of_containers_is_read_at_once() -> None:
    """In a container every process may have the same pid; comparing each name with each took minutes."""
    reader = Reader()
    for host in range(16_000):
        reader.feed(b"host-%d:7:7 [0] NCCL INFO NCCL version 2.27.5\n" % host)
    assert reader.report().document()["kind"] == "nccl"


def test_messages_that_stand_close_are_told_apart_quickly() -> None:
    reader = Reader()
    reader.feed(b"NCCL INFO NCCL WARN odd " * 40_000 + b"\n")
    reader.finish()
    assert reader.report().document()["warnings"]


def test_more_columns_than_a_table_has_are_refused(make_run) -> None:
    folder = make_run()
    write_lines(folder.rank_events(0), [{"kind": "metric", "value": 1, "labels": {f"l{n}": 1}} for n in range(600)])
    with pytest.raises(RecordError, match="more than 512 different labels make no table: --format json holds them all"):
        list(table.events([folder]))


def test_more_lanes_than_a_trace_shows_are_put_together(make_run) -> None:
    folder = make_run()
    spans = [{"kind": "span", "name": "s", "lane": f"l{n}", "start": n, "end": n + 1} for n in range(2000)]
    write_lines(folder.rank_events(0), spans)
    events = json.loads(trace.text(folder))["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 2000, "none is lost"
    assert sum(event["name"] == "thread_name" for event in events) <= trace.MOST_LINES + 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a." * 1000 + "a = 1", "x: a key has a hundred parts and more, a few expected"),
        ('[ "a" . ' + "'b' . " * 200 + "c]", "x: a key has a hundred parts and more, a few expected"),
        ("a = " + "9" * 5000, "x is no valid TOML: a number has a thousand digits and more"),
    ],
)
def test_toml_that_takes_for_ever(text: str, sentence: str) -> None:
    with pytest.raises(CatalogError) as error:
        parse_toml("x", text)
    assert str(error.value) == sentence


def test_usual_toml_is_read_whatever_its_texts_hold() -> None:
    text = 'a.b.c = "' + "one two. three. four five. " * 500 + '"\nd = "a.b.c.d"\ne = [' + "1.5, " * 500 + "]\n"
    assert parse_toml("x", text)["a"]["b"]["c"].startswith("one two.")


def test_a_guide_of_thousands_of_blocks() -> None:
    blocks = "".join(f'```run\nid = "a{n}"\n```\n' for n in range(1001))
    with pytest.raises(CatalogError, match="it is the block after 1,000 others, a guide for people expected"):
        parse_guide("# G\n\n## S\n" + blocks)
