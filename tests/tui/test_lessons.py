"""The thread that reads guides: what is read, what can't be, and the runs of a guide's blocks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_lab import Posted, at_work, event, filled_run, made_run, write_events

from labtui.catalog import sources
from labtui.catalog.manifest import Experiment
from labtui.runs import progress
from labtui.runs.folder import write_json
from labtui.runs.progress import Progress
from labtui.tui import lesson_lines, lessons
from labtui.tui.lesson import Lesson, Look
from labtui.tui.lesson_source import read_lesson
from labtui.tui.lessons import LessonReader, ProgressKeeper
from labtui.tui.messages import LessonRead, LooksRead, Noticed, ProgressKept

GUIDE = '## First\n\n```run\nid = "base"\n```\n'


def text_of(read: Lesson) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lesson_lines.page_lines(read, 80)[0])


def test_a_guide_is_read_with_its_progress(lab: Experiment) -> None:
    progress.write("lab_test", Progress(step=0, guesses={"How?": 1.0}))
    read = read_lesson(lab)
    assert "It says [rank0]." in text_of(read) and read.progress.guesses == {"How?": 1.0}


def test_why_a_guide_cannot_be_read_stands_in_its_place(lab: Experiment) -> None:
    (lab.folder / "guide.md").write_text("## Open\n\n```run\n")
    assert "Its guide can't be read:" in text_of(read_lesson(lab)) and "is never closed" in text_of(read_lesson(lab))
    (lab.folder / "guide.md").unlink()
    assert lab.question in text_of(read_lesson(lab))
    broken = sources.catalog()[2]
    assert "This experiment can't be used: experiment.toml: topic is [rank0], data expected" in text_of(
        read_lesson(broken)
    )


def looks_until(posted: Posted, wanted: object) -> Look:
    read = posted.until(lambda m: isinstance(m, LooksRead) and "base" in m.looks and wanted(m.looks["base"]))
    return read.looks["base"]


def test_the_runs_of_blocks_are_followed_to_their_ends(lab: Experiment, own_folders: Path) -> None:
    (lab.folder / "guide.md").write_text(GUIDE)
    folder = made_run(own_folders, "running")
    posted = Posted()
    reader = LessonReader(posted.append, own_folders)
    with at_work(reader):
        reader.open(lab)
        assert posted.until(lambda m: isinstance(m, LessonRead)).lesson.name == "lab_test"
        reader.follow("other", {"base": folder.id})
        reader.follow("lab_test", {"base": folder.id})
        assert looks_until(posted, lambda look: look.live).done is None
        write_events(folder, event("progress", done=3, total=12), event("result", name="x", value=1.0, labels={}))
        assert looks_until(posted, lambda look: look.done == 3 and look.run.status.results).total == 12
        status = json.loads(folder.status_file.read_text())
        last = {"state": "succeeded", "ended": status["created"] + 3, "results": [{"name": "y", "value": 2.0}]}
        write_json(folder.status_file, {**status, **last})
        ended = looks_until(posted, lambda look: not look.live)
        assert ended.run is not None and ended.run.status.results[0]["name"] == "y", "its last word counts"
        shutil.rmtree(folder.path)
        assert "not there any more" in looks_until(posted, lambda look: look.run is None).trouble


def test_an_unreadable_run_is_told_and_nothing_new_is_not(lab: Experiment, own_folders: Path) -> None:
    folder = filled_run(own_folders, "succeeded")
    folder.request_file.write_text("{")
    progress.write("lab_test", Progress(runs={"base": folder.id}))
    posted: list[object] = []
    reader = LessonReader(posted.append, own_folders)
    reader._wanted = lab
    assert reader.look() == lessons.ENDED_S
    read = posted[-1]
    assert isinstance(read, LooksRead) and read.looks["base"].trouble.startswith("its run can't be read: ")
    reader.look()
    assert len(posted) == 2, "what has not changed is not told again"


def test_the_newest_progress_is_kept_whichever_thread_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    posted = Posted()
    keeper = ProgressKeeper(posted.append)
    for step in range(1, 6):
        keeper.keep("lab_test", Progress(step=step))
    posted.until(lambda _: sum(isinstance(m, ProgressKept) for m in list(posted)) == 5)
    assert progress.read("lab_test").step == 5

    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress, "write", refuse)
    keeper.keep("lab_test", Progress(step=6))
    assert "can't be kept: No space left" in posted.until(lambda m: isinstance(m, Noticed)).sentence


def test_what_was_skipped_is_kept(lab: Experiment) -> None:
    progress.write("lab_test", Progress().with_skipped("How?").with_skipped("How?"))
    assert progress.read("lab_test").skipped == ("How?",)
    path = progress.file_of("lab_test")
    path.write_text(json.dumps({"skipped": ["a", 1, None], "step": 2}))
    assert progress.read("lab_test") == Progress(step=2, skipped=("a",))
