from __future__ import annotations

from pathlib import Path

import pytest

from labtui.cli import logs
from labtui.runs.clean import RESET
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import RunProcess


def ranks(folder: RunFolder, count: int = 2) -> tuple[RunProcess, ...]:
    """Rank processes with a log for each stream, which says who wrote it."""
    found = []
    for rank in range(count):
        place = folder.ranks / str(rank)
        place.mkdir()
        for stream in ("stdout", "stderr"):
            (place / f"{stream}.log").write_text(f"rank {rank} on {stream}\n")
        paths = {stream: f"ranks/{rank}/{stream}.log" for stream in ("stdout", "stderr")}
        found.append(RunProcess("rank", 100 + rank, 1, rank=rank, local_rank=rank, **paths))
    return tuple(found)


@pytest.fixture
def printed(make_run) -> RunFolder:
    """A run whose two ranks and whose command have printed something."""
    folder = make_run()
    put(folder, ranks(folder))
    folder.output.write_text("torchrun says bye\n")
    return folder


def put(folder: RunFolder, processes: tuple[RunProcess, ...], state: str = "succeeded") -> None:
    write_json(
        folder.status_file,
        {"state": state, "created": 1.0, "processes": [process.document() for process in processes]},
    )


def test_all_ranks_with_who_said_what(labtui, printed: RunFolder) -> None:
    done = labtui("logs", "last")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "[0] rank 0 on stdout",
        "[0] rank 0 on stderr",
        "[1] rank 1 on stdout",
        "[1] rank 1 on stderr",
        "[-] torchrun says bye",
    ]


def test_one_rank_and_one_stream(labtui, printed: RunFolder) -> None:
    assert labtui("logs", "last", "--rank", "1").out == "rank 1 on stdout\nrank 1 on stderr\n"
    assert labtui("logs", "last", "--rank", "0", "--stream", "stderr").out == "rank 0 on stderr\n"
    assert labtui("logs", "last", "--stream", "stdout").out.splitlines() == [
        "[0] rank 0 on stdout",
        "[1] rank 1 on stdout",
        "[-] torchrun says bye",
    ]


def test_json_has_every_log_as_it_is(labtui, printed: RunFolder) -> None:
    (printed.ranks / "0/stdout.log").write_bytes(b"\x1b[31mred\xff\n")
    document = labtui("logs", "last", "--json").json
    assert document["id"] == printed.id
    assert document["logs"][0] == {
        "rank": 0, "stream": "stdout", "file": "ranks/0/stdout.log", "text": "\x1b[31mred\ufffd\n",
    }  # fmt: skip
    assert document["logs"][-1] == {"rank": None, "stream": "both", "file": "output.log", "text": "torchrun says bye\n"}
    assert "take one of them" in labtui("logs", "last", "--json", "--follow").sentence


def test_a_rank_that_is_not_there(labtui, printed: RunFolder, make_run) -> None:
    for follow in ([], ["--follow"]):
        assert labtui("logs", "last", "--rank", "7", *follow).sentence == f"{printed.id} has no rank 7, only 0, 1"
    folder = make_run("failed")
    assert labtui("logs", "last", "--rank", "0").sentence.startswith(f"{folder.id} is failed: no rank has printed")


def test_a_run_that_printed_nothing(labtui, make_run) -> None:
    folder = make_run("stopped")
    done = labtui("logs", "last")
    assert (done.code, done.out, done.err) == (0, "", f"labtui: {folder.id} is stopped and has printed nothing\n")


def test_one_file_for_both_streams_is_read_once(labtui, make_run) -> None:
    folder = make_run()
    (folder.ranks / "all.log").write_text("once\n")
    put(folder, (RunProcess("rank", 1, 1, rank=0, stdout="ranks/all.log", stderr="ranks/all.log"),))
    assert labtui("logs", "last", "--stream", "stderr").out == "[0] once\n"


