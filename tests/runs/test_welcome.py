"""The first start is told from all others, once per user."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.runs import welcome


def test_the_first_start_happens_once() -> None:
    assert welcome.is_first_start()
    assert not welcome.is_first_start()
    assert welcome.marker().is_file()


def test_where_nothing_can_be_kept_no_start_is_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert not welcome.is_first_start()
