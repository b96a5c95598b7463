"""logind's settings, as its own rules combine them."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.machine import logind


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("setting", "kills"),
    [
        ("KillUserProcesses=yes", True),
        ("KillUserProcesses = on", True),
        ("KillUserProcesses=no", False),
        ("# KillUserProcesses=maybe\nKillUserProcesses=0", False),
        ("KillUserProcesses=yes\nKillExcludeUsers=bob ann", False),
        ("KillUserProcesses=yes\nKillOnlyUsers=bob", False),
        ('KillUserProcesses="yes"\nKillOnlyUsers=bob ann', True),
        ("NAutoVTs=6", None),
    ],
)
def test_one_file(tmp_path: Path, setting: str, kills: bool | None) -> None:
    write(tmp_path / "etc/systemd/logind.conf", f"[Login]\n{setting}\n")
    assert logind.kills_at_logout("ann", tmp_path) is kills


def test_root_is_left_alone_unless_told_otherwise(tmp_path: Path) -> None:
    write(tmp_path / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n")
    assert logind.kills_at_logout("root", tmp_path) is False
    write(tmp_path / "etc/systemd/logind.conf.d/no-exceptions.conf", "[Login]\nKillExcludeUsers=\n")
    assert logind.kills_at_logout("root", tmp_path) is True


def test_later_dropins_win_and_a_users_file_hides_the_vendors(tmp_path: Path) -> None:
    write(tmp_path / "etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\n")
    write(tmp_path / "usr/lib/systemd/logind.conf.d/50-vendor.conf", "[Login]\nKillUserProcesses=yes\n")
    assert logind.kills_at_logout("ann", tmp_path) is True
    write(tmp_path / "run/systemd/logind.conf.d/90-late.conf", "[Login]\nKillUserProcesses=no\n")
    assert logind.kills_at_logout("ann", tmp_path) is False
    write(tmp_path / "etc/systemd/logind.conf.d/90-late.conf", "[Other]\nKillUserProcesses=no\n")
    assert logind.kills_at_logout("ann", tmp_path) is True, "hidden, and its own line stands in another section"


@pytest.mark.parametrize(("default", "kills"), [("no", False), ("yes", True)])
def test_the_compiled_in_default_is_read_from_the_comment(tmp_path: Path, default: str, kills: bool) -> None:
    write(tmp_path / "usr/lib/systemd/logind.conf", f"[Login]\n#NAutoVTs=6\n#KillUserProcesses={default}\n")
    assert logind.kills_at_logout("ann", tmp_path) is kills


def test_without_any_file_nothing_is_known(tmp_path: Path) -> None:
    assert logind.kills_at_logout("ann", tmp_path) is None
    assert not logind.runs(tmp_path)
    assert not logind.lingers("ann", tmp_path)
