"""Run folders of any kind: each command ends with an answer or one sentence, and a snapshot says what is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cli.conftest import Done, labtui, make_run
from fuzz.hostile import Hostile, fill

from labtui.export import formats
from labtui.runs import lesson
from labtui.runs.folder import RunFolder
from labtui.runs.overlay import overlaid, telemetry
from labtui.runs.plots import plots
from labtui.runs.records import RecordError
from labtui.runs.side_by_side import read
from labtui.runs.watch import read_whole

__all__ = ["labtui", "make_run"]

SEEDS = [pytest.param(range(25)), pytest.param(range(25, 1500), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", SEEDS)
def test_any_folder_gets_an_answer_or_one_sentence(labtui: Callable[..., Done], make_run, seeds: range) -> None:
    odd, other = make_run(), make_run()
    for seed in seeds:
        hostile = Hostile(seed)
        fill(odd, hostile.odd_folder())
        fill(other, hostile.folder())
        check(labtui, odd, other)


def check(labtui: Callable[..., Done], odd: RunFolder, other: RunFolder) -> None:
    for command in (
        ("show", odd.id), ("show", odd.id, "--json"), ("runs",), ("runs", "--json"), ("logs", odd.id),
        ("logs", odd.id, "--json"), ("compare", other.id, odd.id, "--charts"), ("compare", odd.id, other.id, "--json"),
        *(("export", odd.id, "--format", format) for format in formats.FORMATS),
        ("export", odd.id, other.id, "--format", "csv"), ("export", odd.id, "--format", "csv", "--telemetry"),
        ("rerun", odd.id, "--set", "x=1"),
    ):  # fmt: skip
        done = labtui(*command)
        assert done.code in (0, 2), (command, done)
        if done.code == 2:
            assert len(done.err.splitlines()) == 1 and not done.out, (command, done)
    snapshots = [read_whole(folder) for folder in (odd, other)]
    for snapshot in snapshots:
        for plot in plots(snapshot, ()):
            plot.text(60, 10)
    [*overlaid(snapshots, ()), *telemetry(snapshots)]
    try:
        run = read(odd)
    except RecordError:
        return
    for name in ("loss", ""):
        lesson.result(run, name, {})
    for name in ("world_size", "host.cores", "link.measured", "link.ceiling", "gpu.memory", "gpu.bf16", "prediction:x"):
        lesson.fact(name, run)
