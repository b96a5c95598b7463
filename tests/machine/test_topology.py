"""Topologies: the corpus, texts of other versions and damaged ones, and what NVML says of a machine."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import fixture
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine import topology, topology_text, topology_words
from labtui.machine.gpus import Gpus
from labtui.machine.topology import Ends, Topology

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml

DATA = Path(__file__).resolve().parents[1] / "data/topo"
CASES = {path.stem: path.read_text() for path in sorted(DATA.glob("*.log"))}


def read(text: str) -> Topology:
    found = topology_text.read(text)
    assert found is not None
    return found


def report(text: str) -> dict[str, Any]:
    found = read(text)
    return topology.report(found, topology_words.diagnosis(found))


# The corpus ---------------------------------------------------------------------------------------------------------


def test_there_is_a_corpus() -> None:
    assert len(CASES) >= 5


@pytest.mark.parametrize("name", CASES)
def test_reads_the_corpus(name: str) -> None:
    expected = json.loads((DATA / f"{name}.json").read_text())
    told = report(CASES[name])
    del expected["source"], expected["diagnosis"]
    assert {field: told[field] for field in expected} == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("topo-16gpu-nv6-mlx", ["16 GPUs", "NV6", "NVSwitch", "GPU0 to GPU7 near 0-23,48-71", "PCIe switch"]),
        ("topo-2gpu-phb-ansi", ["2 GPUs", "without NVLink", "host bridge", "PHB", "host memory"]),
        ("topo-3gpu-nvlink-pair", ["NVLink joins GPU1, GPU2 (NV12)", "GPU0", "SYS", "ring", "has to cross"]),
        ("topo-8gpu-pcie-only", ["8 GPUs without NVLink", "PIX", "NODE", "SYS", "slowest"]),
        ("topo-8xh100-nvswitch-9nic", ["8 GPUs", "NV18", "NVSwitch", "its own", "NIC0 near none"]),
    ],
)
def test_the_diagnosis_says_what_matters(name: str, words: list[str]) -> None:
    told = report(CASES[name])["diagnosis"]
    assert [word for word in words if word not in told] == [], told


# Other versions, other ways of pasting ------------------------------------------------------------------------------


def test_drivers_before_2017_said_soc() -> None:
    told = report(
        "        GPU0    GPU1    mlx4_0  CPU Affinity\n"
        "GPU0     X      SOC     PHB     0-11\n"
        "GPU1    SOC      X      SOC     12-23\n"
        "mlx4_0  PHB     SOC      X\n"
    )
    assert told["pairs"] == [[0, 1, "SOC"]]
    assert told["topo"]["closest_nics"] == {"GPU0": ["mlx4_0"], "GPU1": ["mlx4_0"]}
    assert told["truncated"] is False


def test_several_numa_nodes_per_gpu_and_gpus_that_are_nodes_themselves() -> None:
    told = report(
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      NV18    0-71    0,3-9,11-17             2\n"
        "GPU1    NV18     X      72-143  1,19-25,27-33           18\n"
    )
    assert told["topo"]["cpu_affinity"] == ["0-71", "72-143"]
    assert told["topo"]["numa_affinity"] == ["0,3-9,11-17", "1,19-25,27-33"]


def test_columns_without_a_gap() -> None:
    told = report(
        "\tGPU0\tGPU1\tNIC8NIC9\tNIC10\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNV18\tPXB\tNODENODE\t0-55\t0\t\tN/A\n"
        "GPU1\tNV18\t X \tSYS\tSYSPXB\t56-111\t1\t\tN/A\n"
        "NIC8\tPXB\tSYS\t X \tNODENODE\n"
        "NIC9\tNODE\tSYS\tNODE\t X \tNODE\n"
        "NIC10\tNODE\tPXB\tNODENODE\t X \n"
    )
    assert told["topo"]["nics"] == 3
    assert told["topo"]["closest_nics"] == {"GPU0": ["NIC8"], "GPU1": ["NIC10"]}
    assert told["truncated"] is False


def test_a_header_glued_to_the_prompt() -> None:
    told = report(
        "$ nvidia-smi topo -m                   GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      PHB     0-23    0               N/A\nGPU1    PHB      X      0-23    0               N/A\n"
    )
    assert told["pairs"] == [[0, 1, "PHB"]]
    assert told["topo"]["numa_affinity"] == ["0", "0"]


@pytest.mark.parametrize("row", ["GPU0\tX", "GPU0\t X \t\t\t\tN/A", "GPU0\t X \t\t\t"])
def test_affinities_that_are_left_empty(row: str) -> None:
    told = report(f"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n{row}\n")
    assert told["topo"] == {
        "gpus": 1,
        "nics": 0,
        "nic_devices": None,
        "cpu_affinity": None,
        "numa_affinity": None,
        "closest_nics": None,
    }


@pytest.mark.parametrize(
    ("row", "cpu", "numa"),
    [
        ("GPU0\t X \t0-31\t\t\tN/A", ["0-31"], None),
        ("GPU0     X      0-31                            N/A", ["0-31"], None),
        ("GPU0     X                      1               N/A", None, ["1"]),
    ],
)
def test_one_of_the_affinities_is_empty(row: str, cpu: list[str] | None, numa: list[str] | None) -> None:
    header = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    if "\t" not in row:
        header = "        GPU0    CPU Affinity    NUMA Affinity   GPU NUMA ID"
    topo = report(f"{header}\n{row}\n")["topo"]
    assert (topo["cpu_affinity"], topo["numa_affinity"]) == (cpu, numa)


def test_lines_that_a_narrow_window_wrapped() -> None:
    told = report(
        "        GPU0    GPU1    GPU2    NIC0\n NIC1    NIC2    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      NV18    NV18    PXB\n NODE    SYS     0-55    0               N/A\n"
        "GPU1    NV18     X      NV18    NODE    SYS     PXB\n 56-99   1               N/A\n"
        "GPU2    NV18    NV18     X      SYS     SYS\n PXB     56-99   1               N/A\n"
    )
    assert told["transports"] == {"NV18": 3}
    assert told["topo"]["nics"] == 3
    assert told["topo"]["closest_nics"] == {"GPU0": ["NIC0"], "GPU1": ["NIC2"], "GPU2": ["NIC2"]}
    assert told["topo"]["cpu_affinity"] == ["0-55", "56-99", "56-99"]


def test_lines_cut_at_the_right() -> None:
    cut = "\n".join(line[:30] for line in CASES["topo-3gpu-nvlink-pair"].splitlines()) + "\n"
    told = report(cut)
    assert told["pairs"] == [[0, 1, "SYS"], [0, 2, "SYS"], [1, 2, "NV12"]]
    assert told["topo"]["cpu_affinity"] is None


def test_a_table_without_its_header() -> None:
    lines = CASES["topo-8xh100-nvswitch-9nic"].splitlines(keepends=True)
    whole, headless = report("".join(lines)), report("".join(lines[1:]))
    assert headless["truncated"] is True
    for field in ("pairs", "transports", "topo"):
        assert headless[field] == whole[field]
    last_rows = report("".join(lines[3:]))
    assert set(map(tuple, last_rows["pairs"])) <= set(map(tuple, whole["pairs"]))
    assert last_rows["topo"]["closest_nics"]["GPU7"] == ["NIC8"]


def test_a_header_without_rows() -> None:
    told = report("        GPU0    GPU1    CPU Affinity    NUMA Affinity\n")
    assert (told["topo"]["gpus"], told["pairs"], told["truncated"]) == (2, [], True)


def test_a_header_that_is_printed_twice() -> None:
    lines = CASES["topo-3gpu-nvlink-pair"].splitlines(keepends=True)
    assert report("topology: " + lines[1] + "".join(lines))["pairs"] == report("".join(lines))["pairs"]


def test_two_machines_in_one_text_are_not_mixed() -> None:
    told = report(CASES["topo-3gpu-nvlink-pair"] + CASES["topo-8gpu-pcie-only"])
    assert told["topo"]["gpus"] == 3
    assert told["transports"] == {"SYS": 2, "NV12": 1}


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("[1,0]<stdout>:", "mpirun"),
        ("node-7.cluster: ", "pdsh"),
        ("[rank0]:", "torchrun-rank"),
        ("(Worker pid=411, ip=10.0.0.1) ", "ray"),
        ("2026-11-29T12:00:00.123Z ", "timestamp"),
        ("  12: ", "lineno"),
        ("> ", "plain"),
        ("| ", "plain"),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_prefixes_change_nothing_else(name: str, prefix: str, kind: str) -> None:
    lines = CASES[name].splitlines(keepends=True)
    told, plain = report("".join(prefix + line for line in lines)), report("".join(lines))
    assert told.pop("prefix") == ("ansi" if "\x1b" in CASES[name] else kind)
    del plain["prefix"]
    assert told == plain


# Peer access --------------------------------------------------------------------------------------------------------

P2P = """$ nvidia-smi topo -p2p r
 \tGPU0\tGPU1\tGPU2\t
 GPU0\tX\tOK\tCNS\t
 GPU1\tOK\tX\tOK\t
 GPU2\tCNS\tOK\tX\t

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
"""


def test_reads_peer_access() -> None:
    told = report(P2P + P2P.replace("-p2p r", "-p2p w").replace("CNS", "OK"))
    assert told["p2p"]["read"] == [[0, 1, "OK"], [0, 2, "CNS"], [1, 0, "OK"], [1, 2, "OK"], [2, 0, "CNS"], [2, 1, "OK"]]
    assert {status for _, _, status in told["p2p"]["write"]} == {"OK"}
    assert told["pairs"] == []
    assert "between 2 of 6 ordered pairs" in told["diagnosis"] and "host memory" in told["diagnosis"]


def test_peer_access_beside_the_topology() -> None:
    matrix = "          GPU0 GPU1\n     GPU0        X       GNS\n     GPU1        GNS      X\n"
    told = report(CASES["topo-2gpu-phb-ansi"] + matrix)
    assert told["pairs"] == [[0, 1, "PHB"]]
    assert told["p2p"] == {"any": [[0, 1, "GNS"], [1, 0, "GNS"]]}
    assert "the GPU doesn't support it" in told["diagnosis"]


# Damage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "GPU0 and GPU1 are fine\n",
        "GPU0\n",
        "PIX  = Connection traversing at most a single PCIe bridge\n",
        "       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0\n",
        "host:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
        "GPU" + "9" * 5000 + " X\n",
        "GPU0 X PIX",
    ],
)
def test_other_texts_are_no_topology(text: str) -> None:
    assert topology_text.read(text) is None


def pairs_of_whole_lines(text: str) -> list[tuple[int, int, str]]:
    found = topology_text.read(text[: text.rfind("\n") + 1])
    return found.pairs() if found is not None else []


@given(st.sampled_from(sorted(CASES)), st.data())
def test_cut_anywhere_it_gives_the_links_of_the_whole_lines(name: str, data: st.DataObject) -> None:
    text = CASES[name]
    cut = text[: data.draw(st.integers(0, len(text)))]
    found = topology_text.read(cut)
    assert (found.pairs() if found is not None else []) == pairs_of_whole_lines(cut)
    whole = set(read(text).pairs())
    assert set(pairs_of_whole_lines(cut)) <= whole


@given(st.sampled_from(sorted(CASES)), st.data())
def test_what_is_left_after_a_cut_at_the_front_is_never_wrong(name: str, data: st.DataObject) -> None:
    lines = CASES[name].splitlines(keepends=True)
    found = topology_text.read("".join(lines[data.draw(st.integers(0, len(lines))) :]))
    if found is not None:
        assert set(found.pairs()) <= set(read(CASES[name]).pairs())


@given(st.sampled_from(sorted(CASES)), st.sampled_from(sorted(CASES)), st.randoms(use_true_random=False))
def test_two_texts_shuffled_into_each_other_raise_nothing(one: str, other: str, chance: random.Random) -> None:
    left, right = CASES[one].splitlines(keepends=True), CASES[other].splitlines(keepends=True)
    mixed = []
    while left or right:
        mixed.append((left if left and (not right or chance.random() < 0.5) else right).pop(0))
    found = topology_text.read("".join(mixed))
    if found is not None:
        topology.report(found, topology_words.diagnosis(found))


DEVICES = ["GPU0", "GPU1", "GPU10", "NIC0", "mlx5_0"]
CELLS = ["X", "PIX", "NV12", "SYS", "OK", "NS", "N/A", "0-31"]
HEADS = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "nvidia-smi topo -p2p r"]
words = st.sampled_from([*DEVICES, *CELLS, *HEADS, "\t", " ", "\n", "\n", "\x1b[4m", "|", ":"])


@given(st.lists(words | st.text(max_size=5), max_size=60).map(" ".join))
def test_no_text_raises_anything(text: str) -> None:
    found = topology_text.read(text)
    if found is not None:
        json.dumps(topology.report(found, topology_words.diagnosis(found)))


# Ceilings -----------------------------------------------------------------------------------------------------------


def test_the_ceiling_is_that_of_the_slower_end() -> None:
    paths = Topology(
        gpus=(0, 1, 2),
        links={("GPU0", "GPU1"): "PHB", ("GPU0", "GPU2"): "NV4", ("GPU1", "GPU2"): "SYS"},
        ends={0: Ends(4, 16, 3, 14.062), 1: Ends(4, 8), 2: Ends(4, 16, 3, 14.062)},
    )
    phb, nvlink = topology.ceiling(paths, 0, 1), topology.ceiling(paths, 2, 0)
    assert phb is not None and nvlink is not None
    assert (round(phb.gb_per_s, 2), phb.what) == (15.75, "PCIe 4.0 x8")
    assert (round(nvlink.gb_per_s, 2), nvlink.what) == (56.25, "4 x NVLink 3")
    assert topology.ceiling(paths, 0, 3) is None


def test_where_only_the_kind_is_known_all_possible_ceilings_are_named() -> None:
    told = report(CASES["topo-8xh100-nvswitch-9nic"])["ceilings"]
    assert len(told) == 28
    assert told[0]["gb_per_s"] is None
    assert [each["gb_per_s"] for each in told[0]["possible"]] == [450.0, 900.0]
    assert topology.candidates("anything else") == []


# From NVML ----------------------------------------------------------------------------------------------------------


def of_machine(tmp_path: Path, wait_s: float = 20.0) -> Topology:
    gpus = Gpus.open({}, wait_s=20.0, root=tmp_path)
    try:
        found = gpus.topology(wait_s)
        assert found is not None
        return found
    finally:
        gpus.close()


def test_nvswitch(fake_nvml: fixture.FakeNvml, tmp_path: Path) -> None:
    fake_nvml.script("gpus 8", "topology nvswitch", "gpu 3 nvlink_down_mask 3")
    found = of_machine(tmp_path)
    kinds = {kind for _, _, kind in found.pairs()}
    assert kinds == {"NV18", "NV16"}
    assert all((kind == "NV16") == (3 in (one, other)) for one, other, kind in found.pairs())
    ceiling = topology.ceiling(found, 0, 1)
    assert ceiling is not None and (ceiling.gb_per_s, ceiling.what) == (450.0, "18 x NVLink 4")


def test_bridged_pairs_and_pcie(fake_nvml: fixture.FakeNvml, tmp_path: Path) -> None:
    fake_nvml.script(
        "gpus 4",
        "topology pairs",
        "gpu * nvlink_links 4",
        "gpu * nvlink_version 4",
        "gpu * nvlink_speed_mbps 14062",
        "gpu * pcie_max_gen 4",
        "topo 0 2 30",
        "topo 0 3 20",
        "p2p 0 2 1",
        "p2p 1 3 4",
    )
    found = of_machine(tmp_path)
    assert found.pairs() == [(0, 1, "NV4"), (0, 2, "PHB"), (0, 3, "PXB"), (1, 2, "SYS"), (1, 3, "SYS"), (2, 3, "NV4")]
    assert (found.p2p["read"][0, 2], found.p2p["read"][2, 0], found.p2p["write"][3, 1]) == ("CNS", "CNS", "DR")
    assert (found.p2p["nvlink"][0, 1], found.p2p["nvlink"][0, 3]) == ("OK", "NS")
    told = topology.machine_document(found)["ceilings"]
    assert [round(each["gb_per_s"], 1) for each in told] == [56.2, 31.5, 31.5, 31.5, 31.5, 56.2]
    assert all(each["source"] and each["direction"] == "one" for each in told)


def test_gpus_without_any_link_told(fake_nvml: fixture.FakeNvml, tmp_path: Path) -> None:
    fake_nvml.script(
        "gpus 2",
        "topology pcie",
        "error nvmlDeviceGetTopologyCommonAncestor * NOT_SUPPORTED",
        "error nvmlDeviceGetP2PStatus * NOT_SUPPORTED",
    )
    found = of_machine(tmp_path)
    assert (found.pairs(), found.p2p) == ([], {})
    assert topology_words.diagnosis(found) == "2 GPUs, and no link between any two is told."


def test_a_gpu_that_hangs_costs_its_own_row(fake_nvml: fixture.FakeNvml, tmp_path: Path) -> None:
    fake_nvml.script("gpus 4", "topology pcie", "hang nvmlDeviceGetP2PStatus 1 0 0")
    found = of_machine(tmp_path, wait_s=0.5)
    fake_nvml.tick(1)
    assert found.truncated and found.why == "the driver told nothing about the paths from GPU1"
    assert {(one, other) for one, other, _ in found.pairs()} == {(0, 1), (0, 2), (0, 3), (2, 3)}
