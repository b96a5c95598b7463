"""The sampler: its process's protocol, and what it says about ranks."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine import sampler
from labtui.machine.sampler import Rank, Sampler, Watched, read_watched

COMMAND = [sys.executable, "-m", "labtui.machine.sampler"]


class Running:
    """A sampler process, spoken to as an agent does."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def tell(self, document: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((document if isinstance(document, str) else json.dumps(document)).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def sample(self) -> dict[str, Any]:
        """The next telemetry line; the machine's second line may stand before it."""
        return self.sample_where(lambda sample: True)

    def sample_where(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while "machine" in (line := self.line()) or not condition(line):
            pass
        return line

    def end(self) -> tuple[int, str]:
        """Closes its stdin; its exit code and stderr."""
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors.decode()


@pytest.fixture
def running() -> Iterator[Running]:
    process = Running("--interval", "0.05")
    yield process
    process.process.kill()
    process.process.communicate()


def ticks_of(pid: int) -> int:
    return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])


def this_process(rank: int = 0) -> dict[str, int]:
    return {"rank": rank, "pid": os.getpid(), "start": ticks_of(os.getpid())}


def test_machine_first_then_samples(running: Running) -> None:
    assert running.line()["machine"]["host"] == os.uname().nodename
    first, second = running.sample(), running.sample()
    assert first["gpus"] == first["ranks"] == []
    assert "cpu" not in first["host"] and "net" not in first["host"], "rates need two readings"
    assert 0 <= second["host"]["cpu"] <= 100
    assert "lo" in second["host"]["net"]
    assert second["t"] > first["t"]
    assert running.end() == (0, "")


def test_nvml_adds_a_second_word_about_the_machine(running: Running) -> None:
    first = running.line()["machine"]
    while "machine" not in (line := running.line()):
        pass
    second = line["machine"]
    assert second["host"] == first["host"] and second["gpus"] == []
    assert second["gpus_why"], "why there are none"


def test_watches_the_ranks_it_was_told_last(running: Running) -> None:
    running.line()
    running.tell({"ranks": [this_process(3)], "torchrun": os.getpid()})
    line = running.sample_where(lambda line: bool(line["ranks"]) and "uss" in line["ranks"][0])
    (rank,) = line["ranks"]
    assert (rank["rank"], rank["pid"]) == (3, os.getpid())
    assert rank["cpu"] >= 0
    assert 0 < rank["uss"] <= rank["rss"] < psutil.virtual_memory().total
    running.tell({"ranks": [], "torchrun": None})
    running.sample_where(lambda line: not line["ranks"])
    assert running.end() == (0, "")


def test_a_bad_line_is_named_and_the_last_good_one_stays(running: Running) -> None:
    running.line()
    running.tell({"ranks": [this_process()]})
    running.sample_where(lambda line: bool(line["ranks"]))
    running.tell("nonsense")
    assert running.process.stderr is not None
    assert b"the line is no JSON" in running.process.stderr.readline()
    assert running.sample()["ranks"]
    assert running.sample()["ranks"]


def test_the_first_sample_does_not_wait_for_the_interval() -> None:
    process = Running("--interval", "600")
    process.line()
    assert "host" in process.sample()
    assert process.end() == (0, "")


def test_ends_when_nobody_reads(running: Running) -> None:
    running.line()
    assert running.process.stdout is not None
    running.process.stdout.close()
    assert running.process.wait(timeout=20) == 0


def test_ends_at_once_when_nobody_reads_between_two_samples() -> None:
    process = Running("--interval", "600")
    process.line()
    process.line()
    assert process.process.stdout is not None
    process.process.stdout.close()
    assert process.process.wait(timeout=20) == 0


