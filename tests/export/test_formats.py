"""Exports into a folder: named by run and form, replacing nothing, leaving nothing half."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_lab import filled_run

from labtui.cli import export as cli
from labtui.cli.main import main
from labtui.export import formats
from labtui.runs.records import RecordError


@pytest.mark.parametrize("format", formats.FORMATS)
def test_it_is_what_the_command_line_writes(
    own_folders: Path, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = filled_run(own_folders, "succeeded")
    path = formats.write_beside(folder, format, tmp_path)
    assert path == tmp_path / f"{folder.id}{formats.ENDINGS[format]}"
    assert main(["export", folder.id, "--format", format]) == 0
    assert path.read_text() == capsys.readouterr().out
    if path.suffix == ".json":
        json.loads(path.read_text())


def test_nothing_is_replaced(own_folders: Path, tmp_path: Path) -> None:
    folder = filled_run(own_folders, "succeeded")
    first, second = (formats.write_beside(folder, "md", tmp_path) for _ in range(2))
    assert (first.name, second.name) == (f"{folder.id}.md", f"{folder.id}-2.md")


def test_what_fails_leaves_no_file(own_folders: Path, tmp_path: Path) -> None:
    folder = filled_run(own_folders, "succeeded")
    folder.request_file.write_text("{")
    with pytest.raises(RecordError):
        formats.write_beside(folder, "json", tmp_path)
    assert not list(tmp_path.glob(f"{folder.id}*"))


def test_every_form_has_an_ending_and_the_command_line_has_all() -> None:
    assert set(formats.ENDINGS) == set(formats.FORMATS) == set(cli.FORMATS)
