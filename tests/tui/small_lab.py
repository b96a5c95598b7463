"""A small lab to look at: experiments and run folders made to measure, and the app over them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from textual.message import Message
from textual.pilot import Pilot

from labtui.catalog.manifest import Chart, Experiment, Variant
from labtui.machine.reading import LOST, NOT_SUPPORTED, Reading, silent
from labtui.runs import process
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import LIVE, Owner, Request, RunProcess, Status
from labtui.tui import sampling
from labtui.tui.app import LabApp
from labtui.tui.watcher import Poller

GIB = 1 << 30
NOW = 1_764_417_800.0
HOSTILE = "[rank0] [/red] \x1b]0;title\x07 \x1b[2J \x1b[31mred\x1b[0m 漢字 \u202e \x00 tab\tend \U0001f642"
"""What a rank might print: markup, escape sequences, wide characters."""


WAIT_S = 20.0
REAL_SAMPLER = sampling.COMMAND
"""Tests have another one, see conftest."""


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"t": NOW, "rank": 0, "kind": kind, **fields}


def write_events(folder: RunFolder, *events: dict[str, Any], rank: int = 0) -> None:
    with folder.rank_events(rank).open("a") as file:
        for one in events:
            file.write(json.dumps({**one, "rank": rank}) + "\n")


def made_run(
    root: Path, state: str = "succeeded", *, number: int = 0, device: str = "cpu", ranks_: int = 2, **status: Any
) -> RunFolder:
    """A run folder of `lab_test`, begun a minute ago; a live one is owned by this test, so that it stays live."""
    created = time.time() - 60 + number
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(created))
    folder = RunFolder(root / f"{stamp}-lab_test-{number:04x}")
    for inside in (folder.events, folder.telemetry, folder.ranks, folder.stacks):
        inside.mkdir(parents=True)
    request = Request(
        id=folder.id, experiment="lab_test", command=("torchrun",), python="python", host=os.uname().nodename,
        user="ann", uid=os.getuid(), created=created, nproc=ranks_, device=device, expect_failure=("meant to fail",),
    )  # fmt: skip
    write_json(folder.request_file, request.document())
    stat = process.read_stat(os.getpid())
    assert stat is not None
    ranks = tuple(
        RunProcess("rank", stat.pid, stat.start, r, r, f"ranks/{r}/stdout.log", f"ranks/{r}/stderr.log")
        for r in range(ranks_)
    )
    for rank in range(ranks_):
        (folder.ranks / str(rank)).mkdir()
        (folder.ranks / str(rank) / "stdout.log").write_text(f"hello from rank {rank}\n")
        (folder.ranks / str(rank) / "stderr.log").write_text("")
    owner = Owner(stat.pid, stat.start, process.boot_id(), os.uname().nodename)
    word = Status(state, created, agent=owner, started=created + 1, processes=ranks)
    if state not in LIVE:
        word = replace(word, ended=created + 10, exit_code=0, reason="all 2 checks passed")
    write_json(folder.status_file, replace(word, **status).document())
    return folder


def filled_run(root: Path, state: str = "running", **options: Any) -> RunFolder:
    """A run that has reported something of every kind."""
    folder = made_run(root, state, **options)
    write_events(
        folder,
        event("hello", pid=7, versions={"torch": "2.13.0"}),
        event("progress", done=3, total=12),
        *(event("metric", name="loss", value=2.0 - 0.1 * step, step=step, unit="nats") for step in range(10)),
        event("check", name="same weights", value=0.0, at_most=1e-6, passed=True),
        event("check", name="meant to fail", value=1.0, at_most=1e-6, passed=False),
        event("prediction", name="bytes sent", predicted=6442450, measured=6442450, unit="B"),
        event("result", name="busbw", value=11.2, unit="GB/s", labels={"size_bytes": 1024}),
        event("result", name="busbw", value=12.2, unit="GB/s", labels={"size_bytes": 2048}),
        event("result", name="sent", value=8_000_000, unit="B", labels={"way": "hooks"}),
        event("note", text="2 ranks share one core"),
    )
    write_events(folder, event("progress", done=2, total=12), rank=1)
    (folder.telemetry / "here.jsonl").write_text(json.dumps(sample(time.time())) + "\n")
    return folder


def reading(index: int, **fields: Any) -> dict[str, Any]:
    """A GPU at work, as the sampler writes it."""
    given: dict[str, Any] = {
        "util": 97, "mem_used": int(11.2 * GIB), "mem_total": 16 * GIB, "mem_how": "v2", "power_w": 214.4,
        "power_limit_w": 320.0, "temp_c": 61, "sm_mhz": 2505, "mem_mhz": 11201, "pcie_rx": 9.8, "pcie_tx": 9.7,
        "throttle": (), "why": {"nvlink_rx": NOT_SUPPORTED, "nvlink_tx": NOT_SUPPORTED},
    }  # fmt: skip
    return Reading(index, f"GPU-{index}", **{**given, **fields}).document()


def lost(index: int) -> dict[str, Any]:
    return silent(index, f"GPU-{index}", LOST).document()


def sample(t: float, gpus: Sequence[dict[str, Any]] = (), ranks: int = 2, **host: Any) -> dict[str, Any]:
    """A line of telemetry."""
    return {
        "t": round(t, 3),
        "gpus": list(gpus),
        "ranks": [{"rank": r, "pid": 400 + r, "cpu": 50.0 + r, "rss": 812_000_000} for r in range(ranks)],
        "host": {
            "cpu": 34.0, "load1": 4.1, "mem_available": 120_000_000_000, "net": {"lo": {"rx": 0.8, "tx": 0.8}}, **host
        },
    }  # fmt: skip


MACHINE = {
    "host": "here",
    "gpus": [{"index": n, "uuid": f"GPU-{n}", "name": "NVIDIA GeForce RTX 4080"} for n in range(4)],
    "topology": {
        "pairs": [[a, b, "PHB"] for a, b in combinations(range(4), 2)],
        "ceilings": [
            {"pair": [a, b], "kind": "PHB", "gb_per_s": 15.754, "what": "PCIe 4.0 x8"}
            for a, b in combinations(range(4), 2)
        ],
    },
    "ranks": {str(rank): {"uuid": f"GPU-{3 - rank}", "nvml_index": 3 - rank} for rank in range(4)},
}
"""Four GPUs, of which the ranks have the last one first."""

NCCL = {
    "kind": "nccl", "library": "NCCL", "nccl_version": "2.27.5", "nranks": 4, "nnodes": 1, "channels": 2,
    "network": "Socket", "warnings": [], "diagnosis": "Peer access is off: data goes through host memory.",
    "links": [
        [a, b, "SHM/direct/direct", [0, 1]] for n in range(4) for a, b in ((n, (n + 1) % 4), ((n + 1) % 4, n))
    ],
    "bandwidth": [[0, 1, 11.2], [1, 0, 10.9]],
}  # fmt: skip


def gpu_run(root: Path, state: str = "running", *, seconds: int = 58, **options: Any) -> RunFolder:
    """A run on four GPUs: the first is held back in its last ten seconds, the third is lost after half the time."""
    folder = made_run(root, state, device="cuda", ranks_=4, **options)
    started = folder.status().started
    assert started is not None
    with (folder.telemetry / "here.jsonl").open("w") as file:
        for n in range(seconds):
            held = ("sw_power_cap",) if n >= seconds - 10 else ()
            gpus = [reading(0, throttle=held), reading(1), reading(2) if n < seconds // 2 else lost(2), reading(3)]
            file.write(json.dumps(sample(started + n, gpus, ranks=4)) + "\n")
    write_events(
        folder,
        *({**event("metric", name="loss", value=2.0 - n / 50, step=n), "t": started + n} for n in range(seconds)),
    )
    write_json(folder.machine_file, MACHINE)
    write_json(folder.nccl_file, NCCL)
    return folder


def made_experiment(folder: Path, name: str = "lab_test", **fields: Any) -> Experiment:
    given: dict[str, Any] = {
        "title": "A lab test", "question": "Does it work?", "topic": "data", "order": 1, "launch": "torchrun",
        "devices": ("cpu",), "minutes": 1.0,
        "variants": (Variant("long", "it takes long", ("cpu",)), Variant("wrong", "it is wrong", ("cpu",))),
        "charts": (
            Chart("Bus bandwidth", "size_bytes", "busbw", x_scale="log2"),
            Chart("Bytes sent", "way", "sent"),
        ),
    }  # fmt: skip
    return Experiment(name=name, folder=folder, main=folder / "main.py", **{**given, **fields})


def screen_text(app: LabApp) -> str:
    """What the terminal shows."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def until(pilot: Pilot[Any], condition: Callable[[], object], what: str) -> None:
    """Waits for a condition, the only kind of waiting that tests do."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}\n{screen_text(pilot.app)}"  # type: ignore[arg-type]
        await pilot.pause(0.02)


async def until_shown(pilot: Pilot[Any], text: str) -> None:
    await until(pilot, lambda: text in screen_text(pilot.app), f"{text!r} on the screen")  # type: ignore[arg-type]


@contextmanager
def stopped(app: LabApp) -> Iterator[LabApp]:
    """Lets the reading threads of an app end with its test."""
    try:
        yield app
    finally:
        for poller in app._pollers:
            poller.stop()


class Posted(list[Message]):
    """What was posted, and waiting for it."""

    def until(self, condition: Callable[[Message], object]) -> Any:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for message in list(self):
                if condition(message):
                    return message
            time.sleep(0.005)
        raise AssertionError(f"never posted; there are {self}")


@contextmanager
def at_work(poller: Poller) -> Iterator[None]:
    poller.resume()
    try:
        yield
    finally:
        poller.stop()
        poller._thread.join(5)
        assert not poller._thread.is_alive()
