"""Whose the processes on the GPUs are, in made-up /proc trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labtui.machine.gpu_processes import Other, outside_words, sort_out
from labtui.machine.reading import Process, Reading, silent


def a_process(
    root: Path, pid: int, *, name: str = "python", tgid: int | None = None, ns: str = "", start: int = 5
) -> None:
    folder = root / f"proc/{pid}"
    (folder / "fd").mkdir(parents=True)
    status = f"Name:\t{name}\nTgid:\t{tgid or pid}\nNSpid:\t{pid}{ns}\nUid:\t1000\t1000\t1000\t1000\n"
    (folder / "status").write_text(status)
    (folder / "stat").write_text(f"{pid} (a (name) S) S " + " ".join(["0"] * 18 + [str(start)] + ["0"] * 20) + "\n")


def container(root: Path) -> None:
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532555]")


def readings(*gpus: tuple[Process, ...]) -> list[Reading]:
    return [Reading(index, processes=processes) for index, processes in enumerate(gpus)]


def test_the_runs_own_are_found_by_pid_and_added_up_over_gpus(tmp_path: Path) -> None:
    told = sort_out(
        readings((Process(419, 1000), Process(420, 5)), (Process(419, 200),), (Process(421, None),)),
        {419: 1, 420: 2, 421: 3, 422: 4},
        tmp_path,
    )
    assert told.memory == {419: 1200, 420: 5, 421: None}
    assert told.gpus == {419: (0, 1), 420: (0,), 421: (2,)}
    assert (told.others, told.outside) == ((), {})


def test_a_size_that_is_missing_on_one_gpu_is_no_sum(tmp_path: Path) -> None:
    told = sort_out(readings((Process(419, 1000),), (Process(419, None),), (Process(419, 7),)), {419: 1}, tmp_path)
    assert told.memory == {419: None}


def test_a_thread_belongs_to_its_process(tmp_path: Path) -> None:
    a_process(tmp_path, 420, tgid=419)
    assert sort_out(readings((Process(420, 10),)), {419: 5}, tmp_path).memory == {419: 10}


@pytest.mark.parametrize(("start", "found"), [(77, {7: 10}), (78, {})])
def test_the_host_sees_a_container_by_other_pids(tmp_path: Path, start: int, found: dict[int, int]) -> None:
    """Rank 7 of a container is 5012 on the host, where NVML is asked; pid and start time together are sure."""
    a_process(tmp_path, 5012, ns="\t31\t7", start=start)
    assert sort_out(readings((Process(5012, 10),)), {7: 77}, tmp_path).memory == found


def test_others_are_named(tmp_path: Path) -> None:
    a_process(tmp_path, 900, name="train.py")
    told = sort_out(readings((), (Process(900, 64),)), {419: 1}, tmp_path)
    assert told.others == (Other(1, 900, "train.py", 1000, 64),)


def test_pids_of_another_namespace_are_counted(tmp_path: Path) -> None:
    told = sort_out(readings((Process(70001, 1), Process(70002, 1)), (Process(70003, 1),)), {}, tmp_path)
    assert told.outside == {0: 2, 1: 1}
    assert outside_words(2) == "2 processes outside this namespace"
    assert outside_words(1) == "1 process outside this namespace"


def test_in_a_container_a_foreign_pid_is_nobody_of_ours(tmp_path: Path) -> None:
    """The host's 900 holds the GPU; our own 900 is an innocent shell, our 901 has the device open."""
    container(tmp_path)
    a_process(tmp_path, 900, name="sh")
    a_process(tmp_path, 901, name="serve")
    (tmp_path / "proc/901/fd/3").symlink_to("/dev/nvidia0")
    told = sort_out(readings((Process(900, 1), Process(901, 1))), {}, tmp_path)
    assert [other.name for other in told.others] == ["serve"]
    assert told.outside == {0: 1}


def test_gpus_that_told_nothing_hold_nobody(tmp_path: Path) -> None:
    told = sort_out([silent(0, None, "GPU is lost")], {1: 1}, tmp_path)
    assert (told.memory, told.gpus, told.others, told.outside) == ({}, {}, (), {})


def test_on_this_machine() -> None:
    told = sort_out(readings((Process(os.getpid(), 1),)), {os.getpid(): 0})
    assert told.memory == {os.getpid(): 1}
