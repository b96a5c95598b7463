"""What systemd-logind does with a user's processes when the user logs out. Reads its files, asks no service."""

from __future__ import annotations

import re
from pathlib import Path

from labtui.machine.host import ROOT, read_text

# A file hides files of the same name in later folders; drop-ins come after the main file, in the order of their names.
_FOLDERS = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd", "lib/systemd")
_FIRST_USER = 1000
"""Numbers below are users of the system, as distributions build systemd."""
_TRUE = frozenset({"1", "yes", "y", "true", "t", "on"})
_FALSE = frozenset({"0", "no", "n", "false", "f", "off"})


def runs(root: Path = ROOT) -> bool:
    """Whether this system was booted by systemd (containers mostly are not)."""
    return (root / "run/systemd/system").is_dir()


def kills_at_logout(user: str, root: Path = ROOT) -> bool | None:
    """Whether logind ends the processes of `user` when the last session closes; None where its files don't tell.

    Follows KillUserProcesses, KillOnlyUsers and KillExcludeUsers. Where nothing is set, the default that was compiled
    in is taken from the comment in logind.conf that states it.
    """
    settings = {"KillOnlyUsers": "", "KillExcludeUsers": "root"}
    for text in _texts(root):
        settings |= _settings(text)
    if user in settings["KillExcludeUsers"].split():
        return False
    if settings["KillOnlyUsers"] and user not in settings["KillOnlyUsers"].split():
        return False
    kill = settings.get("KillUserProcesses", "").lower()
    if kill in _TRUE:
        return True
    if kill in _FALSE:
        return False
    return _compiled_default("KillUserProcesses", root)


def removes_ipc(uid: int, root: Path = ROOT) -> bool | None:
    """Whether logind deletes what the user left in /dev/shm when the last session closes; None where that isn't told.

    Never for users of the system, root among them.
    """
    if uid < _FIRST_USER:
        return False
    remove = ""
    for text in _texts(root):
        remove = _settings(text).get("RemoveIPC", remove)
    if remove.lower() in _TRUE | _FALSE:
        return remove.lower() in _TRUE
    return _compiled_default("RemoveIPC", root)


def lingers(user: str, root: Path = ROOT) -> bool:
    """Whether `loginctl enable-linger` was given for `user`: the user's services then go on after the log-out."""
    return (root / "var/lib/systemd/linger" / user).exists()


def _texts(root: Path) -> list[str]:
    """The files that logind reads, in the order in which later ones override earlier ones."""
    main = next(
        (root / folder / "logind.conf" for folder in _FOLDERS if (root / folder / "logind.conf").exists()), None
    )
    dropins: dict[str, Path] = {}
    for folder in _FOLDERS:
        for path in (root / folder / "logind.conf.d").glob("*.conf"):
            dropins.setdefault(path.name, path)
    paths = [*([main] if main else []), *(dropins[name] for name in sorted(dropins))]
    return [read_text(path) or "" for path in paths]


def _settings(text: str) -> dict[str, str]:
    """The keys of the [Login] section; a value may be quoted, an empty one resets."""
    section, found = "", {}
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == "[Login]" and line and line[0] not in "#;":
            key, equals, value = line.partition("=")
            if equals:
                found[key.strip()] = value.strip().strip("\"'")
    return found


def _compiled_default(key: str, root: Path) -> bool | None:
    for folder in _FOLDERS:
        stated = re.search(rf"^#\s*{key}=(\w+)", read_text(root / folder / "logind.conf") or "", re.M)
        if stated is not None:
            return stated[1].lower() in _TRUE
    return None
