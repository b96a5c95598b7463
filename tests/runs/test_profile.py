"""The machine profile: which run it is taken from, and what of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made import FIRST, MakeRun

from labtui.catalog import sources
from labtui.runs import launch, profile, start
from labtui.runs.records import Document, Request


def results(alpha: float | None = 2e-4, beta: float | None = 0.8, **tflops: float | None) -> list[Document]:
    link = [{"name": "alpha", "value": alpha, "labels": {}}, {"name": "beta", "value": beta, "labels": {}}]
    return [
        {"name": "tflops", "value": 99.0, "labels": {"dtype": "float32", "size": 256}},
        *({"name": "best_tflops", "value": value, "labels": {"dtype": name}} for name, value in tflops.items()),
        *link,
    ]


def measured(make_run: MakeRun, *, state: str = "succeeded", request: Document | None = None, **values: float | None):
    found = tuple(results(**{"float32": 0.1, **values}))
    return make_run(state, "link_vs_compute", request=request or {}, status={"results": found})


@pytest.fixture
def wanted(make_run: MakeRun) -> Request:
    """A run that is being started, on this host's CPU."""
    return make_run(experiment="ddp_compare").request()


def on_gpus(request: Request, gpus: int, **environment: str) -> Request:
    return replace(request, device="cuda", nproc=gpus, environment=environment)


def test_without_runs_there_is_no_profile(own_folders: Path, wanted: Request) -> None:
    assert profile.newest(own_folders, wanted) is None
    assert profile.newest(own_folders / "missing", wanted) is None


def test_the_newest_successful_run_counts(own_folders: Path, make_run: MakeRun, wanted: Request) -> None:
    measured(make_run, float32=0.3)
    newest = measured(make_run, float32=0.2, bfloat16=0.4)
    measured(make_run, state="failed", float32=0.9)
    measured(make_run, state="running", float32=0.9)
    found = profile.newest(own_folders, wanted)
    assert found is not None
    assert found.pop("date").startswith("2025-11-")
    assert found == {
        "alpha": 2e-4, "beta": 0.8, "tflops": {"float32": 0.2, "bfloat16": 0.4}, "nproc": 2, "run": newest.id,
    }  # fmt: skip
    json.dumps(found)


@pytest.mark.parametrize(
    "other",
    [
        {"host": "elsewhere"},
        {"device": "cuda"},
        {"variant": "shaped"},
        {"link": {"rate_bits": 1e9, "model": "bus"}},
        {"experiment": "allreduce_sweep"},
        {"environment": {"GLOO_SOCKET_IFNAME": "lo"}},
    ],
)
def test_runs_on_another_machine_or_link_do_not_count(
    own_folders: Path, make_run: MakeRun, wanted: Request, other: Document
) -> None:
    measured(make_run, request=other)
    assert profile.newest(own_folders, wanted) is None


def test_gpus_must_have_taken_part(own_folders: Path, make_run: MakeRun, wanted: Request) -> None:
    measured(make_run, request={"device": "cuda", "nproc": 2, "environment": {"NCCL_DEBUG": "INFO"}})
    assert profile.newest(own_folders, wanted) is None
    assert profile.newest(own_folders, on_gpus(wanted, 2)) is not None
    assert profile.newest(own_folders, on_gpus(wanted, 1)) is not None
    assert profile.newest(own_folders, on_gpus(wanted, 4)) is None
    assert profile.newest(own_folders, on_gpus(wanted, 1, CUDA_VISIBLE_DEVICES="5")) is None


def test_link_settings_must_be_those_of_now(own_folders: Path, make_run: MakeRun, wanted: Request) -> None:
    measured(make_run, request={"device": "cuda", "environment": {"NCCL_SOCKET_IFNAME": "eth1"}})
    assert profile.newest(own_folders, on_gpus(wanted, 2)) is None
    assert profile.newest(own_folders, on_gpus(wanted, 2, NCCL_SOCKET_IFNAME="eth0")) is None
    assert profile.newest(own_folders, on_gpus(wanted, 2, NCCL_SOCKET_IFNAME="eth1", NCCL_P2P_DISABLE="1")) is not None


def test_what_was_not_measured_is_absent(own_folders: Path, make_run: MakeRun, wanted: Request) -> None:
    measured(make_run, alpha=None, beta=None)
    found = profile.newest(own_folders, wanted)
    assert found is not None
    assert set(found) == {"tflops", "date", "nproc", "run"}


def test_a_run_without_figures_is_passed_over(own_folders: Path, make_run: MakeRun, wanted: Request) -> None:
    good = measured(make_run)
    measured(make_run, float32=None)
    broken = measured(make_run)
    broken.status_file.write_text("{")
    unread = measured(make_run)
    unread.request_file.write_text('{"id": 3}')
    found = profile.newest(own_folders, wanted)
    assert found is not None
    assert found["run"] == good.id


def test_who_starts_a_run_writes_the_profile_down_and_its_ranks_get_it(
    own_folders: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(make_run)
    monkeypatch.setattr(start, "_interpreter", lambda asked, needs_torch: "/usr/bin/python3")
    monkeypatch.setattr(start.spawn, "spawn", lambda folder, environment: None)
    folders = start.start(own_folders, sources.find("ddp_compare"), [""], {}, start.Options(device="cpu"))
    request = folders[0].request()
    assert request.profile == profile.newest(own_folders, request)
    assert request.profile is not None
    environment = launch.worker_environment({"LABTUI_PROFILE": "stale"}, request, folders[0], None)
    assert json.loads(environment["LABTUI_PROFILE"]) == request.profile
    without = launch.worker_environment({"LABTUI_PROFILE": "stale"}, replace(request, profile=None), folders[0], None)
    assert "LABTUI_PROFILE" not in without


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "value", "labels"]), inner),
    max_leaves=6,
)
_result = st.fixed_dictionaries(
    {"name": st.sampled_from(["alpha", "beta", "best_tflops"]) | _json, "value": _json, "labels": _json}
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_json | _result, max_size=5))
def test_any_results_give_a_profile_that_a_run_can_read_or_none(
    own_folders: Path, make_run: MakeRun, wanted: Request, found: list[object]
) -> None:
    made = make_run("succeeded", "link_vs_compute", created=FIRST, id="20251129-120312-link_vs_compute-abcd")
    try:
        document = made.status().document()
        document["results"] = found
        made.status_file.write_text(json.dumps(document))
        answer = profile.newest(own_folders, wanted)
        assert answer is None or all(value > 0 for value in answer["tflops"].values())
        assert answer is None or ("alpha" in answer) == ("beta" in answer)
    finally:
        shutil.rmtree(made.path)


def test_this_machines_profile_is_what_a_new_run_would_get(own_folders: Path, make_run: MakeRun) -> None:
    assert profile.of_this_machine(own_folders, {}) == {}
    on_cpu = measured(make_run, float32=0.2)
    on_gpu = measured(make_run, request={"device": "cuda", "nproc": 4}, float32=40.0)
    measured(make_run, request={"host": "elsewhere"}, float32=9.0)
    measured(make_run, request={"environment": {"GLOO_SOCKET_IFNAME": "eth9"}}, float32=9.0)
    found = profile.of_this_machine(own_folders, {})
    assert {device: one["run"] for device, one in found.items()} == {"cuda": on_gpu.id, "cpu": on_cpu.id}
    led_elsewhere = profile.of_this_machine(own_folders, {"GLOO_SOCKET_IFNAME": "eth9"})
    assert led_elsewhere["cpu"]["tflops"] == {"float32": 9.0}
