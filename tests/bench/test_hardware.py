"""What can't be had is refused before it is tried, in one sentence."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch

from labtui.bench import hardware


def alone(device: str = "cpu") -> SimpleNamespace:
    """A group of one rank: its value is the largest."""
    return SimpleNamespace(rank=0, device=torch.device(device), largest=lambda value: value)


def test_more_than_there_is_is_refused_with_both_figures(monkeypatch, capsys):
    monkeypatch.setattr(hardware, "_free_on_host", lambda: 6.4e9)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    hardware.refuse_beyond_memory(alone(), 3_200_000_000, "fits")
    with pytest.raises(SystemExit) as leaving:
        hardware.refuse_beyond_memory(alone(), 4_100_000_000, "all_reduce of 3000000000 B (max_bytes)")
    assert leaving.value.code == 2
    assert capsys.readouterr().err == (
        "all_reduce of 3000000000 B (max_bytes): needs 4.1 GB per rank, 3.2 GB are free\n"
    )


def test_where_free_memory_is_unknown_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(hardware, "_free_on_host", lambda: None)
    assert hardware.free_memory(alone()) is None
    hardware.refuse_beyond_memory(alone(), 10**18, "anything")


def test_this_host_has_memory():
    free = hardware.free_memory(alone())
    assert free is not None
    assert 10e6 < free < 1e15


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    """Page cache that the kernel can drop counts as free; a folder without a limit is passed over."""
    (own,) = (line[3:] for line in open("/proc/self/cgroup").read().splitlines() if line.startswith("0::"))  # noqa: PTH123, SIM115
    folder = tmp_path / own.strip("/")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text("3000\n")
    (folder / "memory.current").write_text("1000\n")
    (folder / "memory.stat").write_text("anon 1\ninactive_file 250\n")
    assert hardware._left_in_cgroups(tmp_path) == [2250]
    (folder / "memory.max").write_text("max\n")
    assert hardware._left_in_cgroups(tmp_path) == []


def test_bfloat16_is_refused_where_a_gpu_lacks_it(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with pytest.raises(SystemExit):
        hardware.refuse_missing_dtype(alone("cuda"), torch.bfloat16)
    assert "capability 8.0 (Ampere) or newer, here is one of 7.5: take float16" in capsys.readouterr().err
    hardware.refuse_missing_dtype(alone("cuda"), torch.float16)
    hardware.refuse_missing_dtype(alone("cpu"), torch.bfloat16)


def test_different_gpus_are_noted(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(hardware.report, "note", said.append)
    own = SimpleNamespace(major=8, minor=9, multi_processor_count=128, total_memory=24e9, name="RTX 4090")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: own)
    hardware.note_mixed_gpus(alone("cuda"))
    assert said == []
    # Another rank has one with less memory.
    other = SimpleNamespace(rank=0, device=torch.device("cuda"), largest=lambda value: max(value, -16e9))
    hardware.note_mixed_gpus(other)
    assert said == ["the ranks' GPUs differ (rank 0 has RTX 4090): the slowest sets the pace of all"]
