"""A topology that went through machine.json is what it was; a document of another form tells less, not wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_nvml import fixture
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine import topology_lines, topology_words
from labtui.machine.gpus import Gpus
from labtui.machine.topology_read import from_machine

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml


@pytest.mark.parametrize("script", ["8xh100", "4xa100_faults"])
def test_it_is_the_same_after_machine_json(fake_nvml: fixture.FakeNvml, script: str) -> None:
    fake_nvml.play(script)
    gpus = Gpus.open({})
    try:
        told, machine = gpus.topology(5.0), json.loads(json.dumps(gpus.describe(5.0)))
    finally:
        gpus.close()
    read = from_machine(machine)
    assert told is not None and read is not None
    for field in ("gpus", "links", "cpu_affinity", "numa_affinity", "p2p", "ends", "why"):
        assert getattr(read, field) == getattr(told, field), field
    assert topology_words.diagnosis(read) == topology_words.diagnosis(told)
    assert topology_lines.kinds(read) == topology_lines.kinds(told)


def test_without_gpus_there_is_none() -> None:
    assert from_machine({"gpus": [], "topology": None}) is None
    assert from_machine({}) is None


def test_one_gpu_needs_no_paths() -> None:
    read = from_machine({"gpus": [{"index": 0}], "topology": None})
    assert read is not None and read.pairs() == []
    assert topology_words.diagnosis(read).startswith("One GPU")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
GPU = st.fixed_dictionaries({"index": st.integers(0, 3) | JSON}, optional={"pcie": JSON, "nvlink": JSON})
TOPOLOGY = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("pairs", "p2p", "cpu_affinity", "numa_affinity", "why"), JSON)
)


@given(gpus=st.lists(GPU | JSON, max_size=3) | JSON, topology=TOPOLOGY | JSON)
def test_any_document_is_read(gpus: Any, topology: Any) -> None:
    read = from_machine({"gpus": gpus, "topology": topology})
    if read is not None:
        assert topology_words.diagnosis(read)
        topology_lines.kinds(read)
        topology_lines.near(read)


def test_a_kind_of_link_that_nobody_knows_is_left_out() -> None:
    machine = {"gpus": [{"index": 0}, {"index": 1}], "topology": {"pairs": [[0, 1, "WARP"]]}}
    read = from_machine(machine)
    assert read is not None and read.pairs() == []
    assert "no link between any two is told" in topology_words.diagnosis(read)
