"""Whether this user has started the terminal UI before: a marker in the user's data folder, beside the guides."""

from __future__ import annotations

import os
from pathlib import Path


def marker() -> Path:
    """The file that is there once the first page was shown."""
    import platformdirs

    return Path(platformdirs.user_data_dir("labtui")) / "welcomed"


def is_first_start() -> bool:
    """True once per user: makes the marker. False where it can't be made: better never shown than at each start."""
    path = marker()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError:
        return False
    return True
