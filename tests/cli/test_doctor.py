from __future__ import annotations

from pathlib import Path

import pytest

from labtui.cli import output
from labtui.machine import doctor
from labtui.machine.doctor import Finding

OK = Finding("Python", "ok", "3.11.7")
NOTE = Finding("py-spy", "note", "not installed", "shows stacks", "pip install py-spy")
WARN = Finding("shared memory", "warn", "64 MB\x1b[2J", "NCCL needs it")
FAIL = Finding("ports", "fail", "none", "ranks meet there", "ip link set lo up")


@pytest.mark.parametrize(("findings", "code"), [((OK, NOTE), 0), ((OK, WARN), 0), ((FAIL, OK), 1)])
def test_the_exit_code_says_whether_something_will_break(labtui, monkeypatch, findings, code: int) -> None:
    monkeypatch.setattr(doctor, "examine", lambda logs: findings)
    assert labtui("doctor").code == code
    done = labtui("doctor", "--json")
    assert done.code == code
    assert [finding["level"] for finding in done.json] == [finding.level for finding in findings]
    assert set(done.json[0]) == {"name", "level", "found", "why", "advice"}


def test_what_was_found_why_it_matters_and_what_to_do(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda logs: (OK, WARN, FAIL))
    assert labtui("doctor").out.splitlines() == [
        "ok       Python         3.11.7",
        "WARNING  shared memory  64 MB",
        "                        NCCL needs it",
        "FAILS    ports          none",
        "                        ranks meet there",
        "                        -> ip link set lo up",
        "1 thing will break runs, 1 thing may slow them down or break them.",
    ]


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ((OK, NOTE), "Nothing here should break a run, or slow it down."),
        ((WARN, WARN), "2 things may slow runs down or break them."),
        ((FAIL,), "1 thing will break runs."),
    ],
)
def test_the_last_line_sums_up(labtui, monkeypatch, findings, verdict: str) -> None:
    monkeypatch.setattr(doctor, "examine", lambda logs: findings)
    assert labtui("doctor").out.splitlines()[-1] == verdict


@pytest.mark.parametrize("width", [20, 60, 80])
def test_on_a_terminal_long_texts_are_wrapped_beside_the_names(labtui, monkeypatch, width: int) -> None:
    long = Finding("peer access", "warn", "word " * 30 + "end", "why " * 30, "do " * 30)
    monkeypatch.setattr(doctor, "examine", lambda logs: (OK, long))
    monkeypatch.setattr(output, "line_width", lambda: width)
    lines = labtui("doctor").out.splitlines()[:-1]
    assert all(line.startswith((" " * 22, "ok ", "WARNING ")) for line in lines)
    assert max(map(len, lines)) <= max(width, 22 + 24)
    assert " ".join(lines).split().count("word") == 30


def test_this_machine_is_examined(labtui, own_folders: Path) -> None:
    done = labtui("doctor", "--json")
    found = {finding["name"]: finding for finding in done.json}
    assert {"torch", "shared memory", "ports", "logs"} <= set(found)
    assert str(own_folders) in found["logs"]["found"]
