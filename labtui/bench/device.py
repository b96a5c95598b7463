"""Which kind of device this run uses, and how wrong input is turned away. Loads no torch; asks one that is there."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

KINDS = ("cpu", "cuda")


def kind() -> str:
    """ "cuda" or "cpu": what $LABTUI_DEVICE says, else cuda if torch is loaded and sees a GPU for every local rank."""
    wanted = os.environ.get("LABTUI_DEVICE")
    if wanted:
        if wanted not in KINDS:
            refuse(f"LABTUI_DEVICE is {wanted!r}, {' or '.join(KINDS)} expected")
        return wanted
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_available():
        return "cpu"
    return "cuda" if cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1")) else "cpu"


def refuse(sentence: str) -> NoReturn:
    """Ends this process with exit code 2 because of what it was given. Only rank 0 says the sentence on stderr."""
    if os.environ.get("RANK", "0") == "0":
        print(sentence, file=sys.stderr, flush=True)
    leaving = SystemExit(sentence)  # the sentence also goes into torchrun's error.json, see group
    leaving.code = 2
    raise leaving
