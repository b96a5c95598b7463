"""Paths between ranks: what is drawn from a run's documents, and how it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_lab import HOSTILE, MACHINE, NCCL, NOW, event
from test_widgets import check_harmless, snapshot, text

from labtui.machine.nccl import Reader
from labtui.runs.records import Request
from labtui.runs.watch import Snapshot
from labtui.tui.paths import gloo_words, is_on_gpus, paths, short
from labtui.tui.widgets.paths import CEILING, MEASURED, TRANSPORT, PathsPane, path_lines

LOGS = Path(__file__).parents[1] / "data" / "nccl"


def run(device: str | None = "cuda", nproc: int | None = 4, **fields: Any) -> Snapshot:
    its = {name: fields.pop(name) for name in ("environment", "link", "nnodes") if name in fields}
    request = Request(
        id="x", experiment="lab_test", command=(), python="", host="here", user="ann", uid=1, created=NOW,
        nproc=nproc, device=device, **its,
    )  # fmt: skip
    return snapshot(request=request, **fields)


def shown(seen: Snapshot, view: str = TRANSPORT, width: int = 60) -> list[str]:
    return text(path_lines(paths(seen), view, width, live=True)).split("\n")


FULL = run(nccl=NCCL, machine=MACHINE)


# What is drawn from the documents


def test_a_pair_has_its_transport_ceiling_and_bandwidth() -> None:
    found = paths(FULL)
    assert found.ranks == 4
    assert found.transports[0, 1] == ("SHM/direct/direct",) and (0, 2) not in found.transports
    assert found.ceilings[0, 3].gb_per_s == 15.754 and found.ceilings[3, 0].what == "PCIe 4.0 x8"
    assert found.measured == {(0, 1): 11.2, (1, 0): 10.9}
    assert found.facts == ("NCCL 2.27.5", "2 channels"), "within one host no network counts"


def test_ceilings_are_those_of_the_ranks_gpus_and_not_of_their_numbers() -> None:
    topology = {"ceilings": [{"pair": [0, 1], "kind": "NV4", "gb_per_s": 100.0, "what": "4 x NVLink 3"}]}
    machine = {"topology": topology, "ranks": {"0": {"nvml_index": 3}, "2": {"nvml_index": 1}, "3": {"nvml_index": 0}}}
    assert set(paths(run(machine=machine, nccl=NCCL)).ceilings) == {(2, 3), (3, 2)}


def test_what_a_live_run_reports_counts_at_once() -> None:
    results = (
        event("result", name="p2p", value=12.5, unit="GB/s", labels={"src": 0, "dst": 1, "size": 1}),
        event("result", name="p2p", value=9.0, unit="GB/s", labels={"src": 2, "dst": 3}),
        event("result", name="p2p", value=11.0, unit="GB/s", labels={"src": 2, "dst": 3}),
        event("result", name="latency", value=40.0, unit="us", labels={"src": 2, "dst": 3}),
        event("result", name="busbw", value=99.0, unit="GB/s", labels={"size": 1}),
    )
    assert paths(run(nccl=NCCL, results=results)).measured == {(0, 1): 12.5, (1, 0): 10.9, (2, 3): 11.0}


def test_transports_have_short_names() -> None:
    named = ["P2P/CUMEM/read", "SHM/direct/direct", "NET/IB/0/GDRDMA", "NET/Socket", "NVLS", ""]
    assert [short(name) for name in named] == ["P2P", "SHM", "NET", "NET", "NVLS", "?"]


def test_the_network_is_told_where_something_goes_over_it() -> None:
    assert "network Socket" in paths(run(nccl={**NCCL, "nnodes": 2})).facts
    assert "network Socket" in paths(run(nccl={**NCCL, "links": [[0, 1, "NET/Socket/0", [0]]]})).facts


@pytest.mark.parametrize("name", ["nccl-2.18-mixed-p2p-shm", "nccl-2.4-socket-64ranks"])
def test_what_the_reader_of_logs_finds_is_what_is_shown(name: str) -> None:
    reader = Reader()
    reader.feed((LOGS / f"{name}.log").read_bytes())
    reader.finish()
    document = reader.report().document()
    found = paths(run(nproc=None, nccl=document))
    assert {(a, b) for a, b, *_ in document["links"]} == set(found.transports)
    assert found.ranks == document["nranks"] and found.diagnosis == document["diagnosis"]
    check_harmless(path_lines(found, TRANSPORT, 60, live=False), 60)


# What is shown


def test_the_matrix_of_transports() -> None:
    lines = shown(FULL)
    assert lines[0].split() == ["to", "0", "1", "2", "3"]
    assert lines[1].split() == ["0", "·", "SHM", "-", "SHM"]
    assert lines[3].split() == ["2", "-", "SHM", "·", "SHM"]
    assert lines[5:] == [
        "measured 10.9 to 11.2 of 15.8 GB/s (PCIe 4.0 x8)",
        "NCCL 2.27.5 · 2 channels",
        "Peer access is off: data goes through host memory.",
        "- no link was made",
    ]


def test_the_matrices_of_ceilings_and_of_what_was_measured() -> None:
    assert shown(FULL, CEILING)[1].split() == ["0", "·", "15.8", "15.8", "15.8"]
    assert shown(FULL, CEILING)[-1] == "PHB: PCIe 4.0 x8"
    assert shown(FULL, MEASURED)[1].split() == ["0", "·", "11.2", "-", "-"]
    assert shown(FULL, MEASURED)[-1] == "- not measured"


def test_a_ceiling_that_is_not_known_has_a_reason() -> None:
    ceilings = [{"pair": [2, 3], "kind": "NV4", "gb_per_s": None, "why": "which generation this is, isn't told"}]
    seen = run(nccl=NCCL, machine={**MACHINE, "topology": {"ceilings": ceilings}})
    lines = shown(seen, CEILING, 100)
    assert lines[1].split() == ["0", "·", "n/a", "n/a", "n/a"]
    assert "NV4: which generation this is, isn't told" in lines[-1]
    assert "n/a: machine.json knows no link of the pair" in lines[-1]


def test_a_pair_with_several_transports_is_marked() -> None:
    links = [[0, 1, "P2P/IPC", [0]], [0, 1, "NET/IB/0", [1]]]
    lines = shown(run(nproc=2, nccl={**NCCL, "nranks": 2, "links": links}))
    assert lines[1].split() == ["0", "·", "P2P+"]
    assert "+ others on some channels" in lines[-1]


def test_too_many_ranks_are_summed_up_by_transport() -> None:
    links = [[n, n + 1, "P2P/IPC" if n % 8 < 7 else "NET/IB/0", [0]] for n in range(63)]
    document = {**NCCL, "nranks": 64, "links": links, "bandwidth": [[0, 1, 150.0], [7, 8, 12.0], [15, 16, 11.0]]}
    lines = shown(run(nproc=64, nccl=document))
    assert lines[0].split() == ["64", "ranks", "pairs", "measured", "GB/s"]
    assert lines[1].split() == ["P2P", "56", "150"]
    assert lines[2].split() == ["NET", "7", "11.0", "to", "12.0"]
    eight = run(nproc=8, nccl={**document, "nranks": 8, "links": links[:7], "bandwidth": []})
    assert shown(eight, width=60)[0].split()[0] == "to" and shown(eight, width=24)[0].split()[1] == "ranks"


def test_a_run_without_nccls_word_says_so() -> None:
    assert shown(run()) == ["NCCL has not told its paths yet"]
    ended = text(path_lines(paths(run()), TRANSPORT, 80, live=False))
    assert ended == "n/a: this run has no NCCL log (NCCL_DEBUG=INFO makes NCCL tell its paths)"
    failed = run(nccl={"kind": "torchrun", "diagnosis": "rank 1 was killed", "warnings": ["signal"], "links": []})
    assert shown(failed) == ["rank 1 was killed"]


# On the CPU


def test_on_the_cpu_it_speaks_of_gloo() -> None:
    assert gloo_words(run("cpu")) == "gloo over lo (loopback)"
    assert gloo_words(run("cpu", environment={"GLOO_SOCKET_IFNAME": "eth0"})).endswith("bound to eth0")
    assert gloo_words(run("cpu", environment={"GLOO_SOCKET_IFNAME": "ib0"}, nnodes=2)) == "gloo over ib0"
    assert "n/a" in gloo_words(run("cpu", nnodes=2))
    assert gloo_words(run("cpu", link={"rate_bits": 1e9})) == "gloo over a shaped link (1 Gbit/s)"
    pane = PathsPane()
    pane.snapshot = run("cpu", nccl={"kind": "gloo", "diagnosis": "Connection refused.", "warnings": ["x"]})
    assert text(list(pane.body(60))).split("\n") == [
        "gloo over lo (loopback): no paths to choose",
        "",
        "Connection refused.",
    ]
    assert pane.views == (TRANSPORT,)


def test_of_a_users_own_command_the_logs_tell() -> None:
    assert is_on_gpus(run(None, nccl=NCCL)) and not is_on_gpus(run(None)) and is_on_gpus(run("cuda"))


# The pane


def test_the_pane_turns_to_what_there_is() -> None:
    pane = PathsPane()
    assert list(pane.body(60)) == [] and pane.facts() == ()
    pane.snapshot = run(nccl={**NCCL, "bandwidth": []})
    assert pane.views == (TRANSPORT,)
    pane.snapshot = FULL
    assert pane.views == (TRANSPORT, CEILING, MEASURED)
    titles = []
    for _ in range(3):
        titles.append(pane.title)
        pane.action_next_tab()
    assert titles == ["Paths", "Paths: ceiling, GB/s", "Paths: measured, GB/s"] and pane.title == "Paths"
    assert pane.paths is pane.paths, "drawn once, as long as nothing changes"
    pane.action_previous_tab()
    pane.snapshot = run()
    assert pane.title == "Paths", "where it is gone, the first one is shown"


ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**7) | st.floats() | st.sampled_from([HOSTILE, "nccl", "SHM/x"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["pair", "0", "nvml_index"]), inner),
    max_leaves=10,
)


@given(
    nccl=st.dictionaries(st.sampled_from([*NCCL]), ODD),
    machine=st.dictionaries(st.sampled_from(["topology", "ranks", "gpus"]), ODD),
    labels=st.dictionaries(st.sampled_from(["src", "dst"]), ODD), width=st.integers(8, 120),
    view=st.sampled_from([TRANSPORT, CEILING, MEASURED]),
)  # fmt: skip
def test_no_document_breaks_it(
    nccl: dict[str, Any], machine: dict[str, Any], labels: dict[str, Any], width: int, view: str
) -> None:
    results = (event("result", name="x", value=1.0, unit="GB/s", labels=labels),)
    for document in (nccl, {**NCCL, **nccl}):
        found = paths(run(nccl=document, machine={**MACHINE, **machine}, results=results))
        check_harmless(path_lines(found, view, width, live=False), width)


@pytest.mark.parametrize("width", [8, 20, 44, 80, 160])
def test_nothing_hostile_gets_through(width: int) -> None:
    links = [[0, 1, HOSTILE, [0]], [1, 0, HOSTILE + "/x", [0]]]
    document = {**NCCL, **dict.fromkeys(("library", "nccl_version", "network", "diagnosis"), HOSTILE), "links": links}
    machine = {**MACHINE, "topology": {"ceilings": [{"pair": [3, 2], "kind": HOSTILE, "gb_per_s": 1, "what": HOSTILE}]}}
    for view in (TRANSPORT, CEILING, MEASURED):
        check_harmless(path_lines(paths(run(nccl=document, machine=machine)), view, width, live=True), width)
