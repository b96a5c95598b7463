"""Which GPUs CUDA shows to a process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine import host
from labtui.machine.visible import nvml_index, order_is_certain, visible

A, B, C = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-89aaaaaa-0000-0000-0000-000000000000", "GPU-cc000000-1"
MIG_0, MIG_1 = "MIG-11111111-aaaa", "MIG-22222222-bbbb"
GPUS = [
    {"index": 0, "uuid": A, "name": "NVIDIA A100"},
    {"index": 1, "uuid": B, "name": "NVIDIA A100"},
    {
        "index": 2,
        "uuid": C,
        "name": "NVIDIA A100",
        "mig_devices": [
            {"uuid": MIG_0, "gpu_instance": 3, "compute_instance": 0},
            {"uuid": MIG_1, "gpu_instance": 4, "compute_instance": 1},
        ],
    },
]


@pytest.mark.parametrize(
    ("value", "uuids"),
    [
        ("0,1,2", [A, B, C]),
        ("2, 0", [C, A]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [A]),
        ("1,7,0", [B]),
        ("0,0", []),
        (A, [A]),
        (f"{B},{A}", [B, A]),
        ("GPU-8932,GPU-89a", [A, B]),
        ("GPU-8932F937", [A]),
        ("GPU-89", []),
        ("GPU-cc,GPU-89,GPU-8932", [C]),
        (f"{A},0", []),
        (f"1,{A}", [B, A]),
        (MIG_1, [MIG_1]),
        ("MIG-1111", [MIG_0]),
        (f"MIG-{C}/4/1", [MIG_1]),
        (f"MIG-{C}/9/9", []),
        ("cuda:0", []),
        ("nonsense", []),
    ],
)
def test_cudas_rules(value: str, uuids: list[str]) -> None:
    assert visible(GPUS, {"CUDA_VISIBLE_DEVICES": value}) == uuids


def test_without_the_variable_all_are_visible() -> None:
    assert visible(GPUS, {}) == [A, B, C]
    assert visible(list(reversed(GPUS)), {}) == [A, B, C], "in NVML's order"
    assert visible([*GPUS, {"index": 3, "uuid": None}], {}) == [A, B, C], "one that is lost names no UUID"
    assert visible([], {"CUDA_VISIBLE_DEVICES": "0"}) == []


def test_from_a_uuid_back_to_nvmls_index() -> None:
    assert [nvml_index(GPUS, uuid) for uuid in (A, C, MIG_1, "GPU-else")] == [0, 2, 2, None]


def test_the_order_is_certain_by_bus_id_or_where_all_are_alike() -> None:
    mixed = [*GPUS, {"index": 3, "uuid": "GPU-d", "name": "NVIDIA T4"}]
    assert order_is_certain(GPUS, {})
    assert not order_is_certain(mixed, {})
    assert order_is_certain(mixed, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


@given(st.lists(st.sampled_from(["0", "1", "2", "3", "-1", "", A, B, "GPU-89", MIG_0, "x"]) | st.text()).map(",".join))
def test_any_value_gives_different_gpus(value: str) -> None:
    uuids = visible(GPUS, {"CUDA_VISIBLE_DEVICES": value})
    assert len(set(uuids)) == len(uuids)
    assert all(nvml_index(GPUS, uuid) is not None for uuid in uuids)


@given(st.lists(st.integers(-2, 5).map(str)).map(",".join))
def test_as_many_as_the_host_counts_before_nvml_was_asked(tmp_path_factory, value: str) -> None:
    root = tmp_path_factory.getbasetemp() / "three"
    for place in range(3):
        (root / f"proc/driver/nvidia/gpus/{place}").mkdir(parents=True, exist_ok=True)
    environ = {"CUDA_VISIBLE_DEVICES": value}
    assert len(visible(GPUS, environ)) == host.gpu_count(environ, root)
