from __future__ import annotations

from pathlib import Path

import pytest

from labtui.machine import doctor
from labtui.machine.doctor import Finding

OK = Finding("Python", "ok", "3.11.7")
NOTE = Finding("py-spy", "note", "not installed", "shows stacks", "pip install py-spy")
WARN = Finding("shared memory", "warn", "64 MB\x1b[2J", "NCCL needs it")
FAIL = Finding("ports", "fail", "none", "ranks meet there", "ip link set lo up")


@pytest.mark.parametrize(("findings", "code"), [((OK, NOTE), 0), ((OK, WARN), 1), ((FAIL, OK), 1)])
def test_the_exit_code_says_whether_something_will_go_wrong(labtui, monkeypatch, findings, code: int) -> None:
    monkeypatch.setattr(doctor, "examine", lambda logs: findings)
    assert labtui("doctor").code == code
    done = labtui("doctor", "--json")
    assert done.code == code
    assert [finding["level"] for finding in done.json] == [finding.level for finding in findings]


def test_what_was_found_why_it_matters_and_what_to_do(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda logs: (OK, WARN, FAIL))
    assert labtui("doctor").out.splitlines() == [
        "ok       Python         3.11.7",
        "WARNING  shared memory  64 MB",
        "                        NCCL needs it",
        "FAILS    ports          none",
        "                        ranks meet there",
        "                        -> ip link set lo up",
    ]


def test_this_machine_is_examined(labtui, own_folders: Path) -> None:
    done = labtui("doctor", "--json")
    found = {finding["name"]: finding for finding in done.json}
    assert {"torch", "shared memory", "ports", "logs"} <= set(found)
    assert str(own_folders) in found["logs"]["found"]
