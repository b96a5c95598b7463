"""Runs on a shaped link: what is written down, what the ranks see, what is refused, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from lab import assert_nothing_left, end, launch, running, torchrun, until

from labtui.catalog.sources import find
from labtui.machine import link
from labtui.runs import control, lost, process, start, state
from labtui.runs.folder import RunFolder
from labtui.runs.records import FAILED, LOST, SUCCEEDED
from labtui.runs.start import Options, StartError

EXPERIMENT = """
    format = 1
    title = "Near"
    question = "Who is near?"
    topic = "communication"
    launch = "torchrun"
    devices = ["cpu", "cuda"]
    minutes = 0.1
    [processes]
    default = 2
    [variants.shaped]
    title = "on a link"
    link = "100mbit"
"""
# The check always passes: its value is what tests look at.
MAIN = """
    import os, socket, time
    from labtui.bench import link, report
    on = link.current()
    report.note(on.words() if on else "no link")
    report.check("interfaces", " ".join(sorted(name for _, name in socket.if_nameindex())), passed=True)
    while os.environ.get("WAIT"):
        time.sleep(0.05)
"""


@pytest.fixture
def near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "own" / "near"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(textwrap.dedent(EXPERIMENT))
    (folder / "main.py").write_text(textwrap.dedent(MAIN))
    (folder / "guide.md").write_text("# Near\n\n## Run\n\nIt runs.\n")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(folder.parent))
    return "near"


@pytest.fixture
def model() -> str:
    try:
        return link.find(100e6, 2).model
    except link.LinkError as error:
        pytest.skip(str(error))


def begin(root: Path, name: str, variant: str = "", **options: object) -> RunFolder:
    return start.start(root, find(name), [variant], {}, Options(**options))[0]  # type: ignore[arg-type]


def notes(folder: RunFolder) -> list[str]:
    lines = [line for path in folder.events.iterdir() for line in path.read_text().splitlines()]
    return [event["text"] for event in map(json.loads, lines) if event["kind"] == "note"]


def test_each_rank_is_on_the_link_of_its_variant(own_folders: Path, near: str, model: str) -> None:
    folder = begin(own_folders, near, "shaped", device="cpu")
    status = end(folder)
    assert (status.state, len(status.ranks)) == (SUCCEEDED, 2), status.reason
    shaped = folder.request().link
    assert shaped is not None and shaped["rate_bits"] == 100e6 and shaped["model"] == model
    words = "per rank" if model == link.PER_RANK else "shared by all ranks (a bus)"
    assert notes(folder) == [f"0.1 Gbit/s {words}"] * 2
    assert {check["value"] for check in status.checks} == {"eth0 lo" if model == link.PER_RANK else "lo"}


def test_another_rate_or_none_can_be_asked_for_and_is_kept(own_folders: Path, near: str, model: str) -> None:
    first = begin(own_folders, near, device="cpu", link="2gbit", nproc=1)
    again = start.rerun(own_folders, first, {}, Options())
    assert again.request().link == first.request().link is not None
    none = begin(own_folders, near, "shaped", device="cpu", link="none", nproc=1)
    assert none.request().link is None
    assert start.rerun(own_folders, none, {}, Options()).request().link is None
    for path in own_folders.iterdir():
        control.stop(RunFolder(path))
        end(RunFolder(path))


def test_ranks_of_ones_own_command_share_a_bus(own_folders: Path, model: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(MAIN))
    folder = launch(own_folders, torchrun(script), device="cpu", link="1gbit")
    status = end(folder)
    assert status.state == SUCCEEDED, status.reason
    assert folder.request().link == {
        "rate_bits": 1e9, "model": "bus", "why": "a command of your own starts its ranks itself"
    }  # fmt: skip
    assert {check["value"] for check in status.checks} == {"lo"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"link": "fast", "device": "cpu"}, "a rate in bits per second from 1mbit to 100gbit expected"),
        ({"link": "1gbit"}, r"on cpu only \(--device cpu\)"),
    ],
)
def test_what_can_not_be_is_refused_before_a_folder_is_made(
    own_folders: Path, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(StartError, match=sentence):
        launch(own_folders, [sys.executable, "-c", "pass"], **options)
    assert list(own_folders.iterdir()) == []


def test_a_link_that_was_lost_meanwhile_is_the_runs_reason(
    own_folders: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = own_folders.parent / "tools"
    tools.mkdir()
    (tools / "tc").write_text("#!/bin/sh\necho Error: no >&2; echo Command failed -:1 >&2; exit 1\n")
    (tools / "tc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(
        link, "find_bus", lambda rate, why: link.Link(rate, link.BUS, why)
    )  # it could be had when the run was asked for
    status = end(launch(own_folders, [sys.executable, "-c", "pass"], device="cpu", link="1gbit"))
    assert status.state == FAILED
    assert status.reason.startswith("a shaped link can't be had here: `tc qdisc add"), status.reason


def test_nothing_is_left_when_the_owner_is_killed(
    own_folders: Path, near: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin(own_folders, near, "shaped", device="cpu", environment={"WAIT": "1"})
    status = running(folder, 2)
    assert status.agent is not None
    assert all(process.environment(rank.pid or 0) is not None for rank in status.ranks), "the owner can look at them"
    os.kill(status.agent.pid, signal.SIGKILL)
    until(lambda: state.observe(folder).state == LOST, "the run is called lost")
    until(lambda: not any(process.alive(p.pid, p.start) for p in status.processes), "all have followed the agent")
    assert lost.bury(folder).state == LOST
    assert_nothing_left(folder, folder.status())
