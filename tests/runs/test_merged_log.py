"""Several logs as one: whose line stands where."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.runs import merged_log, tail
from labtui.runs.merged_log import Looks, MergedLog


def paths(folder: Path, **texts: str) -> dict[str, Path]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: folder / name for name in texts}


def add(folder: Path, name: str, text: str) -> None:
    with (folder / name).open("a") as file:
        file.write(text)


def all_of(log: MergedLog) -> list[tuple[str, str]]:
    log.poll(1.0)
    assert not log.behind
    return log.read_named(0, len(log))


def test_lines_stand_in_the_order_of_the_looks(tmp_path: Path) -> None:
    looks = Looks()
    files = paths(tmp_path, a="a1\n", b="b1\nb2\n")
    looks.add({"a": 3, "b": 6}, 1.0)
    looks.add({"a": 3, "b": 6}, 2.0)
    add(tmp_path, "b", "b3\n")
    looks.add({"a": 3, "b": 9}, 3.0)
    add(tmp_path, "a", "a2\na3\n")
    looks.add({"a": 9, "b": 9}, 4.0)
    log = MergedLog(files, looks)
    assert [text for _, text in all_of(log)] == ["a1", "b1", "b2", "b3", "a2", "a3"]
    assert log.since == 1.0
    add(tmp_path, "b", "b4\n")
    assert all_of(log)[-1] == ("b", "b4")
    add(tmp_path, "a", "a4 unfinished")
    assert all_of(log)[-1] == ("a", "a4 unfinished")
    add(tmp_path, "b", "b5\n")
    add(tmp_path, "a", ", now done\na5\n")
    assert [text for _, text in all_of(log)[-3:]] == ["a4 unfinished, now done", "a5", "b5"]


def test_what_nobody_saw_arrive_stands_file_by_file(tmp_path: Path) -> None:
    log = MergedLog(paths(tmp_path, a="a1\na2\n", b="b1\n"), Looks())
    assert all_of(log) == [("a", "a1"), ("a", "a2"), ("b", "b1")]
    assert log.since is None


def test_pieces_of_it_are_read_and_looked_through(tmp_path: Path) -> None:
    log = MergedLog(paths(tmp_path, a="a1\na2\na3\n", b="b1\nb2\n"), Looks())
    assert all_of(log)[1:4] == log.read_named(1, 3)
    assert log.read(3, 10) == ["b1", "b2"]
    assert log.stretch(0, 1, 1 << 16) == (0, 3), "no further than its file"
    assert log.stretch(4, -1, 1 << 16) == (3, 5)
    assert log.raw(3, 5, 1 << 16) == b"b1\nb2\n"
    assert log.stretch(1, 1, 1)[0] == 1


def test_a_file_that_is_replaced_goes_on_with_its_new_lines(tmp_path: Path) -> None:
    log = MergedLog(paths(tmp_path, a="a1\na2\n", b="b1\n"), Looks())
    assert len(all_of(log)) == 3
    (tmp_path / "new").write_text("again\n")
    (tmp_path / "new").replace(tmp_path / "a")
    assert all_of(log)[-1] == ("a", "again")


def test_what_an_index_forgot_is_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "LOG_LINES", 8)
    log = MergedLog(paths(tmp_path, a="".join(f"{n}\n" for n in range(6))), Looks())
    assert len(all_of(log)) == 6
    add(tmp_path, "a", "".join(f"{n}\n" for n in range(6, 10)))
    assert [text for _, text in all_of(log)] == ["", "", "", "", "4", "5", "6", "7", "8", "9"]


def test_looks_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_log, "LOOKS", 10)
    looks = Looks()
    for n in range(100):
        looks.add({"a": n}, float(n))
    assert len(list(looks)) <= 11
    assert list(looks)[-1] == {"a": 99}
