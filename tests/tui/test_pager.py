"""What shows a file outside the screen; that it does is tested in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.tui import pager
from labtui.tui.pager import PagerError


def test_the_users_pager_gets_the_path_as_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager.shutil, "which", lambda name: f"/bin/{name}")
    path = Path("/runs/a b; rm -rf $HOME/-log")
    assert pager.command(path, {"PAGER": "most -s 'x y'"}) == ["most", "-s", "x y", str(path)]
    assert pager.command(path, {"PAGER": " "}) == ["less", str(path)]
    assert pager.command(path, {}) == ["less", str(path)]


def test_without_a_pager_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager.shutil, "which", lambda name: None)
    for environment, words in (
        ({}, "no pager"), ({"PAGER": "nosuch -x"}, "no program nosuch"), ({"PAGER": "a 'b"}, "can't be understood"),
    ):  # fmt: skip
        with pytest.raises(PagerError, match=words):
            pager.command(Path("/log"), environment)
