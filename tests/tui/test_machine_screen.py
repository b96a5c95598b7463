"""The Machine screen: its lines as pure functions, and the screen over a small lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_lab import HOSTILE, gpu_run, made_run, screen_text, stopped, until, until_shown

from labtui.catalog.manifest import Experiment
from labtui.machine import doctor
from labtui.machine.doctor.finding import Finding
from labtui.machine.topology_read import from_machine
from labtui.runs.folder import write_json
from labtui.runs.gauges import Gauges, HostGauges
from labtui.tui import examining, machine_lines
from labtui.tui.app import LabApp
from labtui.tui.lines import Line, cells
from labtui.tui.messages import Machine
from labtui.tui.widgets.here import DoctorPane

GPU = {
    "name": "NVIDIA GeForce RTX 4080", "memory": 16 << 30, "pcie": {"generation": 4, "width": 8},
    "nvlink": None, "compute_capability": "8.9", "power_limit_w": 320.0, "mig": None,
}  # fmt: skip
HERE: dict[str, Any] = {
    "host": "gpu-server", "cpu": "AMD EPYC 7543", "cores": 64, "memory": 270_000_000_000, "driver": "575.51",
    "numa": [{"node": 0, "cpus": [0, 1, 2, 3, 8]}, {"node": 1, "cpus": [4, 5, 6, 7]}],
    "gpus": [{"index": n, **GPU} for n in range(4)],
    "topology": {
        "pairs": [[a, b, "NV2" if b == a + 1 else "SYS"] for a, b in combinations(range(4), 2)],
        "p2p": {"read": [[a, b, "OK" if abs(a - b) == 1 else "CNS"] for a in range(4) for b in range(4) if a != b]},
    },
}  # fmt: skip
PROFILE = {
    "alpha": 3.8e-5, "beta": 10.0, "tflops": {"float32": 48.7, "bfloat16": 97.0}, "date": "2026-11-29", "nproc": 4,
    "run": "20261129-120312-link_vs_compute-7f3a",
}  # fmt: skip
FINDINGS = (
    Finding("system", "ok", "Linux"),
    Finding("clocks", "warn", "GPU 1 is held back", "it slows all others", "nvidia-smi -q -d PERFORMANCE"),
    Finding("shared memory", "fail", "64 MB", "NCCL needs more", "docker run --shm-size=8g"),
    Finding("py-spy", "note", "not installed"),
)


def text_of(lines: Sequence[Line]) -> str:
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def machine(document: dict[str, Any] | None = HERE, **host: Any) -> Machine:
    hosts = (HostGauges("gpu-server", 1.0, host),) if host else ()
    return Machine(1.0, Gauges(t=1.0, hosts=hosts), document)


# What it is


def test_about_says_what_the_machine_is() -> None:
    net = {"lo": {"rx": 0.0, "tx": 0.0}, "eth0": {"rx": 0.012, "tx": 0.5}}
    text = text_of(machine_lines.about(machine(net=net, shm_used=64_000_000), {}, 90))
    assert "CPU      AMD EPYC 7543 · 64 logical cores to run on" in text
    assert "memory   270 GB" in text
    assert "NUMA     2 nodes: CPUs 0-3,8 · 4-7" in text
    assert "4x RTX 4080 · 16.0 GiB · PCIe 4.0 x8 · compute 8.9 · up to 320 W · driver 575.51" in " ".join(text.split())
    assert "now      eth0 12 MB/s in, 500 MB/s out · 64 MB of /dev/shm used" in text and "lo " not in text
    assert "profile  none yet: run link_vs_compute" in text


def test_what_is_not_known_is_not_zero() -> None:
    assert text_of(machine_lines.about(None, None, 60)).startswith("this machine is being looked at")
    assert "n/a: the sampler has ended" in text_of(
        machine_lines.about(Machine(1.0, trouble="the sampler has ended"), None, 60)
    )
    text = text_of(machine_lines.about(machine({"host": "x", "gpus": [], "gpus_why": "no driver"}), None, 70))
    assert "memory   n/a" in text and "NUMA     n/a" in text and "none: no driver; ranks are CPU processes" in text


def test_gpus_of_several_kinds_have_a_row_each() -> None:
    document = {**HERE, "gpus": [{"index": 0, **GPU}, {"index": 1, **GPU, "name": "NVIDIA H100", "memory": None}]}
    text = text_of(machine_lines.about(machine(document), {}, 100))
    assert "GPU      1x RTX 4080 · 16.0 GiB" in text and "GPU      1x H100 · PCIe 4.0 x8" in text


def test_the_profile_says_what_it_is_worth() -> None:
    text = text_of(machine_lines.about(machine(), {"cuda": PROFILE}, 90))
    assert "profile  cuda, 4 ranks, measured 2026-11-29" in text
    assert "float32 48.7, bfloat16 97 TFLOP/s a rank, at best" in text
    assert "10 GB/s of bus bandwidth (beta), 38 µs a message (alpha)" in text
    assert "9,700 FLOPs in bfloat16 while one byte travels" in text  # 97e12 / 10e9
    assert text.endswith("from 20261129-120312-link_vs_compute-7f3a")
    alone = {name: value for name, value in PROFILE.items() if name not in ("alpha", "beta")}
    assert "no link was measured: it takes two ranks" in text_of(machine_lines.about(machine(), {"cuda": alone}, 90))


@given(st.lists(st.integers(0, 40)))
def test_ranges_name_the_same_numbers(numbers: list[int]) -> None:
    found: list[int] = []
    for part in filter(None, machine_lines.ranges(numbers).split(",")):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    assert found == sorted(set(numbers))


# Links


def test_each_matrix_says_its_own() -> None:
    found = from_machine(HERE)
    assert machine_lines.views(found) == ["kinds", "ceilings", "peers"]
    kinds = text_of(machine_lines.links(found, "kinds", "", 100))
    assert kinds.split("\n")[:3] == [
        "         0    1    2    3", "GPU 0    ·  NV2  SYS  SYS", "GPU 1  NV2    ·  NV2  SYS",
    ]  # fmt: skip
    assert "SYS  3 pairs, through the link between two CPU sockets" in kinds.replace("SYS 3", "SYS  3")
    assert "at most 15.8 GB/s (PCIe 4.0 x8)" in kinds
    ceilings = text_of(machine_lines.links(found, "ceilings", "", 100))
    assert ceilings.split("\n")[1] == "GPU 0     ·   n/a  15.8  15.8", "which NVLink it is, isn't told"
    peers = text_of(machine_lines.links(found, "peers", "", 100))
    assert peers.split("\n")[1] == "GPU 0    ·   OK  CNS  CNS"
    assert "CNS: the chipset doesn't support it, 6 of 12 ordered pairs" in peers


def test_a_matrix_that_does_not_fit_says_what_it_needs() -> None:
    assert "the matrix of 4 GPUs takes 25 columns" in " ".join(
        text_of(machine_lines.matrix(from_machine(HERE) or pytest.fail(), "kinds", 20)).split()
    )


def test_without_gpus_it_says_why() -> None:
    assert machine_lines.views(None) == ["kinds"]
    text = text_of(machine_lines.links(None, "kinds", "no GPU: no driver", 80))
    assert text.startswith("no GPU: no driver") and "labtui topo FILE" in text


# The doctor


def test_the_gravest_comes_first_with_its_advice() -> None:
    text = text_of(machine_lines.findings(FINDINGS, 60))
    heads = [line.split()[:2] for line in text.split("\n") if not line.startswith(" ")]
    assert heads == [["!!", "shared"], ["!", "clocks"], ["·", "py-spy"], ["ok", "system"]]
    assert "NCCL needs more" in text and "-> docker run --shm-size=8g" in text
    assert "".join(piece for piece, _ in machine_lines.verdict(FINDINGS)) == "1 breaks runs, 1 warning"
    assert machine_lines.verdict(FINDINGS[:1]) == [("no warning", "good")]


# All lines


@given(
    width=st.integers(8, 130), hostile=st.text("ab \t\n\x00\x07\x1b\x9b[]m;é漢🙂\u202e", max_size=30) | st.just(HOSTILE)
)
def test_every_line_fits_and_is_harmless(width: int, hostile: str) -> None:
    document = {
        **HERE, "host": hostile, "cpu": hostile, "driver": hostile,
        "gpus": [{**gpu, "name": hostile} for gpu in HERE["gpus"]],
        "topology": {"pairs": [[0, 1, hostile], [1, 2, "SYS"]], "p2p": {"read": [[0, 1, hostile]]}, "why": hostile},
    }  # fmt: skip
    found = from_machine(document)
    profile = {**PROFILE, "run": hostile, "tflops": {hostile: 1.0}}
    pane = DoctorPane(joint="┬")
    pane.findings, pane.taken = (Finding(hostile, "fail", hostile, hostile, hostile),), 1.0
    lines = [
        *machine_lines.about(machine(document, net={hostile: {"rx": 1.0, "tx": 1.0}}), {hostile: profile}, width),
        *(line for view in machine_lines.views(found) for line in machine_lines.links(found, view, hostile, width)),
        *pane.build(width, 20),
    ]
    for line in lines:
        assert "".join(text for text, _ in line).isprintable()
        assert cells(line) <= max(width, 24)


# The screen


@pytest.fixture
def app(own_folders: Path, lab: Experiment, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabApp]:
    monkeypatch.setattr(doctor, "examine", lambda logs: FINDINGS)
    with stopped(LabApp(own_folders)) as app:
        yield app


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12)])
async def test_it_shows_the_machine_its_links_and_the_findings(
    app: LabApp, own_folders: Path, size: tuple[int, int]
) -> None:
    folder = gpu_run(own_folders)
    write_json(folder.machine_file, HERE)
    async with app.run_test(size=size) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("6")
        await until_shown(pilot, "shared memory")
        await until(pilot, lambda: app.machine and app.machine.links.topology, "the telemetry of the live run")
        if size[0] >= 80:
            await until_shown(pilot, "4x RTX 4080")
            assert "held back by" in screen_text(app), "the machine strip"
        await pilot.press("l")
        await until_shown(pilot, "Links: ceiling one way, GB/s")
        assert app.machine is not None and app.machine.focused is (
            app.machine.links if size[0] < 110 else app.machine.doctor
        )
        lines = screen_text(app).split("\n")
        assert len(lines) == size[1] and all(line.isprintable() for line in lines)
        await pilot.press("tab", "tab", "tab")
        await pilot.press("escape")
        await until(pilot, lambda: app.current_mode == "lab", "back to the Lab")


def test_a_doctor_that_fails_is_an_answer_too(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def examine(logs: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(doctor, "examine", examine)
    (finding,) = examining.examine(own_folders).findings
    assert finding.level == "warn" and "Input/output error" in finding.found


async def test_it_looks_again_when_asked_to(app: LabApp, own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("6")
        await until_shown(pilot, "1 breaks runs")
        await until_shown(pilot, "none yet: run link_vs_compute")
        monkeypatch.setattr(doctor, "examine", lambda logs: FINDINGS[:1])
        results = tuple(
            {"name": name, "value": value, "labels": labels}
            for name, value, labels in (
                ("best_tflops", 0.2, {"dtype": "float32"}), ("alpha", 1e-4, {}), ("beta", 2.0, {}),
            )
        )  # fmt: skip
        made = made_run(own_folders, results=results)
        request = {**made.request().document(), "experiment": "link_vs_compute"}
        renamed = made.path.rename(own_folders / made.id.replace("lab_test", "link_vs_compute"))
        write_json(renamed / "run.json", {**request, "id": renamed.name})
        await pilot.press("r")
        await until_shown(pilot, "no warning")
        await until_shown(pilot, "100 FLOPs in float32 while one byte travels")
        await pilot.press("z")
        await until(pilot, lambda: "This machine" not in screen_text(app), "the doctor alone")
        await pilot.press("escape")
        await until_shown(pilot, "This machine")
