"""The exercise: a file of your own that defines schedule(p, m), its tests, and the order that it stands for."""

import functools
import runpy
import traceback
from pathlib import Path

from labtui.bench import report
from labtui.bench.device import refuse
from labtui.theory.pipeline.learner import from_lists
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.simulate import simulate

NAME = "yours"
SIZES = ((4, 8), (1, 3), (4, 2), (8, 24))  # the lesson's; one device; too few to fill the pipeline; the lesson's quiz


def test(own, p, m):
    """The exercise's tests, each a check: at every size as fast as 1F1B, with no more memory than 1F1B.

    Returns whether the schedule can run with p devices and m micro-batches.
    """
    for devices, microbatches in SIZES:
        size = f"p={devices} m={microbatches}"
        try:
            timeline = simulate(order(own, devices, microbatches))
        except OrderError as error:
            report.check(f"can run ({size})", str(error), passed=False)
            continue
        report.check(f"can run ({size})", passed=True)
        # (m + p - 1)(F + B) with the lesson's F = 1 and B = 2; and device s holds p - s micro-batches.
        report.check(f"as fast as 1F1B ({size})", timeline.total, at_most=(microbatches + devices - 1) * 3)
        held = (most - min(devices - s, microbatches) for s, most in enumerate(timeline.peak_in_flight))
        report.check(f"activations above 1F1B's ({size})", max(held), at_most=0)
    try:
        order(own, p, m)
    except OrderError as error:
        report.note(f"your schedule isn't shown: {error}")
        return False
    return True


def order(own, p, m):
    """The order that the file's schedule(p, m) returns. OrderError, one sentence, where that is none."""
    path = find(own)
    try:
        lists = load(path)(p, m)
    except OrderError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a program that isn't finished raises
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        raise OrderError(f"{path.name}{where}: {type(error).__name__}: {error}") from None
    return from_lists(lists, p, m, NAME)


@functools.cache
def load(path):
    schedule = runpy.run_path(str(path)).get("schedule")
    if not callable(schedule):
        raise OrderError(f"{path.name} defines no function schedule(p, m)")
    return schedule


def find(own):
    """The file: a whole path, one from ~, or the name of one beside this file. Ends the run where there is none."""
    path = Path(__file__).parent / Path(own).expanduser()
    if not path.is_file():
        refuse(f"own is {own!r}, and there is no such file: a run has a folder of its own, so give the whole path")
    return path