def test_dies_with_its_parent_even_if_others_hold_its_pipes() -> None:
    starter = (
        "import subprocess, sys; child = subprocess.Popen(sys.argv[1:]); print(child.pid, flush=True); child.wait()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", starter, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = None
    machine = False
    while pid is None or not machine:  # the machine's line comes after it has tied itself to its parent
        line = parent.stdout.readline()
        machine = machine or "machine" in line
        pid = int(line) if line.strip().isdecimal() else pid
    ended = os.pidfd_open(pid)
    try:
        parent.kill()
        assert select.select([ended], [], [], 20)[0], "the sampler outlived its parent"
    finally:
        os.close(ended)
        parent.communicate()


def test_a_slow_reader_makes_it_skip_samples() -> None:
    assert sampler.next_due(due=10.0, interval_s=1.0, now=10.002) == 11.0
    late = sampler.next_due(due=10.0, interval_s=1.0, now=14.5)
    assert late == 14.5, "one at once"
    assert sampler.next_due(late, interval_s=1.0, now=14.51) == 15.5, "and no others in a hurry"


@pytest.mark.parametrize("interval", ["0", "nan", "-1", "soon"])
def test_a_bad_interval_is_one_sentence(interval: str) -> None:
    done = subprocess.run(
        [*COMMAND, f"--interval={interval}"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert f"{interval} is no number of seconds from 0.05 to 3600" in done.stderr


# Without a process of its own ---------------------------------------------------------------------------------------


def a_stat(proc: Path, pid: int, *, start: int, ticks: int = 100, pages: int = 2, state: str = "S") -> None:
    fields = [state, *["0"] * 10, str(ticks), "0", *["0"] * 6, str(start), "0", str(pages), *["0"] * 28]
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a (strange) name) " + " ".join(fields))


def test_ranks_that_are_gone_or_reused_are_left_out(tmp_path: Path) -> None:
    a_stat(tmp_path, 10, start=5)
    a_stat(tmp_path, 11, start=6)
    a_stat(tmp_path, 12, start=7, state="Z")
    (tmp_path / "13").mkdir()
    (tmp_path / "13/stat").write_bytes(b"13 (torn) S 1")
    watched = Watched((Rank(0, 10, 5), Rank(1, 11, 999), Rank(2, 12, 7), Rank(3, 13, 8), Rank(4, 14, 9)))
    sample = Sampler(proc=tmp_path, watched=watched).sample()
    assert [rank["rank"] for rank in sample["ranks"]] == [0]


def test_memory_at_once_cpu_from_the_second_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(sampler.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(Sampler, "_next_for_uss", lambda self: None)
    a_stat(tmp_path, 10, start=5, ticks=100, pages=3)
    watching = Sampler(proc=tmp_path, watched=Watched((Rank(0, 10, 5),)))
    assert watching._ranks() == [{"rank": 0, "pid": 10, "rss": 3 * os.sysconf("SC_PAGE_SIZE")}]
    a_stat(tmp_path, 10, start=5, ticks=100 + 3 * os.sysconf("SC_CLK_TCK"), pages=4)
    (rank,) = watching._ranks()
    assert rank["cpu"] == 150.0, "3 s of CPU time within 2 s"
    assert rank["rss"] == 4 * os.sysconf("SC_PAGE_SIZE")


def test_uss_is_read_for_one_rank_per_sample_and_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(sampler.time, "monotonic", lambda: now[0])
    start = ticks_of(os.getpid())
    watching = Sampler(watched=Watched(tuple(Rank(number, os.getpid(), start) for number in range(3))))
    seen: list[tuple[float, list[int]]] = []
    for _ in range(26):
        seen.append((now[0], [rank["rank"] for rank in watching._ranks() if "uss" in rank]))
        now[0] += 1.0
    assert [rank for _, ranks in seen for rank in ranks] == [0, 1, 2] * 3
    assert all(len(ranks) <= 1 for _, ranks in seen)
    times = [t for t, ranks in seen if ranks == [0]]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [10.0, 10.0]


def test_a_process_that_may_not_be_looked_into_has_no_uss(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: psutil.Process) -> None:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refuse)
    watching = Sampler(watched=Watched((Rank(0, os.getpid(), ticks_of(os.getpid())),)))
    watching._ranks()
    (rank,) = watching._ranks()
    assert "uss" not in rank and rank["rss"] > 0


def test_nothing_is_remembered_of_ranks_no_longer_watched() -> None:
    watching = Sampler(watched=Watched((Rank(0, os.getpid(), ticks_of(os.getpid())),)))
    watching.sample()
    watching.watched = Watched()
    watching.sample()
    assert not watching._cpu and not watching._uss_read


def test_reads_what_the_agent_says() -> None:
    line = '{"ranks": [{"rank": 0, "pid": 419, "start": 88190, "extra": 1}], "torchrun": 412}'
    assert read_watched(line) == Watched((Rank(0, 419, 88190),), 412)
    assert read_watched("{}") == Watched()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("[]", "no object"),
        ('{"ranks": 3}', "no object with a list"),
        ('{"ranks": [{"rank": 0, "pid": "x", "start": 1}]}', '"pid" is "x"'),
        ('{"ranks": [7]}', '"rank" is null'),
        ('{"torchrun": true}', '"torchrun" is true'),
        ("{", "no JSON"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_watched(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["rank", "pid", "start", "ranks"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["ranks", "torchrun", "more"]), json_values).map(json.dumps) | st.binary())
def test_no_line_raises_anything_but_a_sentence(line: str | bytes) -> None:
    try:
        read_watched(line)
    except ValueError as error:
        assert "\n" not in str(error)