@pytest.mark.parametrize("path", ["../../secret", "/etc/passwd", "ranks/link", "a\0b"])
def test_a_log_outside_the_folder_is_none_of_the_runs(labtui, make_run, tmp_path: Path, path: str) -> None:
    """A folder that somebody sent may name any path."""
    folder = make_run()
    (tmp_path / "secret").write_text("secret\n")
    (folder.ranks / "link").symlink_to(tmp_path / "secret")
    put(folder, (RunProcess("rank", 1, 1, rank=0, stdout=path),))
    done = labtui("logs", "last")
    assert (done.code, done.out) == (0, "")
    assert labtui("logs", "last", "--rank", "0").sentence == f"{folder.id} keeps no log of rank 0"


HOSTILE = b"\x1b]0;title\x07\x1b[2J\x1b[1;31mred\x1b[0m \x9bplain\n10%\r20%\r\nno end"


def test_nothing_raw_reaches_what_is_no_terminal(labtui, printed: RunFolder) -> None:
    (printed.ranks / "0/stdout.log").write_bytes(HOSTILE)
    assert labtui("logs", "last", "--rank", "0", "--stream", "stdout").out == "red \ufffdplain\n20%\nno end\n"


def test_a_terminal_gets_colours_and_nothing_else(labtui, printed: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (printed.ranks / "0/stdout.log").write_bytes(b"\x1b[2J\x1b[1;31mred\nplain\n")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    # The line's colour ends with the line.
    assert labtui("logs", "last", "--rank", "0", "--stream", "stdout").out == f"\x1b[1;31mred{RESET}\nplain\n"


def test_follow_goes_on_until_the_run_has_ended(labtui, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run("running")
    started = folder.status()
    processes = ranks(folder, 3)
    first = folder.path / str(processes[0].stdout)
    looks = 0

    def grow(seconds: float) -> None:
        """What happens between two looks."""
        nonlocal looks
        looks += 1
        document = started.document()
        if looks == 1:
            with first.open("a") as file:
                file.write("a line in two ")
        elif looks == 2:
            with first.open("a") as file:
                file.write("pieces\n")
            # Another rank announces itself.
            document["processes"] = [process.document() for process in processes[:2]]
        else:
            with first.open("a") as file:
                file.write("last words without an end")
            folder.output.write_text("bye\n")
            document = {**document, "state": "failed", "ended": started.created + 9}
            document["processes"] = [process.document() for process in processes]
        write_json(folder.status_file, document)

    write_json(folder.status_file, {**started.document(), "processes": [processes[0].document()]})
    monkeypatch.setattr("labtui.cli.logs.pause", grow)
    done = labtui("logs", "last", "--follow")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "[0] rank 0 on stdout",
        "[0] rank 0 on stderr",
        "[0] a line in two pieces",
        "[1] rank 1 on stdout",
        "[1] rank 1 on stderr",
        "[2] rank 2 on stdout",
        "[2] rank 2 on stderr",
        "[-] bye",
        "[0] last words without an end",
    ]


def test_a_log_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a piece ends, no line is lost, split or printed twice."""
    monkeypatch.setattr(logs, "BITE", 3)
    path = tmp_path / "log"
    log = logs.Log(path)
    assert list(log.lines()) == []
    path.write_bytes(b"one\r\n\ntwo")
    assert list(log.lines()) == ["one", ""]
    with path.open("ab") as file:
        file.write(b" more\n  3%\r 90%\r")
    assert list(log.lines()) == ["two more"]
    with path.open("ab") as file:
        file.write(b"100%")
    assert list(log.lines()) == []
    assert list(log.rest()) == ["100%"]
    assert list(log.rest()) == []


def test_a_line_without_an_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONGEST", 4)
    (tmp_path / "log").write_bytes(b"abcdefghij")
    log = logs.Log(tmp_path / "log")
    assert [*log.lines(), *log.rest()] == ["abcd", "efgh", "ij"]
