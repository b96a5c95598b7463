"""Starting a run's agent, and the folder of its sockets. Knows nothing of what the agent does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from labtui.runs.folder import RUN_ID, RunFolder


class SpawnError(OSError):
    """The agent did not come up. The message is one sentence."""


def spawn(folder: RunFolder, environment: Mapping[str, str]) -> None:
    """Starts the run's agent and returns when it owns the run: detached, in a session of its own, with file stdio.

    -P keeps a user's `queue.py` in the working folder from being imported in place of Python's own. Raises SpawnError.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "labtui.runs.agent", str(folder.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        env=dict(environment),
        check=False,
    )
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise SpawnError(f"the agent of {folder.id} did not start: {words[0]}")


def _runtime_prefix(run_id: str) -> str:
    return f"labtui-{run_id[:15]}-{run_id[-4:]}-"


def _runtime_root() -> Path:
    # Not $XDG_RUNTIME_DIR, which is removed when its user logs out: a run goes on. Not $TMPDIR, which may be long:
    # the path of a unix socket has about a hundred characters.
    return Path("/tmp")


def make_runtime(run_id: str) -> Path:
    """A short private folder (0700) for the run's sockets. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=_runtime_prefix(run_id), dir=_runtime_root()))


def remove_runtime(run_id: str) -> None:
    """Removes the run's runtime folder, also one that an agent which was killed left behind."""
    if not RUN_ID.fullmatch(run_id):
        return  # it would be a pattern that finds other folders
    for path in _runtime_root().glob(f"{_runtime_prefix(run_id)}*"):
        if path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)
