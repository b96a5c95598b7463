"""How requests become folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.runs import folder as folders
from labtui.runs.folder import LogsError, RunFolder, publish, stage


def test_a_staged_folder_is_not_to_be_seen(own_folders: Path) -> None:
    staged = stage(own_folders, "x", 0.0)
    assert [path.name for path in own_folders.iterdir() if not path.name.startswith(".")] == []
    shown = publish(staged)
    assert shown.path == own_folders / staged.id and shown.events.is_dir()


def test_a_taken_id_gets_another_suffix(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(
        ["19700101-000000-x-0000", "19700101-000000-x-0000", "19700101-000000-x-0001", "19700101-000000-x-0001"]
    )
    monkeypatch.setattr(folders, "new_id", lambda *_: next(drawn))
    first = publish(stage(own_folders, "x", 0.0))
    second = stage(own_folders, "x", 0.0)
    assert (first.id, second.id) == ("19700101-000000-x-0000", "19700101-000000-x-0001")
    (own_folders / second.id).mkdir()
    (own_folders / second.id / "somebody").touch()
    with pytest.raises(LogsError, match="can't be made"):
        publish(second)
    assert (own_folders / second.id / "somebody").exists(), "what is there is never replaced"
    assert isinstance(RunFolder(own_folders / first.id).path, Path)
